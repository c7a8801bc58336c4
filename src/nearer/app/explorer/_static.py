"""The page as one HTML file that asks nothing of anybody: what it shows is inside, and nothing can be said."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from nearer._plain import Array
from nearer._storage import write_file
from nearer.app.explorer import _answers
from nearer.app.explorer._items import SIDES
from nearer.app.explorer._maps import LANDMARKS, LEAST_PLACED, tsne_maps, turn_towards
from nearer.app.explorer._server import NO_STYLE, _asset
from nearer.app.explorer._session import Session
from nearer.neighbors import search

NEIGHBORS = 6
# The file is sent by mail: of more items, or of more pictures, a random part is in it.
MOST_INSIDE, MOST_PICTURES = 20_000, 2_000
# Up to so many pictures have 256 pixels.
FEW_PICTURES = 600

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; style-src '{style_hash}' '{no_style}'; script-src '{script_hash}' 'unsafe-eval'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<script type="application/json" id="nearer-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""  # noqa: E501


def static_page(
    session: Session, path: str | os.PathLike[str], *, title: str, scores: dict[str, Any] | None = None
) -> Path:
    """Write the file, whole or not at all; above 20,000 items, or 2,000 pictures, a random part is in it."""
    return write_file(path, static_html(session, title=title, scores=scores).encode())


def static_html(
    session: Session, *, title: str, scores: dict[str, Any] | None = None, most: int = MOST_INSIDE
) -> str:
    """The page as text, with these scores in the place of the session's own."""
    items = session.items
    most = most if items.images is None else min(most, MOST_PICTURES)
    rows = np.sort(np.random.default_rng(0).permutation(items.n)[:most])
    raw, learned, placed = _laid_out(session, rows)
    near = {}
    for name, space in (("raw", items.raw), ("learned", session.state.rows)):
        neighbors = search(space[rows], k=min(NEIGHBORS, max(len(rows) - 1, 1)), method="auto")
        near[name] = {"items": _packed(neighbors.indices.numpy().astype("<i4")),
                      "distances": _packed(neighbors.distances.numpy().astype("<f4"))}  # fmt: skip
    document = {
        "title": title,
        "overview": {**_overview(session, rows, placed), **({} if scores is None else {"scores": scores})},
        "raw": _packed(raw),
        "learned": _packed(learned),
        "colors": _colors(session, rows),
        "neighbors": near,
        "k": NEIGHBORS if len(rows) > NEIGHBORS else max(len(rows) - 1, 1),
        "cards": [_card(session, int(row), SIDES[len(rows) <= FEW_PICTURES]) for row in rows],
    }
    # "</script>" inside a text must not end the script, nor may "<!--" begin a comment in it.
    data = json.dumps(document).replace("<", "\\u003c")
    script = _asset("page.js").decode().replace("</script", "<\\/script")
    style = _asset("page.css").decode()
    return PAGE.format(title=html.escape(title), style=style, data=data, script=script, no_style=NO_STYLE,
                       style_hash=_hash(style), script_hash=_hash(script))  # fmt: skip


def _laid_out(session: Session, rows: Array) -> tuple[Array, Array, int]:
    """Where the items are, raw and learned, as the page with a server lays them out; how many t-SNE has placed."""
    state, raw = session.state, session.raw
    if len(rows) < LEAST_PLACED:
        return raw.positions[rows], state.positions[rows], 0
    *_, (_, learned) = tsne_maps(state.rows[rows], state.positions[rows])
    if raw is state:
        return learned, learned, min(len(rows), LANDMARKS)
    # Each begins by itself: raw features that began from the learned map would look better than they are.
    *_, (_, before) = tsne_maps(raw.rows[rows], raw.positions[rows])
    return turn_towards(before, learned), learned, min(len(rows), LANDMARKS)


def _overview(session: Session, rows: Array, placed: int) -> dict[str, Any]:
    items, about = session.items, _answers.overview(session)
    notes = list(about["notes"])
    if len(rows) < items.n:
        notes.append(f"{len(rows):,} of {items.n:,} items are in this file, drawn at random.")
    # What a model has learned from proves nothing of it.
    proves = not items.flattered
    if not proves:
        notes.append("The model has learned from all items.")
    known = session.supervision.labels[rows]
    return {
        **about,
        "n": len(rows),
        "labelled": int((known >= 0).sum()),
        "used": len(np.unique(known[known >= 0])),
        "heldOut": int(items.held_out[rows].sum()) if proves else 0,
        "layout": {"placed": placed, "between": len(rows) - placed if placed else 0, "warm": False},
        "notes": notes,
        "takes": "",
        "scores": session.scores(session.state) if proves else about["scores"],
        "gestures": [],
        "done": 0,
    }


def _colors(session: Session, rows: Array) -> dict[str, Any]:
    names = ["label"]
    names += ["correct"] if (session.supervision.labels >= 0).any() else []
    names += [] if session.items.flattered else ["held out"]
    names += [f"column:{name}" for name in _answers.overview(session)["columns"][:10]]
    found = {}
    for by in names:
        legend, values = _answers.colors(session, by)
        inside = np.frombuffer(values, dtype="<f4")[rows]
        if legend["kind"] == "categories":
            codes = inside.astype(np.int64)
            legend["counts"] = np.bincount(codes[codes >= 0], minlength=len(legend["names"])).tolist()
            legend["missing"] = int((codes < 0).sum())
        found[by] = {"legend": legend, "values": _packed(inside)}
    return found


def _card(session: Session, row: int, side: int) -> dict[str, Any]:
    items, card = session.items, session.card(row)
    if items.images is not None:
        card["picture"] = _answers.data_address(items, row, side)
    card["heldOut"] &= not items.flattered
    kept = ("name", "text", "label", "columns", "values", "picture", "heldOut")
    return {key: card[key] for key in kept if card.get(key)}


def _hash(text: str) -> str:
    """What the policy of a page calls a script or a style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _packed(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
