"""One style for every figure: a palette that the colour-blind can read, one file for light and for dark pages."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
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
    "save",
    "stamp",
]

IMAGES = ROOT / "docs" / "benchmarks" / "images"


class Ink:
    """The colours of Okabe and Ito on a light page."""

    text = "#24292f"
    faint = "#d0d5da"
    grey = "#7a828b"
    blue = "#0072b2"
    red = "#d55e00"
    green = "#009e73"
    yellow = "#e69f00"
    pink = "#b8568f"
    cycle = (blue, red, green, yellow, pink, grey)


# What vanishes on a dark page is lighter there.
DARK = {
    "text": "#d7dbe0",
    "faint": "#4a525d",
    "grey": "#9aa3ad",
    "blue": "#56b4e9",
    "red": "#ef8a47",
    "green": "#2fc79c",
    "pink": "#d795b9",
}
Draw = Callable[[Any, Ink], None]
FIGURES: dict[str, tuple[Draw, tuple[str, ...], dict[str, Any]]] = {}


def figure(name: str, *results: str, **layout: Any) -> Callable[[Draw], Draw]:
    """Register the drawing of docs/benchmarks/images/NAME.svg from these result files.

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
def palette(salt: str = "nearer") -> Iterator[Ink]:
    """The inks, with matplotlib set up for them."""
    ink = Ink()
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
    """Write the picture."""
    function, _, layout = FIGURES[name]
    IMAGES.mkdir(parents=True, exist_ok=True)
    with palette(name) as ink:
        drawing, axes = plt.subplots(**{"figsize": (7.2, 3.0), "layout": "constrained", **layout})
        function(axes, ink)
        save(drawing, IMAGES / f"{name}.svg", f"results {stamp(name)}")


def save(drawing: Any, path: Path, description: str | None = None) -> None:
    """Write a figure as an SVG whose colours are variables that a dark page sets to others, and close it."""
    text = StringIO()
    metadata = {"Date": None, "Creator": None, "Description": description}
    drawing.savefig(text, format="svg", transparent=True, metadata=metadata)
    plt.close(drawing)
    picture = text.getvalue()
    for name in DARK:
        picture = picture.replace(getattr(Ink, name), f"var(--{name})")
    light = "".join(f"--{name}:{getattr(Ink, name)};" for name in DARK)
    dark = "".join(f"--{name}:{color};" for name, color in DARK.items())
    style = f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    path.write_text(picture.replace('<style type="text/css">', f'<style type="text/css">{style}', 1))


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
