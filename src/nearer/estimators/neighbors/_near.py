"""Nearest rows of the same or of another class, in blocks: never an n×n matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from nearer.estimators._matrices import Array

__all__ = ["leave_one_out_votes", "nearest_hits", "nearest_misses", "nearest_rows", "squared_distances"]

_BLOCK_ENTRIES = 2_000_000


def squared_distances(A: Any, B: Any) -> Array:
    """`‖a − b‖²` of all rows, (m, p) and (n, p) -> (m, n), never below 0; sparse rows stay sparse.

    >>> squared_distances(np.array([[0.0]]), np.array([[3.0], [1.0]]))
    array([[9., 1.]])
    """
    product = A @ B.T
    result: Array = product.toarray() if sparse.issparse(product) else product
    result *= -2
    result += _lengths(A)[:, None]
    result += _lengths(B)
    np.maximum(result, 0, out=result)
    return result


def _lengths(A: Any) -> Array:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    squares: Array = np.einsum("ij,ij->i", A, A)
    return squares


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ENTRIES // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def nearest_rows(queries: Any, database: Any, k: int, *, own: Array | None = None) -> Array:
    """Row numbers (m, k) of the k nearest rows of the database, nearest first, equal ones by row number.

    `own` (m,) names for each query the database row that is the query itself and is left out (−1 for none).
    Columns beyond the rows that exist are filled with −1.

    >>> nearest_rows(np.array([[0.0]]), np.array([[3.0], [1.0]]), 2)
    array([[1, 0]])
    """
    m, n = queries.shape[0], database.shape[0]
    found = np.full((m, k), -1, dtype=np.int64)
    take = min(k, n)
    if take == 0:
        return found
    if not sparse.issparse(database):
        # About the mean distances keep their digits; sparse rows would not stay sparse.
        middle = database.mean(axis=0)
        queries, database = queries - middle, database - middle
    for rows in _blocks(m, n):
        distance = squared_distances(queries[rows], database)
        if own is not None:
            mine = np.flatnonzero(own[rows] >= 0)
            distance[mine, own[rows][mine]] = np.inf
        if take < n:
            part = np.sort(np.argpartition(distance, take - 1, axis=1)[:, :take], axis=1)
        else:
            part = np.broadcast_to(np.arange(n), distance.shape).copy()
        values = np.take_along_axis(distance, part, axis=1)
        order = np.argsort(values, axis=1, kind="stable")
        part = np.take_along_axis(part, order, axis=1)
        part[~np.isfinite(np.take_along_axis(values, order, axis=1))] = -1
        found[rows, :take] = part
    return found


def nearest_hits(X: Any, codes: Array, k: int, rows: Array | None = None) -> Array:
    """For each of `rows` (all by default) the k nearest other rows of its class, (m, k), −1 where there are fewer.

    >>> nearest_hits(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1]), 1).ravel()
    array([ 1,  0, -1])
    """
    return _nearest_by_class(X, codes, k, rows, same=True)


def nearest_misses(X: Any, codes: Array, k: int, rows: Array | None = None) -> Array:
    """For each of `rows` (all by default) the k nearest rows of other classes, (m, k), −1 where there are fewer.

    >>> nearest_misses(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1]), 1).ravel()
    array([2, 2, 1])
    """
    return _nearest_by_class(X, codes, k, rows, same=False)


def _nearest_by_class(X: Any, codes: Array, k: int, rows: Array | None, *, same: bool) -> Array:
    rows = np.arange(len(codes)) if rows is None else rows
    found = np.full((len(rows), k), -1, dtype=np.int64)
    for code in np.unique(codes[rows]):
        mine = np.flatnonzero(codes[rows] == code)
        members = np.flatnonzero(codes == code) if same else np.flatnonzero(codes != code)
        if not len(members):
            continue
        own = np.searchsorted(members, rows[mine]) if same else None
        local = nearest_rows(X[rows[mine]], X[members], k, own=own)
        found[mine] = np.where(local >= 0, members[local], -1)
    return found


def leave_one_out_votes(neighbor_codes: Array, n_classes: int) -> Array:
    """The class with most votes in each row of (m, k) neighbour codes; equal votes go to the smallest code.

    >>> leave_one_out_votes(np.array([[1, 2, 2], [0, 1, 2]]), 3)
    array([2, 0])
    """
    m = len(neighbor_codes)
    flat = neighbor_codes + np.arange(m)[:, None] * n_classes
    votes = np.bincount(flat.ravel(), minlength=m * n_classes).reshape(m, n_classes)
    result: Array = votes.argmax(axis=1)
    return result
