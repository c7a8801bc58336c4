"""How many wrong items come before the first right one: all that Recall@K and the reciprocal rank depend on.

Two steps, neither of which holds a q × n array:

1. The best item of the query's own class, `best_positive`. Items are gathered class by class, so this looks at
   the pairs of one class only.
2. `FirstHit` counts the items with a larger value. The best positive is the largest of its class, so whatever is
   larger is a negative and no class needs to be looked up.

An item with exactly the value of the best positive comes before it when its index is smaller. In all tiles but one
of a query either every index is smaller or none is, so there the tie rule is the choice between > and ≥.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nearer._plain import Array
from nearer.evaluation._engine._problem import Retrieval, Ties
from nearer.evaluation._engine._sweep import fill
from nearer.evaluation._engine._tiles import Products, run


@dataclass(frozen=True, eq=False)
class Best:
    """The closest item of each query's own class."""

    value: Array  # (q,), +∞ where there is none, so that nothing comes before it
    index: Array  # (q,) int64, the smallest index that has this value; −1 where there is none
    equal: Array  # (q,) int64, how many items of the class have this value


class FirstHit:
    """Counts, for every query, the items of other classes that come before the first item of its own.

    The order is value down, then index up ("index"); on equal values every negative stands before ("pessimistic")
    or behind ("optimistic") the positives. Queries without a positive count nothing.
    """

    def __init__(self, problem: Retrieval, products: Products, ties: Ties) -> None:
        best = best_positive(problem, products)
        length = len(products.queries)
        self.q, self.ties = products.q, ties
        self.value = fill(best.value, length, np.inf)
        self.index = fill(best.index, length, -1)
        self.equal = best.equal
        # x > below is x ≥ value.
        self.below = np.nextafter(self.value, -np.inf, dtype=self.value.dtype)
        self.below[np.isinf(self.value)] = np.inf
        self.count = np.zeros(length, dtype=np.int64)
        self.lock = threading.Lock()

    def see(self, queries: int, items: int, values: Array, mask: Array) -> None:
        """Add what one tile holds."""
        # A block of queries may be the rows of one tile and the columns of another, whose shape is the same then.
        mine = slice(queries * len(values), (queries + 1) * len(values))
        width = values.shape[1]
        start = items * width
        if self.ties == "index":
            bound = np.where(self.index[mine] >= start + width, self.below[mine], self.value[mine])
        else:
            bound = self.below[mine] if self.ties == "pessimistic" else self.value[mine]
        count = _exceed(values, bound, mask)
        if self.ties == "index":
            column = self.index[mine] - start
            here = np.flatnonzero((column >= 0) & (column < width))
            equal = values[here] == self.value[mine][here, None]
            equal &= np.arange(width) < column[here, None]
            count[here] += np.count_nonzero(equal, axis=1)
        with self.lock:
            self.count[mine] += count

    def end(self, queries: int) -> None:
        """Nothing is left to do."""

    def before(self) -> Array:
        """The negatives before the first positive, (q,) int64."""
        count = self.count[: self.q]
        # Counted with ≥ the positives that tie with the best one are in it too.
        return count - self.equal if self.ties == "pessimistic" else count


