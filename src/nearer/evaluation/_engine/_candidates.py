"""The items that may still be among the first places of a query, kept until they are sorted.

A candidate is a query (its row in the block), a value, and a whole number that decides between equal values. For
float32 all three fit into one 64-bit integer,

    row | value, largest first | tie

and one sort of integers gives the exact order. float64 values are sorted beside their row and tie.
"""

from __future__ import annotations

import threading

import numpy as np

from nearer._plain import Array


class BestCandidates:
    """What the queries of one block have collected; in the end the first `depth` of each are wanted.

    Of equal values the one with the smaller tie (0..n−1) comes first. `bound` is what a value must reach to be of
    use. More than `limit` candidates are thinned to those that can still be among the first places, and the bound
    of their queries rises. `by_index` says that the tie is the index of the item.
    """

    def __init__(self, depth: Array, bound: Array, n: int, *, by_index: bool, limit: int) -> None:
        self.depth, self.bound, self.by_index = depth, bound, by_index
        self.last = np.full(len(bound), n, dtype=np.int64)  # the tie of the last of the first places
        self.limit = max(limit, 2 * int(depth.sum()))
        self.bits = max(1, int(n - 1).bit_length())
        row_bits = int(len(bound) - 1).bit_length()
        self.packed = bound.dtype == np.float32 and row_bits + self.bits <= 32
        self.parts: list[tuple[Array, ...]] = []
        self.size = 0
        self.lock = threading.Lock()

    def reach(self, start: int) -> Array:
        """What a value of an item with index `start` or higher must reach, (rows,)."""
        if not self.by_index:
            return self.bound
        with self.lock:
            beyond, bound = self.last < start, self.bound.copy()
        bound[beyond] = np.nextafter(bound[beyond], np.inf, dtype=bound.dtype)
        return bound

    def add(self, row: Array, value: Array, tie: Array) -> None:
        """More candidates, of any rows; may be called by several workers."""
        part = (self._pack(row, value, tie),) if self.packed else (row.astype(np.uint16), value, tie)
        with self.lock:
            self.parts.append(part)
            self.size += len(row)
            if self.size > self.limit:
                self._thin()

    def ordered(self) -> tuple[Array, Array]:
        """How many places of each row are taken, (rows,), and the ties of their items, row by row in order."""
        taken, part = self._first()
        return taken, (part[0] & np.uint64(2**self.bits - 1)).view(np.int64) if self.packed else part[2]

    def _first(self) -> tuple[Array, tuple[Array, ...]]:
        """The candidates in order, without those beyond the depth of their row."""
        joined = tuple(np.concatenate(column) for column in zip(*self.parts, strict=True)) or self._none()
        rows = len(self.depth)
        if self.packed:
            joined[0].sort()
            ends = np.searchsorted(joined[0], np.arange(1, rows + 1, dtype=np.uint64) << np.uint64(32 + self.bits))
            # The end of row 2^k − 1 has no number of 64 bits when the rows fill all of theirs.
            ends[-1] = len(joined[0])
        else:
            order = _order(*joined)
            joined = tuple(column[order] for column in joined)
            ends = np.searchsorted(joined[0], np.arange(rows), side="right")
        count = np.diff(ends, prepend=0)
        taken = np.minimum(count, self.depth)
        if not np.array_equal(count, taken):
            chosen = np.arange(taken.sum()) + np.repeat((ends - count) - (np.cumsum(taken) - taken), taken)
            joined = tuple(column[chosen] for column in joined)
        return taken, joined

    def _thin(self) -> None:
        taken, part = self._first()
        self.parts, self.size = [part], int(taken.sum())
        full = np.flatnonzero((taken == self.depth) & (taken > 0))
        last = (np.cumsum(taken) - 1)[full]
        if self.packed:
            value, tie = self._unpack(part[0][last])
        else:
            value, tie = part[1][last], part[2][last]
        self.bound[full], self.last[full] = np.maximum(self.bound[full], value), tie

    def _none(self) -> tuple[Array, ...]:
        if self.packed:
            return (np.empty(0, dtype=np.uint64),)
        return np.empty(0, dtype=np.uint16), np.empty(0, dtype=self.bound.dtype), np.empty(0, dtype=np.int64)

    def _pack(self, row: Array, value: Array, tie: Array) -> Array:
        # Adding zero turns −0 into +0. The bits of a positive float are ordered like integers, those of a negative
        # one the other way round; here they are flipped so that the largest float is the smallest integer.
        bits = (value + np.float32(0)).view(np.int32)
        falling = (~bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).view(np.uint32) ^ np.uint32(0x80000000)
        key = falling.astype(np.uint64)
        key <<= np.uint64(self.bits)
        key |= (row << (32 + self.bits)).view(np.uint64)
        key |= tie.view(np.uint64)
        return key

    def _unpack(self, keys: Array) -> tuple[Array, Array]:
        tie = (keys & np.uint64(2**self.bits - 1)).astype(np.int64)
        falling = ((keys >> np.uint64(self.bits)) & np.uint64(2**32 - 1)).astype(np.uint32)
        rising = ~(falling ^ np.uint32(0x80000000)).view(np.int32)
        return (rising ^ ((rising >> 31) & np.int32(0x7FFFFFFF))).view(np.float32), tie


def _order(row: Array, value: Array, tie: Array) -> Array:
    """Row up, value down, tie up."""
    order = np.argsort(-value)
    order = order[np.argsort(row[order], kind="stable")]  # a radix sort, as rows have 16 bits
    value_, row_ = value[order], row[order]
    if np.any((value_[1:] == value_[:-1]) & (row_[1:] == row_[:-1])):
        return np.lexsort((tie, -value, row))
    return order
