"""The N-pair angular loss in tiles: e^{c(s_an+s_pn)} is a product, so sums over n are small matrix products."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer.pairwise._panels import Gradient
from nearer.pairwise._segments import KEEP_BYTES, Block, Segments, Tile
from nearer.pairwise._symmetric import add_positives, restore

__all__ = ["angular_by_tiles"]

_LARGEST_CLASS = 32  # the small products cost K per pair


def angular_by_tiles(
    embeddings: Tensor, labels: Tensor, push: float, pull: float, reduction: str, gradient: bool
) -> Gradient | None:
    """Value and gradient of Σ_{(a,p)} log(1 + Σ_n e^{push(s_an+s_pn) − pull·s_ap}); None unless classes are equal.

    With E = e^{push·S} over the negatives, M = E Eᵀ inside each class holds every sum over n. The weight of a
    negative is E_an·Σ_p r_ap E_pn with r_ap = e^{−pull·s_ap}/(1 + e^{−pull·s_ap} M_ap).
    """
    segments = Segments(labels)
    k = segments.uniform
    if not 2 <= k <= _LARGEST_CLASS or segments.tile % k:
        return None
    z = embeddings[segments.order]
    classes = segments.n // k
    scaled = z * (push * math.log2(math.e))
    m = z.new_zeros((classes, k, k))
    kept: dict[int, Tensor] = {}
    room = KEEP_BYTES if gradient else 0
    buffer = z.new_empty(segments.tile * segments.tile)

    def exponential(tile: Tile, target: Tensor) -> Tensor:
        e = torch.mm(scaled[tile.rows], z[tile.columns].T, out=target[: tile.elements].view(tile.shape))
        e.exp2_()
        if tile.mixed:
            segments.clear_positives(e, tile)
        return e

    for number, tile in enumerate(segments.tiles()):
        keep = tile.elements * z.element_size() <= room
        e = exponential(tile, z.new_empty(tile.elements) if keep else buffer)
        if keep:
            room -= tile.elements * z.element_size()
            kept[number] = e
        for part, side in _roles(e, tile, k):
            m[part] += torch.bmm(side, side.transpose(1, 2))

    near = torch.bmm(z.view(classes, k, -1), z.view(classes, k, -1).transpose(1, 2))
    weight = torch.exp(-pull * near)
    other = 1 - torch.eye(k, dtype=z.dtype, device=z.device)
    pairs = classes * k * (k - 1)
    scale = 1 / {"sum": 1.0, "mean": float(segments.n)}.get(reduction, float(max(pairs, 1)))
    value = (torch.log1p(weight * m) * other).sum() * scale
    if not gradient:
        return Gradient(value, None)
    r = weight / (1 + weight * m) * other

    d_z = torch.zeros_like(z)
    for number, tile in enumerate(segments.tiles()):
        held = kept.pop(number, None)
        e = exponential(tile, buffer) if held is None else held
        (rows, side), *columns = _roles(e, tile, k)
        mixed = torch.bmm(r[rows], side).view(e.shape)
        for part, across in columns:
            mixed += torch.bmm(r[part], across).view(e.shape[1], e.shape[0]).T
        # Both orders of a positive pair, hence twice.
        w = mixed.mul_(e).mul_(2 * push * scale)
        d_z[tile.rows].addmm_(w, z[tile.columns])
        if tile.diagonal:
            d_z[tile.rows].addmm_(w.T, z[tile.columns])
        else:
            d_z[tile.columns].addmm_(w.T, z[tile.rows])

    share = r * m * (-pull * scale)
    first = torch.arange(segments.n, device=z.device) // k

    def positive(s: Tensor, block: Block) -> Tensor:
        return share[first[block.rows[:, 0]]]

    add_positives(d_z, positive, segments, z)
    return Gradient(value, restore(d_z, segments))


def _roles(e: Tensor, tile: Tile, k: int) -> list[tuple[slice, Tensor]]:
    """The classes of a tile's rows, and of its columns unless it is its own transpose, as (classes, k, others)."""
    rows = slice(tile.rows.start // k, tile.rows.stop // k)
    roles = [(rows, e.view(rows.stop - rows.start, k, e.shape[1]))]
    if not tile.diagonal:
        columns = slice(tile.columns.start // k, tile.columns.stop // k)
        # The small products want their long axis contiguous: a copy is cheaper than strides.
        roles.append((columns, e.T.contiguous().view(columns.stop - columns.start, k, e.shape[0])))
    return roles
