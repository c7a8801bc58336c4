"""Sets of classes that hold the true one with a chosen probability, from the neighbors of an item."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_number
from nearer._validation import as_array
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.judging._class_losses import BLOCK, distances
from nearer.judging._influence import embedded


class ClassSets:
    """For each item the set of classes it may belong to: it holds the true one in `1 − error` of new items, proven.

    Split conformal prediction: the score of class c for x is `d_c/(d_c + d_other)` with the distances to the
    nearest known item of c and of any other class; the set holds the classes that score no more than the
    ⌈(n + 1)(1 − error)⌉-th smallest score of the true classes of n calibration items. The promise is for items of
    the known classes, in the mean over items and calibrations; a set may hold one class, several, or none.

    >>> X, y = np.array([[0.0], [0.2], [5.0], [5.2]]), np.array(["a", "a", "b", "b"])
    >>> sets = ClassSets(error=0.2).fit(X, y)
    >>> sets = sets.calibrate([[0.1], [0.3], [5.1], [4.8], [5.3]], ["a", "a", "b", "b", "b"])
    >>> sets.predict([[0.0], [2.6]])
    [['a'], []]

    Args:
        error: the share of items whose set may miss their class.
        metric: what embeds rows before they are compared: a model, an estimator with `transform`, a function; None
            compares them as they are.
    """

    def __init__(self, error: float = 0.1, *, metric: Any = None) -> None:
        self.error = check_number(error, "error", above=0.0, maximum=0.5)
        self.metric = metric

    def fit(self, X: Any, y: Any) -> Self:
        """Remember the known items X (n, p) and their classes y (n,)."""
        self.rows_ = embedded(self.metric, X)
        labels = as_array(y)
        if labels.shape != (len(self.rows_),):
            raise ShapeError(f"`y` must have one class for each of the {len(self.rows_)} rows, got {labels.shape}.")
        self.classes_, self.codes_ = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise LabelError(f"`y` must name at least two classes, got {len(self.classes_)}.")
        if hasattr(self, "limit_"):
            del self.limit_
        return self

    def calibrate(self, X: Any, y: Any) -> Self:
        """Find the limit from items that `fit` has not seen, X (n, p) with classes y (n,)."""
        self._check(fitted=True)
        labels = as_array(y)
        code = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = np.flatnonzero(self.classes_[code] != labels)
        if len(unknown):
            raise LabelError(f"`y` must name classes that `fit` knows, got {labels[unknown[0]]!r}.")
        scores = self._scores(X, "X")
        if labels.shape != (len(scores),):
            raise ShapeError(f"`y` must have one class for each of the {len(scores)} rows, got {labels.shape}.")
        n = len(labels)
        rank = int(np.ceil((n + 1) * (1 - self.error)))
        if rank > n:
            needed = int(np.ceil(1 / self.error)) - 1
            raise LabelError(
                f"error={self.error:g} must have at least {needed} calibration items, got {n}: {needed - n} are "
                f"missing."
            )
        self.limit_ = float(np.sort(scores[np.arange(n), code])[rank - 1])
        return self

    def predict(self, X: Any) -> list[list[Any]]:
        """The classes that each item may belong to, the likeliest first."""
        self._check(fitted=True, calibrated=True)
        sets = []
        for scores in self._scores(X, "X"):
            order = np.argsort(scores, kind="stable")
            sets.append([self.classes_[code] for code in order if scores[code] <= self.limit_])
        return [[label.item() if hasattr(label, "item") else label for label in row] for row in sets]

    def _scores(self, X: Any, name: str) -> NDArray[np.float64]:
        rows = embedded(self.metric, X, name)
        nearest = np.full((len(rows), len(self.classes_)), np.inf)
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            apart = distances(rows[part], self.rows_)
            for code in range(len(self.classes_)):
                nearest[part, code] = apart[:, self.codes_ == code].min(axis=1)
        two = np.sort(nearest, axis=1)[:, :2]
        other = np.where(nearest == two[:, :1], two[:, 1:], two[:, :1])
        total = nearest + other
        return np.divide(nearest, total, out=np.full_like(total, 0.5), where=total > 0)

    def _check(self, *, fitted: bool, calibrated: bool = False) -> None:
        if fitted and not hasattr(self, "rows_"):
            raise ParameterError("fit(X, y) must come first: no classes are known yet.")
        if calibrated and not hasattr(self, "limit_"):
            raise ParameterError("calibrate(X, y) must come before predict: there is no limit yet.")
