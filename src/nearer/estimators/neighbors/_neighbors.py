"""Predictions from the neighbours under any learned metric: classes, several labels at once, distributions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from nearer._checks import check_choice, check_int, check_number
from nearer.estimators._learner import fitted_rows
from nearer.estimators._matrices import Array
from nearer.estimators._moments import check_one_kind
from nearer.estimators.neighbors._near import nearest_rows
from nearer.exceptions import LabelError, ShapeError
from nearer.neighbors import vote


def _fit_metric(metric: Any, X: Array, y: Any) -> tuple[Any, Array]:
    """A fitted copy of the metric (or None) and the mapped rows; one that is fitted is used as it is."""
    if metric is None:
        return None, X
    try:
        check_is_fitted(metric)
        fitted = metric
    except ValueError:
        fitted = clone(metric).fit(X, y)
    return fitted, np.asarray(fitted.transform(X))


def _mapped(metric: Any, X: Array) -> Array:
    return X if metric is None else np.asarray(metric.transform(X))


@dataclass(eq=False, repr=False)
class MetricKNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """k-NN classification under a learned metric: a vote of the k nearest training rows.

    `metric` is any learner with `transform`: one that is fitted is used as it is, one that is not is fitted on the
    training rows first, None is the Euclidean distance. Equal votes go to the class of the nearest. k is cut to n.

    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> MetricKNN(n_neighbors=1).fit(X, ["a", "a", "b", "b"]).predict([[2.0], [7.0]])
    array(['a', 'b'], dtype='<U1')

    Args:
        metric: a learner, fitted or not; None is the Euclidean distance.
        n_neighbors: rows that vote.

    Attributes:
        metric_: the fitted learner, None for the Euclidean distance.
        rows_: the mapped training rows, (n, d).
        codes_: the class number of every training row, (n,).
        k_: neighbors that are looked at: `n_neighbors`, or fewer where there are fewer rows.
        classes_: the classes of y, (c,), sorted.
        n_features_in_: columns of the X it was fitted on.
    """

    metric: Any = None
    _: KW_ONLY
    n_neighbors: int = 3

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the metric if it needs it, and remember the mapped rows."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.k_ = min(check_int(self.n_neighbors, "n_neighbors"), X.shape[0])
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        self.metric_, self.rows_ = _fit_metric(self.metric, X, y)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Remember more rows; the metric is that of the first ones, or one that was fitted before.

        `classes` may name those to come, as everywhere in scikit-learn; new ones are welcome without it.
        """
        named = np.empty(0) if classes is None else column_or_1d(classes)
        if len(named):
            check_classification_targets(named)
            check_one_kind(np.unique(column_or_1d(y)), named)
        if hasattr(self, "rows_"):
            X, y = validate_data(self, X, y, reset=False, dtype=[np.float64, np.float32])
            check_classification_targets(y)
            check_one_kind(self.classes_, np.unique(y))
            labels = np.concatenate([self.classes_[self.codes_], y])
            self.rows_ = np.concatenate([self.rows_, _mapped(self.metric_, X)])
        else:
            labels = self.fit(X, y).classes_[self.codes_]
        self.classes_ = np.unique(np.concatenate([labels, named]) if len(named) else labels)
        self.codes_ = np.searchsorted(self.classes_, labels)
        self.k_ = min(check_int(self.n_neighbors, "n_neighbors"), len(self.rows_))
        return self

    def predict_proba(self, X: Any) -> Array:
        """The share of the votes that each class gets, (n, c), columns as in `classes_`.

        Where the most votes are equal, the class of `predict` is ahead by 1e-9, so that the largest share is it.
        """
        near = self._votes(X)
        one_hot = near[:, :, None] == np.arange(len(self.classes_))
        result: Array = one_hot.mean(axis=1)
        tied = np.flatnonzero((result == result.max(axis=1, keepdims=True)).sum(axis=1) > 1)
        result[tied, vote(near[tied])] += 1e-9
        return result

    def predict(self, X: Any) -> Array:
        """The class with most votes, (n,); equal votes go to the class of the nearest neighbour."""
        near = self._votes(X)
        return self.classes_[vote(near)]

    def _votes(self, X: Any) -> Array:
        """The class numbers of the k nearest rows of each, (n, k)."""
        X = fitted_rows(self, X)
        return self.codes_[nearest_rows(_mapped(self.metric_, X), self.rows_, self.k_)]


