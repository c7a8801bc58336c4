"""The shared engine of the retrieval scores: decides what has to be looked at, looks once, and answers.

`rank` is asked for what the wanted scores depend on and nothing else. Counting the negatives before the first
positive needs no list of items; lists are kept only as deep as a score looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearer._plain import Array
from nearer.evaluation._engine._first_hit import FirstHit
from nearer.evaluation._engine._nearest import FirstPlaces, Profile, expected_candidates
from nearer.evaluation._engine._problem import Retrieval, Ties
from nearer.evaluation._engine._sweep import Observer, sweep
from nearer.evaluation._engine._tiles import GRAIN, SIDE, Products, block_size

# Candidates that may be kept at a time when all queries are open together: 8 bytes each for float32.
TOGETHER = 72_000_000
# The same for one strip; several arrays of this length exist while they are sorted.
STRIP = 4_000_000


@dataclass(frozen=True, eq=False)
class Ranks:
    """What was asked for, one entry for each query; queries without a positive hold zeros."""

    profile: Profile
    before: Array | None  # (q,) int64: negatives before the first positive


def rank(
    problem: Retrieval, *, ks: Sequence[int] = (), at_r: bool = False, before: bool = False, ties: Ties = "index"
) -> Ranks:
    """Look at the first places of every query.

    `ks` asks for the right items in the first K places, `at_r` for the two numbers that depend on R, `before` for
    the number of negatives before the first positive.
    """
    q, n = len(problem.queries), len(problem.database)
    ranks = Ranks(Profile.empty(q, ks), np.zeros(q, dtype=np.int64) if before else None)
    depth = np.where(problem.answerable, max(ks, default=0), 0)
    if at_r:
        depth = np.maximum(depth, problem.positives)
    depth = np.minimum(depth, n - (problem.itself is not None))
    width = 1 if problem.queries.dtype == np.float32 else 2
    if problem.symmetric and width * expected_candidates(depth, n).sum() <= TOGETHER:
        late = _look(problem, block_size(n), depth, ties, ranks, np.arange(q))
    else:
        late = _in_groups(problem, depth, ties, ranks)
    if late.size:
        rows = _rows(depth[late], n, certain=True)
        only_places = Ranks(ranks.profile, None)
        _look(problem.subset(late), rows, depth[late], ties, only_places, late, certain=True)
    return ranks


def _in_groups(problem: Retrieval, depth: Array, ties: Ties, ranks: Ranks) -> Array:
    """Strip by strip; queries of similar depth share a strip, strips of similar depth a shape."""
    queries = np.flatnonzero(problem.answerable)
    queries = queries[np.argsort(-depth[queries], kind="stable")]
    steps = np.log2(np.maximum(depth[queries], 1)).astype(np.int64) // 2
    late = []
    for group in np.split(queries, np.flatnonzero(np.diff(steps)) + 1):
        rows = _rows(depth[group], len(problem.database))
        late.append(_look(problem.subset(group), rows, depth[group], ties, ranks, group))
    return np.concatenate(late)


def _rows(depth: Array, n: int, *, certain: bool = False) -> int:
    most = float(expected_candidates(depth, n, certain=certain).max())
    rows = min(SIDE, block_size(len(depth)), int(STRIP / max(most, 1)))
    return max(rows // GRAIN, 1) * GRAIN


def _look(
    problem: Retrieval, rows: int, depth: Array, ties: Ties, ranks: Ranks, queries: Array, *, certain: bool = False
) -> Array:
    """One sweep; fills the rows `queries` of the answer and returns those whose bound was too high."""
    products = Products(problem.queries, problem.database, rows, block_size(len(problem.database)))
    ks = list(ranks.profile.hits)
    places = FirstPlaces(problem, products, depth, ks, ties, certain=certain) if depth.any() else None
    first = FirstHit(problem, products, ties) if ranks.before is not None else None
    observers: list[Observer] = [observer for observer in (first, places) if observer is not None]
    sweep(problem, products, observers)
    if first is not None and ranks.before is not None:
        ranks.before[queries] = first.before()
    if places is None:
        return np.empty(0, dtype=np.int64)
    ranks.profile.put(queries, places.profile)
    return np.asarray(queries[places.late])
