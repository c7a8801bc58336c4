"""Who is near whom: the k nearest neighbours of every item, exactly or by cells, never with an n×n array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from nearer._validation import as_matrix, check_choice, check_int
from nearer.exceptions import NotFiniteError
from nearer.geometry import normalize

__all__ = ["Method", "Neighbors", "nearest_neighbors"]

Method = Literal["auto", "exact", "approximate"]

# Up to here comparing all pairs takes a minute at most; above, cells are searched.
EXACT_UP_TO = 60_000
BLOCK_ENTRIES = 1 << 23
RECALL_QUERIES = 200


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The k nearest other items of every item, nearest first, equal ones by index.

    `recall` is the measured share of true neighbours among those found, 1.0 when the search was exact.
    """

    indices: Tensor  # (n, k) int64
    distances: Tensor  # (n, k)
    recall: float = 1.0

    @property
    def n(self) -> int:
        """How many items there are."""
        return int(self.indices.shape[0])

    @property
    def k(self) -> int:
        """How many neighbours each has."""
        return int(self.indices.shape[1])


def nearest_neighbors(
    embeddings: Any, *, k: int = 10, method: Method = "auto", normalized: bool = True, seed: int = 0
) -> Neighbors:
    """The directed graph of the k nearest neighbours by Euclidean distance: (n, d) -> (n, k) indices and distances.

    With `normalized` the rows are brought to length one first, so that the order is that of the cosine; a row of
    zeros has no direction and is refused. An item is left out of its own neighbours by index: a twin counts. k is
    cut to n − 1. "exact" compares all pairs in blocks; "approximate" looks into the nearest cells of a k-means
    partition (`seed` is its) and measures the recall on 200 items; "auto" is exact up to 60,000 items.

    >>> nearest_neighbors([[0.0], [1.0], [1.0], [5.0]], k=2, normalized=False).indices.tolist()
    [[1, 2], [2, 0], [1, 0], [1, 2]]
    """
    x = as_matrix(embeddings, "embeddings", minimum_rows=2).detach()
    wanted = min(check_int(k, "k"), len(x) - 1)
    check_choice(method, "method", get_args(Method))
    if normalized:
        empty = (x == 0).all(dim=1)
        if empty.any():
            raise NotFiniteError(
                f"`embeddings` must have a direction in every row, got {int(empty.sum())} rows of zeros, the first "
                f"at {int(empty.nonzero()[0])}. Drop them, or pass normalized=False."
            )
        x = normalize(x)
    if method == "approximate" or (method == "auto" and len(x) > EXACT_UP_TO):
        return _by_cells(x, wanted, check_int(seed, "seed", minimum=0))
    return Neighbors(*_exactly(x, wanted, torch.arange(len(x))))


def _exactly(x: Tensor, k: int, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Neighbours of some rows among all, block by block."""
    n = len(x)
    # Distances do not change under a shift, and about the mean they lose fewer digits.
    centered = x - x.mean(dim=0)
    size = centered.square().sum(dim=1)
    step = max(1, BLOCK_ENTRIES // n)
    indices = torch.empty(len(rows), k, dtype=torch.int64)
    distances = torch.empty(len(rows), k, dtype=x.dtype)
    more = min(k + 1, n - 1)
    for start in range(0, len(rows), step):
        mine = rows[start : start + step]
        squared = torch.addmm(size[None, :], centered[mine], centered.T, alpha=-2.0)
        squared[torch.arange(len(mine)), mine] = torch.inf
        values, found = squared.topk(more, dim=1, largest=False, sorted=True)
        if more > k:
            # A tie at the border, up to the rounding of the product: decided by the exact distance, then by index.
            slack = 8 * torch.finfo(x.dtype).eps * (size[mine] + values[:, k - 1].abs() + size.max())
            for row in (values[:, k] - values[:, k - 1] <= slack).nonzero()[:, 0].tolist():
                near = (squared[row] <= values[row, k - 1] + slack[row]).nonzero()[:, 0]
                exact = (x[mine[row]] - x[near]).square().sum(dim=1)
                found[row, :k] = near[exact.argsort(stable=True)[:k]]
        near = found[:, :k].sort(dim=1).values
        # From the differences, so that twins are at distance zero whatever the product rounded to.
        exact = (x[mine][:, None] - x[near]).square().sum(dim=2).sqrt()
        ordered, order = exact.sort(dim=1, stable=True)
        indices[start : start + step] = near.gather(1, order)
        distances[start : start + step] = ordered
    return indices, distances


def _by_cells(x: Tensor, k: int, seed: int) -> Neighbors:
    """Search the nearest 16 of about 2√n cells; rows whose cells hold too few items are done exactly."""
    import faiss

    n, d = x.shape
    rows = np.ascontiguousarray(x.numpy(), dtype=np.float32)
    cells = max(1, min(int(2 * n**0.5), n // 40))
    quantizer = faiss.IndexFlatL2(d)
    index = faiss.IndexIVFFlat(quantizer, d, cells)
    index.cp.seed, index.cp.niter, index.cp.max_points_per_centroid = seed, 10, 64
    index.train(rows)
    index.add(rows)
    index.nprobe = min(16, cells)
    indices, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k), dtype=np.float32)
    lacking = np.zeros(n, dtype=bool)
    for start in range(0, n, 65536):
        part = slice(start, min(start + 65536, n))
        squared, found = index.search(rows[part], k + 1)
        # The item itself goes by its number; where it was not found, the farthest goes.
        own = found == np.arange(part.start, part.stop)[:, None]
        own[~own.any(axis=1), -1] = True
        indices[part] = found[~own].reshape(-1, k)
        distances[part] = squared[~own].reshape(-1, k)
        lacking[part] = (indices[part] < 0).any(axis=1)
    # Equal distances by index, as in the exact search.
    order = np.lexsort((indices, distances))
    indices, distances = np.take_along_axis(indices, order, 1), np.take_along_axis(distances, order, 1)
    found_indices, found_distances = torch.from_numpy(indices), torch.from_numpy(distances).clamp_min(0).sqrt()
    redo = torch.from_numpy(np.flatnonzero(lacking))
    if len(redo):
        found_indices[redo], exact = _exactly(x, k, redo)
        found_distances[redo] = exact.float()
    asked = torch.from_numpy(np.random.default_rng(seed).choice(n, min(RECALL_QUERIES, n), replace=False))
    truth, _ = _exactly(x, k, asked)
    hits = (truth[:, :, None] == found_indices[asked][:, None, :]).any(dim=2)
    return Neighbors(found_indices, found_distances.to(x.dtype), float(hits.double().mean()))