def _exceed(values: Array, bound: Array, mask: Array) -> Array:
    """How many values of each row exceed the bound of that row, (rows,) int64.

    Eight comparisons are added at a time, as the bytes of one integer. No byte overflows: a tile has at most 960
    columns in groups of eight, and its rows, a multiple of 24, are added in four parts.
    """
    np.greater(values, bound[:, None], out=mask)
    if mask.flags.c_contiguous:
        parts = mask.view(np.uint64).sum(axis=1).view(np.uint8)
        return np.asarray(parts.reshape(len(mask), 8).sum(axis=1, dtype=np.int64))
    words = mask.T.view(np.uint64)
    parts = words.reshape(4, len(words) // 4, -1).sum(axis=1).view(np.uint8)
    return np.asarray(parts.sum(axis=0, dtype=np.int64))


def best_positive(problem: Retrieval, products: Products) -> Best:
    """The largest value of an item of the query's class, found class by class."""
    q = len(problem.queries)
    value = np.full(q, -np.inf, dtype=problem.queries.dtype)
    index = np.full(q, -1, dtype=np.int64)
    equal = np.zeros(q, dtype=np.int64)

    def prepare() -> Callable[[_Job], list[_Found]]:
        buffer = products.buffer()
        return lambda job: _search(problem, products.gathered(job.rows, job.columns, buffer), job)

    for part in run(_jobs(problem, products.rows, products.columns), prepare):
        for rows, largest, first, count in part:
            old = value[rows]
            better, tied = largest > old, largest == old
            value[rows] = np.where(better, largest, old)
            earliest = np.where(index[rows] < 0, first, np.minimum(index[rows], first))
            index[rows] = np.where(better, first, np.where(tied, earliest, index[rows]))
            equal[rows] = np.where(better, count, equal[rows] + np.where(tied, count, 0))
    none = ~problem.answerable
    value[none], index[none], equal[none] = np.inf, -1, 0
    return Best(value, index, equal)


# Queries, the largest value of each, the first item that has it, and how many have it.
_Found = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class _Job:
    """One tile of pairs in which every query meets items of its class."""

    rows: Array  # queries
    columns: Array  # items
    parts: list[tuple[slice, slice]]  # where in the tile each class stands
    both: bool = False  # the columns are queries too and meet the rows here only


def _jobs(problem: Retrieval, rows: int, columns: int) -> Iterator[_Job]:
    """Tiles of queries and items, class by class: several small classes share a tile, large ones take many."""
    order_q = np.argsort(problem.query_codes, kind="stable")
    order_d = order_q if problem.symmetric else np.argsort(problem.database_codes, kind="stable")
    classes = int(max(problem.query_codes.max(), problem.database_codes.max())) + 1
    ends_q = np.cumsum(np.bincount(problem.query_codes, minlength=classes))
    ends_d = np.cumsum(np.bincount(problem.database_codes, minlength=classes))
    pending: list[tuple[Array, Array]] = []
    room = [rows, columns]
    start_q = start_d = 0
    for end_q, end_d in zip(ends_q.tolist(), ends_d.tolist(), strict=True):
        mine, theirs = order_q[start_q:end_q], order_d[start_d:end_d]
        start_q, start_d = end_q, end_d
        if not len(mine) or not len(theirs):
            continue
        if len(mine) > rows or len(theirs) > columns:
            yield from _large(mine, theirs, rows, columns, problem.symmetric)
            continue
        if len(mine) > room[0] or len(theirs) > room[1]:
            yield _packed(pending)
            pending, room = [], [rows, columns]
        pending.append((mine, theirs))
        room[0] -= len(mine)
        room[1] -= len(theirs)
    if pending:
        yield _packed(pending)


def _large(mine: Array, theirs: Array, rows: int, columns: int, symmetric: bool) -> Iterator[_Job]:
    for a in range(0, len(mine), rows):
        for b in range(a if symmetric else 0, len(theirs), columns):
            left, right = mine[a : a + rows], theirs[b : b + columns]
            yield _Job(left, right, [(slice(0, len(left)), slice(0, len(right)))], symmetric and a != b)


def _packed(classes: list[tuple[Array, Array]]) -> _Job:
    parts, a, b = [], 0, 0
    for mine, theirs in classes:
        parts.append((slice(a, a + len(mine)), slice(b, b + len(theirs))))
        a, b = a + len(mine), b + len(theirs)
    return _Job(np.concatenate([mine for mine, _ in classes]), np.concatenate([both for _, both in classes]), parts)


def _search(problem: Retrieval, tile: Array, job: _Job) -> list[_Found]:
    rows, columns, parts, penalty = job.rows, job.columns, job.parts, problem.penalty
    values = tile if penalty is None else tile - penalty[columns]
    itself = None if problem.itself is None else problem.itself[rows]
    if len(parts) > 1 and len(rows) < 16 * len(parts):
        return [_by_pairs(values, itself, job)]
    results = []
    for mine, theirs in parts:
        block = values[mine, theirs]
        if itself is not None and not job.both:
            _remove_self(block, itself[mine], columns[theirs])
        largest, column, count = _first_maximum(block)
        results.append((rows[mine], largest, columns[theirs][column], count))
    if job.both:
        values = tile if penalty is None else tile - penalty[rows][:, None]
        largest, column, count = _first_maximum(values.T)
        results.append((columns, largest, rows[column], count))
    return results


def _first_maximum(values: Array) -> tuple[Array, Array, Array]:
    """The maximum of each row, the first column that has it, and how many do.

    Looks for the maximum first and for its places afterwards: numpy's argmax is slow along columns.
    """
    largest = values.max(axis=1)
    if values.T.flags.c_contiguous:
        column, row = np.divmod(np.flatnonzero((values == largest[:, None]).T), len(values))
    else:
        row, column = np.divmod(np.flatnonzero(values == largest[:, None]), values.shape[1])
    first = np.empty(len(values), dtype=np.int64)
    first[row[::-1]] = column[::-1]  # of several places the one written last stays, which is the first
    return largest, first, np.bincount(row, minlength=len(values))


def _by_pairs(values: Array, itself: Array | None, job: _Job) -> _Found:
    """Many classes of a few items: a list of the pairs instead of a visit to every class."""
    rows, columns = job.rows, job.columns
    width = np.concatenate([np.full(a.stop - a.start, b.stop - b.start) for a, b in job.parts])
    begin = np.concatenate([np.full(a.stop - a.start, b.start) for a, b in job.parts])
    ends = np.cumsum(width)
    row = np.repeat(np.arange(len(rows)), width)
    column = np.arange(ends[-1]) - np.repeat(ends - width - begin, width)
    pairs = values[row, column]
    if itself is not None:
        pairs[itself[row] == columns[column]] = -np.inf
    largest = np.maximum.reduceat(pairs, ends - width)
    at = np.flatnonzero(pairs == largest[row])
    count = np.bincount(row[at], minlength=len(rows))
    return rows, largest, columns[column[at[np.cumsum(count) - count]]], count


def _remove_self(block: Array, itself: Array, columns: Array) -> None:
    """The columns are sorted and hold a query at most once."""
    column = np.minimum(np.searchsorted(columns, itself), len(columns) - 1)
    here = np.flatnonzero(columns[column] == itself)
    block[here, column[here]] = -np.inf
