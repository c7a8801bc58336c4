"""Lists of neighbors from an index that somebody has already: in a folder, in PostgreSQL, in Milvus."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import ParameterError

# Queries that are sent at once.
BATCH = 4_096


def is_index(value: Any) -> bool:
    """Whether something is searched by asking it; below `nearer.index`, this folder knows it by its looks."""
    # By its class: to look whether an engine has ids would fetch them all.
    return all(hasattr(type(value), name) for name in ("search", "embeddings", "ids", "upsert"))


def through_index(
    queries: Any, index: Any, k: int, own: NDArray[np.int64] | None
) -> tuple[NDArray[np.float32], NDArray[np.int64], float]:
    """Similarities and positions (q, k) of the nearest items, and the recall that the index states.

    The position of an item is its place in `index.ids`, the order of insertion. Without queries every item of the
    index is one, and is left out of its own list.
    """
    ids = index.ids
    row_of = {item_id: number for number, item_id in enumerate(ids)}
    n = len(ids) if queries is None else len(queries)
    left_out = np.arange(n) if queries is None else own
    width = k + (left_out is not None)
    values = np.full((n, k), -np.inf, dtype=np.float32)
    positions = np.full((n, k), -1, dtype=np.int64)
    for start in range(0, n, BATCH):
        part = slice(start, min(start + BATCH, n))
        rows = index.embeddings(ids[part]) if queries is None else queries[part]
        hits = index.search(rows, width)
        where = np.array([[row_of[item_id] for item_id in row] for row in hits.ids.tolist()], dtype=np.int64)
        where = where.reshape(hits.similarities.shape)
        near = hits.similarities.copy()
        if left_out is not None:
            mine = where == left_out[part, None]
            near[mine] = -np.inf
            # The row itself goes to the end; where it was not found, the farthest does.
            order = np.argsort(mine, axis=1, kind="stable")
            near, where = np.take_along_axis(near, order, axis=1), np.take_along_axis(where, order, axis=1)
        kept = min(k, near.shape[1])
        values[part, :kept], positions[part, :kept] = near[:, :kept], where[:, :kept]
    positions[values == -np.inf] = -1
    recall = getattr(index, "recall", None)
    return values, positions, 1.0 if recall is None else float(recall.value)


def check_alike(index: Any, similarity: str) -> None:
    """The similarity of an index is its own."""
    if similarity not in ("euclidean", index.similarity):
        raise ParameterError(f"`similarity` must be {index.similarity!r}, that of the index, got {similarity!r}.")
