"""k-NN with two maps in the space of a kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearer._checks import check_choice
from nearer.estimators import AsymmetricKNN, Euclidean, KernelLearner
from nearer.estimators._matrices import Array
from nearer.estimators.linear._kernels import Kernel

__all__ = ["KernelAsymmetricKNN"]


class KernelAsymmetricKNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`AsymmetricKNN` in the space of a kernel: `Ux → A·k(x)`, `Vx → B·k(x)`, with the norm of W in that space.

    Kernels and landmarks are those of `KernelLearner`; `learner=AsymmetricKNN(...)` sets the rest up. With all rows
    as landmarks it is the exact kernel form, with `n_landmarks` the Nyström one.

    >>> X = np.array([[0.0], [0.1], [0.2], [2.0], [2.1], [-2.0], [-2.1]])
    >>> model = KernelAsymmetricKNN(AsymmetricKNN(n_neighbors=1), gamma=1.0)
    >>> model.fit(X, [0, 0, 0, 1, 1, 1, 1]).predict([[-0.1], [2.2]])
    array([0, 1])

    Args:
        learner: the linear learner that works in the kernel space.
        kernel: "rbf", "poly", "linear" or "precomputed".
        gamma: width of the kernel; None is one over the number of columns.
        degree: of the polynomial kernel.
        n_landmarks: rows that span the kernel space; None takes all.
        random_state: seed or generator for everything that is drawn; None takes numpy's own.

    Attributes:
        map_: the fitted `KernelLearner` whose coordinates the rows get.
        learner_: the fitted `AsymmetricKNN` in those coordinates.
        n_iter_: epochs that were made.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    def __init__(
        self,
        learner: AsymmetricKNN | None = None,
        *,
        kernel: Kernel = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        n_landmarks: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Map the rows by the kernel, and fit the learner on the mapped rows."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_choice(self.kernel, "kernel", ["rbf", "poly", "linear", "precomputed"])
        check_classification_targets(y)
        self.map_ = KernelLearner(
            Euclidean(),
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            n_landmarks=self.n_landmarks,
            random_state=self.random_state,
        ).fit(X, y)
        learner = AsymmetricKNN(random_state=self.random_state) if self.learner is None else clone(self.learner)
        self.learner_ = learner.fit(self.map_.transform(X), y)
        self.classes_, self.n_iter_ = self.learner_.classes_, self.learner_.n_iter_
        return self

    def _embed(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return np.asarray(self.map_.transform(X))

    def transform_queries(self, X: Any) -> Array:
        """Rows to search with, (m, p) -> (m, d)."""
        rows = self._embed(X)
        return self.learner_.transform_queries(rows)

    def transform_database(self, X: Any) -> Array:
        """Rows to index, (m, p) -> (m, d)."""
        rows = self._embed(X)
        return self.learner_.transform_database(rows)

    def predict(self, X: Any) -> Array:
        """The class with most votes, (m,)."""
        rows = self._embed(X)
        return self.learner_.predict(rows)
