"""k-means that is at least as good as the best of ten ordinary runs, in a fraction of their time.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._validation import as_matrix, check_int
from nearer.evaluation.tiles import one_thread, run

__all__ = ["Clustering", "kmeans"]

Array = NDArray[Any]

# With this many clusters and more, starts are few and centres are moved; below, many starts race to the end.
MANY_CLUSTERS = 20
# Up to this many clusters the nearest one is found column by column.
FEW_CLUSTERS = 48
STEPS = 4


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
    """
    matrix = as_matrix(embeddings, "embeddings").detach().cpu().numpy()
    k = check_int(k, "k", minimum=1, maximum=len(matrix))
    rng = np.random.default_rng(check_int(seed, "seed", minimum=0))
    mean = matrix.mean(axis=0, dtype=np.float64)
    centred = matrix - mean
    # The work is done in float32, with the largest entry near 1 so that no square leaves its range.
    scale = float(np.abs(centred).max())
    rows = (centred / (scale if scale > 0 else 1.0)).astype(np.float32)
    with one_thread() as workers:
        points = _Points(rows, np.einsum("ij,ij->i", rows, rows), workers)
        centers = _race(points, k, rng)
        assignments = _hartigan(points, _nearest(points, centers[None])[0][0], k)
    return _result(matrix, mean, assignments, k)


def _result(matrix: Array, mean: Array, assignments: Array, k: int) -> Clustering:
    """Centres and inertia in float64, from the data as they came."""
    count = np.bincount(assignments, minlength=k)
    total = np.zeros((k, matrix.shape[1]))
    inertia = 0.0
    for start in range(0, len(matrix), 8192):
        part = slice(start, start + 8192)
        total += _sums(matrix[part] - mean, assignments[None, part], k)
    centers = total / np.maximum(count, 1)[:, None]
    for start in range(0, len(matrix), 8192):
        part = slice(start, start + 8192)
        difference = matrix[part] - mean - centers[assignments[part]]
        inertia += float(np.einsum("ij,ij->", difference, difference))
    return Clustering(assignments, (centers + mean).astype(matrix.dtype), inertia)


@dataclass(frozen=True, eq=False)
class _Points:
    rows: Array  # (n, d) float32
    squares: Array  # (n,) float32
    workers: int

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, chosen: Array) -> _Points:
        return _Points(self.rows[chosen], self.squares[chosen], self.workers)

    @property
    def tensor(self) -> torch.Tensor:
        return torch.from_numpy(self.rows)

    def distances(self, chosen: Array) -> Array:
        """Squared distances of some of the points to all of them, (len(chosen), n)."""
        rows, squares = self.tensor, torch.from_numpy(self.squares)
        table = torch.addmm(squares, rows[chosen], rows.T, alpha=-2)
        return table.add_(squares[chosen][:, None]).clamp_(min=0).numpy()


