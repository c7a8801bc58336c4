"""Local Fisher discriminant analysis: Fisher's criterion with neighbours of a class counting most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import linalg

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._matrices import Array, ridged, symmetric
from nearer.estimators._scatter import total_scatter
from nearer.estimators._supervision import MatrixLearner
from nearer.exceptions import LabelError
from nearer.neighbors._shared import squared_distances

_BLOCK = 1024


def _kth_distances(members: Array, k: int) -> Array:
    """Distance of each row to its k-th other row."""
    result = np.empty(len(members))
    for start in range(0, len(members), _BLOCK):
        distance = squared_distances(members[start : start + _BLOCK], members)
        result[start : start + _BLOCK] = np.sqrt(np.partition(distance, k, axis=1)[:, k])
    return result


def local_scatters(X: Array, codes: Array, k: int) -> tuple[Array, Array]:
    """Within-class and between-class scatter with the affinity `A_ij = exp(−‖x_i − x_j‖²/(σ_i σ_j))`.

    σ_i is the distance to the k-th neighbour of the same class, k cut to the size of that class only.
    `S_w = ½ Σ (A_ij/n_c) T_ij` inside classes; `S_b = ½ Σ W T_ij` with `W = A_ij (1/n − 1/n_c)` inside a class and
    1/n across. Blocks of rows: never n×n.

    >>> local_scatters(np.array([[0.0], [0.0], [3.0], [3.0]]), np.array([0, 0, 1, 1]), 1)
    (array([[0.]]), array([[9.]]))
    """
    n, p = X.shape
    within = np.zeros((p, p))
    between = total_scatter(X)
    for code in range(int(codes.max()) + 1):
        members = X[codes == code].astype(np.float64)
        members -= members.mean(axis=0)
        size = len(members)
        if size < 2:
            continue
        sigma = _kth_distances(members, min(k, size - 1))
        for start in range(0, size, _BLOCK):
            block = members[start : start + _BLOCK]
            distance = squared_distances(block, members)
            width = np.outer(sigma[start : start + _BLOCK], sigma)
            # Equal rows have affinity 1; a row whose k-th neighbour is its copy has no affinity to others.
            affinity = np.where(distance > 0, 0.0, 1.0)
            np.divide(-distance, width, out=distance, where=width > 0)
            affinity = np.where(width > 0, np.exp(np.where(width > 0, distance, 0.0)), affinity)
            local = block.T @ (affinity.sum(axis=1)[:, None] * block - affinity @ members)
            # Across all pairs of the class the weight 1/n is already inside the total scatter: take it back.
            plain = block.T @ (size * block)
            within += local / size
            between += local * (1 / n - 1 / size) - plain / n
    return symmetric(within), symmetric(between)


def lfda_components(X: Array, codes: Array, *, k: int, d: int, ridge: float, embedding: str = "weighted") -> Array:
    """Generalised eigenvectors of `S_b v = λ (S_w + ridge·diag Σ) v`, the d largest, as rows (d, p).

    "weighted" multiplies each by √λ (0 where rounding made λ negative), "plain" does not, "orthonormal" gives an
    orthonormal basis of the same space.

    >>> X = np.array([[0.0, 0], [0, 1], [5, 0], [5, 1]])
    >>> lfda_components(X, np.array([0, 0, 1, 1]), k=1, d=1, ridge=0.0016, embedding="plain").round(2)
    array([[5., 0.]])
    """
    within, between = local_scatters(X, codes, k)
    scales = np.diag(total_scatter(X))
    values, vectors = linalg.eigh(between, ridged(within, scales, ridge))
    values, vectors = values[::-1][:d], vectors[:, ::-1][:, :d]
    if embedding == "weighted":
        vectors = vectors * np.sqrt(values.clip(min=0))
    elif embedding == "orthonormal":
        vectors = np.linalg.qr(vectors)[0]
    return np.ascontiguousarray(vectors.T)


@dataclass(kw_only=True, eq=False, repr=False)
class LFDA(MatrixLearner):
    """Local Fisher discriminant analysis: pull neighbours of a class together, push classes apart.

    X (n, p) -> (n, d). The neighbour number `n_neighbors` sets the local scale (cut per class, so the order of the
    classes does not matter), `ridge` keeps singular data finite. `blend` mixes the metric with the identity: "auto"
    takes the share that votes best on the training rows, 0.0 is the published method.

    Reference: Sugiyama (2007).

    >>> X = np.array([[0.0, 0], [0, 1], [0, 2], [5, 0], [5, 1], [5, 2]])
    >>> M = LFDA(blend=0.0).fit(X, [0, 0, 0, 1, 1, 1]).mahalanobis_matrix()
    >>> bool(M[0, 0] > 100 * M[1, 1])
    True

    Args:
        n_components: dimensions to keep; None keeps all columns.
        n_neighbors: the neighbor that sets the local scale.
        embedding: "weighted", "orthonormal" or "plain" directions.
        ridge: share of the identity added to a scatter before it is inverted.
        blend: share of the identity in the metric; 0 is the published method, "auto" chooses it without test
            labels.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    n_neighbors: int = 7
    embedding: Literal["weighted", "plain", "orthonormal"] = "weighted"
    ridge: float = 1e-3

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        k = check_int(self.n_neighbors, "n_neighbors")
        embedding = check_choice(self.embedding, "embedding", ["weighted", "plain", "orthonormal"])
        ridge = check_number(self.ridge, "ridge", above=0)
        if codes.max() == 0:
            raise LabelError("`y` must hold at least two classes, got one. LFDA pushes classes apart.")
        d = self._check_targets(X.shape[1])
        components = lfda_components(X, codes, k=k, d=d, ridge=ridge, embedding=embedding)
        return components.T @ components
