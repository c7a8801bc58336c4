"""The approximate search: rows in cells, and for every cell one list of candidates that all its queries share.

Because the queries of a cell share their candidates, comparing them is one matrix product. The k best of a row lie
in the k blocks of candidates with the smallest minima, so only those blocks are sorted. How many of the nearest
cells are looked into grows by 2/5 until the recall on a sample of the queries, against the exact search, is
reached: asking the sample again is cheap, and every cell that is not needed is saved for all rows. Where it takes
an eighth of all cells, the exact search is quicker and is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.neighbors._exact import best_first, exact_neighbors, load_faiss, similarities

Floats = NDArray[np.floating]
Positions = NDArray[np.int64]

FIRST_PROBES = 8
ASKED = 200
ROWS = 128
BLOCK = 32
BATCH = 1 << 16


class CellNeighbors(NamedTuple):
    """Similarities (minus the distance) and positions (q, k), and the measured recall."""

    values: Floats
    positions: Positions
    recall: float


class Cells(NamedTuple):
    """A k-means partition: the database in the order of its cells, where each begins, and the centers."""

    rows: Tensor  # (n, d) float32, cell by cell
    squares: Tensor  # (n,)
    order: Positions  # (n,): the number in the database of each row
    starts: Positions  # (cells + 1,)
    centers: NDArray[np.float32]


def cell_neighbors(
    queries: Floats,
    database: Floats,
    k: int,
    *,
    own: Positions | None,
    recall: float,
    seed: int,
) -> CellNeighbors:
    """About the k nearest rows by Euclidean distance of each query (q, d), at least the share `recall` of them.

    Equal distances are ordered by position; queries whose cells hold fewer than k rows are searched exactly.
    """
    middle = database.mean(axis=0)
    same = queries is database
    rough = np.ascontiguousarray(database - middle, dtype=np.float32)
    asking = rough if same else np.ascontiguousarray(queries - middle, dtype=np.float32)
    cells = partition_rows(rough, seed)
    n_cells = len(cells.centers)
    asked = np.random.default_rng(seed).permutation(len(queries))[:ASKED]
    sample = queries[asked]
    _, truth = exact_neighbors(sample, database, k, own=None if own is None else own[asked])
    probes = min(FIRST_PROBES, n_cells)
    while True:
        # The probes are settled on the sample alone; all queries are searched once.
        positions = search_cells(cells, asking[asked], k, probes, None if own is None else own[asked])
        measured = float((truth[:, :, None] == positions[:, None, :]).any(axis=2).mean())
        if measured >= recall:
            break
        if 8 * probes >= n_cells:
            # Rows without clusters: so many cells cost more than all pairs.
            values, positions = exact_neighbors(queries, database, k, own=own)
            return CellNeighbors(values, positions, 1.0)
        probes += -(-2 * probes // 5)
    positions = search_cells(cells, asking, k, probes, own)
    lacking = np.flatnonzero((positions < 0).any(axis=1))
    values = np.empty(positions.shape, dtype=queries.dtype)
    for start in range(0, len(queries), BATCH):
        part = slice(start, start + BATCH)
        values[part] = similarities(queries[part], database, positions[part], similarity="euclidean")
    values, positions = best_first(values, positions)
    if len(lacking):
        values[lacking], positions[lacking] = exact_neighbors(
            queries[lacking], database, k, own=None if own is None else own[lacking]
        )
    return CellNeighbors(values, positions, measured)


def partition_rows(rows: NDArray[np.float32], seed: int) -> Cells:
    """Put rows (n, d) into the cells of a k-means partition, about 2√n of them."""
    faiss = load_faiss()
    n, d = rows.shape
    count = max(1, min(int(2 * n**0.5), n // 40))
    means = faiss.Kmeans(d, count, niter=10, seed=seed, max_points_per_centroid=64)
    means.train(rows)
    centers = np.asarray(means.centroids, dtype=np.float32)
    cell = faiss.knn(rows, centers, 1)[1][:, 0]
    order = np.argsort(cell, kind="stable").astype(np.int64)
    starts = np.searchsorted(cell[order], np.arange(count + 1))
    ordered = torch.from_numpy(rows[order])
    return Cells(ordered, ordered.square().sum(dim=1), order, starts.astype(np.int64), centers)


def search_cells(
    cells: Cells, queries: NDArray[np.float32], k: int, probes: int, own: Positions | None
) -> Positions:
    """Positions (q, k) of the nearest rows in the `probes` cells nearest to each query's own, −1 where too few."""
    faiss = load_faiss()
    positions = np.full((len(queries), k), -1, dtype=np.int64)
    home = faiss.knn(queries, cells.centers, 1)[1][:, 0]
    near_cells = faiss.knn(cells.centers, cells.centers, probes)[1]
    by_home = np.argsort(home, kind="stable")
    first = np.searchsorted(home[by_home], np.arange(len(cells.centers) + 1))
    for cell in np.flatnonzero(np.diff(first)).tolist():
        mine = by_home[first[cell] : first[cell + 1]]
        spans = [(int(cells.starts[c]), int(cells.starts[c + 1])) for c in near_cells[cell].tolist()]
        rows = torch.cat([cells.rows[a:b] for a, b in spans])
        squares = torch.cat([cells.squares[a:b] for a, b in spans])
        numbers = np.concatenate([cells.order[a:b] for a, b in spans])
        for start in range(0, len(mine), ROWS):
            part = mine[start : start + ROWS]
            distance = torch.addmm(squares, torch.from_numpy(queries[part]), rows.T, alpha=-2.0)
            # One more than is needed: where the row itself is among them it goes, elsewhere the farthest.
            values, columns = _smallest(distance, min(k + 1, len(numbers)))
            chosen = numbers[columns.numpy()]
            if own is not None:
                mine_too = chosen == own[part, None]
                values[torch.from_numpy(mine_too)] = torch.inf
                chosen[mine_too] = -1
            order = values.sort(dim=1).indices[:, :k].numpy()
            positions[part, : order.shape[1]] = np.take_along_axis(chosen, order, axis=1)
    return positions


def _smallest(distance: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest entries of each row, in no order: those of the k blocks with the smallest minima."""
    m, n = distance.shape
    if n <= 2 * BLOCK * k:
        return distance.topk(k, dim=1, largest=False, sorted=False)
    whole = n // BLOCK * BLOCK
    blocks = distance[:, :whole].reshape(m, -1, BLOCK)
    best = blocks.amin(dim=2).topk(k, dim=1, largest=False, sorted=False).indices
    inside = blocks.gather(1, best[:, :, None].expand(-1, -1, BLOCK)).reshape(m, -1)
    names = (best[:, :, None] * BLOCK + torch.arange(BLOCK)).reshape(m, -1)
    # What does not fill a block is looked at as it is.
    inside = torch.cat([inside, distance[:, whole:]], dim=1)
    names = torch.cat([names, torch.arange(whole, n).expand(m, -1)], dim=1)
    values, columns = inside.topk(k, dim=1, largest=False, sorted=False)
    return values, names.gather(1, columns)
