"""The N-pair angular loss in tiles: e^{c(s_an+s_pn)} is a product, so sums over n are small matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer.pairwise._reduce import divisor
from nearer.pairwise._rule import LOG2E, Gradient, Pairing
from nearer.pairwise._walk import Tile, Walk

_LARGEST_CLASS = 32  # the small products cost K per pair


def angular_by_tiles(pairing: Pairing, push: float, pull: float, reduction: str, gradient: bool) -> Gradient | None:
    """Value and gradient of Σ_{(a,p)} log(1 + Σ_n e^{push(s_an+s_pn) − pull·s_ap}); None unless classes are equal.

    With E = e^{push·S} over the negatives, M = E Eᵀ inside each class holds every sum over n. The weight of a
    negative is E_an·Σ_p r_ap E_pn with r_ap = e^{−pull·s_ap}/(1 + e^{−pull·s_ap} M_ap).
    """
    walk = Walk(pairing)
    k = walk.uniform
    if not 2 <= k <= _LARGEST_CLASS or walk.tile % k:
        return None
    z = walk.queries
    classes = walk.n // k
    scaled = z * (push * LOG2E)
    m = z.new_zeros((classes, k, k))

    def exponential(tile: Tile, *, keep: bool) -> Tensor:
        e = walk.similarity(tile, scaled, keep=keep).exp2_()
        walk.clear(tile, e)
        return e

    for tile in walk.tiles():
        e = exponential(tile, keep=gradient)
        for part, side in _roles(e, tile, k):
            m[part] += torch.bmm(side, side.transpose(1, 2))
        if gradient:
            walk.keep(tile, e)

    groups = z.view(classes, k, -1)
    weight = torch.exp(-pull * torch.bmm(groups, groups.transpose(1, 2)))
    other = 1 - torch.eye(k, dtype=z.dtype, device=z.device)
    scale = 1 / divisor(reduction, walk.n, classes * k * (k - 1))
    value = (torch.log1p(weight * m) * other).sum() * scale
    if not gradient:
        return walk.finish(value, None)
    r = weight / (1 + weight * m) * other

    gradients = walk.gradients()
    for tile in walk.tiles():
        held = walk.kept(tile)
        e = exponential(tile, keep=False) if held is None else held
        (rows, side), *columns = _roles(e, tile, k)
        mixed = torch.bmm(r[rows], side).view(e.shape)
        for part, across in columns:
            mixed += torch.bmm(r[part], across).view(e.shape[1], e.shape[0]).T
        # Both orders of a positive pair, hence twice.
        walk.push(*gradients, tile, mixed.mul_(e).mul_(2 * push * scale))
    share = r * m * (-pull * scale)
    gradients[0].add_(torch.bmm(share + share.transpose(1, 2), groups).view(z.shape))
    return walk.finish(value, gradients)


def _roles(e: Tensor, tile: Tile, k: int) -> list[tuple[slice, Tensor]]:
    """The classes of a tile's rows, and of its columns unless it is its own transpose, as (classes, k, others)."""
    rows = slice(tile.rows.start // k, tile.rows.stop // k)
    roles = [(rows, e.view(rows.stop - rows.start, k, e.shape[1]))]
    if tile.twice:
        columns = slice(tile.columns.start // k, tile.columns.stop // k)
        # The small products want their long axis contiguous: a copy is cheaper than strides.
        roles.append((columns, e.T.contiguous().view(columns.stop - columns.start, k, e.shape[0])))
    return roles
