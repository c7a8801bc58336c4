"""Exact search: the k most similar rows, in an order that depends on nothing but the rows.

faiss finds candidates by a matrix product in single precision. Its rounding depends on where a row happens to lie
in the product, so two equal rows may come out in either order and a small Euclidean distance loses its digits.
Therefore a few more candidates are fetched, their similarities are computed again in double precision and rounded
to single, and equal ones are put in order of insertion. When rounding could still have hidden a better row, more
candidates are fetched. A query gets the same answer alone as in a batch of a thousand.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Similarity", "exact_search", "similarities"]

Similarity = Literal["cosine", "dot", "euclidean"]
Floats = NDArray[np.float32]
Positions = NDArray[np.int64]

# Numbers held at once while similarities are computed again: 2 MB in double precision, which stays in the cache.
BLOCK = 1 << 18
# Entries of the candidate lists that faiss fills at once: 48 MB.
LISTS = 1 << 22
ROUNDING = 2.0**-24


def load_faiss() -> Any:
    """faiss, imported when it is first needed. It shares its thread count with torch, so nearer never sets it."""
    import faiss

    return faiss


def similarities(queries: Floats, vectors: Floats, positions: Positions, *, similarity: Similarity) -> Floats:
    """The similarity of each query (q, d) to its own candidates (q, k) among `vectors` (n, d): (q, k), up = closer.

    Euclidean means minus the distance. Computed in double precision, rounded to single.

    >>> ones = np.ones((1, 2), dtype=np.float32)
    >>> similarities(ones, 4 * ones, np.array([[0]]), similarity="cosine").tolist()
    [[1.0]]
    """
    found = np.empty(positions.shape, dtype=np.float32)
    q, k = positions.shape
    columns = max(1, min(k, BLOCK // queries.shape[1]))
    rows = max(1, BLOCK // (columns * queries.shape[1]))
    for top in range(0, q, rows):
        a = queries[top : top + rows].astype(np.float64)
        for left in range(0, k, columns):
            part = (slice(top, top + rows), slice(left, left + columns))
            b = vectors[positions[part]].astype(np.float64)  # (rows, columns, d)
            if similarity == "euclidean":
                b -= a[:, None]
                found[part] = -np.sqrt(np.einsum("rcd,rcd->rc", b, b))
                continue
            dot = np.einsum("rd,rcd->rc", a, b)
            if similarity == "cosine":
                # Rows of length one in single precision are off by 1e-8; a row must be 1 to itself.
                dot /= np.sqrt(np.einsum("rd,rd->r", a, a)[:, None] * np.einsum("rcd,rcd->rc", b, b))
            found[part] = dot
    return found


def exact_search(
    queries: Floats,
    vectors: Floats,
    k: int,
    *,
    similarity: Similarity,
    longest: float | None = None,
) -> tuple[Floats, Positions]:
    """The k most similar `vectors` (n, d) of each query (q, d): similarities and positions, (q, min(k, n)) each.

    The most similar comes first; equal similarities in order of position. For "cosine" all rows must have length
    one. `longest` is the length of the longest vector, if it is known.

    >>> line = np.array([[0], [1], [3], [1]], dtype=np.float32)
    >>> exact_search(line[:1], line, 3, similarity="euclidean")[1].tolist()
    [[0, 1, 3]]
    """
    k = min(k, len(vectors))
    values = np.empty((len(queries), k), dtype=np.float32)
    positions = np.empty((len(queries), k), dtype=np.int64)
    if k == 0 or len(queries) == 0:
        return values, positions
    if longest is None:
        longest = float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max()))
    margins = _rounding_errors(queries, longest, similarity)
    left = np.arange(len(queries))
    fetch = k + 8 + k // 4
    while len(left):
        fetch = min(fetch, len(vectors))
        unsure = []
        step = max(1, LISTS // fetch)
        for start in range(0, len(left), step):
            part = left[start : start + step]
            values[part], positions[part], sure = _fetch(
                queries[part], vectors, k, fetch, similarity=similarity, margins=margins[part]
            )
            unsure.append(part[~sure])
        left = np.concatenate(unsure)
        fetch *= 4
    return values, positions


def best_first(values: Floats, positions: Positions) -> tuple[Floats, Positions]:
    """Sort each row by similarity, then by position; position −1 (nothing found) goes last."""
    order = np.lexsort((positions, -values), axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(positions, order, axis=1)


def _fetch(
    queries: Floats,
    vectors: Floats,
    k: int,
    fetch: int,
    *,
    similarity: Similarity,
    margins: NDArray[np.float64],
) -> tuple[Floats, Positions, NDArray[np.bool_]]:
    """The first k of `fetch` candidates, and for which queries no row outside of the candidates can be better."""
    faiss = load_faiss()
    metric = faiss.METRIC_L2 if similarity == "euclidean" else faiss.METRIC_INNER_PRODUCT
    rough, candidates = faiss.knn(np.ascontiguousarray(queries), vectors, fetch, metric=metric)
    values = similarities(queries, vectors, candidates, similarity=similarity)
    values, candidates = best_first(values, candidates)
    if fetch == len(vectors):
        sure = np.ones(len(queries), dtype=np.bool_)
    else:
        last = values[:, k - 1].astype(np.float64)
        limit = rough[:, -1].astype(np.float64)
        # faiss ranks by the squared distance, everything else by similarity.
        sure = limit - last**2 > margins if similarity == "euclidean" else last - limit > margins
    return values[:, :k], candidates[:, :k], sure


def _rounding_errors(queries: Floats, longest: float, similarity: Similarity) -> NDArray[np.float64]:
    """By how much a single precision value of faiss may be off: the standard bound for a sum of d products."""
    lengths = np.sqrt(np.einsum("qd,qd->q", queries, queries, dtype=np.float64))
    scale = (lengths + longest) ** 2 if similarity == "euclidean" else lengths * longest
    bound: NDArray[np.float64] = 2 * (queries.shape[1] + 8) * ROUNDING * scale
    return bound
