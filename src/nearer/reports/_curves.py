"""Curves: every recorded number of a training over its epochs, and the errors of a decision over the distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import ParameterError, ShapeError
from nearer.reports._style import ACCENT, MUTED, PAPER, RIGHT, TEN, WRONG, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nearer.judging import SamePair

Series = dict[str, NDArray[np.float64]]


def training_curve(
    history: Mapping[str, Sequence[float | None]] | Sequence[Mapping[str, float | None]],
    *,
    baselines: Mapping[str, float] | None = None,
    title: str = "Training",
    unit: str = "epoch",
) -> Figure:
    """One panel per recorded quantity over the epochs, with its last value, and a dashed line for its baseline.

    `history` is a dictionary of series or a list of one dictionary per epoch. Names such as "loss/train" and
    "loss/validation" share the panel "loss". None, NaN or a missing entry is an epoch at which nothing was
    recorded. `baselines` gives, by panel, the value of the raw features. A single epoch is drawn as a dot; an empty
    `title` leaves the line above the panels out.

    >>> len(training_curve({"loss": [2.0, 1.0], "recall@1": [0.5, 0.8]}, baselines={"recall@1": 0.6}).axes)
    2

    Args:
        history: series by name, or one dictionary for each epoch.
        baselines: values of the raw features by panel.
        title: of the figure.
        unit: what is counted.
    """
    series = _as_series(history)
    panels: dict[str, Series] = {}
    for name, values in series.items():
        panel, _, line = name.partition("/")
        panels.setdefault(panel, {})[line or panel] = values
    for name in baselines or {}:
        if name not in panels:
            raise ParameterError(f"`baselines` must name panels, which are {', '.join(panels)}, got {name!r}.")
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = -(-len(panels) // columns)
    with house_style():
        figure = new_figure(max(5.0, 3.9 * columns), 2.9 * rows + 0.4)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for number, axis in enumerate(axes.flat):
            if number >= len(panels):
                axis.set_axis_off()
                continue
            panel = list(panels)[number]
            _draw(axis, panel, panels[panel], (baselines or {}).get(panel))
            axis.tick_params(labelbottom=True)
            if number + columns >= len(panels):
                axis.set_xlabel(unit)
        if title:
            figure.suptitle(title, size=12, weight="bold", x=0.01, ha="left")
    return figure


def _draw(axis: Axes, panel: str, lines: Series, baseline: float | None) -> None:
    from matplotlib.ticker import MaxNLocator

    longest = max(len(values) for values in lines.values())
    # Thin lines need the darker of the colours.
    colors = [ACCENT, TEN[8], TEN[3], TEN[6], TEN[5], TEN[4]]
    alone = len(lines) == 1
    for number, (name, values) in enumerate(lines.items()):
        seen = np.flatnonzero(np.isfinite(values))
        if not len(seen):
            continue
        color = colors[number % len(colors)]
        # Few recorded epochs are shown as what they are; many would become a caterpillar.
        marker = "o" if len(seen) <= 25 else None
        last = values[seen[-1]]
        axis.plot(seen + 1, values[seen], color=color, marker=marker, markersize=4, label=f"{name} {_short(last)}")
        axis.plot(seen[-1] + 1, last, "o", color=color, markersize=6)
        if alone:
            _note(axis, _short(last), (seen[-1] + 1, last), color, weight="bold")
    if baseline is not None:
        axis.axhline(baseline, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)))
        _note(axis, f"raw features {_short(baseline)}", (longest, baseline), MUTED, below=True)
    if not alone:
        axis.legend(loc="best", fontsize=8.5, handlelength=1.6)
    axis.set_title(panel, size=11)
    axis.grid(axis="y")
    axis.margins(x=0.04, y=0.16)
    if longest == 1:
        axis.set(xlim=(0, 2), xticks=[1])
    else:
        axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))


def _note(
    axis: Axes, text: str, at: tuple[float, float], color: str, *, weight: str = "normal", below: bool = False
) -> None:
    axis.annotate(
        text,
        at,
        xytext=(0, -5 if below else 8),
        textcoords="offset points",
        ha="right",
        va="top" if below else "bottom",
        size=8.5,
        weight=weight,
        color=color,
        bbox={"boxstyle": "round,pad=0.1", "fc": PAPER, "ec": "none", "alpha": 0.75},
    )


def _as_series(history: Any) -> Series:
    if not isinstance(history, Mapping):
        records = list(history)
        for record in records:
            if not isinstance(record, Mapping):
                raise ParameterError(f"`history` must be a dictionary of series or a list of them, got {record!r}.")
        names = list(dict.fromkeys(name for record in records for name in record))
        history = {name: [record.get(name) for record in records] for name in names}
    series = {}
    for name, values in history.items():
        try:
            numbers = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"`history[{name!r}]` must be numbers or None: {error}.") from error
        series[str(name)] = np.where(np.isfinite(numbers), numbers, np.nan)
    if not series or all(not np.isfinite(values).any() for values in series.values()):
        raise ShapeError("`history` must hold at least one number, got none.")
    return series


def _short(value: float) -> str:
    """A number in a few characters.

    >>> [_short(value) for value in (0.7, 12.34, 1234.5, 1e-5)]
    ['0.700', '12.3', '1,234', '1e-05']
    """
    size = abs(value)
    if 0 < size < 0.001:
        return f"{value:.2g}"
    return f"{value:.3f}" if size < 10 else f"{value:.1f}" if size < 1000 else f"{value:,.0f}"


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
    if shown.any():
        axis.set_xscale("log")
        axis.set_yscale("log")
    axis.set_xlabel("false matches")
    axis.set_ylabel("misses")
