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
from nearer.app.explorer._items import Relearned, ShownItems, a_fifth
from nearer.app.explorer._launch import ServedSession
from nearer.app.explorer._session import Session, gestures_from
from nearer.app.explorer._static import static_html, static_page
from nearer.datasets import Dataset
from nearer.datasets._items import item_picture, photos_of
from nearer.evaluation import Comparison
from nearer.geometry import embed as embed_rows
from nearer.models._learning import Watch
from nearer.models._methods import METHODS
from nearer.models._problem import CLASSES, Problem, inputs_of
from nearer.models._raw import raw_map, raw_rows, rows_to_look_at
from nearer.models._scoring import compare_problem
from nearer.models._settings import FitSettings

if TYPE_CHECKING:
    from nearer.models._model import Model

# With fewer rows that the model has not seen, a fifth of all rows is held out instead.
LEAST_UNSEEN = 50
# Seconds, by the upper line of its cost, that the method of a model may take. A refit of a slower one is a linear
# map of its embeddings.
LONGEST_REFIT = 30.0
# A notebook is saved with what it shows, and waits for its layout.
MOST_INLINE = 1_000


def items_of(
    data: Dataset, model: Model | None = None, *, root: Path | None = None, unseen: int = LEAST_UNSEEN
) -> ShownItems:
    """What is on the map: raw features, embeddings, labels, pictures or texts, ids and columns of a data set.

    Rows that the model has not seen are held out where there are `unseen` of them.
    """
    everything = data.all
    extra = dict(everything.extra)
    # A photo without an id is called by its file, as everywhere else.
    ids = extra.pop("id", None)
    ids = extra.pop("file", everything.x if everything.x.dtype.kind == "U" else None) if ids is None else ids
    columns = {name: values for name, values in extra.items() if name != "text"}
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
    held_out, trained, learner, flattered = a_fifth(len(raw)), "", None, False
    if model is not None and rows is not None and len(model.trained_on):
        fresh = ~model.seen(rows)
        flattered = int(fresh.sum()) < unseen
        held_out = held_out if flattered else fresh
        trained = "The model has not learned from the held-out items."
    if model is not None and rows is not None and labels is not None:
        learner = _learner(model, data, rows, np.where(held_out, -1, labels))
    if flattered and learner is not None:
        trained = "The model has learned from them too: its scores are those of its method without them."
    elif flattered:
        trained = "The model has learned from the held-out items too: its first scores flatter it."
    return ShownItems(
        np.ascontiguousarray(raw, dtype=np.float32),
        labels=labels,
        classes=tuple(data.class_names) if labels is not None else (),
        learned=None if model is None or rows is None else model.transform(rows),
        ids=ids,
        texts=extra.get("text"),
        columns=columns,
        images=_pictures(data, root),
        embed=_embed(data, model),
        takes="" if data.encoder is None else data.encoder.kind,
        learner=learner,
        title=data.name,
        feature_names=tuple(names),
        values=everything.x if names and not hasattr(everything.x, "toarray") and everything.x.ndim == 2 else None,
        held_out=held_out,
        flattered=flattered,
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
    """A function from a row and a side to its picture, where the items are pictures."""
    photos = photos_of(data)
    if photos is None:
        return None
    if photos.x.dtype.kind == "U" and data.encoder is None:
        # What an encoder has read are whole paths.
        photos = replace(photos, root=photos.root or root)
    # Measured shades have no range of their own.
    top = float(np.abs(photos.x[:1000]).max()) if photos.x.dtype.kind == "f" else 1.0
    if top > 1:
        photos = replace(photos, x=photos.x / top)
    return lambda row, side: item_picture(photos, row, side=side)


def _embed(data: Dataset, model: Model | None) -> Any:
    """A function from a text or a picture to its embedding, where an encoder stands in front."""
    encoder = data.encoder
    if encoder is None:
        return None

    def embed(item: Any) -> Array:
        rows = encoder.features([item], progress=False)
        if model is not None:
            return model.transform(rows)[0]
        scale = raw_map(inputs_of(data))
        return rows[0] if scale is None else np.asarray(embed_rows(scale, rows).numpy())[0]

    return embed


def _learner(model: Model, data: Dataset, rows: Array, start: Array) -> Any:
    """The method of the model on other labels; None for a network, other labels, and where people would wait.

    Its settings are chosen once, by the labels `start`: a refit does not wait, and a project comes back as it was.
    """
    known = {method.name: method for method in METHODS}.get(model.method)
    if known is None or known.network or "classes" not in known.supervision:
        return None
    if known.seconds(len(rows), rows.shape[1]) > LONGEST_REFIT:
        return None
    settings = FitSettings(**{**model.parameters, "method": known.name})
    chosen: list[Any] = []

    def learned(labels: Array, settled: Any) -> Any:
        # Labels of people may name classes that the data does not have.
        names = tuple(map(str, range(int(labels.max()) + 1)))
        taught, others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
        split = (taught, others, "stratified", model.inputs, names)
        return known.learn(Problem(rows, labels, "partial", *split, chosen=settled), settings, Watch())

    def learn(labels: Array) -> Relearned:
        if not chosen:
            enough = len(np.unique(start[start >= 0])) >= 2
            chosen.append(learned(start, {}).chosen if enough else {})
        made = replace(model, encoder=learned(labels, chosen[0]).encoder)
        return Relearned(made.transform(rows), _embed(data, made), made.encoder, f"Learned again by {known.name}.")

    return learn


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
        encoder = session.as_module(model.encoder).eval()
    finally:
        session.close()
    said_of_rows = supervision(session.history.active, items.labels, items.classes)
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
    session = _to_look_at(model)
    try:
        return static_page(session, path, title=_title(model), scores=_scores_of_fit(model))
    finally:
        session.close()


def inline_map(model: Model) -> str:
    """The map for a notebook: a frame that holds the whole page and may do nothing but draw."""
    session = _to_look_at(model)
    try:
        page = static_html(session, title=_title(model), scores=_scores_of_fit(model), most=MOST_INLINE)
    finally:
        session.close()
    style = "width:100%;height:640px;border:0;border-radius:12px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _title(model: Model) -> str:
    name = model.data.get("name", "")
    return f"{'Your data' if name in ('', 'table', 'array') else name} by {model.method}"


def _scores_of_fit(model: Model) -> dict[str, Any] | None:
    """The table that the fit has printed: one model has one set of numbers, wherever it is shown."""
    if not model.scores:
        return None
    found = Comparison.from_dict(model.scores)
    first = found.names[0]
    # The panel has room for one more; the verdict names the best of the others.
    shown = {first: found.first, **{name: made for name, made in found.baselines.items() if name == "scaled"}}
    rows = [
        {
            "score": score,
            **{name: float(made[score]) for name, made in {**shown, "now": found.second}.items()},
            f"vs. {first}": {"gain": found.gains[score], "low": low, "high": high},
        }
        for score, (low, high) in found.intervals.items()
    ]
    better = None
    if found.intervals:
        worse = any(high < 0 for _, high in found.intervals.values())
        better = not worse and any(low > 0 for low, _ in found.intervals.values())
    return {
        "items": found.first.counts.get("queries", 0),
        "rows": rows,
        "sentence": found.verdict[:1].upper() + found.verdict[1:],
        "better": better,
    }


def _to_look_at(model: Model) -> Session:
    """The data of the fit as nobody corrects it: the map that was scored, and the rows that it was scored on."""
    given, fitted = model._database(None), model.fitted
    items = items_of(given, model, unseen=1)
    if items.flattered and fitted is not None:
        # Learned again from all rows after scoring: these were held out then.
        held_out = np.zeros(items.n, dtype=bool)
        held_out[np.asarray(fitted.problem.held_out)] = True
        note = "This is the map that was scored; the model has learned from all items since."
        learned = np.asarray(fitted.learned(model.inputs.of(given)))
        items = replace(items, learned=learned, held_out=held_out, flattered=False, notes=(*items.notes, note))
    return Session(items)


def _session(model: Model, data: Any, y: Any, *, project: str | os.PathLike[str] | None = None) -> Session:
    given = model._database(None) if data is None else model.inputs.read(data, y)
    return Session(items_of(given, model), project=project)
