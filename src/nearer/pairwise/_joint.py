"""Joint similarity of several layers over all pairs, in symmetric tiles with exact gradients.

K_ij = Π_l k_l(x_i, x_j) (or Σ_l) of a batch whose items each have several representations. Only tiles I ≤ J are
visited, each is used for both of its roles, and no B × B array is ever held. It is no client of `Walk`, because a
tile here is several products, one for each layer, and the gradient is gathered by the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

# Items per side of a tile, at most: the few tiles of one step then stay in the cache, and calls are few.
SIDE = 512
# From so many on a tile of the diagonal is cut into three, and a fourth that would repeat one of them is left out.
SMALL = 256


class KernelTile(NamedTuple):
    """A kernel on a tile of pairs: k = constant · value, or constant · e^log for one that is not bounded.

    Exactly one of `value` and `log` is there: a product of unbounded kernels must not overflow before its bounded
    partners are multiplied in. `slope` is ∂log k by the pair quantity that `pull` understands, None for 1.
    """

    value: Tensor | None
    log: Tensor | None = None
    slope: Tensor | None = None
    constant: float = 1.0


class LayerKernel(Protocol):
    """A kernel on the layer of one batch (its bandwidth is fixed and carries no gradient); gathers its gradient."""

    def tile(self, rows: slice, columns: slice) -> KernelTile:
        """The kernel between two stretches of items, each entry (a, b)."""

    def pull(self, weights: Tensor, rows: slice, columns: slice, *, mirrored: bool) -> None:
        """Add to the gradient what weights (a, b) on the pair quantity do to rows and, if mirrored, columns."""

    def gradient(self) -> Tensor:
        """The gradient by the layer, (n, d); asked once."""


def joint_similarity(
    kernels: Sequence[LayerKernel],
    labels: Tensor,
    *,
    combine: Literal["product", "sum"],
    pairs: Literal["different", "same"],
    gradient: bool,
) -> Tensor:
    """The mean of K over ordered pairs of different (or of the same) classes; 0 if there is no such pair.

    With `gradient`, the kernels have gathered it afterwards.
    """
    n = len(labels)
    _, counts = torch.unique(labels, return_counts=True)
    alike = int(counts.square().sum())
    share = 1 / max(1, n * n - alike if pairs == "different" else alike - n)
    values = []
    for rows, columns in _tiles(n):
        mirrored = rows != columns
        same = labels[rows, None] == labels[None, columns]
        unwanted = same if pairs == "different" else ~same
        if not mirrored:
            unwanted.fill_diagonal_(True)
        tiles = [kernel.tile(rows, columns) for kernel in kernels]
        parts = [_product(tiles)] if combine == "product" else [_product([tile]) for tile in tiles]
        for part, scale in zip(parts, _scales(tiles, combine), strict=True):
            part.masked_fill_(unwanted, 0.0)
            # Both orders of a pair: a tile off the diagonal stands for its mirror image too.
            values.append(part.sum() * (scale * share * (2 if mirrored else 1)))
            part.mul_(2 * scale * share)
        if gradient:
            for layer, (kernel, tile) in enumerate(zip(kernels, tiles, strict=True)):
                part = parts[layer % len(parts)]
                kernel.pull(part if tile.slope is None else tile.slope.mul_(part), rows, columns, mirrored=mirrored)
    return torch.stack(values).sum() if values else labels.new_zeros((), dtype=torch.float32)


def _tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of tiles that cover the upper half of a square, and little below the diagonal."""
    # Stretches of one length: a short last one would leave more of the square to the tiles of the diagonal.
    side = max(1, -(-n // max(1, -(-n // SIDE))))
    stretches = [slice(start, min(start + side, n)) for start in range(0, n, side)]
    for number, rows in enumerate(stretches):
        middle = (rows.start + rows.stop) // 2
        if rows.stop - rows.start < SMALL:
            yield rows, rows
        else:
            first, second = slice(rows.start, middle), slice(middle, rows.stop)
            yield from ((first, first), (first, second), (second, second))
        for columns in stretches[number + 1 :]:
            yield rows, columns


def _scales(tiles: Sequence[KernelTile], combine: str) -> list[float]:
    """The constants of the products that `combine` makes."""
    constants = [tile.constant for tile in tiles]
    return [math.prod(constants)] if combine == "product" else constants


def _product(tiles: Sequence[KernelTile]) -> Tensor:
    """The product of kernels on a tile, but for their constants."""
    logs = [tile.log for tile in tiles if tile.log is not None]
    joint = torch.stack(logs).sum(0).exp_() if logs else None
    for tile in tiles:
        if tile.value is not None:
            joint = tile.value if joint is None else joint.mul_(tile.value)
    assert joint is not None
    return joint
