"""ML-kNN, AA-kNN and the map of queries for scikit-learn's checks, whose y are class numbers and real numbers.

The three estimators refuse such a y on purpose, so the checks could not reach anything else. Here the y of a check
is first put into the kind that the estimator takes, without loss, and its predictions are put back. Everything
between is the estimator's own: validation, attributes, neighbours, probabilities, pickling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from nearer import estimators as E


def _one_output(y: Any) -> bool:
    return y is not None and np.ndim(np.asarray(y)) <= 1


class SetsOfClasses(E.MLKNN):
    """ML-kNN on class numbers: the set of a row holds its class alone, the prediction is the likeliest label."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        tags.target_tags.single_output = True
        tags.classifier_tags.multi_label = False
        return tags

    def fit(self, X: Any, y: Any) -> SetsOfClasses:
        if y is None:
            return super().fit(X, y)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=not _one_output(y))
        check_classification_targets(y)
        classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        super().fit(X, np.eye(len(classes), dtype=int)[codes])
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> Any:
        likeliest = self.predict_scores(X).argmax(axis=1)
        return self.classes_[likeliest]


class SharesOfNumbers(E.AAKNN):
    """AA-kNN on real numbers: a number becomes two shares by where it lies in the range, and back."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        return tags

    def fit(self, X: Any, y: Any) -> SharesOfNumbers:
        if y is None:
            return super().fit(X, y)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        numbers = check_array(y, ensure_2d=False, dtype=np.float64)
        self.flat_ = numbers.ndim == 1
        numbers = numbers.reshape(len(numbers), -1)
        self.low_ = numbers.min(axis=0)
        self.width_ = np.maximum(numbers.max(axis=0) - self.low_, 1e-12)
        inside = (numbers - self.low_) / self.width_ / numbers.shape[1]
        super().fit(X, np.concatenate([inside, 1 / numbers.shape[1] - inside], axis=1))
        return self

    def predict(self, X: Any) -> Any:
        shares = super().predict(X)
        numbers = self.low_ + shares[:, : len(self.low_)] * self.width_ * len(self.low_)
        return numbers[:, 0] if self.flat_ else numbers


class DocumentsOfNumbers(E.QueryMap):
    """The map of queries on numbers: the document of a query is the query moved by its number."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        return tags

    def fit(self, X: Any, y: Any) -> DocumentsOfNumbers:
        if y is None:
            return super().fit(X, y)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        numbers = check_array(y, ensure_2d=False, dtype=np.float64).reshape(len(X), -1)[:, :1]
        super().fit(X, X + numbers / (1 + np.abs(numbers).max()) * np.arange(1, X.shape[1] + 1))
        return self
