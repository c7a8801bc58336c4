"""What every linear metric learner shares: a matrix `components_` A, and everything that follows from it.

`δ(a, b) = ‖A(a − b)‖`, so `M = AᵀA`, and k-NN, clustering or an index work on `transform(X) = XAᵀ` as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearer._checks import check_choice, check_pairs, check_rectangle
from nearer.estimators._matrices import Array
from nearer.exceptions import LabelError, ParameterError, ShapeError

FLOATS = [np.float64, np.float32]


def as_similar(similar: Any, m: int) -> Array:
    """Answers about m pairs as booleans: True, 1 and +1 mean similar; False, 0 and −1 dissimilar.

    >>> as_similar([1, -1], 2)
    array([ True, False])
    """
    array = check_rectangle(similar, "similar")
    if array.shape != (m,):
        raise ShapeError(f"`similar` must have one entry for each of the {m} pairs, got shape {array.shape}.")
    if array.dtype.kind not in "biuf" or not np.isin(array, [-1, 0, 1]).all():
        raise LabelError("`similar` must hold True/False, 1/0 or +1/-1, got other values. +1 means similar.")
    return array > 0


def check_components(wanted: Any, n_features: int, *, of: str = "") -> int:
    """How many of the features (`of` says whose) to keep as components; None keeps all.

    >>> check_components(None, 4), check_components(2, 4)
    (4, 2)
    """
    if wanted is None:
        return n_features
    if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)) or not 1 <= wanted <= n_features:
        raise ParameterError(
            f"`n_components` must be an integer between 1 and the {n_features} features{of}, got {wanted!r}. "
            f"None keeps all of them."
        )
    return int(wanted)


def fitted_rows(learner: Any, X: Any) -> Array:
    """Checked rows for a learner that was fitted, (n, p)."""
    check_is_fitted(learner)
    return validate_data(learner, X, reset=False, dtype=FLOATS)


def mapped_distances(left: Array, right: Array) -> Array:
    """The distance of row i of one side to row i of the other, (m, d) twice -> (m,)."""
    if left.shape != right.shape:
        raise ShapeError(f"`left` and `right` must have as many rows, got {len(left)} and {len(right)}.")
    return np.asarray(np.linalg.norm(left - right, axis=1))


class RowMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What maps rows of floats, learned from something beside them, as scikit-learn wants it told."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PairAnswers:
    """What follows from `pair_distance`: scores, a threshold, and a yes or no for pairs."""

    threshold_: float

    def _forget_threshold(self) -> None:
        """A threshold belongs to the metric it was calibrated for."""
        self.__dict__.pop("threshold_", None)

    def pair_distance(self, left: Any, right: Any) -> Array:
        """The learned distance of row i of `left` to row i of `right`, (m,)."""
        raise NotImplementedError

    def score_pairs(self, left: Any, right: Any) -> Array:
        """Similarity of row i of `left` and row i of `right`: minus the learned distance, higher is nearer."""
        return -self.pair_distance(left, right)

    def calibrate_threshold(self, left: Any, right: Any, similar: Any, *, strategy: Strategy = "accuracy") -> Self:
        """Set `threshold_`, the distance up to which `predict_pairs` answers "similar", from known pairs."""
        distances = self.pair_distance(left, right)
        self.threshold_ = best_threshold(distances, as_similar(similar, len(distances)), strategy=strategy)
        return self

    def predict_pairs(self, left: Any, right: Any) -> Array:
        """+1 where row i of `left` is similar to row i of `right`, −1 where it is not, (m,) integers."""
        check_is_fitted(self)
        if not hasattr(self, "threshold_"):
            raise ParameterError(
                "a threshold must be set before pairs can be judged, got none. Fit on pairs with `fit_pairs`, or "
                "call `calibrate_threshold(left, right, similar)`."
            )
        return np.where(self.pair_distance(left, right) <= self.threshold_, 1, -1)


class MapLearner(PairAnswers, RowMap):
    """A learner whose map is not linear: the distance is that of `transform`."""

    def pair_distance(self, left: Any, right: Any) -> Array:
        """The learned distance of row i of `left` to row i of `right`, (m, p) twice -> (m,)."""
        return mapped_distances(self.transform(left), self.transform(right))

    def get_metric(self) -> Callable[[Any, Any], float]:
        """The distance of two vectors as a plain function. For k-NN prefer `transform`: it is far faster."""
        check_is_fitted(self)
        return lambda a, b: float(self.pair_distance(np.atleast_2d(a), np.atleast_2d(b))[0])


class MetricLearner(PairAnswers, RowMap):
    """A fitted linear map `components_` of shape (d, p) with `M = AᵀA`; learners say how to fit it.

    >>> from nearer.estimators import Euclidean
    >>> learner = Euclidean().fit([[0.0, 0.0], [3.0, 4.0]])
    >>> isinstance(learner, MetricLearner), learner.pair_distance([[0.0, 0.0]], [[3.0, 4.0]]).tolist()
    (True, [5.0])
    """

    _takes_sparse = False
    components_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def _check_X(self, X: Any, *, reset: bool, **more: Any) -> Any:
        accept = "csr" if self._takes_sparse or not reset else False
        return validate_data(self, X, reset=reset, dtype=FLOATS, accept_sparse=accept, **more)

    def _check_labeled(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Checked rows, and class codes 0..c−1; the classes themselves are kept in `classes_`."""
        accept = "csr" if self._takes_sparse else False
        X, y = validate_data(self, X, y, dtype=FLOATS, accept_sparse=accept, ensure_min_samples=2)
        check_classification_targets(y)
        self._forget_threshold()
        self.classes_, codes = np.unique(y, return_inverse=True)
        return X, codes

    def _check_targets(self, n_features: int) -> int:
        """How many components to keep."""
        return check_components(getattr(self, "n_components", None), n_features)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Any) -> Array:
        """Map rows so that Euclidean distance is the learned one, (n, p) -> (n, d): `XAᵀ`."""
        check_is_fitted(self)
        X = self._check_X(X, reset=False)
        return np.asarray(X @ self.components_.T.astype(X.dtype, copy=False))

    def mahalanobis_matrix(self) -> Array:
        """`M = AᵀA`, (p, p), symmetric and positive semi-definite."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, left: Any, right: Any) -> Array:
        """The learned distance of row i of `left` to row i of `right`, (m, p) twice -> (m,)."""
        check_is_fitted(self)
        left, right = (self._check_X(side, reset=False) for side in (left, right))
        if left.shape != right.shape:
            raise ShapeError(f"`left` and `right` must have the same shape, got {left.shape} and {right.shape}.")
        # The difference first: two far points that are close to each other keep their digits.
        difference = left - right
        dense = np.asarray(difference @ self.components_.T)
        return np.sqrt(np.einsum("ij,ij->i", dense, dense))

    def get_metric(self) -> Callable[[Any, Any], float]:
        """The distance of two vectors as a plain function. For k-NN prefer `transform`: it is far faster."""
        check_is_fitted(self)
        components = self.components_.copy()

        def distance(a: Any, b: Any) -> float:
            """The learned distance between two vectors of length p."""
            difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
            if difference.shape != (components.shape[1],):
                raise ShapeError(
                    f"both vectors must have {components.shape[1]} entries, got a difference of {difference.shape}."
                )
            return float(np.linalg.norm(components @ difference))

        return distance

    def _check_tuples(self, X: Any, tuples: Any, name: str, size: int) -> tuple[Any, Array]:
        """Rows X and integer row numbers (m, size) that lie inside X."""
        X = self._check_X(X, reset=True, ensure_min_samples=2)
        array = check_pairs(tuples, name, X.shape[0], size=size)
        if not len(array):
            raise ShapeError(f"`{name}` must hold at least one entry, got none.")
        self._forget_threshold()
        # Labels of an earlier fit do not describe this one.
        self.__dict__.pop("classes_", None)
        return X, array


Strategy = Literal["accuracy", "balanced", "f1"]


def best_threshold(distances: Array, similar: Array, *, strategy: Strategy = "accuracy") -> float:
    """The threshold t for which "similar if distance ≤ t" scores highest on known pairs, in O(m log m).

    `strategy` is the share of right answers, the mean of the two rates of right answers, or F1 of "similar".
    t lies half way between two distances; with nothing worth calling similar it lies below all of them.

    >>> best_threshold(np.array([1.0, 2.0, 5.0]), np.array([True, True, False]))
    3.5
    """
    check_choice(strategy, "strategy", ["accuracy", "balanced", "f1"])
    positives, negatives = int(similar.sum()), int((~similar).sum())
    if not positives or not negatives:
        raise LabelError(
            f"`similar` must hold both kinds of pairs, got {positives} similar and {negatives} dissimilar. "
            f"A threshold needs both."
        )
    order = np.argsort(distances, kind="stable")
    values = distances[order]
    # Cut c calls the c nearest pairs similar; equal distances cannot be cut apart.
    hits = np.concatenate([[0], np.cumsum(similar[order])])
    false = np.arange(len(values) + 1) - hits
    if strategy == "accuracy":
        score = hits + (negatives - false)
    elif strategy == "balanced":
        score = hits / positives + (negatives - false) / negatives
    else:
        score = 2 * hits / (hits + false + positives)
    allowed = np.concatenate([[True], values[1:] > values[:-1], [True]])
    cut = int(np.where(allowed, score, -np.inf).argmax())
    if cut == 0:
        return float(values[0]) - max(abs(float(values[0])), 1.0) * 1e-6
    if cut == len(values):
        return float(values[-1])
    return float((values[cut - 1] + values[cut]) / 2)
