"""The house style of all pictures: one set of colours for light and dark pages, and figures without pyplot."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer._checks import needed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, FAINT, PAPER = "#1b2026", "#5c6773", "#d9dee3", "#ffffff"
RIGHT, WRONG, UNKNOWN = "#117a3d", "#d1260f", "#b4bcc4"
ACCENT = "#2166ac"

# Ten colours found by search: the two nearest are as far apart as possible to a reader with normal sight and to
# red-, green- and blue-blind ones. None is grey, which means unlabelled. tests/reports/test_style.py measures them.
TEN = [
    *("#0c54c0", "#fcb46c", "#a81818", "#00b4a8", "#a890fc"),
    *("#b49c0c", "#784878", "#90ccfc", "#a86c54", "#5484b4"),
]

# What the colours become on a dark page.
DARK = {
    INK: "#e8ecf0",
    MUTED: "#9aa6b2",
    FAINT: "#38414b",
    PAPER: "#161b21",
    RIGHT: "#3fb96b",
    WRONG: "#ff6b57",
    UNKNOWN: "#4d5762",
    ACCENT: "#6cb0f0",
}
# The classes are lighter by 0.06 in Oklab, all of them: lighting up the darkest alone would move it onto another.
DARK |= dict(
    zip(
        TEN,
        [
            *("#2367d4", "#ffc77f", "#bd312b", "#32c7bb", "#bba3ff"),
            *("#c7af30", "#8a598a", "#a3e0ff", "#bb7e65", "#6696c7"),
        ],
        strict=True,
    )
)

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    # Names of classes are text, not formulas: "$" is a character like any other.
    "text.parse_math": False,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlecolor": INK,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 10,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 1.0,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "figure.facecolor": PAPER,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
}


def class_colors(count: int) -> list[str]:
    """One colour for each of `count` classes; up to ten they are safe for colour-blind readers.

    >>> class_colors(2)
    ['#0c54c0', '#fcb46c']
    """
    if count <= len(TEN):
        return TEN[:count]
    turbo = load_matplotlib().colormaps["turbo"]
    from matplotlib.colors import to_hex

    # Steps of the golden ratio put classes that follow each other far apart.
    return [to_hex(turbo(0.05 + 0.9 * ((i * 0.618034) % 1.0))) for i in range(count)]


def load_matplotlib() -> Any:
    """matplotlib, imported when it is first needed."""
    needed("matplotlib.style", "Pictures are drawn with matplotlib", "plot")
    return needed("matplotlib", "Pictures are drawn with matplotlib", "plot")


@contextmanager
def house_style() -> Iterator[None]:
    """Build artists with the settings above; those of the user come back afterwards."""
    settings: Any = ["default", SETTINGS]
    with load_matplotlib().style.context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of some inches that no window or global list knows about."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.1, h_pad=0.1)
    FigureCanvasAgg(figure)
    return figure


def as_pngs(figure: Figure) -> tuple[bytes, bytes]:
    """A figure for a light and for a dark page; where its parts lie is worked out once.

    >>> [png[:4] for png in as_pngs(new_figure(1, 1))]
    [b'\\x89PNG', b'\\x89PNG']
    """
    light, engine = as_png(figure), figure.get_layout_engine()
    figure.set_layout_engine("none")
    try:
        return light, as_png(figure, dark=True)
    finally:
        figure.set_layout_engine(engine)


def as_png(figure: Figure, *, dark: bool = False, dpi: int = 144) -> bytes:
    """A figure as the bytes of a PNG; `dark` swaps the colours of the house style for those of a dark page.

    >>> as_png(new_figure(1, 1))[:4]
    b'\\x89PNG'
    """
    undo = _recolor(figure) if dark else []
    try:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, facecolor=figure.get_facecolor(), metadata={"Software": None})
        return buffer.getvalue()
    finally:
        for restore in undo:
            restore()


def _recolor(figure: Figure) -> list[Callable[[], object]]:
    """Swap the colours of the house style in place, and return what brings the old ones back."""
    from matplotlib.text import Text

    artists = figure.findobj()
    artists += [
        box
        for artist_found in artists
        if isinstance(artist_found, Text) and (box := artist_found.get_bbox_patch()) is not None
    ]
    undo: list[Callable[[], object]] = []
    for artist in artists:
        for part in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            getter, setter = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
            # A patch and a collection set both of their colours by `set_color`.
            if getter is None or setter is None or (part == "color" and hasattr(artist, "get_facecolor")):
                continue
            old = getter()
            new = _swapped(old)
            if new is not None:
                setter(new)
                undo.append(functools.partial(setter, old))
    return undo


def _swapped(old: Any) -> Any:
    """The colour or the array of colours for a dark page; None where nothing changes."""
    from matplotlib.colors import to_hex, to_rgba, to_rgba_array

    if isinstance(old, np.ndarray) and old.ndim == 2:
        swapped = old.copy()
        for row, shade in enumerate(old):
            swapped[row] = to_rgba(DARK.get(to_hex(shade), shade), alpha=float(shade[3]))
        return swapped if len(old) and not np.array_equal(swapped, to_rgba_array(old)) else None
    try:
        shade = to_rgba(old)
    except (TypeError, ValueError):
        return None  # "none", "auto" and other words
    dark = DARK.get(to_hex(shade))
    return None if dark is None or shade[3] == 0 else to_rgba(dark, alpha=shade[3])