@dataclass(eq=False, repr=False)
class MLKNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """ML-kNN: for every label, Bayes' rule on how many of the k neighbours carry it.

    y is a 0/1 matrix (n, q). `prior = (s + Σ y)/(2s + n)`; with c neighbours that carry the label, the score is
    `prior·P(c|1) / (prior·P(c|1) + (1 − prior)·P(c|0))`, `P(j|1) = (s + #{y = 1, c = j})/(s(k + 1) + #{y = 1})`. A
    row is not its own neighbour in training. k is cut to n − 1. A label is predicted at a score of one half.

    Counts do not say how near a neighbour is. `weights="distance"` takes the mean of that score and of the share of
    the neighbours that carry the label, each weighing one over its squared distance.

    Reference: Zhang, Zhou (2007); `weights` is ours.

    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> Y = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> MLKNN(n_neighbors=2).fit(X, Y).predict([[0.05], [9.05]])
    array([[1, 0],
           [0, 1]])

    Args:
        metric: a learner, fitted or not; None is the Euclidean distance.
        n_neighbors: rows that are counted.
        smoothing: s, added to every count.
        weights: "uniform", as published, or "distance".

    Attributes:
        metric_: the fitted learner, None for the Euclidean distance.
        rows_: the mapped training rows, (n, d).
        labels_: the label sets of the training rows, (n, c).
        prior_: probability of every label, (c,).
        with_label_: P(j neighbors have the label | the row has it), (k + 1, c).
        without_label_: P(j neighbors have the label | the row has it not), (k + 1, c).
        k_: neighbors that are looked at: `n_neighbors`, or fewer where there are fewer rows.
        classes_: [0, 1] for every label, as scikit-learn wants it.
        n_features_in_: columns of the X it was fitted on.
    """

    metric: Any = None
    _: KW_ONLY
    n_neighbors: int = 10
    smoothing: float = 1.0
    weights: Literal["uniform", "distance"] = "uniform"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Count, for every label, how many neighbours carry it around rows with and without it."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, ensure_min_samples=2)
        labels = np.asarray(y)
        if labels.ndim != 2 or not np.isin(labels, [0, 1]).all():
            raise LabelError(
                f"`y` must be a 0/1 matrix of shape (n, q), got shape {labels.shape}. For one class per row use "
                f"MetricKNN."
            )
        s = check_number(self.smoothing, "smoothing", above=0)
        check_choice(self.weights, "weights", ["uniform", "distance"])
        n = X.shape[0]
        self.k_ = min(check_int(self.n_neighbors, "n_neighbors"), n - 1)
        self.classes_ = [np.array([0, 1]) for _ in range(labels.shape[1])]
        self.metric_, self.rows_ = _fit_metric(self.metric, X, labels)
        self.labels_ = labels.astype(np.int64)
        near = nearest_rows(self.rows_, self.rows_, self.k_, own=np.arange(n))
        counts = self.labels_[near].sum(axis=1)
        self.prior_ = (s + self.labels_.sum(axis=0)) / (2 * s + n)
        shape = (self.k_ + 1, labels.shape[1])
        self.with_label_, self.without_label_ = np.zeros(shape), np.zeros(shape)
        for j in range(self.k_ + 1):
            self.with_label_[j] = ((counts == j) & (self.labels_ == 1)).sum(axis=0)
            self.without_label_[j] = ((counts == j) & (self.labels_ == 0)).sum(axis=0)
        for table in (self.with_label_, self.without_label_):
            table[:] = (s + table) / (s * (self.k_ + 1) + table.sum(axis=0))
        return self

    def predict_scores(self, X: Any) -> Array:
        """The probability of every label, (n, q); with uniform weights at most k + 1 values per label."""
        X = fitted_rows(self, X)
        Z = _mapped(self.metric_, X)
        near = nearest_rows(Z, self.rows_, self.k_)
        counts = self.labels_[near].sum(axis=1)
        yes = self.prior_ * np.take_along_axis(self.with_label_, counts, axis=0)
        no = (1 - self.prior_) * np.take_along_axis(self.without_label_, counts, axis=0)
        result: Array = yes / (yes + no)
        if self.weights == "distance":
            result = (result + self._shares(Z, near)) / 2
        return result

    def _shares(self, Z: Array, near: Array) -> Array:
        """The share of the neighbours that carry a label, each weighing one over its squared distance."""
        result = np.empty((len(Z), self.labels_.shape[1]))
        step = max(1, (1 << 20) // max(1, near.shape[1] * Z.shape[1]))
        for start in range(0, len(Z), step):
            part = slice(start, start + step)
            squares = np.square(self.rows_[near[part]] - Z[part, None], dtype=np.float64).sum(axis=2)
            # A twin outweighs the others, and does not divide by zero.
            floor = 1e-6 * squares.mean(axis=1, keepdims=True) + np.finfo(np.float64).tiny
            weights = 1 / np.maximum(squares, floor)
            weights /= weights.sum(axis=1, keepdims=True)
            result[part] = np.einsum("nk,nkq->nq", weights, self.labels_[near[part]])
        return result

    def predict(self, X: Any) -> Array:
        """0/1 for every label, (n, q): 1 at a score of at least one half."""
        return (self.predict_scores(X) >= 0.5).astype(np.int64)


@dataclass(eq=False, repr=False)
class AAKNN(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """AA-kNN: the mean of the label distributions of the k nearest rows.

    y is (n, q), each row a distribution: not negative, sum 1. So is every prediction. k is cut to n.

    Reference: Geng (2016).

    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> AAKNN(n_neighbors=2).fit(X, [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]).predict([[0.4]])
    array([[0.75, 0.25]])

    Args:
        metric: a learner, fitted or not; None is the Euclidean distance.
        n_neighbors: rows that are averaged.

    Attributes:
        metric_: the fitted learner, None for the Euclidean distance.
        rows_: the mapped training rows, (n, d).
        targets_: the label rows of the training rows, (n, c).
        k_: neighbors that are looked at: `n_neighbors`, or fewer where there are fewer rows.
        n_features_in_: columns of the X it was fitted on.
    """

    metric: Any = None
    _: KW_ONLY
    n_neighbors: int = 5

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Remember the mapped rows and their distributions; a metric that is not fitted must learn from them."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64)
        if targets.ndim != 2:
            raise ShapeError(f"`y` must have shape (n, q), got {targets.shape}. One row is one distribution.")
        if (targets < 0).any() or not np.allclose(targets.sum(axis=1), 1, atol=1e-4):
            raise LabelError(
                "the rows of `y` must be distributions, not negative and of sum 1. Divide each by its sum."
            )
        self.k_ = min(check_int(self.n_neighbors, "n_neighbors"), X.shape[0])
        self.metric_, self.rows_ = _fit_metric(self.metric, X, targets)
        self.targets_ = targets
        return self

    def predict(self, X: Any) -> Array:
        """The mean distribution of the k nearest rows, (n, q)."""
        X = fitted_rows(self, X)
        near = nearest_rows(_mapped(self.metric_, X), self.rows_, self.k_)
        return self.targets_[near].mean(axis=1)
