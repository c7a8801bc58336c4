"""A batch sorted by class: classes are contiguous, so positives are small blocks and tiles need no masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer.pairwise._panels import forced_tile

__all__ = ["KEEP_BYTES", "Block", "Segments", "Tile"]

# A positive block of a large class is cut so that it holds at most this many pairs.
_BLOCK_ELEMENTS = 1 << 20
_TILE = 512
# Tiles that are needed twice are kept up to this many bytes and computed again beyond: memory stays bounded.
KEEP_BYTES = 64 << 20


@dataclass(frozen=True)
class Block:
    """Classes of one size against themselves (or some rows of one large class against the whole class)."""

    rows: Tensor  # (c, r) positions in the sorted batch
    columns: Tensor  # (c, k) positions in the sorted batch
    other: Tensor  # (r, k): 1 for a pair of two items, 0 for an item and itself
    square: bool  # rows and columns are the same
    span: slice | None = None  # the rows in order, if they are one stretch: a view then serves instead of a copy

    def take(self, table: Tensor) -> Tensor:
        """(c, r, …): the entries of the rows."""
        if self.span is None:
            return table[self.rows]
        return table[self.span].view(*self.rows.shape, *table.shape[1:])

    def others(self, table: Tensor) -> Tensor:
        """(c, k, …): the entries of the columns."""
        return self.take(table) if self.square else table[self.columns]

    def put(self, table: Tensor, values: Tensor) -> None:
        """Write (c, r, …) to the rows."""
        if self.span is None:
            table[self.rows] = values
        else:
            table[self.span] = values.reshape(-1, *table.shape[1:])

    def similarity(self, embeddings: Tensor) -> Tensor:
        """(c, r, k)"""
        return torch.bmm(self.take(embeddings), self.others(embeddings).transpose(1, 2))


@dataclass(frozen=True)
class Tile:
    """A rectangle on or above the diagonal of the sorted batch that holds at least one negative pair."""

    rows: slice
    columns: slice
    mixed: bool  # also holds same-class pairs

    @property
    def diagonal(self) -> bool:
        return bool(self.rows.start == self.columns.start)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def elements(self) -> int:
        return self.shape[0] * self.shape[1]


class Segments:
    """The order that makes classes contiguous, and the walks over positives and over negatives."""

    def __init__(self, labels: Tensor) -> None:
        ordered, self.order = torch.sort(labels, stable=True)
        _, self.codes, self.sizes = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
        self.n = len(labels)
        self.per_item: Tensor = self.sizes[self.codes]  # (n,) size of the own class
        self._bounds: list[int] = [0, *self.sizes.cumsum(0).tolist()]
        self._codes: list[int] = self.codes.tolist()
        sizes = self.sizes.tolist()
        self.uniform = sizes[0] if sizes and sizes.count(sizes[0]) == len(sizes) else 0
        self._sizes = sizes
        size = forced_tile() or _TILE
        # Whole classes per tile let the same-class pairs of a diagonal tile be cleared as a strided view.
        self.tile = size - size % self.uniform if 0 < self.uniform <= size else size

    def positives(self, dtype: torch.dtype) -> Tensor:
        """(n,) how many positives each item has."""
        return (self.per_item - 1).to(dtype)

    def negatives(self, dtype: torch.dtype) -> Tensor:
        """(n,) how many negatives each item has."""
        return (self.n - self.per_item).to(dtype)

    def tiles(self) -> Iterator[Tile]:
        """Every tile with a negative pair, the upper triangle only."""
        for i in range(0, self.n, self.tile):
            rows = slice(i, min(i + self.tile, self.n))
            for j in range(i, self.n, self.tile):
                columns = slice(j, min(j + self.tile, self.n))
                if self._codes[rows.start] == self._codes[columns.stop - 1]:
                    continue  # one class only
                yield Tile(rows, columns, self._codes[rows.stop - 1] >= self._codes[columns.start])

    def clear_positives(self, values: Tensor, tile: Tile, fill: float = 0.0) -> None:
        """Set the same-class pairs of a mixed tile to zero, or to `fill`."""
        if self.uniform and tile.diagonal and self.tile % self.uniform == 0:
            k, width = self.uniform, values.stride(0)
            classes = values.shape[0] // k
            values.as_strided((classes, k, k), (k * width + k, width, 1)).fill_(fill)
            return
        values.masked_fill_(self.codes[tile.rows, None] == self.codes[None, tile.columns], fill)

    def blocks(self) -> Iterator[Block]:
        """Every class of two or more, grouped by size."""
        device = self.codes.device
        by_size: dict[int, list[int]] = {}
        for code, size in enumerate(self._sizes):
            if size > 1:
                by_size.setdefault(size, []).append(self._bounds[code])
        for size, starts in by_size.items():
            inside = torch.arange(size, device=device)
            per_block = max(1, _BLOCK_ELEMENTS // (size * size))
            first = torch.tensor(starts, device=device)
            if size * size <= _BLOCK_ELEMENTS:
                other = 1.0 - torch.eye(size, device=device)
                for part in range(0, len(starts), per_block):
                    rows = first[part : part + per_block, None] + inside
                    # Classes of one size follow each other when all sizes are equal.
                    low = starts[part]
                    span = slice(low, low + rows.numel()) if self.uniform else None
                    yield Block(rows, rows, other, True, span)
                continue
            step = max(1, _BLOCK_ELEMENTS // size)
            for start in starts:
                columns = (start + inside)[None]
                for part in range(0, size, step):
                    rows = columns[:, part : part + step]
                    other = torch.ones((rows.shape[1], size), device=device)
                    other.diagonal(part).zero_()
                    yield Block(rows, columns, other, False)

    def reduce_positives(
        self, embeddings: Tensor, reduce: Callable[[Tensor, Block], Tensor], *, fill: float = 0.0
    ) -> Tensor:
        """One number per item from the similarities to its positives; `fill` for items that have none."""
        result = embeddings.new_full((self.n,), fill)
        for block in self.blocks():
            block.put(result, reduce(block.similarity(embeddings), block).to(result.dtype))
        return result
