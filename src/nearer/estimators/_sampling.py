"""Draw pairs, triplets and quadruplets of rows from class codes; every class is drawn, no row meets itself."""

from __future__ import annotations

import numpy as np

from nearer.estimators._matrices import Array
from nearer.estimators.neighbors._near import nearest_hits, nearest_misses
from nearer.exceptions import LabelError


def default_pairs(codes: Array) -> int:
    """How many random pairs the papers draw of c classes, `40 c (c − 1)`, half of them similar.

    Many classes of few rows have fewer similar pairs than that: no more than these are drawn, and as many others.

    >>> default_pairs(np.repeat([0, 1, 2], 50)), default_pairs(np.repeat(np.arange(100), 5))
    (240, 2000)
    """
    counts = np.bincount(codes)
    n_classes = len(counts)
    return min(40 * n_classes * max(n_classes - 1, 1), max(int((counts * (counts - 1)).sum()), 2))


def _partners(codes: Array, anchors: Array, rng: np.random.RandomState, *, same: bool) -> Array:
    """For each anchor one uniform row of the same class but not itself, or of another class."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    position = np.empty(len(codes), dtype=np.int64)
    position[order] = np.arange(len(codes))
    first, size = starts[codes[anchors]], counts[codes[anchors]]
    if same:
        # Draw from the class without one place, and step over the place of the anchor itself.
        drawn = first + (rng.random_sample(len(anchors)) * (size - 1)).astype(np.int64)
        drawn += drawn >= position[anchors]
    else:
        drawn = (rng.random_sample(len(anchors)) * (len(codes) - size)).astype(np.int64)
        drawn += np.where(drawn >= first, size, 0)
    return order[drawn]


def _check(codes: Array) -> Array:
    """Rows that have another row of their class; refuses labels that allow no pair of one kind."""
    counts = np.bincount(codes)
    if len(counts) < 2:
        raise LabelError("`y` must hold at least two classes, got one. Without two classes nothing is dissimilar.")
    anchors = np.flatnonzero(counts[codes] > 1)
    if not len(anchors):
        raise LabelError(
            f"`y` must hold a class with at least two rows, got {len(counts)} classes of one row. "
            f"Without one nothing is similar."
        )
    return anchors


def random_pairs(codes: Array, m: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """m random pairs (m, 2), the first half of them similar, and the booleans (m,) that say so.

    >>> pairs, similar = random_pairs(np.array([0, 0, 1]), 4, np.random.RandomState(0))
    >>> np.sort(pairs[similar], axis=1).tolist(), len(pairs)
    ([[0, 1], [0, 1]], 4)
    """
    able = _check(codes)
    half = max(1, m // 2)
    hits = able[rng.randint(len(able), size=half)]
    misses = rng.randint(len(codes), size=max(1, m - half))
    left = np.concatenate([hits, misses])
    right = np.concatenate([_partners(codes, hits, rng, same=True), _partners(codes, misses, rng, same=False)])
    return np.column_stack([left, right]), np.arange(len(left)) < half


def _some_rows(codes: Array, most: int | None, rng: np.random.RandomState) -> Array:
    able = _check(codes)
    if most is None or len(able) <= most:
        return able
    return np.sort(rng.permutation(able)[:most])


def near_pairs(
    X: Array, codes: Array, k: int, rng: np.random.RandomState, *, most: int | None = None
) -> tuple[Array, Array]:
    """Each row (at most `most` of them) with its k nearest hits and its k nearest misses.

    >>> X, codes = np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1])
    >>> pairs, similar = near_pairs(X, codes, 1, np.random.RandomState(0))
    >>> pairs.tolist(), similar.tolist()
    ([[0, 1], [1, 0], [0, 2], [1, 2]], [True, True, False, False])
    """
    rows = _some_rows(codes, most, rng)
    hits, misses = nearest_hits(X, codes, k, rows), nearest_misses(X, codes, k, rows)
    parts = [np.column_stack([np.repeat(rows, k), near.ravel()]) for near in (hits, misses)]
    parts = [part[part[:, 1] >= 0] for part in parts]
    return np.concatenate(parts), np.arange(len(parts[0]) + len(parts[1])) < len(parts[0])


def near_triplets(X: Array, codes: Array, k: int, rng: np.random.RandomState, *, most: int | None = None) -> Array:
    """Each row (at most `most` of them) with all k·k combinations of its nearest hits and misses, (m, 3).

    >>> X, codes = np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1])
    >>> near_triplets(X, codes, 1, np.random.RandomState(0)).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    rows = _some_rows(codes, most, rng)
    hits, misses = nearest_hits(X, codes, k, rows), nearest_misses(X, codes, k, rows)
    triplets = np.column_stack(
        [np.repeat(rows, k * k), np.repeat(hits, k, axis=1).ravel(), np.tile(misses, (1, k)).ravel()]
    )
    return triplets[(triplets >= 0).all(axis=1)]
