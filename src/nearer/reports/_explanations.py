"""A squared distance in parts, as a picture: bars for columns, a map for pixels, bars for learned directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearer.reports._style import RIGHT, WRONG, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 12


def explanation_figure(
    contributions: NDArray[np.float64], directions: NDArray[np.float64], names: Sequence[str], *, exact: bool
) -> Figure:
    """Left what the columns or pixels add to the squared distance, right the learned directions."""
    with house_style():
        figure = new_figure(9.0, 4.0)
        left, right = figure.subplots(1, 2)
        method = "exact" if exact else "integrated gradients"
        if contributions.ndim == 3:
            picture = contributions.sum(axis=0)
            limit = float(np.abs(picture).max()) or 1.0
            shown = left.imshow(picture, cmap="RdBu_r", vmin=-limit, vmax=limit)
            left.set_xticks([])
            left.set_yticks([])
            figure.colorbar(shown, ax=left, shrink=0.8)
            left.set_title(f"by pixel ({method})", loc="left")
        else:
            _bars(left, contributions, list(names))
            left.set_title(f"by column ({method})", loc="left")
        _bars(right, directions, [f"direction {number}" for number in range(len(directions))])
        right.set_title("by learned direction", loc="left")
        for axis in (left, right):
            if contributions.ndim != 3 or axis is right:
                axis.set_xlabel("part of the squared distance")
    return figure


def _bars(axis: Axes, parts: NDArray[np.float64], names: list[str]) -> None:
    """The largest parts from the top; those that bring the two together in the color of what is right."""
    order = np.argsort(-np.abs(parts), kind="stable")[:SHOWN][::-1]
    colors = [WRONG if parts[row] > 0 else RIGHT for row in order]
    axis.barh(np.arange(len(order)), parts[order], color=colors)
    axis.set_yticks(np.arange(len(order)), [names[row] for row in order])
