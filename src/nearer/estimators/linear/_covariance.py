"""The metrics that need no labels: the Euclidean one, and the inverse covariance, Mahalanobis' own."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.decomposition import PCA
from sklearn.utils.validation import validate_data

from nearer._checks import check_number
from nearer.estimators._learner import MetricLearner
from nearer.estimators._matrices import Array, factor_psd, ridged, symmetric
from nearer.estimators._moments import Moments, weighed
from nearer.estimators._scatter import total_scatter
from nearer.estimators._supervision import reduce_components
from nearer.exceptions import ParameterError


def inverse_with_ridge(matrix: Array, scales: Array, ridge: float, name: str) -> Array:
    """`(M + ridge·diag(scales))⁻¹`, (p, p); a matrix that is still singular is refused, never half inverted.

    >>> inverse_with_ridge(np.diag([1.0, 4.0]), np.ones(2), 0.0, "scatter")
    array([[1.  , 0.  ],
           [0.  , 0.25]])
    """
    regular = ridged(matrix, scales, ridge)
    # The condition is judged with every feature at unit scale: 1e6 between units is not a deficiency.
    unit = 1 / np.sqrt(np.diag(regular).clip(min=np.finfo(np.float64).tiny))
    values, vectors = linalg.eigh(regular * unit[:, None] * unit)
    if values[0] <= values[-1] * len(values) * np.finfo(np.float64).eps:
        rank = int((values > values[-1] * len(values) * np.finfo(np.float64).eps).sum())
        raise ParameterError(
            f"the {name} must be invertible, got rank {rank} of {len(values)}. Raise `ridge` above {ridge}, drop "
            f"redundant features, or reduce the dimension with PCA first."
        )
    inverse = (vectors / values) @ vectors.T
    return symmetric(inverse * unit[:, None] * unit)


@dataclass(eq=False, repr=False)
class Covariance(MetricLearner):
    """`M = (Σ + ridge·diag Σ)⁻¹`: every direction of the data has the same spread afterwards.

    X (n, p) -> (n, d). y is accepted and not used. `ridge` is relative to the variance of each feature, so that
    singular data and constant columns give a finite matrix; with ridge=0 singular data is refused.

    >>> X = np.array([[-1.0, 0], [1, 0], [0, -9], [0, 9]])
    >>> Covariance(ridge=0.0).fit(X).mahalanobis_matrix().round(4)
    array([[2.    , 0.    ],
           [0.    , 0.0247]])

    Args:
        n_components: dimensions kept; all if None.
        ridge: added to the variance of each feature, as a share of it.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_components: int | None = None
    _: KW_ONLY
    ridge: float = 1e-3

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Invert the covariance of the rows X (n, p)."""
        X = self._check_X(X, reset=True, ensure_min_samples=2)
        self.__dict__.pop("_moments", None)
        return self._invert(total_scatter(X) / X.shape[0], X.dtype)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows (n, p) in: after the last part the metric is that of `fit` on all of them, to rounding.

        A row of `sample_weight` w (n,) counts as w equal rows.
        """
        first = not hasattr(self, "_moments")
        X = validate_data(self, X, reset=first, dtype=[np.float64, np.float32])
        X, _, weights = weighed(X, None, sample_weight)
        moments: Moments = Moments(X.shape[1]) if first else deepcopy(self.__dict__["_moments"])
        moments.add(X, np.zeros(len(X), dtype=np.int64), weights)
        # One row has no spread yet.
        if moments.n >= 2:
            self._invert(moments.total() / moments.n, X.dtype)
        self._moments = moments
        return self

    def _invert(self, covariance: Array, kind: Any) -> Self:
        d = self._check_targets(len(covariance))
        ridge = check_number(self.ridge, "ridge", minimum=0)
        matrix = inverse_with_ridge(covariance, np.diag(covariance), ridge, "covariance")
        components = reduce_components(factor_psd(matrix), covariance, d)
        self.components_ = components.astype(kind, copy=False)
        return self


@dataclass(eq=False, repr=False)
class Euclidean(MetricLearner):
    """`M = I`, or the projection to the `n_components` directions of largest variance (PCA without centring).

    X (n, p) -> (n, d). y is accepted and not used.

    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> Euclidean().fit(X).pair_distance(X[:1], X[1:])
    array([5.])

    Args:
        n_components: dimensions kept; all if None.

    Attributes:
        components_: A (d, p), the learned map: distances are those of `XAᵀ`.
        n_features_in_: columns of the X it was fitted on.
    """

    _takes_sparse = True

    n_components: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the number of features; with `n_components`, find the directions of largest variance."""
        X = self._check_X(X, reset=True)
        d = self._check_targets(X.shape[1])
        if d == X.shape[1]:
            self.components_ = np.eye(d, dtype=X.dtype)
        else:
            solver = "covariance_eigh" if X.shape[0] > X.shape[1] else "full"
            dense = X.toarray() if hasattr(X, "toarray") else X
            components = PCA(min(d, *X.shape), svd_solver=solver).fit(dense).components_
            # Fewer rows than wanted directions: the rest is any orthonormal completion, here left at zero.
            self.components_ = np.zeros((d, X.shape[1]), dtype=X.dtype)
            self.components_[: len(components)] = components
        return self
