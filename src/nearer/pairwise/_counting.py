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

from nearer.pairwise._panels import Gradient
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import add_positives, restore

__all__ = ["count_row_triplets", "equal_within", "triplets_by_tiles"]

# Up to here comparing with every positive is faster than a binary search.
_FEW = 24


def equal_within(dtype: torch.dtype) -> float:
    """Similarities nearer than this are equal: a duplicate may differ in its last digits from tile to tile.

    >>> equal_within(torch.float32) < 1e-6
    True
    """
    return 8 * torch.finfo(dtype).eps


def count_row_triplets(
    similarity: Tensor, positive: Tensor, negative: Tensor, margin: float, semi_hard: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(counts, value, violated): signed counts (r, n) (positives negative), hinge sum (r,), violated triplets (r,).

    With `semi_hard` only triplets with s_an < s_ap count (equal up to rounding is not less).

    >>> s, p = torch.tensor([[0.0, 0.5, 0.6, 0.1]]), torch.tensor([[False, True, False, False]])
    >>> n = torch.tensor([[False, False, True, True]])
    >>> count_row_triplets(s, p, n, 0.25, False)[0]
    tensor([[ 0., -1.,  1.,  0.]])
    """
    most = int(positive.sum(1).max()) if positive.numel() else 0
    counts = torch.zeros_like(similarity)
    if most == 0:
        return counts, counts.sum(1), counts.sum(1)
    low, index = similarity.masked_fill(~positive, math.inf).topk(most, dim=1, largest=False, sorted=True)
    if most <= _FEW:
        per_positive = torch.empty_like(low)
        for k in range(most):
            edge = low[:, k, None]
            hot = (similarity > edge - margin) & negative
            if semi_hard:
                hot &= similarity < edge - equal_within(similarity.dtype)
            counts += hot
            per_positive[:, k] = hot.sum(1)
    else:
        counts, per_positive = _search(similarity, negative, low - margin, right=False)
        if semi_hard:
            upper = low - equal_within(similarity.dtype)
            easy, per_easy = _search(similarity, negative, upper, right=True)
            counts -= easy
            per_positive -= per_easy
    violated = per_positive.sum(1)
    padding = torch.isinf(low)
    value = (counts * similarity).sum(1) + (per_positive * (margin - low.masked_fill(padding, 0.0))).sum(1)
    counts.scatter_add_(1, index, -per_positive.masked_fill(padding, 0.0))
    return counts, value, violated


def _search(similarity: Tensor, negative: Tensor, edges: Tensor, *, right: bool) -> tuple[Tensor, Tensor]:
    """Edges (ascending) below each negative, and negatives above each edge."""
    below = torch.searchsorted(edges.contiguous(), similarity.contiguous(), right=right)
    histogram = similarity.new_zeros((len(edges), edges.shape[1] + 1))
    histogram.scatter_add_(1, below, negative.to(similarity.dtype))
    above = histogram.flip(1).cumsum(1).flip(1)[:, 1:]
    return below * negative.to(similarity.dtype), above


def triplets_by_tiles(
    embeddings: Tensor, labels: Tensor, margin: float, semi_hard: bool, reduction: str, gradient: bool
) -> Gradient | None:
    """The same over the tiles above the diagonal, for class labels; None if classes are too large for it."""
    segments = Segments(labels)
    most = int(segments.sizes.max()) - 1
    if not 1 <= most <= _FEW:
        return None
    z = embeddings[segments.order]
    by_item = z.new_full((segments.n, most), math.inf)
    for block in segments.blocks():
        k = block.other.shape[1]
        inside = block.similarity(z)[:, block.other > 0].view(len(block.rows), k, k - 1)
        by_item[block.rows, : k - 1] = inside
    near = by_item.T.contiguous()  # (K−1, n): a tile compares with one positive of all its anchors at a time
    edges = near - margin
    lowest, upper = edges.amin(0), near - equal_within(z.dtype)

    per_positive = torch.zeros_like(near)
    d_z = torch.zeros_like(z)
    total = torch.zeros((), dtype=torch.float64, device=z.device)
    buffers = z.new_empty((3, segments.tile * segments.tile))
    for tile in segments.tiles():
        s, hot, counts = (buffer[: tile.elements].view(tile.shape) for buffer in buffers)
        torch.mm(z[tile.rows], z[tile.columns].T, out=s)
        if tile.mixed:
            segments.clear_positives(s, tile, -1e4)  # below every edge, and harmless in a product with zero
        elif not bool((s.amax(1) > lowest[tile.rows]).any() | (s.amax(0) > lowest[tile.columns]).any()):
            continue  # no triplet is violated here
        counts.zero_()
        for k in range(most):
            # Both roles of the tile: its rows as anchors, then its columns.
            for part, axis in ((tile.rows, 1), (tile.columns, 0)):
                if axis == 0 and tile.diagonal:
                    continue
                torch.gt(s, edges[k, part].unsqueeze(axis), out=hot)
                counts.add_(hot)
                per_positive[k, part] += hot.sum(axis)
                if semi_hard:
                    torch.ge(s, upper[k, part].unsqueeze(axis), out=hot)
                    counts.sub_(hot)
                    per_positive[k, part] -= hot.sum(axis)
        total += torch.dot(counts.view(-1), s.view(-1))
        if gradient:
            d_z[tile.rows].addmm_(counts, z[tile.columns])
            if tile.diagonal:  # its own transpose is the other role
                d_z[tile.rows].addmm_(counts.T, z[tile.columns])
            else:
                d_z[tile.columns].addmm_(counts.T, z[tile.rows])

    finite = torch.where(torch.isinf(near), 0.0, near)
    total += (per_positive * (margin - finite)).sum()
    violated = float(per_positive.sum(dtype=torch.float64))
    valid = float((segments.positives(torch.float64) * segments.negatives(torch.float64)).sum())
    scale = 1 / {"sum": 1.0, "mean": float(segments.n), "active": max(violated, 1.0)}.get(
        reduction, max(valid, 1.0)
    )
    value = (total * scale).to(z.dtype)
    if not gradient:
        return Gradient(value, None)

    def weigh(s: Tensor, block: Block) -> Tensor:
        k = block.other.shape[1]
        g = torch.zeros_like(s)
        g[:, block.other > 0] = -per_positive.T[block.rows, : k - 1].flatten(1)
        return g

    add_positives(d_z, weigh, segments, z)
    return Gradient(value, restore(d_z.mul_(scale), segments))
