"""Counts, means and scatters of classes that grow row by row: what closed forms need, whatever came in what parts.

The scatter of a class after another part is `S + S' + n n'/(n + n') (m − m')(m − m')ᵀ` (Chan, Golub, LeVeque,
1983), which keeps all digits where sums of squares would lose them.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from nearer.estimators._matrices import Array
from nearer.estimators._scatter import PairScatters, label_scatters, pair_scatters
from nearer.estimators._supervision import PairSupervision
from nearer.exceptions import LabelError, LimitError, ParameterError

# Rows that are kept to choose `blend` by, as many as `choose_blend` looks at.
KEPT = 5_000
# Of the scatters of all classes.
MOST_BYTES = 4 << 30
MOST_WEIGHT = 1e9


class Moments:
    """Of every class: how many rows, their mean, and the scatter about it. A row of weight w counts as w rows.

    >>> moments = Moments(1)
    >>> for rows, classes in (([[0.0]], [7]), ([[2.0], [9.0]], [7, 8])):
    ...     moments.add(np.array(rows), np.array(classes), np.ones(len(rows)))
    >>> moments.classes.tolist(), moments.counts.tolist(), moments.within().tolist(), moments.total().tolist()
    ([7, 8], [2.0, 1.0], [[2.0]], [[44.66666666666667]])
    """

    def __init__(self, columns: int) -> None:
        self.classes: Array = np.empty(0, dtype=np.int64)
        self.counts: Array = np.zeros(0)
        self.means: Array = np.zeros((0, columns))
        self.scatters: Array = np.zeros((0, columns, columns))

    @property
    def n(self) -> float:
        """All rows so far."""
        return float(self.counts.sum())

    def add(self, X: Array, y: Array, weights: Array) -> None:
        """Take rows (n, p), their classes (n,) and their weights (n,), all above 0, in."""
        names, codes = np.unique(y, return_inverse=True)
        self._make_room(names)
        for number, index in enumerate(np.searchsorted(self.classes, names)):
            mine = codes == number
            rows, weight = X[mine].astype(np.float64), weights[mine, None]
            before, new = self.counts[index], weight.sum()
            mean = (weight * rows).sum(axis=0) / new
            rows -= mean
            apart = mean - self.means[index]
            self.scatters[index] += (weight * rows).T @ rows + before * new / (before + new) * np.outer(
                apart, apart
            )
            self.means[index] += apart * (new / (before + new))
            self.counts[index] = before + new

    def _make_room(self, names: Array) -> None:
        if not len(self.classes):
            self.classes = self.classes.astype(names.dtype)
        check_one_kind(self.classes, names)
        every = np.union1d(self.classes, names)
        if len(every) == len(self.classes):
            return
        size = 8 * len(every) * self.means.shape[1] ** 2
        if size > MOST_BYTES:
            raise LimitError(
                f"`y` must name fewer classes to be learned in parts: {len(every):,} matrices of "
                f"{self.means.shape[1]:,} columns would take {size / 1e9:.3g} GB. Reduce the columns, or fit on "
                f"all rows."
            )
        places = np.searchsorted(every, self.classes)
        for name in ("counts", "means", "scatters"):
            old = getattr(self, name)
            fresh = np.zeros((len(every), *old.shape[1:]), dtype=old.dtype)
            fresh[places] = old
            setattr(self, name, fresh)
        self.classes = every

    def within(self) -> Array:
        """Σ_c S_c, (p, p)."""
        return np.asarray(self.scatters.sum(axis=0))

    def total(self) -> Array:
        """The scatter of all rows about their mean, (p, p)."""
        apart = self.means - self.counts @ self.means / self.n
        return np.asarray(self.within() + apart.T @ (apart * self.counts[:, None]))

    def pairs(self) -> PairScatters:
        """The scatters of all similar and all dissimilar pairs, as of `label_scatters`."""
        similar = np.tensordot(self.counts, self.scatters, axes=1)
        n_similar = float((self.counts * (self.counts - 1) / 2).clip(min=0).sum())
        n_dissimilar = (self.n**2 - float(np.square(self.counts).sum())) / 2
        return PairScatters(similar, self.n * self.total() - similar, n_similar, n_dissimilar)


def check_one_kind(before: Array, new: Array) -> None:
    """Refuse labels of another kind than those of the parts before: as text, 7 and "7" would be one class.

    >>> check_one_kind(np.array([7]), np.array(["7"]))
    Traceback (most recent call last):
    ...
    nearer.exceptions.LabelError: `y` must hold labels of one kind in all parts, got text after numbers.
    """
    kinds = [_kinds(part) for part in (before, new)]
    if all(kinds) and len(kinds[0] | kinds[1]) > 1:
        raise LabelError(
            f"`y` must hold labels of one kind in all parts, got {' and '.join(sorted(kinds[1]))} after "
            f"{' and '.join(sorted(kinds[0]))}."
        )


def weighed(X: Array, y: Any, sample_weight: Any) -> tuple[Array, Any, Array]:
    """Rows, what belongs to them and their weights, 1 where none are given; without the rows of weight 0.

    >>> [part.tolist() for part in weighed(np.eye(2), np.array([3, 4]), [0.0, 2.0])]
    [[[0.0, 1.0]], [4], [2.0]]
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = weights > 0
    if not kept.any():
        raise ParameterError("`sample_weight` must be above 0 for at least one row, got zeros alone.")
    if weights[kept].min() < 1 or weights.max() > MOST_WEIGHT:
        raise ParameterError(
            f"`sample_weight` must be 0 or between 1 and {MOST_WEIGHT:g}, since a row counts as so many equal "
            f"ones, got {weights[kept].min():g} to {weights.max():g}. Multiply them by a constant."
        )
    return X[kept], None if y is None else y[kept], weights[kept]


