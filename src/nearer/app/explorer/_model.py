"""A model and data as a session of the explorer, and what was said there as a new model."""

from __future__ import annotations

import html
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer._plain import Array
from nearer.app.explorer._gestures import supervision
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._launch import ServedSession
from nearer.app.explorer._session import Session, gestures_from
from nearer.app.explorer._static import static_html, static_page
from nearer.datasets import Dataset
from nearer.datasets._image_files import load_image
from nearer.geometry import Chain
from nearer.models._problem import CLASSES, Problem
from nearer.models._raw import raw_rows, rows_to_look_at
from nearer.models._scoring import compare_problem

if TYPE_CHECKING:
    from nearer.models._model import Model

# With fewer rows that the model has not seen, a fifth of all rows is held out instead.
LEAST_UNSEEN = 50
THUMBNAIL = 48
# A notebook is saved with what it shows.
MOST_INLINE = 2_000


def items_of(data: Dataset, model: Model | None = None, *, root: Path | None = None) -> ShownItems:
    """What is on the map: raw features, embeddings, labels, pictures or texts, ids and columns of a data set."""
    everything = data.all
    extra = dict(everything.extra)
    columns = {name: values for name, values in extra.items() if name not in ("id", "text", "file")}
    columns = {name: _without_holes(values) for name, values in columns.items() if np.ndim(values) == 1}
    labels, notes = None, []
    if data.kind in CLASSES:
        labels = everything.y
    elif data.kind == "numbers":
        columns = {"label": everything.y, **columns}
        notes.append("The labels are numbers: they are a column to color by, and gestures make classes.")
    else:
        notes.append(f"The labels are {data.kind}: they are not shown, and gestures make classes.")
    if data.skipped:
        notes.append(f"{len(data.skipped):,} files could not be read and were left out.")
    rows = None if model is None else model.inputs.of(data)
    raw = raw_rows(data) if model is None or rows is None else rows_to_look_at(model, rows)
    names = data.feature_names if len(data.feature_names) == raw.shape[1] else ()
    held_out, trained = None, ""
    if model is not None and rows is not None and len(model.trained_on):
        fresh = ~model.seen(rows)
        if int(fresh.sum()) >= LEAST_UNSEEN:
            held_out, trained = fresh, "The model has not learned from the held-out items."
        else:
            trained = "The model has learned from the held-out items too: its first scores flatter it."
    return ShownItems(
        np.ascontiguousarray(raw, dtype=np.float32),
        labels=labels,
        classes=tuple(data.class_names) if labels is not None else (),
        learned=None if model is None or rows is None else model.transform(rows),
        ids=extra.get("id"),
        texts=extra.get("text"),
        columns=columns,
        images=_pictures(data, root),
        feature_names=tuple(names),
        values=everything.x if names and not hasattr(everything.x, "toarray") and everything.x.ndim == 2 else None,
        held_out=held_out,
        trained=trained,
        fingerprint=data.fingerprint(),
        notes=tuple(notes),
    )


def _without_holes(values: Array) -> Array:
    """A kept column as the page colors by it: NaN where a number is missing, "" where a text is."""
    if values.dtype != object:
        return values
    listed = values.tolist()
    if all(value is None or isinstance(value, int | float) for value in listed):
        return np.array([np.nan if value is None else float(value) for value in listed])
    return np.array(["" if value is None else str(value) for value in listed], dtype=object)


def _pictures(data: Dataset, root: Path | None) -> Any:
    """A function from rows to pictures, where the items are pictures."""
    part = data.all
    files = part.extra.get("file", part.x if part.x.dtype.kind == "U" else None)
    if files is not None:
        from nearer.datasets._image_files import crop_image

        folder = part.root or root or Path()
        size = (THUMBNAIL, THUMBNAIL)
        return lambda rows: np.stack(
            [crop_image(load_image(folder / str(files[row]), enough=size), size) for row in rows]
        )
    x = part.x
    if hasattr(x, "toarray") or x.ndim not in (3, 4):
        return None
    if x.dtype == np.uint8:
        # Strokes of grey scans are bright on black; on paper they are the other way around.
        return (lambda rows: 255 - x[rows]) if x.ndim == 3 else (lambda rows: x[rows])
    top = max(float(np.abs(x[:1000]).max()), 1e-12)
    return lambda rows: (255 * (1 - np.clip(x[rows].astype(np.float32) / top, 0, 1))).astype(np.uint8)


def explore_model(
    model: Model, data: Any, y: Any, *, project: str | os.PathLike[str] | None, port: int, browser: bool
) -> ServedSession:
    """A page that is served in a thread."""
    served = ServedSession(_session(model, data, y, project=project), port=port).start()
    print(f"{served.session.items.n:,} items: {served.url}", file=sys.stderr)
    if browser:
        served.show()
    return served


def suggest_pairs(model: Model, n: int, data: Any, y: Any) -> list[tuple[int, int]]:
    """Rows to ask about and rows to compare them with."""
    session = _session(model, data, y)
    try:
        return [(question["item"], question["other"]) for question in session.questions(n)]
    finally:
        session.close()


def apply_gestures(model: Model, gestures: Any, data: Any, y: Any) -> Model:
    """The model with a linear map behind it that was learned from labels and gestures."""
    given = model._database(None) if data is None else model.inputs.read(data, y)
    said = [gesture for gesture in gestures_from(gestures) if gesture["kind"] != "refit"]
    session = Session(items_of(given, model))
    try:
        for gesture in said:
            session.say(gesture)
        table = session.refit()
        items = session.items
        corrected = session.as_module()
    finally:
        session.close()
    said_of_rows = supervision(session.history.active, items.labels, items.classes)
    encoder = Chain(model.encoder, corrected).eval()
    summary = f"{model.summary}\n\n{len(said)} gestures by hand: {table['told']} {table['sentence']}".strip()
    made = replace(model, encoder=encoder, method=f"{model.method}, corrected", classes=said_of_rows.classes,
                   summary=summary, scores={}, fitted=None, votes=None)  # fmt: skip
    rows = model.inputs.of(given)
    asked = np.flatnonzero(items.held_out & (said_of_rows.labels >= 0))
    if len(np.unique(said_of_rows.labels[asked])) >= 2 and len(asked) >= 10 and len(rows) == items.n:
        problem = Problem(
            rows, said_of_rows.labels, "classes", asked, asked, "given", model.inputs, said_of_rows.classes
        )
        made.scores = compare_problem(problem, made.raw, made.transform).to_dict()
    return made


def write_map(model: Model, path: str | os.PathLike[str]) -> Path:
    """The map of the data of the fit as one HTML file."""
    session = _session(model, None, None)
    try:
        return static_page(session, path, title=_title(model))
    finally:
        session.close()


def inline_map(model: Model) -> str:
    """The map for a notebook: a frame that holds the whole page and may do nothing but draw."""
    session = _session(model, None, None)
    try:
        page = static_html(session, title=_title(model), most=MOST_INLINE)
    finally:
        session.close()
    style = "width:100%;height:640px;border:0;border-radius:12px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _title(model: Model) -> str:
    name = model.data.get("name", "")
    return "A map of your data" if name in ("", "table", "array") else f"A map of {name}"


def _session(model: Model, data: Any, y: Any, *, project: str | os.PathLike[str] | None = None) -> Session:
    given = model._database(None) if data is None else model.inputs.read(data, y)
    return Session(items_of(given, model), project=project)
