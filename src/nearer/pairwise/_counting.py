"""All triplets without triplets: how many positives each negative violates, and how many negatives each positive.

For the hinge [s_an − s_ap + λ]₊ over all triplets the weight of a negative is the number of the anchor's positives
below s_an + λ, and the weight of a positive (negated) the number of negatives above s_ap − λ. Both are counts of
one comparison, so the B³ triplets are never formed. With few positives per anchor they are compared one by one,
otherwise by a binary search in the sorted positives: O(B² log K).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._tracing import readable
from nearer.pairwise._reduce import divisor
from nearer.pairwise._rule import OUT_OF_THE_WAY, Gradient, Pairing, Panel
from nearer.pairwise._walk import Walk

# Up to here comparing with every positive is faster than a binary search.
_FEW = 24
# Up to here the comparisons with all positives are one operation, which saves the overhead of many.
_AT_ONCE = 1 << 16


def equal_within(dtype: torch.dtype) -> float:
    """Similarities nearer than this are equal: a duplicate may differ in its last digits from tile to tile.

    >>> equal_within(torch.float32) < 1e-6
    True
    """
    return 8 * torch.finfo(dtype).eps


def count_row_triplets(panel: Panel, margin: float, semi_hard: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(counts, value, violated): signed counts (r, n) (positives negative), hinge sum (r,), violated triplets (r,).

    With `semi_hard` only triplets with s_an < s_ap count (equal up to rounding is not less).

    >>> s, p = torch.tensor([[0.0, 0.5, 0.6, 0.1]]), torch.tensor([[False, True, False, False]])
    >>> n = torch.tensor([[False, False, True, True]])
    >>> count_row_triplets(Panel(s, p, n, slice(0, 1)), 0.25, False)[0]
    tensor([[ 0., -1.,  1.,  0.]])
    """
    s, near, far = panel.similarity, panel.near, panel.far
    # Where values cannot be read every column may be a positive; those that are none are sorted to the end.
    most = s.shape[1] if not readable(s) else int(panel.p.sum(1).max()) if panel.p.numel() else 0
    counts = torch.zeros_like(s)
    if most == 0:
        return counts, counts.sum(1), counts.sum(1)
    low, index = near.topk(most, dim=1, largest=False, sorted=True)
    edges, upper = low - margin, low - equal_within(s.dtype)
    padding = low > OUT_OF_THE_WAY / 2
    if most * s.numel() <= _AT_ONCE and not semi_hard:
        hot = torch.gt(far[:, None], edges[:, :, None], out=s.new_empty((len(s), most, s.shape[1])))
        counts, per_positive = hot.sum(1), hot.sum(2)
    elif most <= _FEW and readable(s):  # torch.compile cannot write to a column
        per_positive = torch.empty_like(low)
        hot, other = torch.empty_like(s), torch.empty_like(s)
        for k in range(most):
            torch.gt(far, edges[:, k, None], out=hot)
            if semi_hard:
                hot.mul_(torch.lt(far, upper[:, k, None], out=other))
            counts.add_(hot)
            torch.sum(hot, 1, out=per_positive[:, k])
    else:
        counts, per_positive = _search(s, panel.n, edges, right=False)
        if semi_hard:
            easy, per_easy = _search(s, panel.n, upper, right=True)
            counts -= easy
            per_positive -= per_easy
    violated = per_positive.sum(1)
    per_positive = per_positive.masked_fill_(padding, 0.0)
    value = torch.linalg.vecdot(counts, s) + (per_positive * (margin - low.masked_fill(padding, 0.0))).sum(1)
    counts.scatter_add_(1, index, -per_positive)
    return counts, value, violated


def _search(similarity: Tensor, negative: Tensor, edges: Tensor, *, right: bool) -> tuple[Tensor, Tensor]:
    """Edges (ascending) below each negative, and negatives above each edge."""
    below = torch.searchsorted(edges.contiguous(), similarity.contiguous(), right=right)
    histogram = similarity.new_zeros((len(edges), edges.shape[1] + 1))
    histogram.scatter_add_(1, below, negative)
    above = histogram.flip(1).cumsum(1).flip(1)[:, 1:]
    return below * negative, above


def triplets_by_tiles(
    pairing: Pairing, margin: float, semi_hard: bool, reduction: str, gradient: bool
) -> Gradient | None:
    """The same over the tiles of a walk, for class labels; None if classes are too large for it."""
    walk = Walk(pairing)
    most = walk.most - (0 if pairing.offset is None else 1)
    if not 1 <= most <= _FEW:
        return None
    by_item = walk.queries.new_full((walk.n, most), math.inf)
    blocks, orders = walk.blocks(), []
    for block in blocks:
        inside, order = block.similarity(walk).masked_fill(block.mask == 0, math.inf).sort(2)
        width = min(most, inside.shape[2])
        real = slice(None) if block.real is None else block.real
        by_item[block.rows[real], :width] = inside[:, :, :width][real]
        orders.append(order[:, :, :width])
    near = by_item.T.contiguous()  # (K, n): a tile compares with one positive of all its anchors at a time
    edges = near - margin
    lowest, upper = edges[0], near - equal_within(near.dtype)

    per_positive = torch.zeros_like(near)
    gradients = walk.gradients()
    total = torch.zeros((), dtype=torch.float64, device=near.device)
    for tile in walk.tiles():
        s = walk.similarity(tile, walk.queries)
        walk.clear(tile, s, -1e4)  # below every edge, and harmless in a product with zero
        if not tile.mixed and not any(bool((s.amax(axis) > lowest[part]).any()) for part, axis in tile.roles):
            continue  # no triplet is violated here
        hot, other, counts = walk.buffer(1, tile), walk.buffer(2, tile), walk.buffer(3, tile).zero_()
        for k in range(most):
            for part, axis in tile.roles:
                torch.gt(s, edges[k, part].unsqueeze(axis), out=hot)
                if semi_hard:
                    hot.mul_(torch.lt(s, upper[k, part].unsqueeze(axis), out=other))
                counts.add_(hot)
                per_positive[k, part] += hot.sum(axis)
        total += torch.dot(counts.view(-1), s.view(-1))
        if gradient:
            walk.push(*gradients, tile, counts)

    total += (per_positive * (margin - torch.where(torch.isinf(near), 0.0, near))).sum()
    violated = float(per_positive.sum(dtype=torch.float64))
    valid = float((walk.positives.double() * walk.negatives.double()).sum())
    scale = 1 / divisor(reduction, walk.n, violated if reduction == "active" else valid)
    value = (total * scale).to(near.dtype)
    if not gradient:
        return walk.finish(value, None)
    for block, order in zip(blocks, orders, strict=True):
        weight = near.new_zeros((*block.rows.shape, block.columns.shape[1]))
        weight.scatter_(2, order, -per_positive.T[block.rows, : order.shape[2]])
        walk.push_block(*gradients, block, weight.mul_(block.mask))
    for tensor in gradients[:1] if walk.symmetric else gradients:
        tensor.mul_(scale)
    return walk.finish(value, gradients)
