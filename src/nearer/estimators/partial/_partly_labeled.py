"""What the semi-supervised learners share: labels with −1 for unlabelled rows, and energies of a graph."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg, sparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from nearer.estimators._blending import check_blend, choose_spread_blend
from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._scatter import PairScatters, label_scatters
from nearer.estimators._supervision import MatrixLearner
from nearer.exceptions import NearerWarning, ParameterError
from nearer.graph import nearest_neighbors


class EdgeList(NamedTuple):
    """Undirected weighted edges between rows: `left[e]`, `right[e]` and `weight[e]`, each edge once."""

    left: Array
    right: Array
    weight: Array


def neighbor_edges(X: Array, k: int) -> EdgeList:
    """The edges {i, j} with j among the k nearest of i or i among those of j, each once with weight 1.

    >>> edges = neighbor_edges(np.array([[0.0], [1.0], [5.0]]), 1)
    >>> edges.left.tolist(), edges.right.tolist()
    ([0, 1], [1, 2])
    """
    near = nearest_neighbors(X, k=k, normalized=False)
    i, j = np.repeat(np.arange(near.n), near.k), near.indices.numpy().reshape(-1)
    pairs = np.unique(np.stack([np.minimum(i, j), np.maximum(i, j)], axis=1), axis=0)
    return EdgeList(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)))


def edge_scatter(X: Array, edges: EdgeList, *, normalized: bool = False) -> Array:
    """`Σ_e w_e (x_i − x_j)(x_i − x_j)ᵀ = Xᵀ𝓛X` divided by the number of edges, (p, p).

    `normalized` divides every row by the root of its degree first: the symmetric normalised Laplacian.

    >>> edge_scatter(np.array([[0.0], [2.0]]), EdgeList(np.array([0]), np.array([1]), np.array([1.0])))
    array([[4.]])
    """
    n = X.shape[0]
    weights = sparse.csr_array((edges.weight, (edges.left, edges.right)), shape=(n, n))
    weights = weights + weights.T
    degree = np.asarray(weights.sum(axis=1)).ravel()
    rows = X.astype(np.float64)
    if normalized:
        scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1e-300)), 0.0)
        rows, degree = rows * scale[:, None], np.where(degree > 0, degree, 0.0)
    laplacian = rows.T @ (degree[:, None] * rows) - rows.T @ (weights @ rows)
    return symmetric(laplacian) / max(1, len(edges.weight))


def labeled_scatters(X: Array, codes: Array) -> PairScatters:
    """Mean scatters of the similar and dissimilar pairs of labelled rows (codes ≥ 0); zero where there are none.

    >>> labeled_scatters(np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, -1])).similar
    array([[1.]])
    """
    known = codes >= 0
    p = X.shape[1]
    if known.sum() < 2:
        return PairScatters(np.zeros((p, p)), np.zeros((p, p)), 0, 0)
    scatters = label_scatters(X[known].astype(np.float64), np.unique(codes[known], return_inverse=True)[1])
    return PairScatters(
        scatters.similar / max(1, scatters.n_similar),
        scatters.dissimilar / max(1, scatters.n_dissimilar),
        scatters.n_similar,
        scatters.n_dissimilar,
    )


def safe_weight(base: Array, dissimilar: Array, *, share: float = 0.9) -> float:
    """`share` of the largest w with `base − w·dissimilar` positive semi-definite: 0 when nothing is dissimilar.

    >>> round(safe_weight(np.diag([4.0, 9.0]), np.eye(2)), 6)  # 0.9 of 4
    3.6
    """
    if not np.any(dissimilar):
        return 0.0
    # The largest eigenvalue of base⁻¹·dissimilar is one over the smallest of the pencil.
    try:
        largest = float(linalg.eigh(dissimilar, base, eigvals_only=True)[-1])
    except linalg.LinAlgError as error:
        raise ParameterError(
            "The features must be of like size: they spread so unequally that their covariance has no inverse in "
            "double precision. Standardize them first."
        ) from error
    return share / largest if largest > 0 else 0.0


@dataclass(eq=False, repr=False)
class PartlyLabeledLearner(MatrixLearner):
    """A learner of M from rows of which some have a class; −1 marks those that have none.

    Subclasses give `_learn`. Labels that are not integers have no mark for unlabelled and all count. `blend` mixes
    M with the identity (`nearer.estimators._blending`): "auto" by `choose_spread_blend`, 0.0 as published.
    """

    def _learn(self, X: Array, codes: Array, rng: np.random.RandomState) -> Array:
        raise NotImplementedError

    def _check_partly_labeled(self, X: Any, y: Any) -> tuple[Array, Array]:
        """Checked rows, and class codes 0..c−1 with −1 for unlabelled."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        self._forget_threshold()
        array = np.asarray(y)
        known = array != -1 if array.dtype.kind in "iuf" else np.ones(len(array), dtype=bool)
        self.classes_, known_codes = np.unique(array[known], return_inverse=True)
        codes = np.full(len(array), -1, dtype=np.int64)
        codes[known] = known_codes
        if not known.any():
            warnings.warn(
                f"`y` should name the class of some rows, got only -1: {type(self).__name__} learns from the "
                f"neighbours alone, without supervision.",
                NearerWarning,
                stacklevel=3,
            )
        return X, codes

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows X (n, p) and classes y (n,), −1 for rows without one."""
        X, codes = self._check_partly_labeled(X, y)
        d = self._check_targets(X.shape[1])
        rng = check_random_state(self.random_state)
        rows = X.astype(np.float64)
        rows -= rows.mean(axis=0)
        self._finish(self._learn(rows, codes, rng), rows, codes, d, rng)
        self.components_ = self.components_.astype(X.dtype, copy=False)
        return self

    def _choose_blend(self, X: Array, codes: Any, matrix: Array, rng: np.random.RandomState) -> float:
        asked = check_blend(self.blend)
        return choose_spread_blend(X, codes, matrix, rng) if asked is None else asked
