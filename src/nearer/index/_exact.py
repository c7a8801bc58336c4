"""Exact search of an index: the k most similar rows, in an order that depends on nothing but the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearer.neighbors._shared import (
    Similarity,
    best_first,
    exact_neighbors,
    has_faiss,
    load_faiss,
    similarities,
)

__all__ = [
    "Floats",
    "Positions",
    "Similarity",
    "best_first",
    "exact_search",
    "has_faiss",
    "load_faiss",
    "similarities",
]

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]


def exact_search(
    queries: Floats,
    vectors: Floats,
    k: int,
    *,
    similarity: Similarity,
    longest: float | None = None,
) -> tuple[Floats, Positions]:
    """The k most similar `vectors` (n, d) of each query (q, d): similarities and positions, (q, min(k, n)) each.

    The most similar comes first; equal similarities in order of position, as in every search of `nearer.neighbors`.
    For "cosine" all rows must have length one. `longest` is the length of the longest vector, if it is known.

    >>> line = np.array([[0], [1], [3], [1]], dtype=np.float32)
    >>> exact_search(line[:1], line, 3, similarity="euclidean")[1].tolist()
    [[0, 1, 3]]
    """
    return exact_neighbors(queries, vectors, min(k, len(vectors)), similarity=similarity, longest=longest)
