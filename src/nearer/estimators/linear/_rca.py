"""Relevant component analysis: undo the spread that similar rows have among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from nearer._checks import check_number, check_rectangle
from nearer.estimators._matrices import Array
from nearer.estimators._moments import FromMoments, Moments
from nearer.estimators._scatter import class_scatter, total_scatter
from nearer.estimators._supervision import MatrixLearner
from nearer.estimators.linear._covariance import inverse_with_ridge
from nearer.exceptions import LabelError, ShapeError


def rca_matrix(X: Any, chunks: Array, *, ridge: float = 1e-2) -> Array:
    """`M = (Ĉ + ridge·diag Σ)⁻¹` with `Ĉ = (1/n) Σ_c Σ_{i∈c} (x_i − x̄_c)(x_i − x̄_c)ᵀ`, (p, p).

    `chunks` (n,) are numbers 0..c−1 of groups of similar rows, −1 for rows in none. All classes take part.

    >>> rca_matrix(np.array([[-1.0], [1], [5], [7]]), np.array([0, 0, 1, 1]), ridge=0.0)
    array([[1.]])
    """
    known = chunks >= 0
    _, codes = np.unique(chunks[known], return_inverse=True)
    counts = np.bincount(codes)
    rows = X[np.flatnonzero(known)]
    return _undone(class_scatter(rows, codes) / len(codes), total_scatter(X) / X.shape[0], counts, ridge)


def _undone(within: Array, total: Array, counts: Array, ridge: float) -> Array:
    if not (counts > 1).any():
        raise LabelError(
            "RCA must see a class or chunk with at least two rows, got none. Similar rows are all it uses."
        )
    return inverse_with_ridge(within, np.diag(total), ridge, "scatter of similar rows")


@dataclass(kw_only=True, eq=False, repr=False)
class RCA(FromMoments, MatrixLearner):
    """Relevant component analysis, `M = Ĉ⁻¹` of the spread inside classes or chunks of similar rows.

    X (n, p) -> (n, d). `ridge` is relative to the variance of each feature: singular data stays finite. One class
    is enough, since dissimilar rows are not used. `blend` mixes M with the identity: "auto" takes the share that
    votes best on the training rows, 0.0 is the published method.

    Reference: Bar-Hillel, Hertz, Shental, Weinshall (2003).

    >>> X = np.array([[-9.0, 0], [9, 0], [-9, 2], [9, 2]])
    >>> RCA(blend=0.0, ridge=1e-3).fit(X, ["a", "a", "b", "b"]).transform(X).round(1).tolist()
    [[0.0, -1.0], [0.0, 1.0], [63.2, -1.0], [63.2, 1.0]]

    Args:
        n_components: dimensions kept; all if None.
        ridge: added to the variance of each feature, as a share of it.
        blend: share of the identity; "auto" chooses it, 0.0 is the published method.
        random_state: draws the rows on which `blend` is chosen.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        blend_: share of the identity in the metric, as given or as chosen.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    ridge: float = 1e-2

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        return rca_matrix(X, codes, ridge=check_number(self.ridge, "ridge", minimum=0))

    def _from_moments(self, moments: Moments) -> Array:
        ridge = check_number(self.ridge, "ridge", minimum=0)
        return _undone(moments.within() / moments.n, moments.total() / moments.n, moments.counts, ridge)

    def fit_chunks(self, X: Any, chunks: Any) -> Self:
        """Learn from `chunks` (n,): the number of the group of similar rows that each row is in, −1 for none."""
        X = self._check_X(X, reset=True, ensure_min_samples=2)
        array = check_rectangle(chunks, "chunks")
        if array.shape != (X.shape[0],) or array.dtype.kind not in "iu":
            raise ShapeError(
                f"`chunks` must be one integer for each of the {X.shape[0]} rows, got {array.dtype} {array.shape}."
            )
        d = self._check_targets(X.shape[1])
        matrix = rca_matrix(X, array, ridge=check_number(self.ridge, "ridge", minimum=0))
        self._finish(matrix, X, None, d, check_random_state(self.random_state))
        return self
