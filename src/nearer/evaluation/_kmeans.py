"""k-means as good as the best of ten ordinary runs, in a fraction of their time.

Minimises Σ_i ‖x_i − c_{a_i}‖² over k centres c and assignments a. Four known ideas, in the order of their use:

1. Several starts race on a small sample, each seeded by greedy k-means++; the better half goes on to a sample four
   times as large, until one is left on all points. All starts share one matrix product.
2. With many clusters the race is not enough: centres stand close together in one place and are missing in another.
   `_breathe` adds centres where the error is largest, lets them settle, and takes as many away where they are
   missed least; what does not lower the error is undone.
3. Lloyd's steps on all points.
4. Lloyd's steps stop too early when clusters are small, because a point pulls the centre it belongs to. Hartigan's
   rule takes that pull into account: moving x from cluster a to b pays when

       n_a/(n_a − 1) · ‖x − c_a‖²  >  n_b/(n_b + 1) · ‖x − c_b‖².

   Its fixed points are fixed points of Lloyd's steps too, and there are fewer of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.evaluation._hartigan import hartigan
from nearer.evaluation._points import Points, means, nearest, sums, two_nearest
from nearer.evaluation._tiles import one_thread

__all__ = ["Clustering", "kmeans"]

Array = NDArray[Any]

# With this many clusters and more, starts are few and centres are moved; below, many starts race to the end.
MANY_CLUSTERS = 20
# From here on a start is expensive, and centres are drawn many at a time.
CROWDED = 500


@dataclass(frozen=True, eq=False)
class Clustering:
    """The result of k-means."""

    assignments: Array  # (n,) int64 in 0..k−1
    centers: Array  # (k, d) in the dtype of the data; the mean of the points assigned to it
    inertia: float  # Σ_i ‖x_i − c_{a_i}‖²


def kmeans(embeddings: Any, k: int, *, seed: int = 0) -> Clustering:
    """Group points around k centres: minimise Σ_i ‖x_i − c_{a_i}‖².

    `embeddings` has shape (n, d), with n ≥ k. The result is the same for the same seed, whatever the number of
    threads. Fewer than k different points leave clusters empty; the centre of an empty cluster is the mean of all.

    >>> result = kmeans([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> result.assignments[0] == result.assignments[1] != result.assignments[2] == result.assignments[3]
    np.True_
    >>> sorted(result.centers.ravel().tolist()), result.inertia
    ([0.5, 10.5], 1.0)

    Args:
        embeddings: points, (n, d).
        k: clusters.
        seed: draws the starts.
    """
    matrix = as_matrix(embeddings, "embeddings").detach().cpu().numpy()
    k = check_int(k, "k", minimum=1, maximum=len(matrix))
    rng = np.random.default_rng(check_int(seed, "seed", minimum=0))
    mean = matrix.mean(axis=0, dtype=np.float64)
    rows = _centered(matrix, mean)
    with one_thread() as workers:
        points = Points(rows, np.einsum("ij,ij->i", rows, rows), workers)
        centers = _race(points, k, rng)
        assignments = hartigan(points, nearest(points, centers[None])[0][0], k)
    return _result(matrix, mean, assignments, k)


def _centered(matrix: Array, mean: Array) -> Array:
    """The data around their mean as float32, the largest entry near 1 so that no square leaves its range."""
    starts = range(0, len(matrix), 8192)
    scale = max(float(np.abs(matrix[start : start + 8192] - mean).max()) for start in starts)
    rows = np.empty(matrix.shape, dtype=np.float32)
    for start in starts:
        rows[start : start + 8192] = (matrix[start : start + 8192] - mean) / (scale if scale > 0 else 1.0)
    return rows


def _result(matrix: Array, mean: Array, assignments: Array, k: int) -> Clustering:
    """Centres and inertia in float64, from the data as they came."""
    count = np.bincount(assignments, minlength=k)
    total = np.zeros((k, matrix.shape[1]))
    inertia = 0.0
    for start in range(0, len(matrix), 8192):
        part = slice(start, start + 8192)
        total += sums(matrix[part] - mean, assignments[None, part], k)
    centers = total / np.maximum(count, 1)[:, None]
    for start in range(0, len(matrix), 8192):
        part = slice(start, start + 8192)
        difference = matrix[part] - mean - centers[assignments[part]]
        inertia += float(np.einsum("ij,ij->", difference, difference))
    return Clustering(assignments, (centers + mean).astype(matrix.dtype), inertia)


def _race(points: Points, k: int, rng: np.random.Generator) -> Array:
    """Centres from the best of several starts, (k, d): a knock-out on growing samples, then Lloyd's steps."""
    n, many = len(points), k >= MANY_CLUSTERS
    order = rng.permutation(n)
    smallest = max(100 * k, 1000, 0 if many else n // 8)
    sizes = [n]
    while sizes[0] > 1.5 * smallest:
        sizes.insert(0, max(sizes[0] // 4, smallest))
    # A start costs little on the sample of a large set, and small differences between optima take more of them.
    most, final, steps = (24, 8, 5) if n >= 5000 else (16, 6, 4)
    starts = 1 if k == 1 or k > CROWDED else min(max(250 // k, 2), most)
    moved = not many
    centers, cost = np.empty((0, k, points.rows.shape[1]), dtype=np.float32), np.empty(0)
    for size in sizes:
        sample = points if size == n else points.some(order[:size])
        if not len(centers):
            seeds = _many_seeds(sample, k, rng) if k > CROWDED else _seeds(sample, k, starts, rng)
            centers, cost = _steps(sample, seeds, 2 if k > CROWDED else steps)
            centers, cost = _better(centers, cost, -(-starts // 2))
        if len(centers) > 1:
            centers, cost = _steps(sample, centers, steps)
        # A sample on which centres may be moved: large enough that what helps there helps everywhere.
        ripe = size == n or size >= 150 * k
        if size < n:
            centers, cost = _better(centers, cost, 1 if many and ripe else max(final, -(-len(centers) // 2)))
        while size == n and len(centers) > 1:
            centers, cost = _better(centers, cost, len(centers) // 2)
            if len(centers) > 1:
                centers, cost = _steps(sample, centers, steps)
        if len(centers) == 1:
            best = centers[0]
            if ripe and not moved:
                best, moved = _breathe(sample, best, rng), True
            # Of many centres Hartigan's rule, which keeps lists of the near ones, takes care at less cost.
            limit = 2 if k > CROWDED else 300 if size == n else 30
            centers = _lloyd(sample, best, limit, 1e-5 if size == n else 1e-3)[None]
    return np.asarray(centers[0])


def _better(centers: Array, cost: Array, count: int) -> tuple[Array, Array]:
    keep = np.argsort(cost, kind="stable")[:count]
    return centers[keep], cost[keep]


def _seeds(points: Points, k: int, starts: int, rng: np.random.Generator) -> Array:
    """Greedy k-means++ for several starts at once, (starts, k, d).

    Each step draws a few candidates with probability proportional to their squared distance from the centres so
    far, and keeps the one that lowers the error most.
    """
    n = len(points)
    tries = 2 + int(np.log(k))
    chosen = np.empty((starts, k), dtype=np.int64)
    chosen[:, 0] = rng.integers(n, size=starts)
    closest = points.distances(chosen[:, 0])
    each = np.arange(starts)
    for step in range(1, k):
        total = np.cumsum(closest, axis=1, dtype=np.float64)
        draws = rng.random((starts, tries)) * total[:, -1:]
        found = [np.searchsorted(row, draw, side="right") for row, draw in zip(total, draws, strict=True)]
        candidates = np.minimum(np.stack(found), n - 1)
        table = points.distances(candidates.reshape(-1)).reshape(starts, tries, n)
        np.minimum(table, closest[:, None], out=table)
        best = table.sum(axis=2, dtype=np.float64).argmin(axis=1)
        closest, chosen[:, step] = table[each, best], candidates[each, best]
    return points.rows[chosen]


def _many_seeds(points: Points, k: int, rng: np.random.Generator) -> Array:
    """k-means++ for many centres, a sixty-fourth of them at a time, (1, k, d).

    Centres of one draw do not know of each other; the steps that follow repair what that spoils.
    """
    n = len(points)
    chosen = rng.integers(n, size=1)
    closest = points.distances(chosen)[0]
    while len(chosen) < k:
        count = min(max(k // 64, 1), k - len(chosen))
        # The smallest of exponential times with the distances as rates: a draw without replacement.
        time = rng.exponential(size=n) / np.maximum(closest, np.finfo(np.float32).tiny)
        new = np.argpartition(time, count - 1)[:count]
        for start in range(0, count, 256):
            np.minimum(closest, points.distances(new[start : start + 256]).min(axis=0), out=closest)
        chosen = np.concatenate([chosen, new])
    return points.rows[chosen][None]


def _steps(points: Points, centers: Array, steps: int) -> tuple[Array, Array]:
    """Some of Lloyd's steps for several sets of centres at once, and the cost of each before the last step."""
    r, k, d = centers.shape
    flat, cost = centers.reshape(r * k, d), np.empty(r)
    for _ in range(steps):
        labels, cost = nearest(points, flat.reshape(r, k, d))
        labels += np.arange(r)[:, None] * k
        count = np.bincount(labels.reshape(-1), minlength=r * k)[:, None]
        # A centre without points stays where it is: a race has other starts.
        middle = sums(points.rows, labels, r * k) / np.maximum(count, 1).astype(np.float32)
        flat = np.where(count > 0, middle, flat)
    return flat.reshape(r, k, d), cost


def _lloyd(points: Points, centers: Array, steps: int, tolerance: float) -> Array:
    """Lloyd's steps until the cost falls by less than a fraction `tolerance`."""
    before = np.inf
    for _ in range(steps):
        (labels,), (cost,) = nearest(points, centers[None])
        middle, count = means(points, labels, len(centers))
        empty = np.flatnonzero(count == 0)
        if len(empty):
            # The points that fit worst become centres.
            distance = points.squares - 2 * np.einsum("ij,ij->i", points.rows, middle[labels])
            distance += np.einsum("ij,ij->i", middle, middle)[labels]
            middle[empty] = points.rows[np.argsort(-distance, kind="stable")[: len(empty)]]
        centers = middle
        if before - cost <= tolerance * cost:
            break
        before = cost
    return centers


def _breathe(points: Points, centers: Array, rng: np.random.Generator) -> Array:
    """Move centres from where they are missed least to where the error is largest, as long as that helps."""
    k = len(centers)
    labels, first, _ = two_nearest(points, centers)
    cost = float(first.sum(dtype=np.float64))
    moves = max(k // 10, 1)
    cycles, steps = (2, 2) if k > CROWDED else (6, 4)
    for _ in range(cycles):
        error, size = np.bincount(labels, weights=first, minlength=k), np.bincount(labels, minlength=k)
        worst = np.argsort(-error, kind="stable")[:moves]
        step = rng.normal(size=(moves, centers.shape[1]))
        radius = np.sqrt(error[worst] / np.maximum(size[worst], 1))
        step *= (0.3 * radius / np.linalg.norm(step, axis=1))[:, None]
        more = np.concatenate([centers, (centers[worst] + step).astype(np.float32)])
        more = _lloyd(points, more, steps, 1e-3)
        labels_, first_, second_ = two_nearest(points, more)
        missed = np.bincount(labels_, weights=second_ - first_, minlength=k + moves)
        new = _lloyd(points, np.delete(more, _least_missed(more, missed, moves), axis=0), steps, 1e-3)
        labels_, first_, _ = two_nearest(points, new)
        cost_ = float(first_.sum(dtype=np.float64))
        if cost_ < cost * (1 - 1e-4):
            centers, cost, labels, first = new, cost_, labels_, first_
        else:
            moves //= 2
            if not moves:
                break
    return centers


def _least_missed(centers: Array, missed: Array, count: int) -> list[int]:
    """Which centres to take away: `missed` is what each would cost alone, so neighbours are not taken together."""
    rows = torch.from_numpy(centers)
    squares = (rows * rows).sum(dim=1)
    order = np.argsort(missed, kind="stable").tolist()
    free = np.ones(len(centers), dtype=bool)
    spare = len(centers)
    taken: list[int] = []
    for j in order:
        if len(taken) == count:
            break
        if not free[j]:
            continue
        taken.append(j)
        free[j] = False
        spare -= 1
        if spare > 2 * (count - len(taken)) + 3:
            distance = (squares - 2 * torch.mv(rows, rows[j])).numpy()
            distance[j] = np.inf
            close = np.argpartition(distance, 2)[:3]
            spare -= int(np.count_nonzero(free[close]))
            free[close] = False
    rest = set(order) - set(taken)
    return taken + [j for j in order if j in rest][: count - len(taken)]
