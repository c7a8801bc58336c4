"""One pass over all values of a problem, tile by tile; whoever wants to see them is shown every tile once.

When a set is searched in itself the tile of blocks i and j also holds what block j sees of block i: only the tiles
on and above the diagonal are computed, and each is shown twice. Never more than one tile per worker exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from nearer._plain import Array
from nearer.evaluation._engine._problem import Retrieval
from nearer.evaluation._engine._tiles import Products, run


class Observer(Protocol):
    """Something that looks at tiles. Workers call it from several threads at once."""

    def see(self, queries: int, items: int, values: Array, mask: Array) -> None:
        """The values of a block of queries (rows) for a block of items (columns).

        Items that do not count, the query itself and padding, have the value −∞. Both arrays lie in memory in the
        same order, by rows or by columns; `mask` is room for one comparison.
        """

    def end(self, queries: int) -> None:
        """The block of queries has been shown every item."""


def sweep(problem: Retrieval, products: Products, observers: Sequence[Observer]) -> None:
    """Show every tile to every observer."""
    blocks = products.query_blocks()
    both = problem.symmetric
    penalty = None if problem.penalty is None else fill(problem.penalty, len(products.database), 0.0)

    def prepare() -> Callable[[int], None]:
        buffer = products.buffer()
        mask = np.empty((products.rows, products.columns), dtype=bool)
        room = np.empty_like(buffer.numpy()) if penalty is not None and both else None

        def strip(i: int) -> None:
            itself = None if problem.itself is None else problem.itself[i * products.rows : (i + 1) * products.rows]
            for j in products.database_blocks()[i if both else 0 :]:
                start = j * products.columns
                tile = products.tile(i, j, buffer)
                if itself is not None:
                    here = np.flatnonzero((itself >= start) & (itself < start + products.columns))
                    tile[here, itself[here] - start] = -np.inf
                values = tile
                if penalty is not None:
                    values = np.subtract(tile, penalty[start : start + products.columns], out=room)
                for observer in observers:
                    observer.see(i, j, values, mask)
                if both and i != j:
                    if penalty is not None:
                        values = np.subtract(
                            tile, penalty[i * products.rows : (i + 1) * products.rows, None], out=room
                        )
                    for observer in observers:
                        observer.see(j, i, values.T, mask.T)
            if not both:
                for observer in observers:
                    observer.end(i)

        return strip

    run(blocks, prepare)
    if both:
        for observer in observers:
            run(blocks, lambda observer=observer: observer.end)  # type: ignore[misc]


def fill(array: Array, length: int, value: float) -> Array:
    """The array, continued with one value to the given length.

    >>> fill(np.array([1.0, 2.0]), 3, 0.0)
    array([1., 2., 0.])
    """
    result = np.full(length, value, dtype=array.dtype)
    result[: len(array)] = array
    return result
