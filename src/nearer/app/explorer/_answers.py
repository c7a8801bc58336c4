"""What the page gets: one function for each thing it can ask, as JSON or as float32 bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from nearer._checks import check_choice, check_int
from nearer._plain import Array
from nearer.app.explorer._items import SIDES, ShownItems, photo
from nearer.app.explorer._search import uploaded
from nearer.app.explorer._session import Session
from nearer.exceptions import ParameterError
from nearer.reports._style import DARK, UNKNOWN, class_colors

# The page asks for what is in view, and some more.
MOST_CARDS = 100
# A column with more values than this is no legend.
MOST_VALUES = 60
MOST_COLORS, REST = 10, "#8b95a0"


def overview(session: Session) -> dict[str, Any]:
    """Everything but the positions and the items themselves."""
    items, said = session.items, session.supervision
    gestures = [
        {"kind": entry.kind, "told": str(entry), "items": len(entry.items)} for entry in session.history.gestures
    ]
    state = session.state
    return {
        "n": items.n,
        "changed": session.changed,
        "classes": list(said.classes),
        "used": len(np.unique(said.labels[said.labels >= 0])),
        "labelled": int((said.labels >= 0).sum()),
        "heldOut": int(items.held_out.sum()),
        "columns": [name for name, values in items.columns.items() if _few(values)],
        "images": items.images is not None,
        "title": items.title,
        "takes": items.takes,
        "learned": state is not session.raw,
        "layout": {
            "placed": state.placed,
            "between": items.n - state.placed if state.placed else 0,
            "warm": state.warm,
        },
        "notes": list(items.notes),
        "trained": items.trained,
        "gestures": gestures,
        "done": session.history.done,
        "since": session.since_refit,
        "refits": len(session.states) - 1,
        "scores": state.table or {"items": 0, "rows": [], "sentence": "", "better": None},
        "curve": [
            line["now"]
            for entry in session.states
            for line in entry.table.get("rows", ())
            if line["score"] == "map@r" and "now" in line
        ],
        "told": state.about,
        "project": session.project.path.name,
    }


def positions(session: Session, which: str) -> bytes:
    """x and y of every item, float32, little endian."""
    check_choice(which, "map", ["raw", "learned"])
    points = (session.raw if which == "raw" else session.state).positions
    return np.ascontiguousarray(points, dtype="<f4").tobytes()


def colors(session: Session, by: str) -> tuple[dict[str, Any], bytes]:
    """The legend and one float32 for each item: a category, or a number from 0 to 1; −1 is none."""
    said = session.supervision
    if by == "label":
        return _categories(said.labels, said.classes)
    if by == "predicted":
        return _categories(session.predictions(), said.classes)
    if by == "correct":
        predicted = session.predictions()
        values = np.where((said.labels < 0) | (predicted < 0), -1, (predicted == said.labels).astype(np.int64))
        return _categories(values, ("wrong", "right"), ("#d1260f", "#117a3d"), ("#ff6b57", "#3fb96b"))
    if by == "held out":
        return _categories(session.items.held_out.astype(np.int64), ("learned from", "held out"))
    if by.startswith("distance:"):
        item = _number(by.removeprefix("distance:"))
        check_int(item, "item", minimum=0, maximum=session.items.n - 1)
        rows = session.state.rows
        distance = np.linalg.norm(rows - rows[item], axis=1)
        # By rank: every color is used, whatever the distances are.
        ranks = np.empty(len(distance))
        ranks[np.argsort(distance)] = np.linspace(0, 1, len(distance))
        legend = {"kind": "numbers", "low": "near", "high": "far"}
        return legend, ranks.astype("<f4").tobytes()
    if by.startswith("column:"):
        name = by.removeprefix("column:")
        check_choice(name, "column", list(session.items.columns))
        values = np.asarray(session.items.columns[name])
        if values.dtype.kind in "if" and len(np.unique(values)) > MOST_VALUES:
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            scaled = (values.astype(np.float64) - low) / max(high - low, 1e-300)
            scaled = np.where(np.isfinite(scaled), scaled, -1)
            return {"kind": "numbers", "low": f"{low:.4g}", "high": f"{high:.4g}"}, scaled.astype("<f4").tobytes()
        names, codes = np.unique(values.astype(str), return_inverse=True)
        return _categories(codes, [str(name) for name in names])
    raise ParameterError(
        f"`by` must be label, predicted, correct, held out, distance:ITEM or column:NAME, got {by!r}."
    )


def _categories(codes: Array, names: Any, light: Any = None, dark: Any = None) -> tuple[dict[str, Any], bytes]:
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    shades = list(light or _shades(counts))
    legend = {
        "kind": "categories",
        "names": list(names),
        "light": shades,
        "dark": list(dark or [DARK.get(shade, shade) for shade in shades]),
        "unknown": [UNKNOWN, DARK[UNKNOWN]],
        "counts": counts.tolist(),
        "missing": int((codes < 0).sum()),
    }
    return legend, codes.astype("<f4").tobytes()


def cards(session: Session, wanted: Any) -> list[dict[str, Any]]:
    """What the grid shows of some items: their cards, with a small picture inside where they have one."""
    if not isinstance(wanted, list) or len(wanted) > MOST_CARDS:
        raise ParameterError(f"`items` must be a list of at most {MOST_CARDS} items, got {wanted!r:.80}.")
    return [
        {**session.card(check_int(item, "items", minimum=0, maximum=session.items.n - 1)),
         **({} if session.items.images is None else {"picture": data_address(session.items, item)})}
        for item in wanted
    ]  # fmt: skip


def data_address(items: ShownItems, item: int, side: int = SIDES[0]) -> str:
    """The small picture of an item inside a page."""
    kind, content = photo(items, item, side)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def similar(session: Session, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is nearest to `item`, a number, to `text`, or to `photo`, a data address: items and their distances."""
    named = [name for name in ("item", "text", "photo") if given.get(name) is not None]
    if len(named) != 1:
        raise ParameterError("`similar` must be given one of `item`, `text` and `photo`.")
    value = given[named[0]]
    if named[0] == "item":
        value = check_int(value, "item", minimum=0, maximum=session.items.n - 1)
    elif not isinstance(value, str) or not value.strip():
        raise ParameterError(f"`{named[0]}` must be a text, got {value!r:.80}.")
    elif named[0] == "photo":
        value = uploaded(value)
    items, distances = session.similar(value)
    return {"items": items.tolist(), "distances": distances.tolist()}


def _shades(counts: Array) -> list[str]:
    """Ten colors for the largest classes and one grey for the rest: more colors are not told apart."""
    ten = class_colors(MOST_COLORS)
    if len(counts) <= MOST_COLORS:
        return ten[: len(counts)]
    chosen = np.argsort(-counts, kind="stable")[:MOST_COLORS].tolist()
    shades = [REST] * len(counts)
    # The first ten keep their own color whatever is said; the others have those that are left over.
    over = iter([shade for code, shade in enumerate(ten) if code not in chosen])
    for code in chosen:
        shades[code] = ten[code] if code < MOST_COLORS else next(over)
    return shades


def _few(values: Any) -> bool:
    array = np.asarray(values)
    return array.dtype.kind in "if" or len(np.unique(array.astype(str))) <= MOST_VALUES


def _number(text: str) -> int:
    if not text.isdigit():
        raise ParameterError(f"`item` must be a number, got {text!r}.")
    return int(text)
