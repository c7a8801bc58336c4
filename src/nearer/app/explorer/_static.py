"""The map as one HTML file without a server: hover, neighbors (precomputed), colors, before and after."""

from __future__ import annotations

import base64
import html
import json
import os
from pathlib import Path

import numpy as np

from nearer._plain import Array
from nearer._storage import write_file
from nearer.app.explorer import _answers
from nearer.app.explorer._server import _asset
from nearer.app.explorer._session import Session
from nearer.neighbors import search

NEIGHBORS = 6
# The file is sent by mail: of more items a random part is in it.
MOST_INSIDE, MOST_PICTURES = 20_000, 2_000

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'">
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


def static_page(session: Session, path: str | os.PathLike[str], *, title: str) -> Path:
    """Write the file, whole or not at all; above 20,000 items a random part of them is in it, and it says so."""
    return write_file(path, static_html(session, title=title).encode())


def static_html(session: Session, *, title: str, most: int = MOST_INSIDE) -> str:
    """The page as text."""
    items = session.items
    rows = np.sort(np.random.default_rng(0).permutation(items.n)[:most])
    colors = {}
    names = [("label", "label"), ("correct", "correct")] if (session.supervision.labels >= 0).any() else []
    names += [(f"column:{name}", name) for name in _answers.overview(session)["columns"][:10]]
    for by, _ in names or [("label", "label")]:
        legend, values = _answers.colors(session, by)
        colors[by] = {"legend": legend, "values": _packed(np.frombuffer(values, dtype="<f4")[rows])}
    near = {}
    for name, space in (("raw", items.raw), ("learned", session.state.rows)):
        neighbors = search(space[rows], k=min(NEIGHBORS, max(len(rows) - 1, 1)), method="auto")
        near[name] = {"items": _packed(neighbors.indices.numpy().astype("<i4")),
                      "distances": _packed(neighbors.distances.numpy().astype("<f4"))}  # fmt: skip
    about = _answers.overview(session)
    notes = list(about["notes"])
    if len(rows) < items.n:
        notes.append(f"{len(rows):,} of {items.n:,} items are in this file, drawn at random.")
    cards = [session.card(int(row)) for row in rows]
    if items.images is not None and len(rows) <= MOST_PICTURES:
        cards = [{**card, "picture": _answers.data_address(items, card["item"])} for card in cards]
    kept = ("name", "text", "label", "columns", "values", "picture")
    lean = [{key: card[key] for key in kept if card.get(key)} for card in cards]
    pictured = any("picture" in card for card in lean)
    document = {
        "title": title,
        "overview": {
            **about,
            "n": len(rows),
            "notes": notes,
            "images": pictured,
            "gestures": [],
            "done": 0,
        },
        "raw": _packed(session.raw.positions[rows]),
        "learned": _packed(session.state.positions[rows]),
        "colors": colors,
        "neighbors": near,
        "k": NEIGHBORS if len(rows) > NEIGHBORS else max(len(rows) - 1, 1),
        "cards": lean,
    }
    # "</script>" inside a text must not end the script, nor may "<!--" begin a comment in it.
    data = json.dumps(document).replace("<", "\\u003c")
    script = _asset("page.js").decode().replace("</script", "<\\/script")
    return PAGE.format(title=html.escape(title), style=_asset("page.css").decode(), data=data, script=script)


def _packed(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
