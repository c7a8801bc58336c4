"""The raw features, what a learned metric is compared with, and whether to scale them first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nearer.datasets import Dataset
from nearer.evaluation._paired import per_query_scores
from nearer.geometry import Chain, UnitLength, embed
from nearer.geometry._shared import Columns
from nearer.models._inputs import Inputs
from nearer.models._problem import CLASSES, Problem, inputs_of
from nearer.neighbors import search

if TYPE_CHECKING:
    from nearer.models._model import Model

# Rows that judge whether to scale.
JUDGED = 2_000


def raw_map(inputs: Inputs) -> nn.Module | None:
    """What makes items the raw features: nothing, they are as given; those of an encoder get length one."""
    if inputs.encoder is None:
        return None
    # Features of an encoder are compared by cosine, as their makers do; those of a fine-tuned one stand behind the
    # ones that it came from.
    width = inputs.encoder.raw_width
    return Chain(Columns(0, width), UnitLength()) if width else UnitLength()


def needs_scale(problem: Problem) -> bool:
    """Whether neighbors say more of the labels with every feature at deviation one than with features as given.

    Features that share a unit (pixels, sensors, components) are better left alone, those of many units are not.
    Neither side has learned from the labels, so leaving one out is a fair judge. Where both are as good, and
    for rows of an encoder, they are scaled. Columns of a table rarely share a unit: they stay as given only where
    that is better by more than a standard error.
    """
    if problem.images or problem.inputs.encoder is not None:
        return True
    rows, labels = problem.train, problem.labels
    if problem.kind in CLASSES:
        rows = rows[labels[rows] >= 0]
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:JUDGED])
    given = problem.items[rows]
    with np.errstate(over="ignore"):
        if not np.isfinite(np.square(given.astype(np.float32)).sum(axis=1)).all():
            return True  # distances would be too
    scaled = embed(problem.inputs.scale(given), given).numpy()
    lead = _right(problem, rows, given) - _right(problem, rows, scaled)
    if problem.few and not lead.any():
        # One label a class says nothing. Columns that reach about as far as each other are taken to share a unit.
        reach = np.abs(given).max(axis=0, initial=0)
        return bool((reach > reach.max(initial=0) / 2).mean() <= 0.5)
    needed = lead.std() / np.sqrt(len(lead)) if problem.inputs.cleaning is not None else 0.0
    return bool(lead.mean() <= needed)


def _right(problem: Problem, rows: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float64]:
    """How well the nearest other rows answer for each, the higher the better."""
    if problem.kind == "pairs":
        pairs, similar = problem.pairs_of(rows)
        left, right = x[np.searchsorted(rows, pairs).T]
        order = np.argsort(np.linalg.norm(left - right, axis=1), kind="stable")
        return np.arange(len(order), dtype=np.float64)[~similar[order]]
    labels = problem.labels[rows]
    if problem.few:
        # Of few labels MAP@R decides better than 1-NN: 16 sets, 5 and 10 labels a class, 1-NN of new rows lost .004
        # against the better choice in the mean, .016 at worst (.008 and .028).
        return np.asarray(per_query_scores(x, labels).get("map@r", np.zeros(1)))
    near = labels[np.asarray(search(x, k=1 if problem.kind in CLASSES else min(10, len(x) - 1)).indices)]
    if problem.kind in CLASSES:
        return (near[:, 0] == labels) * 1.0
    return -np.abs(near.mean(axis=1) - labels)


def rows_to_look_at(model: Model, items: NDArray[np.float32]) -> NDArray[np.float32]:
    """The raw features of items for audits and maps: at one scale where the fit found that this says more."""
    rows = model.raw(items)
    if (
        model.inputs.encoder is not None
        or model.inputs.kind != "features"
        or not model.parameters.get("standardize", True)
    ):
        return rows
    return np.asarray(embed(model.inputs.scale(rows), rows).numpy(), dtype=np.float32)


def raw_rows(data: Dataset) -> NDArray[np.float32]:
    """What is looked at where there is no model: the features (n, p) of all rows at one scale; bytes are pixels."""
    inputs = inputs_of(data)
    rows = inputs.of(data)
    scale = raw_map(inputs)
    if scale is None and data.all.x.dtype != np.uint8 and inputs.kind == "features":
        scale = inputs.scale(rows)
    flat = rows.reshape(len(rows), -1) if scale is None else embed(scale, rows).numpy()
    return np.ascontiguousarray(flat, dtype=np.float32)
