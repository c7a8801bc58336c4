"""What a threshold costs, class by class: the unit of every promise about classes that were never seen.

Two items match at a distance of t or less. Pairs of items of one class depend on each other, so an error rate is
averaged inside classes first, and the classes are what is counted:

- false matches of two classes, `h_t(c, c') = share of their item pairs within t`;
- false matches of a class with a database that does not hold it, `L_c(t)`: the share of its pairs with the
  database within t, or the share of its items with any match at all;
- false non-matches of a class, `M_c(t)`: the share of its own pairs that are farther apart than t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import LabelError

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Codes = NDArray[np.int64]
# Distances are held for so many rows at a time.
BLOCK = 512
# Enough for three digits of every rate; more items of a class say little that is new.
MOST_ITEMS = 6_000
POINTS = 400


@dataclass(frozen=True, eq=False)
class Calibration:
    """Embedded items of labelled classes (n, d), their codes 0..m−1, and the number of classes m."""

    rows: Rows
    codes: Codes
    m: int

    @classmethod
    def of(cls, rows: Any, labels: Any, *, seed: int = 0) -> Calibration:
        """Items of the classes that have two or more; `MOST_ITEMS` at most, as many of each class as fit."""
        names, codes = np.unique(np.asarray(labels), return_inverse=True)
        if len(codes) != len(rows):
            raise LabelError(f"`y` must have one class for each of the {len(rows)} rows, got {len(codes)}.")
        counts = np.bincount(codes, minlength=len(names))
        each = max(2, MOST_ITEMS // max(1, len(names)))
        order = np.random.default_rng(seed).permutation(len(codes))
        position = np.empty(len(codes), dtype=np.int64)
        for code in range(len(names)):
            mine = order[codes[order] == code]
            position[mine] = np.arange(len(mine))
        kept = (position < each) & (counts[codes] >= 2)
        _, fresh = np.unique(codes[kept], return_inverse=True)
        return cls(np.asarray(rows, dtype=np.float32)[kept], fresh.astype(np.int64), int((counts >= 2).sum()))

    @property
    def counts(self) -> Codes:
        """Items of each class, (m,)."""
        return np.bincount(self.codes, minlength=self.m)


def distances(left: Rows, right: Rows) -> Floats:
    """Euclidean distances (a, b), in double precision where it matters: equal rows are at 0."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1)[None, :] - 2 * (a @ b.T)
    # What is left of two equal rows is rounding, about 1e-16 of their squares.
    squares[squares < 1e-12 * (1 + np.square(a).sum(1)[:, None])] = 0.0
    return np.sqrt(squares)


def thresholds(data: Calibration, *, database: Rows | None = None, seed: int = 0) -> Floats:
    """The distances that are tried, rising: quantiles of false and of true pairs, dense where errors are rare.

    A rule takes the last of them at which it holds. On a grid it is never bolder than on all distances.
    """
    rng = np.random.default_rng(seed)
    pick = rng.permutation(len(data.rows))[:1500]
    others = data.rows[pick] if database is None else database[rng.permutation(len(database))[:1500]]
    apart = distances(data.rows[pick], others)
    if database is None:
        false = apart[data.codes[pick][:, None] != data.codes[pick][None, :]]
    else:
        false = apart.reshape(-1)
    tail = np.geomspace(1 / max(10, false.size), 1, POINTS)
    points = [[0.0], np.quantile(false, tail)]
    if len(data.rows) > data.m:
        true = [distances(*(2 * [data.rows[data.codes == c][:30]]))[np.triu_indices(min(30, n), 1)]
                for c, n in enumerate(data.counts)]  # fmt: skip
        points.append(np.quantile(np.concatenate(true), 1 - np.geomspace(1e-4, 1, POINTS)))
    return np.unique(np.concatenate(points))


def _cumulated(apart: Floats, grid: Floats, weights: Floats) -> Floats:
    """The weight of the entries of each row that are within each threshold, (rows, t)."""
    rows, t = len(apart), len(grid)
    step = np.searchsorted(grid, apart)  # the first threshold that is not below it
    flat = (np.arange(rows)[:, None] * (t + 1) + step).reshape(-1)
    spread = np.bincount(flat, np.broadcast_to(weights, apart.shape).reshape(-1), minlength=rows * (t + 1))
    return np.cumsum(spread.reshape(rows, t + 1)[:, :t], axis=1)


def within(data: Calibration, grid: Floats) -> Floats:
    """`R_c(t) = Σ_{c'≠c} h_t(c, c')` for every class and threshold, (m, t)."""
    sums = np.zeros((data.m, len(grid)))
    share = 1.0 / data.counts[data.codes]
    for start in range(0, len(data.rows), BLOCK):
        part = slice(start, start + BLOCK)
        apart = distances(data.rows[part], data.rows)
        foreign = (data.codes[part][:, None] != data.codes[None, :]) * share[None, :]
        np.add.at(sums, data.codes[part], _cumulated(apart, grid, foreign) * share[part, None])
    return sums


def database_losses(data: Calibration, database: Rows, grid: Floats, *, any_match: bool) -> Floats:
    """`L_c(t)` against a database without the class, (m, t): the share of pairs, or of items with any match."""
    sums = np.zeros((data.m, len(grid)))
    share = 1.0 / data.counts[data.codes]
    for start in range(0, len(data.rows), BLOCK):
        part = slice(start, start + BLOCK)
        apart = distances(data.rows[part], database)
        if any_match:
            apart = apart.min(axis=1, keepdims=True)
        inside = _cumulated(apart, grid, np.full(apart.shape, 1.0 / apart.shape[1]))
        np.add.at(sums, data.codes[part], inside * share[part, None])
    return sums


def missed(data: Calibration, grid: Floats) -> Floats:
    """`M_c(t)`: the share of the pairs of each class that are farther apart than t, (m, t)."""
    losses = np.zeros((data.m, len(grid)))
    for code in range(data.m):
        rows = data.rows[data.codes == code]
        apart = distances(rows, rows)[np.triu_indices(len(rows), 1)]
        losses[code] = 1 - _cumulated(apart[None, :], grid, np.full((1, len(apart)), 1.0 / len(apart)))[0]
    return np.clip(losses, 0.0, 1.0)


def matched_losses(data: Calibration, grid: Floats, *, matchings: int, seed: int = 0) -> Floats:
    """`h_t` of disjoint pairs of classes, drawn anew for each matching: (matchings, m // 2, t)."""
    groups = [data.rows[data.codes == code] for code in range(data.m)]
    rng = np.random.default_rng(seed)
    losses = np.zeros((matchings, data.m // 2, len(grid)))
    for number in range(matchings):
        order = rng.permutation(data.m)[: 2 * (data.m // 2)].reshape(-1, 2)
        for row, (a, b) in enumerate(order):
            apart = distances(groups[a], groups[b]).reshape(1, -1)
            losses[number, row] = _cumulated(apart, grid, np.full(apart.shape, 1.0 / apart.size))[0]
    return losses
