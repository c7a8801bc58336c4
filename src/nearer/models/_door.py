"""The front door: `nearer.fit` and `nearer.evaluate`, from the data people have to a metric and its proof."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice, check_int
from nearer.datasets import Dataset
from nearer.datasets._anything import ColumnRoles, check_ids
from nearer.evaluation import Comparison, compare, evaluate_unlabeled
from nearer.exceptions import LabelError, ParameterError
from nearer.models._fitting import fit_model
from nearer.models._model import Model
from nearer.models._problem import CLASSES, Problem
from nearer.models._reading import NO_PHOTOS_EXTRA, Reading, read_items
from nearer.models._saved import load
from nearer.models._scoring import compare_problem
from nearer.models._settings import FitSettings

# Neighbors that are compared where there are no labels.
NEAR = 10


def fit(
    data: Any,
    y: Any = None,
    *,
    method: str = "choose",
    loss: str | None = None,
    time: float | None = None,
    n_components: int | None = None,
    split: str = "auto",
    rows: int | None = None,
    id: str | None = None,
    keep: Sequence[str] = (),
    ignore: Sequence[str] = (),
    encoder: Any = None,
    encoder_settings: Mapping[str, Any] | None = None,
    text: str | None = None,
    image: str | None = None,
    finetune: bool = False,
    unreadable: str = "raise",
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Model:
    """Learn a metric from your data, and compare it with the raw features on rows that it never saw.

    Args:
        data: a DataFrame (pandas, polars, Arrow, Hugging Face), an array, tensor or sparse matrix (n, p), a pair
            `(X, y)`, the path of a table or of a folder of photos, a list of texts or of the paths of photos, or a
            `Dataset`.
        y: the name of the label column (several for label sets and distributions), or the labels: classes with −1
            or None for unlabelled rows, a 0/1 matrix, rows that sum to one, numbers, or `relations.Pairs` of rows
            that are near or not. What they are is found and said.
        method: "choose" picks a method by what the labels and the size of the data are, "auto" tries several on
            validation rows, anything else is a name from `nearer methods`.
        loss: train a network with this loss, by its class in `nearer.losses` ("SupConLoss"), instead of `method`.
        time: seconds that choosing and learning may take; the methods that would take longer are not chosen.
        n_components: dimensions of the embedding.
        split: "stratified" holds out rows of every class, "classes" whole classes, "auto" decides.
        rows: how many rows of a file to take, drawn at random; None takes all, or of a file that does not fit into
            half of the memory as many as do.
        id: the column that names each row in results.
        keep: columns kept beside the rows for people and searches; not features.
        ignore: columns to leave out.
        encoder: what turns photos and texts into features, as it is: "efficientnet-lite0", "minilm", a torch module
            or timm model, a SentenceTransformer, or a function from a list of items to rows (n, p). None takes the
            installed one for photos and texts, False learns a small network on photos.
        encoder_settings: of a torch module on photos: size, resize, mean, std, colors ("rgb" or "bgr"), by default
            those of its config; of a function: the name under which its features are kept on disk.
        text: the column of a table that the encoder reads; the other columns are then no features.
        image: the column of a table that names photos, beside the table or by whole paths, for the encoder to see.
        finetune: train the encoder too, from its closed form on, and take it where it is better on classes that it
            did not learn from; with `loss` by that loss.
        unreadable: "raise" refuses damaged photos, "skip" leaves them out.
        settings: more settings of `nearer fit` by name, such as {"epochs": 20, "loss_settings": {"alpha": 2}}.
        seed: chooses the split, the start and the batches.
        verbose: print what happens to standard error.

    >>> from sklearn.datasets import load_iris
    >>> model = fit(load_iris(as_frame=True).frame, "target", method="lfda")
    >>> model.transform(load_iris(as_frame=True).frame).shape
    (150, 4)
    """
    columns = ColumnRoles(
        ids=id, keep=_names(keep, "keep"), ignore=_names(ignore, "ignore"), most=_most(rows, data)
    )
    check_choice(unreadable, "unreadable", ["raise", "skip"])
    if text is not None and image is not None:
        raise ParameterError(f"`text` and `image` must not both be given, got {text!r} and {image!r}.")
    reading = Reading(
        encoder, dict(encoder_settings or {}), text or image, image is not None, unreadable=unreadable
    )
    given = check_ids(read_items(data, y, columns, reading))
    asked = {"method": method, "time": time, "n_components": n_components, "split": split, "seed": seed}
    asked |= {"finetune": finetune or None}
    if loss is not None:
        if method != "choose":
            raise ParameterError(f"`loss` and `method` must not both be given, got {loss!r} and {method!r}.")
        asked |= {"method": "network", "loss": loss}
    chosen = {name: value for name, value in asked.items() if value is not None}
    extra = dict(settings or {})
    twice = sorted(extra.keys() & chosen)
    if twice:
        raise ParameterError(f"`settings` must not repeat the argument {twice[0]!r}.")
    wanted = FitSettings.from_dict(chosen | extra)
    if given.all.x.dtype.kind == "U" and encoder is None:
        print(NO_PHOTOS_EXTRA, file=sys.stderr)
    say = (lambda text: print(text, file=sys.stderr)) if verbose or wanted.finetune else None
    return fit_model(given, wanted, say=say).model


def evaluate(model: Model | str | os.PathLike[str], data: Any, y: Any = None) -> Comparison:
    """Score a model beside its raw features on labelled data: classes, label sets, distributions or numbers.

    Without labels the scores are those of `evaluate_unlabeled`: what may be broken, and not which is better.

    The raw features are those that were given to the fit. Rows that the model was trained on are searched in and
    not asked, and the counts say how many; with nothing else left that is an error. Where there are none, rows with
    classes are searched among each other.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> print(evaluate(fit(X[::2], y[::2], method="kissme"), X[1::2], y[1::2]).verdict[:14])
    learned is bet

    Args:
        model: a model, or the folder of one.
        data: rows as `fit` takes them.
        y: their labels, or the column that holds them; None where there are none.
    """
    model = model if isinstance(model, Model) else load(model)
    return evaluate_dataset(model, model.inputs.read(data, y))


def evaluate_dataset(model: Model, given: Dataset) -> Comparison:
    """The comparison of raw and learned on every row of a data set that the model was not trained on."""
    labels = given.all.y
    items = model.inputs.of(given)
    if given.pairs is None and given.kind in CLASSES and len(items) > NEAR and not (labels >= 0).any():
        return _without_labels(model, items)
    fresh = ~model.seen(items)
    if not fresh.any():
        raise LabelError(
            f"The data must hold rows that the model has not learned from, and it was trained on all "
            f"{len(items)}. Its scores on held-out rows are in `model.scores` and on its card, "
            "README.md; evaluate it on other data, or fit with `refit=False`."
        )
    if given.pairs is not None:
        listed, near = (table.numpy() for table in given.pairs.listed())
        # A pair is new where one of its rows is.
        kept = fresh[listed].any(axis=1)
        if len(np.unique(near[kept])) < 2:
            raise LabelError(
                f"The pairs must hold near and far ones with a row that the model was not trained on, got "
                f"{int(near[kept].sum())} near and {int((~near[kept]).sum())} far ones."
            )
        rows = np.flatnonzero(fresh)
        problem = _problem(model, items, labels, given, rows, train=np.flatnonzero(~fresh))
        problem = dataclasses.replace(problem, pairs=listed[kept], similar=near[kept])
        result = compare_problem(problem, model.raw, model.transform)
    elif given.kind in CLASSES and not model.asymmetric:
        usable = fresh & (labels >= 0)
        if len(np.unique(labels[usable])) < 2:
            raise LabelError(
                f"The data must hold labelled rows of at least two classes that the model was not trained on, got "
                f"{int(usable.sum())} such rows in {len(np.unique(labels[usable]))} class(es). Name the label "
                "column."
            )
        # Rows that it learned from are searched in, as in the fit.
        taught = np.flatnonzero(~fresh & (labels >= 0))
        rows = np.flatnonzero(usable)
        problem = _problem(model, items, labels, given, rows, train=taught if len(taught) else rows)
        result = compare_problem(problem, model.raw, model.transform)
    else:
        # Label sets, distributions and numbers are predicted by neighbors, and two maps need two sides: half of
        # the rows are searched in.
        asked = fresh & (labels >= 0) if given.kind in CLASSES else fresh
        rows = np.random.default_rng(0).permutation(np.flatnonzero(asked))
        half = len(rows) // 2
        if half < 2:
            raise LabelError(f"The data must hold at least four rows to score, got {len(rows)} that are new.")
        problem = _problem(model, items, labels, given, np.sort(rows[half:]), train=np.sort(rows[:half]))
        result = compare_problem(problem, model.raw, model.transform, database=model.database_map)
    left_out = int((~fresh).sum())
    if left_out:
        note = {"trained on, left out": left_out}
        first, second = (
            dataclasses.replace(one, counts={**one.counts, **note}) for one in (result.first, result.second)
        )
        result = dataclasses.replace(result, first=first, second=second)
    return result


def _without_labels(model: Model, items: NDArray[np.float32]) -> Comparison:
    """What raw features and embeddings look like where nothing says which items belong together."""
    raw = model.raw(items)
    first = evaluate_unlabeled(raw, k=NEAR, similarity="euclidean")
    second = evaluate_unlabeled(model.transform(items), raw, k=NEAR, similarity="euclidean")
    scores = {name: value for name, value in second.items() if name in first}
    told = (
        f"No row has a label (name the column, if there is one), so these scores say what is broken, not which is "
        f"better. Of the {NEAR} nearest rows {second['agreement']:.1%} are the same before and after."
    )
    return dataclasses.replace(compare(first, dataclasses.replace(second, scores=scores)), instead=told)


def _problem(model: Model, items: Any, labels: Any, given: Dataset, held_out: Any, *, train: Any = None) -> Problem:
    trained = held_out if train is None else train
    return Problem(items, labels, given.kind, trained, held_out, "given", model.inputs, given.class_names)


def _names(value: Sequence[str] | str, name: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(one, str) for one in names):
        raise ParameterError(f"`{name}` must be column names, got {value!r}.")
    return names


def _most(rows: int | None, data: Any) -> int | None:
    if rows is not None and not isinstance(data, str | os.PathLike):
        raise ParameterError(f"`rows` is for files, got {type(data).__name__}. Take a sample of it yourself.")
    return None if rows is None else check_int(rows, "rows", minimum=10)
