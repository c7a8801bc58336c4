"""One metric of a session with what was derived from it: embeddings, map, scores, predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.app.explorer._metric import Metric
from nearer.neighbors import search, vote

__all__ = ["State", "nearest_to", "predicted", "usual_distance"]

VOTERS, NEIGHBORS = 4_000, 10


@dataclass(eq=False)
class State:
    """Embeddings (n, d), their map (n, 2), and the metric that made them; None at the start."""

    rows: Array
    positions: Array
    metric: Metric | None = None
    table: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Array] = field(default_factory=dict)
    """Predictions by the labels they were made of."""


def nearest_to(rows: Array, item: int, k: int, *, among: Array | None = None) -> tuple[Array, Array]:
    """The k rows nearest to one of them, itself left out, and their distances; `among` (n,) says which may be."""
    allowed = np.arange(len(rows)) if among is None else np.flatnonzero(among)
    own = np.flatnonzero(allowed == item)
    k = min(k, len(allowed) - len(own))
    if k < 1:
        return allowed[:0], np.zeros(0)
    near = search(rows[[item]], rows[allowed], k, own=own if len(own) else np.array([-1]))
    return allowed[near.indices[0].numpy()], near.distances[0].numpy()


def usual_distance(rows: Array, item: int) -> float:
    """The median distance of the other rows to one of them; 0 where there is none."""
    others = np.delete(np.linalg.norm(rows - rows[item], axis=1), item)
    return float(np.median(others)) if len(others) else 0.0


def predicted(rows: Array, labels: Array, *, seed: int = 0) -> Array:
    """The vote of the nearest labelled items for every row, itself left out, −1 without any: (n,)."""
    known = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))[:VOTERS]
    if not len(known):
        return np.full(len(rows), -1, dtype=np.int64)
    known = np.sort(known)
    own = np.full(len(rows), -1, dtype=np.int64)
    own[known] = np.arange(len(known))
    near = search(rows, rows[known], min(NEIGHBORS, len(known)), own=own).indices.numpy()
    codes = np.where(near >= 0, labels[known][near], -1)
    return vote(codes)