def _race(points: _Points, k: int, rng: np.random.Generator) -> Array:
    """Centres from the best of several starts, (k, d): a knock-out on growing samples, then Lloyd's steps."""
    n, many = len(points), k >= MANY_CLUSTERS
    order = rng.permutation(n)
    smallest = max(100 * k, 1000, 0 if many else n // 8)
    sizes = [n]
    while sizes[0] > 1.5 * smallest:
        sizes.insert(0, max(sizes[0] // 4, smallest))
    starts = min(max(250 // k, 2), 16) if k > 1 else 1
    moved = not many
    centers, cost = np.empty((0, k, points.rows.shape[1]), dtype=np.float32), np.empty(0)
    for size in sizes:
        sample = points if size == n else points.some(order[:size])
        if not len(centers):
            centers, cost = _steps(sample, _seeds(sample, k, starts, rng), STEPS)
            centers, cost = _better(centers, cost, -(-starts // 2))
        if len(centers) > 1:
            centers, cost = _steps(sample, centers, STEPS)
        # A sample on which centres may be moved: large enough that what helps there helps everywhere.
        ripe = size == n or size >= 150 * k
        if size < n:
            centers, cost = _better(centers, cost, 1 if many and ripe else max(4, -(-len(centers) // 2)))
        while size == n and len(centers) > 1:
            centers, cost = _better(centers, cost, len(centers) // 2)
            if len(centers) > 1:
                centers, cost = _steps(sample, centers, STEPS)
        if len(centers) == 1:
            best = centers[0]
            if ripe and not moved:
                best, moved = _breathe(sample, best, rng), True
            centers = _lloyd(sample, best, 300 if size == n else 30, 1e-5 if size == n else 1e-3)[None]
    return np.asarray(centers[0])


def _better(centers: Array, cost: Array, count: int) -> tuple[Array, Array]:
    keep = np.argsort(cost, kind="stable")[:count]
    return centers[keep], cost[keep]


def _seeds(points: _Points, k: int, starts: int, rng: np.random.Generator) -> Array:
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


def _nearest(points: _Points, centers: Array) -> tuple[Array, Array]:
    """The nearest centre of each point in each of r sets of centres, (r, n), and the total cost of each, (r,)."""
    r, k, d = centers.shape
    flat = torch.from_numpy(np.ascontiguousarray(centers.reshape(r * k, d)))
    half = (flat * flat).sum(dim=1) / 2
    labels = np.empty((r, len(points)), dtype=np.int64)

    def by_rows(start: int, stop: int, room: Array) -> Any:
        # ‖x‖² − 2 (x·c − ½‖c‖²): the largest bracket belongs to the nearest centre.
        values = torch.addmm(half, points.tensor[start:stop], flat.T, beta=-1, out=torch.from_numpy(room)).numpy()
        values = values.reshape(stop - start, r, k)
        place = values.argmax(axis=2)
        labels[:, start:stop] = place.T
        largest = np.take_along_axis(values, place[:, :, None], axis=2)[:, :, 0]
        return np.sum(points.squares[start:stop, None] - 2 * largest, axis=0, dtype=np.float64)

    def by_columns(start: int, stop: int, room: Array) -> Any:
        table = torch.from_numpy(room.reshape(-1)).view(r * k, stop - start)
        torch.addmm(half[:, None], flat, points.tensor[start:stop].T, beta=-1, out=table)
        place, largest = _first_largest(table.numpy().reshape(r, k, stop - start))
        labels[:, start:stop] = place
        return np.sum(points.squares[start:stop] - 2 * largest, axis=1, dtype=np.float64)

    return labels, np.sum(_blocks(points, r * k, by_columns if k <= FEW_CLUSTERS else by_rows), axis=0)


def _first_largest(values: Array) -> tuple[Array, Array]:
    """argmax and max along the middle axis of (r, k, n); for few k faster than numpy's argmax of short rows."""
    largest = values[:, 0].copy()
    place, number = np.zeros((2, *largest.shape), dtype=np.uint8)
    larger = np.empty(largest.shape, dtype=bool)
    for j in range(1, values.shape[1]):
        np.greater(values[:, j], largest, out=larger)
        np.maximum(values[:, j], largest, out=largest)
        # j is larger than every place so far: its number wins wherever its value did.
        np.multiply(larger.view(np.uint8), np.uint8(j), out=number)
        np.maximum(place, number, out=place)
    return place, largest


def _two_nearest(points: _Points, centers: Array) -> tuple[Array, Array, Array]:
    """The nearest centre of each point, its squared distance, and that of the second nearest."""
    flat = torch.from_numpy(centers)
    half = (flat * flat).sum(dim=1) / 2
    labels = np.empty(len(points), dtype=np.int64)
    first, second = np.empty((2, len(points)), dtype=np.float32)

    def block(start: int, stop: int, room: Array) -> None:
        values = torch.addmm(half, points.tensor[start:stop], flat.T, beta=-1, out=torch.from_numpy(room)).numpy()
        labels[start:stop] = place = values.argmax(axis=1)
        rows = np.arange(stop - start)
        first[start:stop] = values[rows, place]
        values[rows, place] = -np.inf
        second[start:stop] = values.max(axis=1)

    _blocks(points, len(centers), block)
    return labels, np.maximum(points.squares - 2 * first, 0), np.maximum(points.squares - 2 * second, 0)


def _blocks(points: _Points, width: int, work: Callable[[int, int, Array], Any]) -> list[Any]:
    """Call `work(start, stop, room)` for blocks of points, with room for `width` numbers for each of them."""
    n, size = len(points), max(256, 2**18 // width)

    def prepare() -> Callable[[int], Any]:
        room = np.empty((min(size, n), width), dtype=np.float32)
        return lambda start: work(start, min(start + size, n), room[: min(size, n - start)])

    starts = range(0, n, size)
    # Starting workers costs more than a small table.
    if n * width * points.rows.shape[1] < 10_000_000:
        return [*map(prepare(), starts)]
    return run(starts, prepare, workers=points.workers)


def _sums(rows: Array, labels: Array, k: int) -> Array:
    """The sum of the rows of each cluster, (k, d); `labels` is (r, n), a row counts in r clusters."""
    r, n = labels.shape
    if rows.size < 200_000:
        total, data = torch.zeros(k, rows.shape[1], dtype=torch.from_numpy(rows[:0]).dtype), torch.from_numpy(rows)
        for each in torch.from_numpy(labels):
            total.index_add_(0, each, data)
        return total.numpy()
    from scipy.sparse import csr_matrix

    ones, members = np.ones(labels.size, dtype=rows.dtype), labels.T.reshape(-1)
    table = csr_matrix((ones, members, np.arange(0, labels.size + 1, r)), shape=(n, k), copy=False)
    return np.asarray(table.T @ rows)


def _means(points: _Points, labels: Array, k: int) -> tuple[Array, Array]:
    """The mean and the size of each cluster; zeros where there is nothing."""
    count = np.bincount(labels, minlength=k)
    return _sums(points.rows, labels[None], k) / np.maximum(count, 1)[:, None].astype(np.float32), count


def _steps(points: _Points, centers: Array, steps: int) -> tuple[Array, Array]:
    """Some of Lloyd's steps for several sets of centres at once, and the cost of each before the last step."""
    r, k, d = centers.shape
    flat, cost = centers.reshape(r * k, d), np.empty(r)
    for _ in range(steps):
        labels, cost = _nearest(points, flat.reshape(r, k, d))
        labels += np.arange(r)[:, None] * k
        count = np.bincount(labels.reshape(-1), minlength=r * k)[:, None]
        # A centre without points stays where it is: a race has other starts.
        means = _sums(points.rows, labels, r * k) / np.maximum(count, 1).astype(np.float32)
        flat = np.where(count > 0, means, flat)
    return flat.reshape(r, k, d), cost


def _lloyd(points: _Points, centers: Array, steps: int, tolerance: float) -> Array:
    """Lloyd's steps until the cost falls by less than a fraction `tolerance`."""
    before = np.inf
    for _ in range(steps):
        (labels,), (cost,) = _nearest(points, centers[None])
        means, count = _means(points, labels, len(centers))
        empty = np.flatnonzero(count == 0)
        if len(empty):
            # The points that fit worst become centres.
            distance = points.squares - 2 * np.einsum("ij,ij->i", points.rows, means[labels])
            distance += np.einsum("ij,ij->i", means, means)[labels]
            means[empty] = points.rows[np.argsort(-distance, kind="stable")[: len(empty)]]
        centers = means
        if before - cost <= tolerance * cost:
            break
        before = cost
    return centers


def _breathe(points: _Points, centers: Array, rng: np.random.Generator) -> Array:
    """Move centres from where they are missed least to where the error is largest, as long as that helps."""
    k = len(centers)
    labels, first, _ = _two_nearest(points, centers)
    cost = float(first.sum(dtype=np.float64))
    moves = max(k // 10, 1)
    for _ in range(6):
        error, size = np.bincount(labels, weights=first, minlength=k), np.bincount(labels, minlength=k)
        worst = np.argsort(-error, kind="stable")[:moves]
        step = rng.normal(size=(moves, centers.shape[1]))
        radius = np.sqrt(error[worst] / np.maximum(size[worst], 1))
        step *= (0.3 * radius / np.linalg.norm(step, axis=1))[:, None]
        more = np.concatenate([centers, (centers[worst] + step).astype(np.float32)])
        more = _lloyd(points, more, 4, 1e-3)
        labels_, first_, second_ = _two_nearest(points, more)
        missed = np.bincount(labels_, weights=second_ - first_, minlength=k + moves)
        new = _lloyd(points, np.delete(more, _least_missed(more, missed, moves), axis=0), 4, 1e-3)
        labels_, first_, _ = _two_nearest(points, new)
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
    product = centers @ centers.T
    square = np.diagonal(product)
    distance = square[:, None] + square - 2 * product
    np.fill_diagonal(distance, -1)
    order = np.argsort(missed, kind="stable").tolist()
    free = np.ones(len(centers), dtype=bool)
    taken: list[int] = []
    for j in order:
        if free[j] and len(taken) < count:
            taken.append(j)
            free[j] = False
            if np.count_nonzero(free) > 2 * (count - len(taken)):
                free[np.argsort(distance[j], kind="stable")[1:4]] = False
    rest = set(order) - set(taken)
    return taken + [j for j in order if j in rest][: count - len(taken)]


def _hartigan(points: _Points, labels: Array, k: int) -> Array:
    """Move points by Hartigan's rule, many at a time, as long as the cost falls; returns the assignments."""
    n = len(points)
    energy = float(points.squares.sum(dtype=np.float64))
    centers, count = _means(points, labels, k)
    cost = _cost(energy, centers, count)
    target, gain = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.float32)
    for _ in range(30):
        # n/(n+1) · ‖x − c‖² = n/(n+1) · ‖x‖² − 2 n/(n+1) · x·c + n/(n+1) · ‖c‖², one matrix product.
        join = (count / (count + 1)).astype(np.float32)
        leave = np.where(count > 1, (count + 1) / np.maximum(count - 1, 1), 0).astype(np.float32)
        flat, weight = torch.from_numpy(centers), torch.from_numpy(join)
        scaled, offset = -2 * weight[:, None] * flat, weight * (flat * flat).sum(dim=1)
        squares = torch.from_numpy(points.squares)

        def block(start: int, stop: int, room: Array) -> None:
            table = torch.addmm(offset, points.tensor[start:stop], scaled.T, out=torch.from_numpy(room))  # noqa: B023
            values = table.addr_(squares[start:stop], weight).numpy()  # noqa: B023
            rows, own = np.arange(stop - start), labels[start:stop]  # noqa: B023
            stay = values[rows, own] * leave[own]  # noqa: B023
            values[rows, own] = np.inf
            target[start:stop] = place = values.argmin(axis=1)
            gain[start:stop] = stay - values[rows, place]

        if k == 1:
            break
        _blocks(points, k, block)
        movers = np.flatnonzero(gain > 1e-6 * energy / n)
        movers = movers[np.argsort(-gain[movers], kind="stable")]
        # Each gain supposes that nothing else moves. When all moves together do not pay, fewer of the best may.
        while len(movers):
            moved = labels.copy()
            moved[movers] = target[movers]
            centers_, count_ = _means(points, moved, k)
            cost_ = _cost(energy, centers_, count_)
            if cost_ < cost:
                break
            movers = movers[: len(movers) // 4]
        if not len(movers):
            break
        fall, labels, centers, count, cost = cost - cost_, moved, centers_, count_, cost_
        if fall < 1e-5 * cost:
            break
    return labels


def _cost(energy: float, centers: Array, count: Array) -> float:
    """Σ‖x‖² − Σ_c n_c‖c‖², the inertia of clusters around their means."""
    return energy - float(count @ np.einsum("ij,ij->i", centers, centers, dtype=np.float64))
