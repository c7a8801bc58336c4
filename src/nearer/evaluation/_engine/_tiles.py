"""Similarities in tiles: one fixed shape, one worker per thread, and the same bits for the same two vectors.

A score with an exact tie rule needs more of a matrix product than speed. The similarity of two vectors must come
out equal whenever and wherever it is computed: a duplicate of an item must tie with it, and a value found in one
pass must be recognised in the next. Matrix products keep that promise inside a tile whose sides are multiples of
24 on the libraries that were tried; whether they keep it here is measured, once for each shape, by `is_uniform`.
Where they do not, products are computed in float64 and rounded, which is slower and ties duplicates all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from nearer._plain import Array

Item = TypeVar("Item")
Result = TypeVar("Result")

# The longest side of a tile. 960 rows of float32 fill the caches of one core and leave the product at full speed.
SIDE = 960
SHORTEST = 480  # below, calls cost more than they compute
GRAIN = 24


def block_size(n: int) -> int:
    """The side of equal blocks that cover n rows with little padding: a multiple of 24, about a tenth of many n.

    With ten blocks and more, the tiles above the diagonal are little more than half of all.

    >>> block_size(60000), block_size(3000), block_size(3)
    (960, 432, 24)
    """
    blocks = -(-n // min(max(n // 10, SHORTEST), SIDE))
    return -(-n // (blocks * GRAIN)) * GRAIN


@lru_cache(maxsize=256)
def is_uniform(rows: int, columns: int, d: int, dtype: torch.dtype) -> bool:
    """Whether a (rows, d) × (d, columns) product gives one value for one pair of vectors, at every place.

    Measured with random vectors: a product of equal rows with equal columns must hold a single number, the same
    as with the two sides exchanged. The kernels of a matrix product depend on its shape and not on its values, so
    the answer holds for the data.
    """
    generator = torch.Generator().manual_seed(0)
    with one_thread():
        for _ in range(6):
            left, right = torch.randn(2, 1, d, generator=generator, dtype=dtype)
            product = left.repeat(rows, 1) @ right.repeat(columns, 1).T
            two = right.repeat(rows, 1) @ left.repeat(columns, 1).T
            if not (bool((product == product[0, 0]).all()) and bool((two == product[0, 0]).all())):
                return False
    return True


class Products:
    """The tiles of `queries @ database.T`, all of one shape; the last rows and columns are padded with zeros."""

    def __init__(self, queries: Array, database: Array, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.q, self.n = len(queries), len(database)
        self.queries = _padded(queries, rows)
        same = database is queries and rows == columns
        self.database = self.queries if same else _padded(database, columns)
        self.dtype = self.queries.dtype
        self.uniform = is_uniform(rows, columns, self.queries.shape[1], self.dtype)
        if not self.uniform:
            largest = float(self.queries.norm(dim=1).max()) * float(self.database.norm(dim=1).max())
            # Adding and taking away this number rounds a float64 to 2⁻⁴⁰ of the largest possible product.
            self._rounder = 1.5 * 2.0 ** (np.ceil(np.log2(max(largest, 1e-300))) + 12)

    def query_blocks(self) -> range:
        """The numbers of the blocks of queries."""
        return range(len(self.queries) // self.rows)

    def database_blocks(self) -> range:
        """The numbers of the blocks of the database."""
        return range(len(self.database) // self.columns)

    def buffer(self) -> Tensor:
        """An empty tile to write into."""
        return torch.empty(self.rows, self.columns, dtype=self.dtype)

    def tile(self, i: int, j: int, out: Tensor) -> Array:
        """The products of query block i with database block j; padded columns are −∞."""
        left = self.queries[i * self.rows : (i + 1) * self.rows]
        right = self.database[j * self.columns : (j + 1) * self.columns]
        values = self.multiply(left, right, out)
        if (j + 1) * self.columns > self.n:
            values[:, self.n - j * self.columns :] = -np.inf
        return values

    def gathered(self, queries: Array, database: Array, out: Tensor) -> Array:
        """The products of any queries with any database items, by index; at most one tile of them.

        Computed in the shape of every other tile, so that a value has the bits it has elsewhere.
        """
        left = torch.zeros(self.rows, self.queries.shape[1], dtype=self.dtype)
        right = torch.zeros(self.columns, self.queries.shape[1], dtype=self.dtype)
        left[: len(queries)] = self.queries[torch.from_numpy(queries)]
        right[: len(database)] = self.database[torch.from_numpy(database)]
        return self.multiply(left, right, out)[: len(queries), : len(database)]

    def multiply(self, left: Tensor, right: Tensor, out: Tensor) -> Array:
        """One tile, with the promise that equal pairs of vectors get equal values."""
        if self.uniform:
            torch.mm(left, right.T, out=out)
        else:
            wide = left.double() @ right.double().T
            if self.dtype == torch.float64:
                wide.add_(self._rounder).sub_(self._rounder)
            out.copy_(wide)
        return out.numpy()


def _padded(rows: Array, block: int) -> Tensor:
    missing = -len(rows) % block
    if missing:
        rows = np.concatenate([rows, np.zeros((missing, rows.shape[1]), dtype=rows.dtype)])
    return torch.from_numpy(np.ascontiguousarray(rows))


@contextmanager
def one_thread() -> Iterator[int]:
    """Set torch to one thread and give the number it had, which is how many workers may share the cores.

    Products of one thread each do not depend on how many there are, and small ones are faster.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def run(
    items: Iterable[Item], prepare: Callable[[], Callable[[Item], Result]], *, workers: int | None = None
) -> list[Result]:
    """Do every item, on as many workers as torch has threads or as are given; results in the order of the items.

    `prepare` is called once in each worker and returns the function that works there, with its own buffers.

    >>> run([1, 2, 3], lambda: lambda item: item * item)
    [1, 4, 9]
    """
    with one_thread() as threads:
        count = threads if workers is None else workers
        if count == 1:
            return [*map(prepare(), items)]
        local = threading.local()

        def start() -> None:
            torch.set_num_threads(1)
            local.work = prepare()

        with ThreadPoolExecutor(count, initializer=start) as pool:
            return [*pool.map(lambda item: local.work(item), items)]
