"""What the page gets: one function for each thing it can ask, as JSON or as float32 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer._checks import check_choice, check_int
from nearer._plain import Array
from nearer.app.explorer._items import COLUMNS, PER_SPRITE, SIDE
from nearer.app.explorer._playground import MINERS
from nearer.app.explorer._session import Session
from nearer.exceptions import ParameterError
from nearer.reports._style import DARK, UNKNOWN, class_colors

MOST_LISTED = 300
# A column with more values than this is no legend.
MOST_VALUES = 60


def overview(session: Session) -> dict[str, Any]:
    """Everything but the positions and the items themselves."""
    items, said = session.items, session.supervision
    gestures = [
        {"kind": entry.kind, "told": str(entry), "items": list(entry.items[:2000])}
        for entry in session.history.gestures
    ]
    state = session.state
    return {
        "n": items.n,
        "changed": session.changed,
        "classes": list(said.classes),
        "labelled": int((said.labels >= 0).sum()),
        "heldOut": int(items.held_out.sum()),
        "columns": [name for name, values in items.columns.items() if _few(values)],
        "images": items.images is not None,
        "sprite": {"side": SIDE, "columns": COLUMNS, "each": PER_SPRITE},
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
        "told": "" if state.metric is None else state.metric.about,
        "miners": list(MINERS),
        "project": session.project.path.name,
    }


def positions(session: Session, which: str) -> bytes:
    """x and y of every item, float32, little endian."""
    check_choice(which, "map", ["raw", "learned"])
    points = session.raw_map if which == "raw" else session.state.positions
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
    raise ParameterError(f"`by` must be label, predicted, correct, distance:ITEM or column:NAME, got {by!r}.")


def _categories(codes: Array, names: Any, light: Any = None, dark: Any = None) -> tuple[dict[str, Any], bytes]:
    shades = list(light or class_colors(max(len(names), 1)))
    legend = {
        "kind": "categories",
        "names": list(names),
        "light": shades,
        "dark": list(dark or [DARK.get(shade, shade) for shade in shades]),
        "unknown": [UNKNOWN, DARK[UNKNOWN]],
        "counts": [int(count) for count in np.bincount(codes[codes >= 0], minlength=len(names))],
        "missing": int((codes < 0).sum()),
    }
    return legend, codes.astype("<f4").tobytes()


def audit_lists(session: Session) -> dict[str, Any]:
    """The audit as lists of items, worst first, without those that a person has already judged."""
    audit, said, rows = session.audit(), session.supervision, session.audited
    best = audit.suggested
    judged = said.confirmed | said.dropped
    suspects = [
        {
            **session.card(int(rows[row])),
            "suggestion": audit.name(int(best[row])),
            "quality": float(audit.quality[row]),
        }
        for row in audit.suspects[:MOST_LISTED].tolist()
        if not judged[rows[row]]
    ]
    duplicates = [
        [session.card(int(rows[row])) for row in part[:6].tolist()]
        for part in audit.duplicates[:MOST_LISTED]
        if not judged[rows[part]].all()
    ]
    unlike = [
        {**session.card(int(rows[row])), "score": float(audit.strangeness[row])}
        for row in audit.unlike[:MOST_LISTED].tolist()
        if not judged[rows[row]]
    ]
    overlaps = []
    for a, b, share in audit.overlaps[:12]:
        mixed = ((audit.labels == a) & (best == b)) | ((audit.labels == b) & (best == a))
        overlaps.append({"first": audit.name(a), "second": audit.name(b), "share": share,
                         "items": rows[np.flatnonzero(mixed)][:2000].tolist()})  # fmt: skip
    notes = list(audit.notes)
    if len(rows) < session.items.n:
        notes.append(f"{len(rows):,} of {session.items.n:,} items were looked at, drawn at random.")
    counts = {"suspects": len(audit.suspects), "duplicates": len(audit.duplicates), "unlike": len(audit.unlike)}
    lists = {"suspects": suspects, "duplicates": duplicates, "unlike": unlike, "overlaps": overlaps}
    return {**lists, "counts": counts, "notes": notes}


def questions(session: Session, n: int = 10) -> list[dict[str, Any]]:
    """The questions with what is needed to show them."""
    classes = session.classes
    return [
        {
            "first": session.card(question["item"]),
            "second": session.card(question["other"]),
            "guess": classes[question["guess"]] if question["guess"] >= 0 else None,
            "lead": question["lead"],
        }
        for question in session.questions(n)
        if question["item"] != question["other"]
    ]


def _few(values: Any) -> bool:
    array = np.asarray(values)
    return array.dtype.kind in "if" or len(np.unique(array.astype(str))) <= MOST_VALUES


def _number(text: str) -> int:
    if not text.isdigit():
        raise ParameterError(f"`item` must be a number, got {text!r}.")
    return int(text)
