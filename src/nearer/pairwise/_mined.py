"""RAW with valid-triplet mining: mining makes the weights sparse, and this engine uses it.

The hardest positives come first, from the small blocks, so every tile knows at once which of its negatives are
mined. Where these are few, the tile is reduced to a list of pairs on the spot, and neither the second look at S nor
the gradient product is needed; a tile that is mostly mined is handled whole. Each tile decides for itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nearer.pairwise._panels import Gradient
from nearer.pairwise._segments import KEEP_BYTES, Block, Segments, Tile
from nearer.pairwise._symmetric import add_positives, restore

__all__ = ["mined_by_tiles"]

# A listed pair costs about as much as twenty pairs of a whole tile.
_MOSTLY = 0.05


@dataclass
class _Pairs:
    """The mined pairs of the sparse tiles: sorted positions and similarities."""

    i: list[np.ndarray] = field(default_factory=list)
    j: list[np.ndarray] = field(default_factory=list)
    s: list[np.ndarray] = field(default_factory=list)
    both: list[np.ndarray] = field(default_factory=list)  # the tile stands for both roles (it is off the diagonal)

    def add(self, tile: Tile, flat: np.ndarray, values: np.ndarray) -> None:
        i, j = np.divmod(flat, tile.shape[1])
        self.i.append(i + tile.rows.start)
        self.j.append(j + tile.columns.start)
        self.s.append(values[flat])
        self.both.append(np.full(len(flat), not tile.diagonal))

    def join(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """All lists as four arrays; a first empty one keeps the dtype when there is nothing."""
        return (
            np.concatenate([np.empty(0, np.int64), *self.i]),
            np.concatenate([np.empty(0, np.int64), *self.j]),
            np.concatenate([np.empty(0, np.float32), *self.s]),
            np.concatenate([np.empty(0, np.bool_), *self.both]),
        )


def mined_by_tiles(
    embeddings: Tensor,
    labels: Tensor,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    margin: float,
    anchors: int,
    gradient: bool,
) -> Gradient:
    """Value and gradient of Σᵢ { log(1 + Σ_P̃ e^{−α(s−γ)})/α + log(1 + Σ_Ñ e^{β(s−γ)})/β } / `anchors`.

    For class labels on the CPU, with exponents that float32 holds.
    """
    segments = Segments(labels)
    z = embeddings[segments.order]
    low = segments.reduce_positives(z, lambda s, b: s.masked_fill(b.other == 0, math.inf).amin(2), fill=math.inf)
    high = torch.full_like(low, -math.inf)
    sums = torch.zeros_like(low)  # Σ_Ñ e^{β(s−γ)}
    # Tiles hold x = s·β·log₂e, so that 2^x is the whole exponent; their edges are scaled alike.
    fold, unit = beta * math.log2(math.e), math.exp(-beta * gamma)
    scaled = z * fold
    edge = (low - margin) * fold  # mined: x > edge; an anchor without a positive mines nothing

    pairs, whole = _Pairs(), dict[int, Tensor | None]()
    room = KEEP_BYTES if gradient else 0
    buffers = z.new_empty((3, segments.tile * segments.tile))
    mask = np.empty(segments.tile * segments.tile, dtype=np.bool_)
    tiles = list(segments.tiles())
    for number, tile in enumerate(tiles):
        s = _similarity(scaled, z, tile, segments, buffers[0])
        row_max, column_max = s.amax(1), s.amax(0)
        high[tile.rows] = torch.maximum(high[tile.rows], row_max)
        if not tile.diagonal:
            high[tile.columns] = torch.maximum(high[tile.columns], column_max)
        some = bool((row_max > edge[tile.rows]).any())
        if not some and (tile.diagonal or not bool((column_max > edge[tile.columns]).any())):
            continue
        lowest = edge[tile.rows, None].expand(s.shape)
        if not tile.diagonal:
            lowest = torch.minimum(lowest, edge[None, tile.columns], out=_shaped(buffers[1], s))
        hit = np.greater(s.numpy(), lowest.numpy(), out=mask[: s.numel()].reshape(s.shape))
        if np.count_nonzero(hit) <= _MOSTLY * s.numel():
            pairs.add(tile, np.flatnonzero(hit), s.numpy().reshape(-1))
            continue
        kept = 4 * s.numel() <= room
        whole[number] = s.clone() if kept else None
        room -= 4 * s.numel() if kept else 0
        e = torch.exp2(s, out=_shaped(buffers[1], s))
        for part, axis in _roles(tile):
            own = torch.gt(s, edge[part].unsqueeze(axis), out=_shaped(buffers[2], s)).mul_(e)
            sums[part] += own.sum(axis)

    i, j, values, both = pairs.join()
    found = np.exp2(values.astype(np.float64))
    limit = edge.numpy()
    as_row = values > limit[i]
    as_column = both & (values > limit[j])
    for index, valid in ((i, as_row), (j, as_column)):
        sums += torch.from_numpy(np.bincount(index, weights=found * valid, minlength=segments.n)).to(sums.dtype)

    sums *= unit
    active = high > edge
    top = high / fold + margin

    def pull(s: Tensor, block: Block) -> Tensor:
        rows = block.rows
        chosen = (s < top[rows][:, :, None]) | (s <= low[rows][:, :, None])
        chosen &= active[rows][:, :, None]
        return torch.exp(-alpha * (s - gamma)).mul_(chosen).mul_(block.other)

    near = segments.reduce_positives(z, lambda s, b: pull(s, b).sum(2))
    value = (near.log1p() / alpha + sums.log1p() / beta).sum() / anchors
    if not gradient:
        return Gradient(value, None)

    d_z = torch.zeros_like(z)
    share = unit / ((1 + sums) * anchors)
    for number, held in whole.items():
        tile = tiles[number]
        s = _similarity(scaled, z, tile, segments, buffers[0]) if held is None else held
        weight, other = _shaped(buffers[1], s), _shaped(buffers[2], s)
        torch.gt(s, edge[tile.rows, None], out=weight).mul_(share[tile.rows, None])
        if not tile.diagonal:
            weight.add_(torch.gt(s, edge[None, tile.columns], out=other).mul_(share[None, tile.columns]))
        weight.mul_(torch.exp2(s, out=other))
        d_z[tile.rows].addmm_(weight, z[tile.columns])
        d_z[tile.columns].addmm_(weight.T, z[tile.rows])
    if len(i):
        from scipy import sparse  # half a second to load, and only mined batches need it

        per_item = share.double().numpy()
        weights = (found * (as_row * per_item[i] + as_column * per_item[j])).astype(z.numpy().dtype)
        g = sparse.csr_array((weights, (i, j)), shape=(segments.n, segments.n))
        d_z += torch.from_numpy(g @ z.numpy() + g.T @ z.numpy())
    outer = -1 / ((1 + near) * anchors)
    add_positives(d_z, lambda s, b: pull(s, b).mul_(outer[b.rows][:, :, None]), segments, z)
    return Gradient(value, restore(d_z, segments))


def _similarity(scaled: Tensor, z: Tensor, tile: Tile, segments: Segments, buffer: Tensor) -> Tensor:
    s = torch.mm(scaled[tile.rows], z[tile.columns].T, out=buffer[: tile.elements].view(tile.shape))
    if tile.mixed:
        segments.clear_positives(s, tile, -math.inf)
    return s


def _shaped(buffer: Tensor, like: Tensor) -> Tensor:
    return buffer[: like.numel()].view(like.shape)


def _roles(tile: Tile) -> list[tuple[slice, int]]:
    """Who is the anchor, and along which axis its others lie; a diagonal tile holds both roles as rows."""
    return [(tile.rows, 1)] if tile.diagonal else [(tile.rows, 1), (tile.columns, 0)]
