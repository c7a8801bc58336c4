"""One page about a model: the verdict first, the scores, the map, what was done to the columns, how to use it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.datasets import Dataset
from nearer.datasets._items import item_name, item_picture, photos_of
from nearer.evaluation import Comparison
from nearer.neighbors import search
from nearer.reports import embedding_map
from nearer.reports._page import Code, Gallery, PagePart, Picture, Section, Table, Tile, html_report

if TYPE_CHECKING:
    from nearer.models._model import Model

MAPPED = 500
# Held-out photos, and what is nearest to each.
ASKED, BESIDE = 6, 5


def write_report(model: Model, path: str | os.PathLike[str]) -> Path:
    """The page as one HTML file; a loaded model has no data any more and therefore no map."""
    scores = model.scores
    sections = []
    if scores:
        sections.append(scores_section(scores))
    if model.reference is not None and model.reference.all.y.ndim == 1 and model.reference.class_names:
        sections.append(_map(model))
        if photos_of(model.reference) is not None:
            sections.append(_nearest(model))
    if model.inputs.cleaning is not None:
        rows = [(one.name, one.rule, one.why or "as it is") for one in model.inputs.cleaning.columns]
        sections.append(Section("The columns", [Table(["column", "becomes", "what was done"], rows)]))
    # The scores and the columns stand above as tables.
    told = re.split(r"\n[\d,]+ held-out rows \(", model.summary)[0]
    told = re.sub(r"\n\n(  .*\n)+", "\n", told).rstrip()
    sections.append(Section("Training summary", [Code(told)]))
    sections.append(Section("Use", [Code(_use(model))]))
    verdict = str(scores.get("verdict", "")) if scores else ""
    name = model.data.get("name", "")
    title = "A metric for your data" if name in ("", "table", "array") else f"A metric for {name}"
    return html_report(title, sections, path, summary=verdict[:1].upper() + verdict[1:])


def _use(model: Model) -> str:
    """A snippet that runs beside the folder of the model, on new items of the same kind."""
    front, name = model.inputs.encoder, model.data.get("name", "")
    folder = "model" if model.place is None else model.place.name
    if model.inputs.kind == "images" or (front is not None and front.kind == "photos"):
        new, old = '"new-photos/"', '"photos/"'
    elif front is not None:
        new, old = '["a new text"]', '["one text", "another"]'
    elif model.inputs.cleaning is not None or model.inputs.names:
        new, old = '"new.csv"', f'"{name}"' if "." in str(name) else '"all.csv"'
    else:
        new, old = 'np.load("new.npy")', 'np.load("all.npy")'
    head = ["import numpy as np"] if "np." in new else []
    lines = [*head, "import nearer", "", f'model = nearer.load("{folder}")']
    lines += [f"new, known = {new}, {old}", "model.transform(new)  # embeddings: near is Euclidean"]
    return "\n".join([*lines, "model.neighbors(new, database=known)"])


def scores_section(scores: Mapping[str, Any]) -> Section:
    """Raw, baselines and learned, score by score, with the intervals of the gains."""
    both = Comparison.from_dict(scores)
    rows = []
    for name, gain in both.gains.items():
        shown = "{:+.3f} to {:+.3f}".format(*both.intervals[name]) if name in both.intervals else ""
        label = f"{name} (lower is better)" if name in both.first.lower_is_better else name
        values = [made[name] for made in (both.first, *both.baselines.values(), both.second)]
        rows.append((label, *values, f"{gain:+.3f}".replace("-", "\u2212"), shown.replace("-", "\u2212")))
    table = Table(["score", both.names[0], *both.baselines, both.names[1], "gain", "95 %"], rows)
    text = "On held-out rows. Where the interval contains 0, these rows show no difference."
    return Section("Raw features beside the learned metric", [text, table])


def _held_out(model: Model) -> tuple[Dataset, NDArray[np.float32], NDArray[np.int64]]:
    """The data of the fit, its items, and the rows that taught nothing; all labelled ones where those are few."""
    assert model.reference is not None
    given = model.reference
    items, labels = model.inputs.of(given), given.all.y
    fresh = np.flatnonzero(~model.seen(items) & (labels >= 0))
    if len(fresh) < 5 and model.fitted is not None:
        # Learned again from all rows after scoring: these were held out then.
        fresh = np.asarray(model.fitted.problem.held_out)
    return given, items, fresh if len(fresh) >= 5 else np.flatnonzero(labels >= 0)


def _nearest(model: Model) -> Section:
    """Some held-out photos, each beside what is nearest to it."""
    given, items, rows = _held_out(model)
    photos, names = photos_of(given), given.class_names
    asked = np.sort(np.random.default_rng(0).permutation(rows)[:ASKED])
    embedded = model.transform(items)
    near = search(embedded[asked], embedded, min(BESIDE + 1, len(embedded) - 1)).indices.numpy()
    parts: list[PagePart] = ["The first of each row, with a frame, asks; the others are nearest to it."]
    for row, found in zip(asked.tolist(), near.tolist(), strict=True):
        others = [other for other in found if other != row][:BESIDE]
        tiles = []
        for item in (row, *others):
            label = names[int(given.all.y[item])] if given.all.y[item] >= 0 else "no label"
            tiles.append(Tile(item_name(given, item), [label], item_picture(photos, item), strong=item == row))
        parts.append(Gallery(tiles))
    return Section("What is near", parts)


def _map(model: Model) -> Section:
    given, items, rows = _held_out(model)
    labels = given.all.y
    shown = np.random.default_rng(0).permutation(rows)[:MAPPED]
    names = [given.class_names[code] for code in np.unique(labels[shown])]
    figure = embedding_map(model.raw(items[shown]), model.transform(items[shown]), labels[shown], class_names=names)
    what = "held-out" if len(rows) < (labels >= 0).sum() else "labelled"
    caption = f"{len(shown):,} {what} rows: raw features on the left, the learned metric on the right."
    return Section("The map", [Picture(figure, caption)])
