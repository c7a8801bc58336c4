"""The fast engine for class labels: S is symmetric, so each tile above the diagonal serves both roles.

It is for losses whose weight on a negative pair factors, G_in = w(s_in)·a_i, with a_i from the row sum of an
elementwise function e(s) over the negatives (and from the positives, which are few and come in small blocks):
then G_in + G_ni = w(s_in)(a_i + a_n) needs one evaluation of w. Pass 1 sums e, pass 2 weighs; when a_i is known
in advance one pass does both. Tiles of pass 1 are kept for pass 2 within a fixed budget of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nearer.pairwise._panels import Gradient
from nearer.pairwise._segments import KEEP_BYTES, Block, Segments, Tile

__all__ = ["Factors", "Kernel", "add_positives", "by_tiles", "restore"]


@dataclass(frozen=True)
class Factors:
    """What a kernel knows after pass 1."""

    value: Tensor  # scalar
    negative: Tensor  # (n,): a_i
    positive: Callable[[Tensor, Block], Tensor]  # (c, r, k) similarities -> G_ip
    negative_scale: float = 1.0  # multiplies all negative weights; known only after the pass for some losses
    anchor_values: Tensor | None = None  # (n,): the gradient by a number that each anchor learns


class Kernel(Protocol):
    """A loss in factored form, all in place on the buffers it is given."""

    @property
    def scale(self) -> float:
        """Folded into one operand of the product: the tile holds scale·s."""
        ...

    @property
    def one_pass(self) -> bool:
        """Whether a_i does not depend on the row sums."""
        ...

    def nothing(self, scaled: Tensor) -> bool:
        """Whether a tile has neither value nor weight, so that all further work on it can be left out."""
        ...

    def tile(self, scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        """(e(s), w(s)) of a tile; both may be the tile itself, or the spare buffer of the same shape."""
        ...

    def negative_factors(self, segments: Segments, dtype: torch.dtype) -> Tensor:
        """a_i of a one-pass kernel."""
        ...

    @property
    def counts(self) -> bool:
        """Whether the number of negatives with e > 0 is wanted too."""
        ...

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        """Everything else, from the row sums (n,) of e over the negatives and how many ordered pairs had e > 0."""
        ...


def by_tiles(kernel: Kernel, embeddings: Tensor, labels: Tensor, *, gradient: bool = True) -> Gradient:
    """Value and gradient of a factored loss on unit vectors with class labels."""
    segments = Segments(labels)
    z = embeddings[segments.order]
    scaled = z * kernel.scale
    sums = z.new_zeros(segments.n)
    active = z.new_zeros(())
    d_z = torch.zeros_like(z)
    buffers = z.new_empty((3, segments.tile * segments.tile))
    kept: dict[int, Tensor] = {}
    room = KEEP_BYTES if gradient and not kernel.one_pass else 0
    in_advance = kernel.negative_factors(segments, z.dtype) if kernel.one_pass and gradient else None

    for number, tile in enumerate(segments.tiles()):
        keep = tile.elements * z.element_size() <= room
        # A tile that is kept is computed where it stays; copying it would cost as much as a third of its product.
        target = z.new_empty(tile.elements) if keep else buffers[0]
        found = _evaluate(kernel, segments, tile, scaled, z, target, buffers[1])
        if found is None:
            continue
        e, w = found
        sums[tile.rows] += e.sum(1)
        if not tile.diagonal:
            sums[tile.columns] += e.sum(0)
        if kernel.counts:
            hot = torch.gt(e, 0, out=buffers[2][: e.numel()].view(e.shape))
            active += hot.sum() * (1 if tile.diagonal else 2)
        if in_advance is not None:
            _accumulate(d_z, w, in_advance, tile, z, buffers[2])
        elif keep:
            room -= tile.elements * z.element_size()
            kept[number] = w if w.data_ptr() == target.data_ptr() else w.clone()

    result = kernel.factors(sums, float(active), segments, z)
    if gradient:
        if not kernel.one_pass:
            for number, tile in enumerate(segments.tiles()):
                held = kept.pop(number, None)
                if held is None:
                    found = _evaluate(kernel, segments, tile, scaled, z, *buffers[:2])
                    held = None if found is None else found[1]
                if held is not None:
                    _accumulate(d_z, held, result.negative, tile, z, buffers[2])
        if result.negative_scale != 1.0:
            d_z *= result.negative_scale
        add_positives(d_z, result.positive, segments, z)
    anchor = None if result.anchor_values is None else restore(result.anchor_values, segments)
    return Gradient(result.value, restore(d_z, segments) if gradient else None, anchor_values=anchor)


def _evaluate(
    kernel: Kernel, segments: Segments, tile: Tile, scaled: Tensor, z: Tensor, target: Tensor, other: Tensor
) -> tuple[Tensor, Tensor] | None:
    values, spare = (buffer[: tile.elements].view(tile.shape) for buffer in (target, other))
    torch.mm(scaled[tile.rows], z[tile.columns].T, out=values)
    if not tile.mixed and kernel.nothing(values):
        return None
    e, w = kernel.tile(values, spare)
    if tile.mixed:
        segments.clear_positives(e, tile)
        if w is not e:
            segments.clear_positives(w, tile)
    return e, w


def _accumulate(d_z: Tensor, w: Tensor, factor: Tensor, tile: Tile, z: Tensor, buffer: Tensor) -> None:
    """Add the gradient of both roles of a tile; a diagonal tile holds both roles already."""
    both = buffer[: w.numel()].view(w.shape)
    torch.add(factor[tile.rows, None], factor[None, tile.columns], out=both)
    w = torch.mul(w, both, out=both)
    d_z[tile.rows].addmm_(w, z[tile.columns])
    if not tile.diagonal:
        d_z[tile.columns].addmm_(w.T, z[tile.rows])


def add_positives(d_z: Tensor, weigh: Callable[[Tensor, Block], Tensor], segments: Segments, z: Tensor) -> None:
    """Add the gradient of the positive pairs, whose weights `weigh` gives block by block."""
    for block in segments.blocks():
        g = weigh(block.similarity(z), block).mul_(block.other.to(z.dtype))
        if block.square:
            block.put(d_z, block.take(d_z) + torch.bmm(g + g.transpose(1, 2), block.take(z)))
        else:
            d_z[block.rows] += torch.bmm(g, z[block.columns])
            d_z[block.columns] += torch.bmm(g.transpose(1, 2), z[block.rows])


def restore(d_z: Tensor, segments: Segments) -> Tensor:
    """Rows of the sorted batch back in the order of the caller."""
    result = torch.empty_like(d_z)
    result[segments.order] = d_z
    return result
