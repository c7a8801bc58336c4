"""What a threshold costs: false matches and misses over the distance, and one against the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearer.judging import SamePair
from nearer.reports._style import ACCENT, MUTED, RIGHT, WRONG, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["error_curves"]


def error_curves(decision: SamePair, *, title: str = "Same or not") -> Figure:
    """Both error rates of a calibrated `SamePair` over the distance, with its thresholds, and the DET curve.

    The rates are those of the calibration classes; what the thresholds promise for new ones is in their margin.

    >>> from nearer.judging import SamePair
    >>> X, y = [[10.0 * (i % 30) + 0.1 * (i // 30)] for i in range(120)], [i % 30 for i in range(120)]
    >>> len(error_curves(SamePair(error=0.1).calibrate(X, y)).axes)
    2

    Args:
        decision: a calibrated `SamePair`.
        title: of the figure.
    """
    decision._check_calibrated()
    grid, false, missed = decision.curve_.T
    with house_style():
        figure = new_figure(8.2, 3.4)
        left, right = figure.subplots(1, 2)
        _rates(left, decision, grid, false, missed)
        _trade(right, decision, false, missed)
        if title:
            figure.suptitle(title, size=12, weight="bold", x=0.01, ha="left")
    return figure


def _rates(axis: Axes, decision: SamePair, grid: Any, false: Any, missed: Any) -> None:
    axis.plot(grid, false, color=WRONG, label="different pairs within it")
    axis.plot(grid, missed, color=ACCENT, label="same pairs beyond it")
    low, high = decision.same_within_, decision.different_beyond_
    if np.isfinite(low):
        axis.axvline(low, color=RIGHT, linestyle="--", linewidth=1)
        axis.text(low, 1.02, "same", ha="right", va="bottom", color=RIGHT, size=8)
    if np.isfinite(high):
        axis.axvline(high, color=MUTED, linestyle="--", linewidth=1)
        axis.text(high, 1.02, "different", ha="left", va="bottom", color=MUTED, size=8)
    if np.isfinite(low) and np.isfinite(high) and low < high:
        axis.axvspan(low, high, color=MUTED, alpha=0.15, linewidth=0)
    axis.set_xlabel("distance")
    axis.set_ylabel("share of pairs")
    axis.set_ylim(0, 1)
    axis.legend(loc="center right", fontsize=8)


def _trade(axis: Axes, decision: SamePair, false: Any, missed: Any) -> None:
    shown = (false > 0) & (missed > 0)
    axis.plot(false[shown], missed[shown], color=ACCENT)
    axis.axvline(decision.error, color=WRONG, linestyle=":", linewidth=1)
    if decision.false_matches_ > 0:
        axis.plot([decision.false_matches_], [1 - decision.true_matches_], "o", color=RIGHT, label="chosen")
        axis.legend(loc="upper right", fontsize=8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("false matches")
    axis.set_ylabel("misses")
