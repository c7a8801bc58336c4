"""Points that are being clustered: which centre is nearest, and where the middle of a cluster is.

Everything works in blocks of points, on several workers when there is enough to do; results do not depend on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.evaluation._tiles import run

__all__ = ["Points", "blocks", "means", "nearest", "sums", "two_nearest"]

Array = NDArray[Any]

# Up to this many clusters the nearest one is found column by column.
FEW_CLUSTERS = 48


@dataclass(frozen=True, eq=False)
class Points:
    """The points, the squares of their lengths, and how many workers may share the cores."""

    rows: Array  # (n, d) float32
    squares: Array  # (n,) float32
    workers: int

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, chosen: Array) -> Points:
        """Some of the points, by index."""
        return Points(self.rows[chosen], self.squares[chosen], self.workers)

    @property
    def tensor(self) -> torch.Tensor:
        """The same memory as a tensor."""
        return torch.from_numpy(self.rows)

    def distances(self, chosen: Array) -> Array:
        """Squared distances of some of the points to all of them, (len(chosen), n)."""
        rows, squares = self.tensor, torch.from_numpy(self.squares)
        table = torch.addmm(squares, rows[chosen], rows.T, alpha=-2)
        return table.add_(squares[chosen][:, None]).clamp_(min=0).numpy()


def nearest(points: Points, centers: Array) -> tuple[Array, Array]:
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

    return labels, np.sum(blocks(points, r * k, by_columns if k <= FEW_CLUSTERS else by_rows), axis=0)


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


def two_nearest(points: Points, centers: Array) -> tuple[Array, Array, Array]:
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

    blocks(points, len(centers), block)
    return labels, np.maximum(points.squares - 2 * first, 0), np.maximum(points.squares - 2 * second, 0)


def blocks(
    points: Points, width: int, work: Callable[[int, int, Array], Any], *, size: int | None = None
) -> list[Any]:
    """Call `work(start, stop, room)` for blocks of points, with room for `width` numbers for each of them."""
    n, size = len(points), max(256, 2**18 // width) if size is None else size

    def prepare() -> Callable[[int], Any]:
        room = np.empty((min(size, n), width), dtype=np.float32)
        return lambda start: work(start, min(start + size, n), room[: min(size, n - start)])

    starts = range(0, n, size)
    # Starting workers costs more than a small table.
    if n * width * points.rows.shape[1] < 10_000_000:
        return [*map(prepare(), starts)]
    return run(starts, prepare, workers=points.workers)


def sums(rows: Array, labels: Array, k: int) -> Array:
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


def means(points: Points, labels: Array, k: int) -> tuple[Array, Array]:
    """The mean and the size of each cluster; zeros where there is nothing."""
    count = np.bincount(labels, minlength=k)
    return sums(points.rows, labels[None], k) / np.maximum(count, 1)[:, None].astype(np.float32), count