class FromMoments:
    """Adds `partial_fit` to a learner that follows from moments, by `_from_moments`."""

    def _from_moments(self, moments: Moments) -> Array:
        raise NotImplementedError

    def partial_fit(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take more rows (n, p) and their classes (n,) in; after the last part the metric is that of all rows.

        It is that of `fit` to rounding, in the memory of one (p, p) matrix for each class. Whatever `fit` has seen
        does not count: the first part after it begins anew. With
        `blend="auto"` the share of the identity is chosen on 5,000 rows, drawn evenly from all that came. A row of
        `sample_weight` w (n,) counts as w equal rows in the sums, and as one where `blend` is chosen.
        """
        first = not hasattr(self, "_moments")
        X, y = validate_data(self, X, y, reset=first, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        X, y, weights = weighed(X, y, sample_weight)
        d = self._check_targets(X.shape[1])
        self._forget_threshold()
        # Rows of a call that fails have not been counted.
        known = (Moments(X.shape[1]), _Sample(check_random_state(self.random_state))) if first else (
            self._moments, self._sample)  # fmt: skip
        moments, sample = deepcopy(known)
        moments.add(X, y, weights)
        sample.add(X, y)
        if first:
            self.__dict__.pop("components_", None)
        try:
            matrix = self._from_moments(moments)
        except LabelError:
            # The first rows may all be of one class, and say nothing yet.
            if hasattr(self, "components_"):
                raise
            matrix = None
        self._moments, self._sample, self.classes_ = moments, sample, moments.classes
        if matrix is None:
            return self
        rows, codes = sample.rows(moments.classes)
        rng = check_random_state(self.random_state)
        self._finish(matrix, rows, codes, d, rng, covariance=moments.total() / moments.n)
        return self


class FromPairScatters(FromMoments, PairSupervision):
    """Adds what follows from the scatters of similar and of dissimilar pairs, by `_solve`: all that there are."""

    def _solve(self, scatters: PairScatters) -> Array:
        raise NotImplementedError

    def _learn_labels(self, X: Any, codes: Array, rng: np.random.RandomState) -> Array:
        return self._solve(label_scatters(X, codes))

    def _from_moments(self, moments: Moments) -> Array:
        return self._solve(moments.pairs())

    def _learn_pairs(self, X: Any, pairs: Array, similar: Array, rng: np.random.RandomState) -> Array:
        return self._solve(pair_scatters(X, pairs, similar))


class _Sample:
    """At most 5,000 rows, drawn evenly from all that came: those with the smallest random numbers."""

    def __init__(self, rng: np.random.RandomState) -> None:
        self._rng = rng
        self._numbers: Array = np.zeros(0)
        self._rows: Array | None = None
        self._labels: Array | None = None

    def add(self, X: Array, y: Array) -> None:
        numbers = self._rng.random_sample(len(X))
        rows, labels = X, y
        if self._rows is not None and self._labels is not None:
            numbers = np.concatenate([self._numbers, numbers])
            rows, labels = np.concatenate([self._rows, X]), np.concatenate([self._labels, y])
        kept = np.argsort(numbers, kind="stable")[:KEPT]
        self._numbers, self._rows, self._labels = numbers[kept], rows[kept], labels[kept]

    def rows(self, classes: Array) -> tuple[Array, Array]:
        """The rows and their class numbers."""
        assert self._rows is not None
        assert self._labels is not None
        return self._rows, np.searchsorted(classes, self._labels)


def _kinds(labels: Array) -> set[str]:
    if labels.dtype.kind == "M":
        return {"dates"}
    return {"text" if isinstance(label, str) else "numbers" for label in labels.tolist()}
