"""One metric of a session with what was derived from it: embeddings, map, scores, predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.neighbors import search, vote

__all__ = ["State", "distances_to", "predicted"]

Array = NDArray[Any]
VOTERS, NEIGHBORS = 4_000, 10


@dataclass(eq=False)
class State:
    """Embeddings (n, d), their map (n, 2), and the matrix (p, d) that made them; None at the start."""

    rows: Array
    positions: Array
    matrix: Array | None = None
    told: str = ""
    table: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Array] = field(default_factory=dict)
    """Predictions by the labels they were made of."""


def distances_to(rows: Array, item: int) -> Array:
    """Euclidean distances of all rows (n, d) to one of them, (n,); those that are near are exact."""
    squares = np.einsum("ij,ij->i", rows, rows)
    found: Array = np.sqrt(np.maximum(squares + squares[item] - 2 * (rows @ rows[item]), 0))
    # Where the squares cancel, the difference is taken first.
    near = np.argpartition(found, min(200, len(found) - 1))[:200]
    found[near] = np.linalg.norm(rows[near] - rows[item], axis=1)
    return found


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
