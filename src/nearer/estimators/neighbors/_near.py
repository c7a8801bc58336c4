"""Nearest rows of the same or of another class."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer.estimators._matrices import Array
from nearer.neighbors import search

__all__ = ["nearest_hits", "nearest_misses", "nearest_rows"]


def nearest_rows(queries: Any, database: Any, k: int, *, own: Array | None = None) -> Array:
    """Row numbers (m, k) of the k nearest rows of the database, nearest first, equal ones by row number.

    `own` (m,) names for each query the database row that is the query itself and is left out (−1 for none).
    Columns beyond the rows that exist are filled with −1.

    >>> nearest_rows(np.array([[0.0]]), np.array([[3.0], [1.0]]), 2)
    array([[1, 0]])
    """
    return search(queries, database, k, own=own).indices.numpy()


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
