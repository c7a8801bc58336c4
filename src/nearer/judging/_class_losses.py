"""What a threshold costs, class by class: the unit of every promise about classes that were never seen.

Two items match at a distance of t or less. Pairs of items of one class depend on each other, so an error rate is
averaged inside classes first, and the classes are what is counted:

- false matches of two classes, `h_t(c, c') = share of their item pairs within t`;
- false matches of a class with a database that does not hold it, `L_c(t)`: the share of its pairs with the
  database within t, or the share of its items with any match at all;
- false non-matches of a class, `M_c(t)`: the share of its own pairs that are farther apart than t.

From them to a bound on the mean loss of classes that were never seen, at every threshold. With m calibration
classes, U the mean of h over their pairs and L̄ the mean of a loss per class:

| guarantee | pairs of a new class with known ones | a loss per class |
|---|---|---|
| estimated | U + t₀.₉(m−1)·SE, SE by the jackknife over classes | L̄ + t₀.₉(m−1)·sd/√m |
| average | ((m − 1)U + 2)/(m + 1) | (ΣL + 1)/(m + 1) |
| high-probability | betting e-values over disjoint pairs | the same over classes |

docs/notes/same-pair.md derives them. A threshold is taken only where the bound holds at it and at every stricter
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

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


Guarantee = Literal["estimated", "average", "high-probability"]
GUARANTEES: Sequence[str] = ("estimated", "average", "high-probability")
CONFIDENCE = 0.9


def pair_bound(sums: Floats, guarantee: Guarantee) -> Floats:
    """The bound on the share of false matches from `R_c(t)` (m, t), for "estimated" and "average": (t,).

    >>> pair_bound(np.zeros((39, 1)), "average").tolist()
    [0.05]
    """
    m = len(sums)
    total = sums.sum(axis=0)
    U = total / (m * (m - 1))
    if guarantee == "average":
        bound: Floats = ((m - 1) * U + 2) / (m + 1)
        return bound
    without = (total - 2 * sums) / ((m - 1) * (m - 2))
    error = np.sqrt((m - 1) / m * np.square(without - without.mean(axis=0)).sum(axis=0))
    bound = U + stats.t.ppf(CONFIDENCE, m - 1) * error
    return bound


def mean_bound(losses: Floats, guarantee: Guarantee) -> Floats:
    """The bound on the mean of a loss per class from (m, t), for "estimated" and "average": (t,).

    >>> mean_bound(np.zeros((19, 1)), "average").tolist()
    [0.05]
    """
    m = len(losses)
    if guarantee == "average":
        return (losses.sum(axis=0) + 1) / (m + 1)
    error = losses.std(axis=0, ddof=1) / np.sqrt(m)
    return losses.mean(axis=0) + stats.t.ppf(CONFIDENCE, m - 1) * error


def bets(losses: Floats, level: float) -> Floats:
    """The e-value against "the mean loss is above `level`", from independent losses (n, t) in 0..1: (t,).

    `∏ᵢ (1 + λ(α − lᵢ))` has a mean of at most 1 if the mean loss is at least α, for any λ in 0..1/(1 − α); the mean
    over a few λ has so too. It falls as losses rise, so at 10 or more the level holds with a probability of .9.

    >>> bool(bets(np.zeros((64, 1)), 0.05)[0] > 10 > bets(np.zeros((40, 1)), 0.05)[0])
    True
    """
    sizes = np.array([0.25, 0.5, 0.75, 1.0]) / (1 - level)
    return np.mean(
        [np.exp(np.log1p(np.maximum(size * (level - losses), -1 + 1e-12)).sum(axis=0)) for size in sizes], axis=0
    )


def fewest_classes(level: float, guarantee: Guarantee, *, pairs: bool) -> int:
    """How many classes the rule needs before it can hold at all, or for "estimated" before it is to be trusted.

    >>> fewest_classes(0.05, "average", pairs=True), fewest_classes(0.01, "average", pairs=False)
    (39, 99)
    >>> fewest_classes(0.05, "estimated", pairs=True), fewest_classes(0.01, "estimated", pairs=True)
    (20, 40)
    """
    if guarantee == "average":
        return int(np.ceil((2 if pairs else 1) / level - 1 - 1e-9))
    if guarantee == "estimated":
        # Measured: 20 at .05 and 40 at .01 keep the level to .01 in nine of ten splits.
        return int(np.ceil(min(40.0, max(5.0, 20 * np.sqrt(0.05 / level)))))
    n = 1
    while bets(np.zeros((n, 1)), level)[0] < 1 / (1 - CONFIDENCE):
        n += 1
    return 2 * n if pairs else n
