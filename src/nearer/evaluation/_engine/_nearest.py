"""Which of the nearest items are right: all that MAP@R, R-precision and Precision@K depend on.

For each query only the first M places matter: M is the number of items it could find, or K. A bound for each
query, estimated from a random sample of the database, lets through about twice as many items as are needed, and
only what passes is kept and sorted. Should the estimate have been too high for a query, which shows because fewer
than M items passed, that query is done again without one: the sample decides about time, never about the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.evaluation._engine._candidates import BestCandidates
from nearer.evaluation._engine._problem import Retrieval, Ties
from nearer.evaluation._engine._sweep import fill
from nearer.evaluation._engine._tiles import SIDE, Products, run

SAMPLE = 2 * SIDE
SMALLEST_SAMPLE = 240


@dataclass(frozen=True, eq=False)
class Profile:
    """What the first places of every query hold; zeros for queries without a positive."""

    hits: dict[int, Array]  # K -> (q,) int64: right items in the first K places
    at_r: Array  # (q,) int64: right items in the first R places, R = the number of right items there are
    average: Array  # (q,) float64: 1/R · the sum of precision@i over the right places i ≤ R

    @staticmethod
    def empty(q: int, ks: Sequence[int]) -> Profile:
        """A profile to be filled."""
        return Profile({k: np.zeros(q, dtype=np.int64) for k in ks}, np.zeros(q, dtype=np.int64), np.zeros(q))

    def put(self, rows: Array, part: Profile) -> None:
        """Copy the rows of a partial profile to their place."""
        for k, hits in part.hits.items():
            self.hits[k][rows] = hits
        self.at_r[rows], self.average[rows] = part.at_r, part.average


def _sample_size(n: int) -> int:
    return min(n, max(SMALLEST_SAMPLE, min(n // 8, SAMPLE)))


def _sample_place(depth: Array, n: int, certain: bool) -> Array:
    """Which place of the sample, counted from 1, is unlikely to be better than place `depth` of all n items."""
    size = _sample_size(n)
    share = depth * (size / n)
    likely = np.ceil(share + 3 * np.sqrt(share) + 3).astype(np.int64)
    # Place M of a part is never better than place M of the whole; one more because the query may be in the sample.
    return np.asarray(depth + 1 if certain else np.minimum(depth + 1, likely))


def expected_candidates(depth: Array, n: int, *, certain: bool = False) -> Array:
    """About how many items of each query will pass its bound, (q,) float64."""
    return np.minimum(_sample_place(depth, n, certain) / _sample_size(n), 1) * n * (depth > 0)


class FirstPlaces:
    """Collects, for every query, its first `depth` items, and turns them into a `Profile`.

    A depth of 0 leaves a query out. `certain` asks for bounds that cannot be too high.
    """

    def __init__(
        self,
        problem: Retrieval,
        products: Products,
        depth: Array,
        ks: Sequence[int],
        ties: Ties,
        *,
        certain: bool = False,
    ) -> None:
        self.problem, self.products, self.ties = problem, products, ties
        self.depth = depth
        self.profile = Profile.empty(products.q, ks)
        self.late = np.zeros(products.q, dtype=bool)  # fewer items passed than were needed
        n = products.n
        self.sample_place = _sample_place(depth, n, certain)
        self.expected = expected_candidates(depth, n, certain=certain)
        self.chosen = np.sort(np.random.default_rng(0).permutation(n)[: _sample_size(n)])
        # Strips of a search in itself are open together, others one after the other.
        blocks = products.query_blocks()
        self.open: dict[int, BestCandidates] = {}
        if problem.symmetric:
            self.open = dict(zip(blocks, run(blocks, self._start), strict=True))

    def see(self, queries: int, items: int, values: Array, mask: Array) -> None:
        """Keep what reaches the bound of its query."""
        if queries not in self.open:
            self.open[queries] = self._start()(queries)
        keep = self.open[queries]
        start = items * values.shape[1]
        np.greater_equal(values, keep.reach(start)[:, None], out=mask)
        if values.flags.c_contiguous:
            flat = np.flatnonzero(mask.reshape(-1))
            row = flat // values.shape[1]
            item = flat - row * values.shape[1]
            value = values.reshape(-1)[flat]
        else:
            flat = np.flatnonzero(mask.T.reshape(-1))
            item = flat // len(values)
            row = flat - item * len(values)
            value = values.T.reshape(-1)[flat]
        item += start
        keep.add(row, value, self._tie(queries * len(values) + row, item))

    def end(self, queries: int) -> None:
        """Sort what was kept and score it."""
        keep = self.open.pop(queries)
        first = queries * self.products.rows
        mine = np.arange(first, min(first + self.products.rows, self.products.q))
        count = len(mine)
        taken, tie = keep.ordered()
        taken = taken[:count]  # rows of padding keep nothing
        self.late[mine] = taken < keep.depth[:count]
        if self.ties == "index":
            hit = self.problem.database_codes[tie] == np.repeat(self.problem.query_codes[mine], taken)
        else:
            hit = tie == (self.ties == "pessimistic")
        at = np.flatnonzero(hit)
        starts = np.cumsum(taken) - taken
        counted = np.diff(np.searchsorted(at, starts), append=len(at))
        row = np.repeat(np.arange(count), counted)
        number_of = at - starts[row]
        number = np.arange(1, len(at) + 1) - (np.cumsum(counted) - counted)[row]
        hits = {k: np.bincount(row[number_of < k], minlength=count) for k in self.profile.hits}
        positives = np.maximum(self.problem.positives[mine], 1)
        inside = number_of < positives[row]
        row, precision = row[inside], number[inside] / (number_of[inside] + 1)
        average = np.bincount(row, weights=precision, minlength=count) / positives
        self.profile.put(mine, Profile(hits, np.bincount(row, minlength=count), average))

    def _start(self) -> Any:
        buffer = self.products.buffer()
        return lambda block: self._candidates(block, buffer)

    def _candidates(self, block: int, buffer: Any) -> BestCandidates:
        rows = self.products.rows
        mine = np.arange(block * rows, min((block + 1) * rows, self.products.q))
        bound = np.full(rows, np.inf, dtype=self.problem.queries.dtype)
        bound[: len(mine)] = self._bound(mine, buffer)
        limit = int(2 * self.expected[mine].sum())
        depth = fill(self.depth[mine], rows, 0)
        return BestCandidates(depth, bound, self.products.n, by_index=self.ties == "index", limit=limit)

    def _bound(self, queries: Array, buffer: Any) -> Array:
        """For each query a value that, as far as the sample tells, at least `depth` items reach."""
        products, dtype, size = self.products, self.problem.queries.dtype, len(self.chosen)
        number_of = self.sample_place[queries]
        bound = np.full(len(queries), np.finfo(dtype).min, dtype=dtype)
        bound[self.depth[queries] == 0] = np.inf
        wanted = (self.depth[queries] > 0) & (number_of <= size)
        if not wanted.any():
            return bound
        values = np.empty((len(queries), size), dtype=dtype)
        for start in range(0, size, products.columns):
            items = self.chosen[start : start + products.columns]
            values[:, start : start + products.columns] = products.gathered(queries, items, buffer)
        if self.problem.penalty is not None:
            values -= self.problem.penalty[self.chosen]
        for each in np.unique(number_of[wanted]):
            rows = np.flatnonzero(wanted & (number_of == each))
            bound[rows] = np.partition(values[rows], size - each, axis=1)[:, size - each]
        return bound

    def _tie(self, query: Array, item: Array) -> Array:
        """What decides between equal values: the index, or which of right and wrong comes first."""
        if self.ties == "index":
            return item
        right = self.problem.database_codes[item] == self.problem.query_codes[query]
        return np.asarray(right == (self.ties == "pessimistic"), dtype=np.int64)
