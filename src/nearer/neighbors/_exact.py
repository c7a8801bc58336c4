"""The exact search: the k nearest rows in an order that depends on nothing but the rows.

All pairs are compared in single precision, by faiss unless they are few or it is not installed, and a few more
than k candidates are kept. Their similarities are computed again in double precision from the rows themselves and
rounded to the precision of the data, so that equal rows are equal and a small distance keeps its digits. What the
k-th of them leaves possible, given the rounding of the first pass, is a bound that every true neighbor passes;
where more rows pass it than there were candidates (many equal distances), all that pass are computed again. So the
answer is that of a stable sort of all rows, and a query gets the same answer alone as among a thousand.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearer.exceptions import NearerError

Similarity = Literal["cosine", "dot", "euclidean"]
Floats = NDArray[Any]
Positions = NDArray[np.int64]

# Numbers held at once while similarities are computed again: 2 MB in double precision, which stays in the cache.
BLOCK = 1 << 18
# Entries of candidate lists, and of comparisons with all rows, that are held at once.
LISTS = 1 << 22
# Pairs that a process compares without faiss before it imports it: until then the import, 0.1 s, would cost more.
WITHOUT_FAISS = 1 << 23
ROUNDING = 2.0**-24
FEW = 20
_compared = 0


def load_faiss() -> Any:
    """faiss, imported when it is first needed. It shares its thread count with torch, so nearer never sets it."""
    try:
        import faiss
    except ImportError as error:
        raise NearerError(
            "Approximate search needs faiss, which is not installed. Run: pip install 'nearer[search]', or "
            "search exactly, which needs nothing more."
        ) from error
    return faiss


@functools.cache
def has_faiss() -> bool:
    """Whether faiss can be imported; the extra `search` brings it."""
    return importlib.util.find_spec("faiss") is not None


def similarities(queries: Floats, database: Floats, positions: Positions, *, similarity: Similarity) -> Floats:
    """The similarity of each query (q, d) to its own candidates (q, k) in the database (n, d): (q, k), up = closer.

    Euclidean means minus the distance. Computed in double precision, rounded to the type of the queries.

    >>> ones = np.ones((1, 2), dtype=np.float32)
    >>> similarities(ones, 4 * ones, np.array([[0]]), similarity="cosine").tolist()
    [[1.0]]
    """
    values = np.empty(positions.shape, dtype=queries.dtype)
    q, k = positions.shape
    columns = max(1, min(k, BLOCK // queries.shape[1]))
    rows = max(1, BLOCK // (columns * queries.shape[1]))
    for top in range(0, q, rows):
        a = queries[top : top + rows].astype(np.float64)
        for left in range(0, k, columns):
            part = (slice(top, top + rows), slice(left, left + columns))
            b = database[positions[part]].astype(np.float64)  # (rows, columns, d)
            if similarity == "euclidean":
                b -= a[:, None]
                values[part] = -np.sqrt(np.einsum("rcd,rcd->rc", b, b))
                continue
            dot = np.einsum("rd,rcd->rc", a, b)
            if similarity == "cosine":
                # Rows of length one in single precision are off by 1e-8; a row must be 1 to itself.
                dot /= np.sqrt(np.einsum("rd,rd->r", a, a)[:, None] * np.einsum("rcd,rcd->rc", b, b))
            values[part] = dot
    return values


def best_first(values: Floats, positions: Positions) -> tuple[Floats, Positions]:
    """Sort each row by similarity, then by position; position −1 (nothing) belongs to a similarity of −∞."""
    order = np.lexsort((positions, -values), axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(positions, order, axis=1)


def k_smallest(values: Floats, k: int) -> Positions:
    """Columns (m, k) of the k smallest values in each row of (m, n), smallest first, equal ones by column; k ≤ n.

    >>> k_smallest(np.array([[3.0, 1.0, 1.0, 0.0]]), 2)
    array([[3, 1]])
    """
    n = values.shape[1]
    if k >= n:
        return np.argsort(values, axis=1, kind="stable")
    if k == 1:
        return np.asarray(values.argmin(axis=1)[:, None])
    columns = np.argpartition(values, k - 1, axis=1)[:, :k]
    border = np.take_along_axis(values, columns[:, -1:], axis=1)
    # Where the border cuts through equal values, which of them were taken is an accident: take the first ones.
    cut = np.flatnonzero((values <= border).sum(axis=1) > k)
    if len(cut):
        columns[cut] = np.argsort(values[cut], axis=1, kind="stable")[:, :k]
    columns.sort(axis=1)
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def exact_neighbors(
    queries: Any,
    database: Any,
    k: int,
    *,
    similarity: Similarity = "euclidean",
    own: Positions | None = None,
    longest: float | None = None,
) -> tuple[Floats, Positions]:
    """The k most similar rows of the database (n, d) for each query (q, d): similarities and positions, (q, k).

    The most similar first, equal ones by position; −∞ and −1 where there are fewer than k. `own` (q,) is the row
    that is left out for each query, −1 for none. For "cosine" all rows must have length one. `longest` is the
    length of the longest row of the database, if it is known. Sparse rows are compared as they are, by
    `|a|² − 2ab + |b|²` in their own precision.

    >>> line = np.array([[0], [1], [3], [1]], dtype=np.float32)
    >>> exact_neighbors(line[:1], line, 3)[1].tolist()
    [[0, 1, 3]]
    """
    q, n = queries.shape[0], database.shape[0]
    values = np.full((q, k), -np.inf, dtype=queries.dtype)
    positions = np.full((q, k), -1, dtype=np.int64)
    width = min(k, n)
    if width == 0 or q == 0:
        return values, positions
    if sparse.issparse(database) or sparse.issparse(queries):
        result = _among_all(queries, database, width, similarity, own)
    else:
        result = _among_candidates(queries, database, width, similarity, own, longest)
    for target, source in zip((values, positions), result, strict=True):
        target[:, :width] = source
    positions[values == -np.inf] = -1
    return values, positions


def _among_candidates(
    queries: Floats,
    database: Floats,
    k: int,
    similarity: Similarity,
    own: Positions | None,
    longest: float | None,
) -> tuple[Floats, Positions]:
    n = len(database)
    rough_queries, rough_database, scale = _single(queries, database, similarity, longest)
    values = np.empty((len(queries), k), dtype=queries.dtype)
    positions = np.empty((len(queries), k), dtype=np.int64)
    lengths = np.sqrt(np.einsum("qd,qd->q", rough_queries, rough_queries, dtype=np.float64))
    if similarity == "euclidean":
        longest = 0.0  # not needed: a near row is not longer than the query and the distance together
    elif longest is None:
        longest = float(np.sqrt(np.einsum("nd,nd->n", rough_database, rough_database, dtype=np.float64).max()))
    else:
        longest *= scale
    fetch = min(n, k + 8 + k // 4 + (own is not None))
    open_rows, bars = [], []
    step = max(1, LISTS // fetch)
    for start in range(0, len(queries), step):
        part = slice(start, min(start + step, len(queries)))
        last, candidates = _roughly_nearest(rough_queries[part], rough_database, fetch, similarity)
        near = similarities(queries[part], database, candidates, similarity=similarity)
        if own is not None:
            near[candidates == own[part, None]] = -np.inf
        near, candidates = best_first(near, candidates)
        values[part], positions[part] = near[:, :k], candidates[:, :k]
        if fetch == n:
            continue
        bar = _bar(near[:, k - 1], lengths[part], longest, scale, queries, similarity)
        unsure = np.flatnonzero(last <= bar if similarity == "euclidean" else last >= bar)
        open_rows.append(unsure + start)
        bars.append(bar[unsure])
    rows = np.concatenate(open_rows) if open_rows else np.empty(0, dtype=np.int64)
    if len(rows):
        bar = np.concatenate(bars)
        for chosen, pairs in _all_that_pass(rough_queries, rough_database, rows, bar, similarity):
            mine = rows[chosen]
            values[mine], positions[mine] = _best_of_pairs(queries, database, mine, pairs, k, similarity, own)
    return values, positions


def _roughly_nearest(
    queries: Floats, database: Floats, count: int, similarity: Similarity
) -> tuple[Floats, Positions]:
    """The nearest rows by their values in single precision, in any order: the last value, (q,), and (q, count)."""
    global _compared
    if "faiss" not in sys.modules and _compared + len(queries) * len(database) <= WITHOUT_FAISS:
        _compared += len(queries) * len(database)
        return _by_table(queries, database, count, similarity)
    if not has_faiss():
        step = max(1, WITHOUT_FAISS // len(database))
        parts = [
            _by_table(queries[start : start + step], database, count, similarity)
            for start in range(0, len(queries), step)
        ]
        last, columns = zip(*parts, strict=True)
        return np.concatenate(last), np.concatenate(columns)
    faiss = load_faiss()
    metric = faiss.METRIC_L2 if similarity == "euclidean" else faiss.METRIC_INNER_PRODUCT
    rough, candidates = faiss.knn(queries, database, count, metric=metric)
    return rough[:, -1].astype(np.float64), candidates


def _by_table(queries: Floats, database: Floats, count: int, similarity: Similarity) -> tuple[Floats, Positions]:
    """What `_roughly_nearest` gives, from the table of all pairs."""
    table = _rough_values(queries, database, np.einsum("nd,nd->n", database, database), similarity)
    if similarity != "euclidean":
        np.negative(table, out=table)
    columns = np.argpartition(table, count - 1, axis=1)[:, :count]
    last = np.take_along_axis(table, columns, axis=1).max(axis=1).astype(np.float64)
    return (last if similarity == "euclidean" else -last), columns


def _rough_values(queries: Floats, database: Floats, squares: Floats, similarity: Similarity) -> Floats:
    """Squared distances or products of all pairs in single precision; `squares` (n,) are those of the database."""
    table: Floats = queries @ database.T
    if similarity == "euclidean":
        table *= -2
        table += squares
        table += np.einsum("qd,qd->q", queries, queries)[:, None]
    return table


def _single(
    queries: Floats, database: Floats, similarity: Similarity, longest: float | None
) -> tuple[Floats, Floats, float]:
    """Both in single precision, and the power of two by which they were multiplied so that no square overflows."""
    same = queries is database
    # About their mean, distances lose fewer digits. For a few queries the copy would cost more than the search, and
    # who knows the longest row has prepared them.
    if similarity == "euclidean" and len(queries) >= FEW and longest is None:
        middle = database.mean(axis=0)
        database = database - middle
        queries = database if same else queries - middle
    largest = float(np.abs(queries).max())
    if not same:
        largest = max(largest, max(float(database.max()), -float(database.min())) if longest is None else longest)
    scale = 1.0
    if largest > 0 and not 1e-6 < largest < 1e12:
        scale = float(2.0 ** -np.ceil(np.log2(largest)))
        database = database * scale
        queries = database if same else queries * scale
    rough = np.ascontiguousarray(database, dtype=np.float32)
    return (rough if same else np.ascontiguousarray(queries, dtype=np.float32)), rough, scale


def _bar(
    worst: Floats, lengths: Floats, longest: float, scale: float, queries: Floats, similarity: Similarity
) -> NDArray[np.float64]:
    """What the rough value of every true neighbor reaches, if the k-th candidate has the exact similarity `worst`.

    The standard bound for a sum of d products in single precision, and the rounding of the exact value.
    """
    rounding = 4 * float(np.finfo(queries.dtype).eps)
    d = queries.shape[1]
    exact = worst.astype(np.float64)
    if similarity == "euclidean":
        distance = -exact * scale
        # A row at most as far as the k-th candidate is not longer than |q| + distance.
        bound = 2 * (d + 8) * ROUNDING * np.square(2 * lengths + distance)
        return np.asarray(np.square(distance) * (1 + rounding) + bound + 1e-30)
    if similarity == "dot":
        exact = exact * scale**2
    return np.asarray(exact - np.abs(exact) * rounding - 2 * (d + 8) * ROUNDING * lengths * longest - 1e-30)


def _all_that_pass(
    queries: Floats, database: Floats, rows: Positions, bar: NDArray[np.float64], similarity: Similarity
) -> Iterator[tuple[slice, tuple[Positions, Positions]]]:
    """Blocks of `rows`, and the pairs (query in the block, database row) whose rough value passes the bar."""
    squares = np.einsum("nd,nd->n", database, database)
    step = max(1, LISTS // len(database))
    for start in range(0, len(rows), step):
        chosen = slice(start, start + step)
        rough = _rough_values(queries[rows[chosen]], database, squares, similarity)
        passing = rough <= bar[chosen, None] if similarity == "euclidean" else rough >= bar[chosen, None]
        which, columns = np.nonzero(passing)
        yield chosen, (which, columns)


def _best_of_pairs(
    queries: Floats,
    database: Floats,
    rows: Positions,
    pairs: tuple[Positions, Positions],
    k: int,
    similarity: Similarity,
    own: Positions | None,
) -> tuple[Floats, Positions]:
    """The k best of the listed pairs (by query, then by row) of each query."""
    which, columns = pairs
    exact = np.empty(len(which), dtype=queries.dtype)
    step = max(1, BLOCK // queries.shape[1])
    for start in range(0, len(which), step):
        part = slice(start, start + step)
        exact[part] = similarities(
            queries[rows[which[part]]], database, columns[part, None], similarity=similarity
        )[:, 0]
    if own is not None:
        exact[columns == own[rows[which]]] = -np.inf
    # The pairs come by query and row, so a stable sort by similarity within a query keeps equal ones by row.
    order = np.lexsort((-exact, which))
    first = np.searchsorted(which, np.arange(len(rows)))
    take = order[first[:, None] + np.arange(k)]
    return exact[take], columns[take]


def _among_all(
    queries: Any, database: Any, k: int, similarity: Similarity, own: Positions | None
) -> tuple[Floats, Positions]:
    q, n = queries.shape[0], database.shape[0]
    values = np.empty((q, k), dtype=queries.dtype)
    positions = np.empty((q, k), dtype=np.int64)
    step = max(1, LISTS // n)
    for start in range(0, q, step):
        part = slice(start, min(start + step, q))
        mine = queries[part]
        distance = squared_distances(mine, database) if similarity == "euclidean" else -_products(mine, database)
        if own is not None:
            left_out = np.flatnonzero(own[part] >= 0)
            distance[left_out, own[part][left_out]] = np.inf
        positions[part] = k_smallest(distance, k)
        nearest = np.take_along_axis(distance, positions[part], axis=1)
        values[part] = -np.sqrt(nearest) if similarity == "euclidean" else -nearest
    return values, positions


def _products(queries: Any, database: Any) -> Floats:
    product = queries @ database.T
    return np.asarray(product.toarray() if sparse.issparse(product) else product)


def squared_distances(queries: Any, database: Any) -> Floats:
    """`‖a − b‖²` of all rows, (q, d) and (n, d) -> (q, n), never below 0; sparse rows stay sparse.

    >>> squared_distances(np.array([[0.0]]), np.array([[3.0], [1.0]]))
    array([[9., 1.]])
    """
    result = _products(queries, database)
    result *= -2
    result += _square_lengths(queries)[:, None]
    result += _square_lengths(database)
    np.maximum(result, 0, out=result)
    return result


def _square_lengths(rows: Any) -> Floats:
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)
