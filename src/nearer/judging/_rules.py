"""From losses of classes to a bound on the mean loss of classes that were never seen, at every threshold.

With m calibration classes, U the mean of h over their pairs and L̄ the mean of a loss per class:

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
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
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
