"""The Euclidean distance as a learner: the line that every other learner has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA

from nearer.estimators._learner import MetricLearner


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
