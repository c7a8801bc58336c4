"""The walk over all pairs of classes: queries and database sorted by class, S = Q Γᵀ tile by tile.

Classes are contiguous, so positives are small blocks and tiles need no masks. A batch against itself is symmetric:
only tiles on and above the diagonal are formed, and each serves both of its roles. This is the only code that knows
tiles, buffers, kept tiles and roles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from nearer.pairwise._panels import forced_tile
from nearer.pairwise._rule import Gradient, Pairing
from nearer.relations import ClassLabels

_TILE = 512
# Up to here one panel is the whole batch: sorting by class costs more than symmetry saves. Measured at 320 and 512.
_SMALL = 384
# A positive block of a large class is cut so that it holds at most this many pairs.
_BLOCK_ELEMENTS = 1 << 20
# Classes up to this size are padded to powers of two, so that a ragged batch has a few blocks and not one per size.
_PADDED = 64
# Tiles that are needed twice are kept up to this many bytes and computed again beyond: memory stays bounded.
_KEEP_BYTES = 64 << 20


def sortable(pairing: Pairing, *, small: int = _SMALL) -> bool:
    """Whether a walk can take the pairs, and is worth its overhead."""
    limit = forced_tile() or small
    # All processes of a joint batch must decide alike, whatever their shares of it.
    n, m = pairing.anchors if pairing.shards is not None else pairing.queries.shape[0], pairing.database.shape[0]
    return (n > limit or n * m > limit * limit) and type(pairing.relation) is ClassLabels


@dataclass(frozen=True)
class Block:
    """Positive pairs: queries of some classes against database items of the same classes, padded to one size."""

    rows: Tensor  # (c, r) positions among the sorted queries
    columns: Tensor  # (c, k) positions in the sorted database
    mask: Tensor  # (c or 1, r, k): 1 for a pair of two items, 0 for an item and itself and for padding
    square: bool  # rows and columns are the same
    real: Tensor | None = None  # (c, r): which rows are no padding; None if none is
    span: slice | None = None  # the rows in order, if they are one stretch: a view then serves instead of a copy

    def take(self, table: Tensor) -> Tensor:
        """(c, r, …): the entries of the rows."""
        if self.span is None:
            return table[self.rows]
        return table[self.span].view(*self.rows.shape, *table.shape[1:])

    def similarity(self, walk: Walk) -> Tensor:
        """(c, r, k)"""
        own = self.take(walk.queries)
        return torch.bmm(own, (own if self.square else walk.database[self.columns]).transpose(1, 2))


@dataclass(frozen=True)
class Tile:
    """A rectangle of S that holds at least one negative pair."""

    number: int
    rows: slice
    columns: slice
    mixed: bool  # also holds same-class pairs
    twice: bool  # stands for its mirror image too: its columns are anchors as well

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def roles(self) -> list[tuple[slice, int]]:
        """Who is the anchor, and along which axis its others lie."""
        return [(self.rows, 1), (self.columns, 0)] if self.twice else [(self.rows, 1)]


class Walk:
    """Queries and database sorted by class, and the ways over their tiles and over their positives."""

    def __init__(self, pairing: Pairing) -> None:
        relation = pairing.relation
        assert type(relation) is ClassLabels
        self.symmetric = pairing.shared
        self.offset = pairing.offset
        device = pairing.queries.device
        labels, others = relation.queries.to(device), relation.database.to(device)
        self.order = torch.sort(labels, stable=True)[1]
        self.queries = pairing.queries[self.order]
        if self.symmetric:
            _, self.codes, sizes = torch.unique_consecutive(
                labels[self.order], return_inverse=True, return_counts=True
            )
            self.other_order, self.database, self.other_codes = self.order, self.queries, self.codes
            self.sizes = self.other_sizes = sizes
        else:
            self.other_order = torch.sort(others, stable=True)[1]
            self.database = pairing.database[self.other_order]
            names, codes = torch.unique(torch.cat([labels, others]), return_inverse=True)
            self.codes, self.other_codes = codes[: len(labels)][self.order], codes[len(labels) :][self.other_order]
            self.sizes = torch.bincount(self.codes, minlength=len(names))
            self.other_sizes = torch.bincount(self.other_codes, minlength=len(names))
        self.n, self.m = len(labels), len(others)
        self._sizes: list[int] = self.sizes.tolist()
        self._other_sizes: list[int] = self._sizes if self.symmetric else self.other_sizes.tolist()
        self._starts, self._other_starts = _starts(self._sizes), _starts(self._other_sizes)
        self.most = max(self._other_sizes, default=0)
        self.uniform = self.most if self.symmetric and self._sizes.count(self.most) == len(self._sizes) else 0
        size = forced_tile() or _TILE
        # Whole classes per tile let the same-class pairs of a diagonal tile be cleared as a strided view.
        self.tile = size - size % self.uniform if 0 < self.uniform <= size else size
        self._buffers: dict[int, Tensor] = {}
        self._kept: dict[int, Tensor] = {}
        self._room = _KEEP_BYTES
        self._flat: dict[int, Tensor | None] = {}
        self._tiles = list(self._cut())

    @property
    def positives(self) -> Tensor:
        """(n,) how many positives each query has."""
        own: Tensor = self.other_sizes[self.codes].to(self.queries.dtype)
        return own if self.offset is None else own - 1

    @property
    def negatives(self) -> Tensor:
        """(n,) how many negatives each query has."""
        same: Tensor = self.other_sizes[self.codes].to(self.queries.dtype)
        return self.m - same

    def tiles(self) -> list[Tile]:
        """Every tile with a negative pair; of a symmetric walk the upper triangle only."""
        return self._tiles

    def _cut(self) -> Iterator[Tile]:
        rows = [slice(i, min(i + self.tile, self.n)) for i in range(0, self.n, self.tile)]
        columns = [slice(j, min(j + self.tile, self.m)) for j in range(0, self.m, self.tile)]
        first, last = _ends(self.codes, self.tile)
        low, high = (first, last) if self.symmetric else _ends(self.other_codes, self.tile)
        number = 0
        for i, across in enumerate(rows):
            for j in range(i if self.symmetric else 0, len(columns)):
                if first[i] == last[i] == low[j] == high[j]:
                    continue  # one class only
                mixed = last[i] >= low[j] and high[j] >= first[i]
                yield Tile(number, across, columns[j], mixed, self.symmetric and i != j)
                number += 1

    def buffer(self, which: int, tile: Tile) -> Tensor:
        """A tile of memory that is used again and again."""
        rows, columns = tile.shape
        if which not in self._buffers:
            self._buffers[which] = self.queries.new_empty(min(self.tile, self.n) * min(self.tile, self.m))
        return self._buffers[which][: rows * columns].view(rows, columns)

    def similarity(self, tile: Tile, scaled: Tensor, *, keep: bool = False) -> Tensor:
        """Scaled queries against the database in a buffer, or in memory of its own if it is to be kept."""
        rows, columns = tile.shape
        size = rows * columns * scaled.element_size()
        fresh = keep and size <= self._room
        # A tile that is kept is computed where it stays; copying it would cost as much as a third of its product.
        out = scaled.new_empty((rows, columns)) if fresh else self.buffer(0, tile)
        return torch.mm(scaled[tile.rows], self.database[tile.columns].T, out=out)

    def keep(self, tile: Tile, values: Tensor) -> None:
        """Keep what was made of a tile, if there is room; a buffer is copied."""
        size = values.numel() * values.element_size()
        if size > self._room:
            return
        self._room -= size
        lent = any(values.data_ptr() == buffer.data_ptr() for buffer in self._buffers.values())
        self._kept[tile.number] = values.clone() if lent else values

    def kept(self, tile: Tile) -> Tensor | None:
        """What was kept of a tile; it can be asked once."""
        return self._kept.pop(tile.number, None)

    def clear(self, tile: Tile, values: Tensor, fill: float = 0.0) -> None:
        """Set the same-class pairs of a tile to zero, or to `fill`."""
        if not tile.mixed:
            return
        if self.uniform and not tile.twice and self.tile % self.uniform == 0:
            k, width = self.uniform, values.stride(0)
            values.as_strided((values.shape[0] // k, k, k), (k * width + k, width, 1)).fill_(fill)
            return
        if tile.number not in self._flat:
            self._flat[tile.number] = self._same(tile)
        flat = self._flat[tile.number]
        if flat is None:
            values.masked_fill_(self.codes[tile.rows, None] == self.other_codes[None, tile.columns], fill)
        else:
            values.view(-1).index_fill_(0, flat, fill)

    def _same(self, tile: Tile) -> Tensor | None:
        """The flat positions of a tile's same-class pairs; None if they are too many for a list."""
        start, stop = tile.columns.start, tile.columns.stop
        codes = self.codes[tile.rows]
        ends = self.other_sizes.cumsum(0)[codes]
        first = (ends - self.other_sizes[codes]).clamp(start, stop)
        lengths = ends.clamp(start, stop) - first
        total = int(lengths.sum())
        if total > tile.shape[0] * tile.shape[1] // 8:
            return None
        row = torch.repeat_interleave(torch.arange(len(codes), device=codes.device), lengths)
        inside = torch.arange(total, device=codes.device) - (lengths.cumsum(0) - lengths)[row]
        return row * tile.shape[1] + (first - start)[row] + inside

    def push(self, d_queries: Tensor, d_database: Tensor, tile: Tile, weight: Tensor) -> None:
        """Add the gradient of Σ weight·s over a tile to both of its sides."""
        d_queries[tile.rows].addmm_(weight, self.database[tile.columns])
        d_database[tile.columns].addmm_(weight.T, self.queries[tile.rows])

    def push_both(self, d_queries: Tensor, d_database: Tensor, tile: Tile, w: Tensor, factor: Tensor) -> None:
        """As `push` for the weights factor_i·w_ij of anchors i, in all roles that the tile has.

        w is symmetric in a symmetric walk: G_ij + G_ji = w_ij(factor_i + factor_j).
        """
        both = self.buffer(2, tile)
        if self.symmetric:
            torch.add(factor[tile.rows, None], factor[None, tile.columns], out=both).mul_(w)
            self.push_sum(d_queries, tile, both)
        else:
            self.push(d_queries, d_database, tile, torch.mul(w, factor[tile.rows, None], out=both))

    def push_sum(self, d_queries: Tensor, tile: Tile, both: Tensor) -> None:
        """Add the gradient of a symmetric walk whose weights are G_ij + G_ji; a diagonal tile holds them twice."""
        d_queries[tile.rows].addmm_(both, self.database[tile.columns])
        if tile.twice:
            d_queries[tile.columns].addmm_(both.T, self.queries[tile.rows])

    def push_block(self, d_queries: Tensor, d_database: Tensor, block: Block, weight: Tensor) -> None:
        """Add the gradient of Σ weight·s over a block of positives to both of its sides."""
        own = block.take(self.queries)
        if block.square and self.symmetric:
            added = torch.bmm(weight + weight.transpose(1, 2), own)
            if block.span is not None:
                d_queries[block.span] += added.view(-1, added.shape[2])
            else:
                d_queries.index_add_(0, block.rows.view(-1), added.view(-1, added.shape[2]))
            return
        width = own.shape[2]
        other = self.database[block.columns]
        d_queries.index_add_(0, block.rows.view(-1), torch.bmm(weight, other).view(-1, width))
        d_database.index_add_(0, block.columns.view(-1), torch.bmm(weight.transpose(1, 2), own).view(-1, width))

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Zeros for the gradients by queries and by database, in the walk's order; one tensor if they are one."""
        d_queries = torch.zeros_like(self.queries)
        return d_queries, d_queries if self.symmetric else torch.zeros_like(self.database)

    def finish(
        self, value: Tensor, gradients: tuple[Tensor, Tensor] | None, anchor_values: Tensor | None = None
    ) -> Gradient:
        """Everything in the order of the caller."""
        anchor = None if anchor_values is None else _restored(anchor_values, self.order)
        if gradients is None:
            return Gradient(value, None, None, anchor)
        database = None if self.symmetric else _restored(gradients[1], self.other_order)
        return Gradient(value, _restored(gradients[0], self.order), database, anchor)

    def blocks(self) -> list[Block]:
        """Every class with a positive pair, grouped by size."""
        dtype, device = self.queries.dtype, self.queries.device
        if self.uniform > 1 and self.uniform * self.n <= _BLOCK_ELEMENTS:
            rows = torch.arange(self.n, device=device).view(-1, self.uniform)
            mask = 1 - torch.eye(self.uniform, dtype=dtype, device=device)
            return [Block(rows, rows, mask[None], True, None, slice(0, self.n))]
        groups: dict[tuple[int, int], list[int]] = {}
        for code, (r, k) in enumerate(zip(self._sizes, self._other_sizes, strict=True)):
            if r and k > (0 if self.offset is None else 1):
                groups.setdefault((_padded(r), _padded(k)), []).append(code)
        blocks: list[Block] = []
        for (r, k), members in groups.items():
            step = max(1, _BLOCK_ELEMENTS // (r * k))
            for part in range(0, len(members), step):
                if r * k <= _BLOCK_ELEMENTS:
                    blocks.append(self._block(members[part : part + step], r, k, 0))
                else:
                    few = max(1, _BLOCK_ELEMENTS // k)
                    blocks.extend(self._block(members[part : part + 1], few, k, at) for at in range(0, r, few))
        return blocks

    def _block(self, classes: list[int], r: int, k: int, at: int) -> Block:
        """`r` queries from the `at`-th on of each class against `k` items of the class."""
        device = self.queries.device

        def table(starts: list[int], sizes: list[int], width: int, skip: int) -> tuple[Tensor, Tensor]:
            first = torch.tensor([starts[code] for code in classes], device=device)[:, None]
            count = torch.tensor([sizes[code] for code in classes], device=device)[:, None]
            last = min(skip + width, int(count.max())) if len(classes) == 1 else skip + width
            inside = torch.arange(skip, last, device=device)[None]
            return first + torch.minimum(inside, count - 1), (inside < count).to(self.queries.dtype)

        rows, real = table(self._starts, self._sizes, r, at)
        columns, there = table(self._other_starts, self._other_sizes, k, 0)
        mask = real[:, :, None] * there[:, None, :]
        if self.offset is not None:
            own = rows if self.symmetric else self.order[rows] + self.offset
            mask *= own[:, :, None] != (columns if self.symmetric else self.other_order[columns])[:, None, :]
        return Block(rows, columns, mask, self.symmetric and at == 0 and rows.shape == columns.shape, real > 0)


def _ends(codes: Tensor, tile: int) -> tuple[list[int], list[int]]:
    """The first and the last class of every stretch of `tile` items."""
    first, last = codes[::tile].tolist(), codes[tile - 1 :: tile].tolist()
    return first, last if len(last) == len(first) else [*last, int(codes[-1])]


def _starts(sizes: list[int]) -> list[int]:
    """Where each class begins."""
    return list(accumulate(sizes, initial=0))[:-1]


def _padded(size: int) -> int:
    return 1 << (size - 1).bit_length() if 0 < size <= _PADDED else size


def _restored(table: Tensor, order: Tensor) -> Tensor:
    """Sorted rows back in the order of the caller."""
    result = torch.empty_like(table)
    result[order] = table
    return result
