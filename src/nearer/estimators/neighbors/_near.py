"""Nearest rows of the same or of another class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nearer.estimators._matrices import Array
from nearer.neighbors import search


def nearest_rows(queries: Any, database: Any, k: int, *, own: Array | None = None) -> Array:
    """Row numbers (m, k) of the k nearest rows of the database, nearest first, equal ones by row number.

    `own` (m,) names for each query the database row that is the query itself and is left out (−1 for none).
    Columns beyond the rows that exist are filled with −1.

    >>> nearest_rows(np.array([[0.0]]), np.array([[3.0], [1.0]]), 2)
    array([[1, 0]])
    """
    return search(queries, database, k, own=own).indices.numpy()


# Classes times rows from which the misses of all classes are sought together.
AT_ONCE_FROM = 5_000_000
_WIDE, _TALL = 1 << 15, 256


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
    asked = np.unique(codes[rows])
    if not same and not hasattr(X, "toarray") and len(asked) * len(codes) > AT_ONCE_FROM:
        return _misses_at_once(X, codes, k, rows)
    nearest = np.full((len(rows), k), -1, dtype=np.int64)
    for code in asked:
        mine = np.flatnonzero(codes[rows] == code)
        members = np.flatnonzero(codes == code) if same else np.flatnonzero(codes != code)
        if not len(members):
            continue
        own = np.searchsorted(members, rows[mine]) if same else None
        local = nearest_rows(X[rows[mine]], X[members], k, own=own)
        nearest[mine] = np.where(local >= 0, members[local], -1)
    return nearest


def _misses_at_once(X: Any, codes: Array, k: int, rows: Array) -> Array:
    """The misses of all classes in one pass: class by class, the rows of all others would be copied for each.

    Distances are compared in float32, a few more than k are kept, and those are ordered in float64.
    """
    kept = min(k + 5, len(codes))
    mean = X[rows].mean(axis=0, dtype=np.float64)
    queries = torch.from_numpy((X[rows] - mean).astype(np.float32))
    best = torch.full((len(rows), kept), torch.inf)
    columns_near = torch.zeros((len(rows), kept), dtype=torch.int64)
    for start in range(0, len(codes), _WIDE):
        block = torch.from_numpy((X[start : start + _WIDE] - mean).astype(np.float32))
        squares, classes = block.square().sum(dim=1), codes[start : start + _WIDE]
        for begin in range(0, len(rows), _TALL):
            part = slice(begin, begin + _TALL)
            distance = torch.addmm(squares, queries[part], block.T, alpha=-2.0)
            distance[torch.from_numpy(codes[rows[part], None] == classes)] = torch.inf
            near = distance.topk(min(kept, len(block)), dim=1, largest=False)
            both = torch.cat([best[part], near.values], dim=1)
            chosen = both.topk(kept, dim=1, largest=False).indices
            best[part] = both.gather(1, chosen)
            columns_near[part] = torch.cat([columns_near[part], near.indices + start], dim=1).gather(1, chosen)
    positions = columns_near.numpy()
    squared = np.stack(
        [np.square(X[rows].astype(np.float64) - X[column]).sum(axis=1) for column in positions.T], axis=1
    )
    squared[torch.isinf(best).numpy()] = np.inf
    order = np.lexsort((positions, squared), axis=1)[:, :k]
    misses = np.take_along_axis(np.where(np.isinf(squared), -1, positions), order, axis=1)
    return np.pad(misses, ((0, 0), (0, k - misses.shape[1])), constant_values=-1)
