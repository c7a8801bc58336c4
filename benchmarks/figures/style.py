"""One style for every figure: a palette that the colour-blind can read, drawn for light and for dark pages."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "tables"))
from page import load, measured, result_file  # noqa: E402

__all__ = [
    "FIGURES",
    "Ink",
    "box",
    "draw",
    "dumbbells",
    "figure",
    "load",
    "mean",
    "measured",
    "palette",
    "plt",
    "stamp",
]

IMAGES = ROOT / "docs" / "benchmarks" / "images"


class Ink:
    """The colours of Okabe and Ito; the two that vanish on a dark page are lighter there."""

    def __init__(self, dark: bool) -> None:
        self.text = "#d7dbe0" if dark else "#24292f"
        self.faint = "#4a525d" if dark else "#d0d5da"
        self.grey = "#9aa3ad" if dark else "#7a828b"
        self.blue = "#56b4e9" if dark else "#0072b2"
        self.red = "#ef8a47" if dark else "#d55e00"
        self.green = "#2fc79c" if dark else "#009e73"
        self.yellow = "#e69f00"
        self.pink = "#d795b9" if dark else "#b8568f"
        self.cycle = (self.blue, self.red, self.green, self.yellow, self.pink, self.grey)


Draw = Callable[[Any, Ink], None]
FIGURES: dict[str, tuple[Draw, tuple[str, ...], dict[str, Any]]] = {}


def figure(name: str, *results: str, **layout: Any) -> Callable[[Draw], Draw]:
    """Register the drawing of docs/benchmarks/images/NAME-light.svg and -dark.svg from these result files.

    `layout` goes to `plt.subplots`; the function gets what that returns and the inks.
    """

    def register(function: Draw) -> Draw:
        FIGURES[name] = (function, results, layout)
        return function

    return register


def stamp(name: str) -> str:
    """A hash of the rows that a figure shows: the file says from what it was drawn."""
    content = b"".join(result_file(result).read_bytes() for result in FIGURES[name][1] if measured(result))
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def palette(scheme: str, salt: str = "nearer") -> Iterator[Ink]:
    """The inks of a scheme, with matplotlib set up for it."""
    ink = Ink(scheme == "dark")
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": ink.faint,
        "axes.labelcolor": ink.text,
        "axes.titlesize": 9,
        "axes.titlecolor": ink.text,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": ink.faint,
        "grid.linewidth": 0.5,
        "xtick.color": ink.text,
        "ytick.color": ink.text,
        "text.color": ink.text,
        "legend.frameon": False,
        "axes.prop_cycle": plt.cycler(color=ink.cycle),
    }
    with plt.rc_context(settings):
        yield ink


def draw(name: str) -> None:
    """Write both pictures."""
    function, _, layout = FIGURES[name]
    IMAGES.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        with palette(scheme, name) as ink:
            drawing, axes = plt.subplots(**{"figsize": (7.2, 3.0), "layout": "constrained", **layout})
            function(axes, ink)
            drawing.savefig(
                IMAGES / f"{name}-{scheme}.svg",
                transparent=True,
                metadata={"Date": None, "Creator": None, "Description": f"results {stamp(name)}"},
            )
            plt.close(drawing)


def mean(values: Iterable[float]) -> float:
    """The mean."""
    numbers = list(values)
    return sum(numbers) / len(numbers)


def dumbbells(
    axis: Any, ink: Ink, rows: Sequence[tuple[str, float, float]], before: str = "raw", after: str = "learned"
) -> None:
    """A line for each row from one value to another: grey, then blue where it rose and red where it fell."""
    for place, (_, low, high) in enumerate(rows):
        colour = ink.blue if high >= low else ink.red
        axis.plot([low, high], [place, place], color=colour, linewidth=2, zorder=2)
        axis.plot([high], [place], "o", color=colour, markersize=6, zorder=3)
    axis.plot([row[1] for row in rows], range(len(rows)), "o", color=ink.grey, markersize=5, zorder=3, label=before)
    axis.plot([], [], "o-", color=ink.blue, label=after)
    axis.set_yticks(range(len(rows)), [row[0] for row in rows])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)


def box(
    axis: Any, ink: Ink, groups: Sequence[tuple[str, Sequence[float]]], colour: str, shift: float = 0.0
) -> None:
    """All values of each group as faint marks, and their median as a bar."""
    for place, (_, values) in enumerate(groups):
        ordered = sorted(values)
        if not ordered:
            continue
        axis.plot(ordered, [place + shift] * len(ordered), "|", color=colour, alpha=0.55, markersize=7)
        axis.plot([ordered[len(ordered) // 2]], [place + shift], "o", color=colour, markersize=6)
    axis.set_yticks(range(len(groups)), [name for name, _ in groups])
    axis.grid(axis="y", visible=False)
