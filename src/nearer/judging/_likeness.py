"""Whether new items look like those that a promise was made on."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nearer.exceptions import NearerWarning
from nearer.judging._class_losses import Calibration, Floats, Rows, distances

# Rows that are kept to compare with, and the fewest new items that can say anything.
KEPT, FEWEST = 300, 20
# A warning once in a thousand calls with nothing the matter, and only for a difference worth the word.
RARE, CLEAR = 1e-3, 0.65


class Likeness:
    """How far calibration items are from those of other classes: new items should not be much farther away.

    An item of a new class is far from every known class, so each calibration item is compared with the other
    classes alone.
    """

    def __init__(self, rows: Rows, nearest: Floats) -> None:
        self.rows, self.nearest = rows, nearest

    @classmethod
    def of(cls, data: Calibration, *, seed: int = 0) -> Likeness:
        """Some of the items, and the distance of each to the nearest one of another class."""
        pick = np.sort(np.random.default_rng(seed).permutation(len(data.rows))[:KEPT])
        apart = distances(data.rows[pick], data.rows[pick])
        apart[data.codes[pick][:, None] == data.codes[pick][None, :]] = np.inf
        nearest = apart.min(axis=1)
        return cls(data.rows[pick], nearest[np.isfinite(nearest)])

    def check(self, rows: NDArray[np.float32]) -> None:
        """Warn if these rows are farther from the calibration items than those are from other classes."""
        if len(rows) < FEWEST or len(self.nearest) < FEWEST:
            return
        nearest = distances(rows[:KEPT], self.rows).min(axis=1)
        result = stats.mannwhitneyu(nearest, self.nearest, alternative="greater")
        share = float(result.statistic) / (len(nearest) * len(self.nearest))
        if result.pvalue < RARE and share > CLEAR:
            warnings.warn(
                f"The new items do not look like the calibration items: in {share:.0%} of comparisons they are "
                f"farther from them than those are from other classes. The error rates may not hold; calibrate on "
                f"items like these.",
                NearerWarning,
                stacklevel=4,
            )
