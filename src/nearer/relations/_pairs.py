"""Explicit pairs and triplets: the user lists who is near to whom; everything else is unknown."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_tensor
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.relations._relation import ALL, Relation


def as_indices(value: Any, name: str, width: int, limits: tuple[int, ...]) -> Tensor:
    """Rows of item numbers, each column within its limit."""
    table = as_tensor(value, name)
    if table.numel() == 0:
        return torch.empty((0, width), dtype=torch.int64, device=table.device)
    if table.ndim != 2 or table.shape[1] != width or table.dtype.is_floating_point or table.dtype == torch.bool:
        raise ShapeError(f"`{name}` must be whole numbers of shape (m, {width}), got {tuple(table.shape)}.")
    table = table.to(torch.int64)
    for column, limit in enumerate(limits):
        low, high = int(table[:, column].min()), int(table[:, column].max())
        if low < 0 or high >= limit:
            raise ParameterError(f"column {column} of `{name}` must lie in 0..{limit - 1}, got {low}..{high}.")
    return table


class Pairs(Relation):
    """Listed pairs (query, database item) are positive or negative; every other pair is unknown.

    The lists are read in the direction given; with `both_ways` (items related to themselves, the default)
    (i, j) also stands for (j, i).

    >>> positive, negative = Pairs(3, positive=[[0, 1]], negative=[[1, 2]]).masks()
    >>> positive.int().tolist()
    [[0, 1, 0], [1, 0, 0], [0, 0, 0]]

    Args:
        n: how many queries.
        n_database: how many database items; None relates the queries to themselves.
        positive: listed pairs (m, 2) that are near.
        negative: listed pairs (m, 2) that are not.
        both_ways: whether (i, j) also stands for (j, i).
    """

    def __init__(
        self,
        n: int,
        n_database: int | None = None,
        *,
        positive: Any = (),
        negative: Any = (),
        both_ways: bool | None = None,
    ) -> None:
        self.n_queries = check_int(n, "n")
        self.n_database = self.n_queries if n_database is None else check_int(n_database, "n_database")
        both_ways = n_database is None if both_ways is None else both_ways
        if both_ways and n_database is not None:
            raise ParameterError("`both_ways` must be off when queries and database are different sets.")
        limits = (self.n_queries, self.n_database)
        self.both_ways = both_ways
        tables = [
            as_indices(rows, name, 2, limits) for rows, name in ((positive, "positive"), (negative, "negative"))
        ]
        device = max(tables, key=len).device  # an empty list says nothing about it
        self._codes = tuple(self._encode(table.to(device), both_ways) for table in tables)
        if bool(torch.isin(self._codes[0], self._codes[1]).any()):
            raise LabelError("a pair must not be listed as positive and as negative. Remove it from one list.")

    def _encode(self, pairs: Tensor, both_ways: bool) -> Tensor:
        """Sorted distinct row-major codes: a row range is then one contiguous stretch."""
        if both_ways:
            pairs = torch.cat([pairs, pairs.flip(1)])
        return torch.unique(pairs[:, 0] * self.n_database + pairs[:, 1])

    def listed(self) -> tuple[Tensor, Tensor]:
        """Every pair once, (m, 2), and whether it is near, (m,): what a pair learner takes.

        >>> pairs, near = Pairs(3, positive=[[1, 0]], negative=[[1, 2], [2, 1]]).listed()
        >>> pairs.tolist(), near.tolist()
        ([[0, 1], [1, 2]], [True, False])
        """
        tables = [torch.stack([codes // self.n_database, codes % self.n_database], dim=1) for codes in self._codes]
        if self.both_ways:
            tables = [table[table[:, 0] <= table[:, 1]] for table in tables]
        near = [
            torch.full_like(table[:, 0], sign, dtype=torch.bool)
            for table, sign in zip(tables, (True, False), strict=True)
        ]
        return torch.cat(tables), torch.cat(near)

    def _mask(self, codes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Each listed pair of the asked rows, looked up; the work is O(listed pairs + tile)."""
        device = codes.device
        mask = torch.zeros((len(rows), len(columns)), dtype=torch.bool, device=device)
        position = torch.full((self.n_database,), -1, device=device)
        position[columns] = torch.arange(len(columns), device=device)
        start = torch.searchsorted(codes, rows * self.n_database)
        counts = torch.searchsorted(codes, (rows + 1) * self.n_database) - start
        local = torch.repeat_interleave(torch.arange(len(rows), device=device), counts)
        offset = torch.arange(int(counts.sum()), device=device) - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        column = position[codes[start[local] + offset] % self.n_database]
        mask[local[column >= 0], column[column >= 0]] = True
        return mask

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        device = self._codes[0].device
        rows = torch.arange(self.n_queries, device=device)[queries]
        columns = torch.arange(self.n_database, device=device)[database]
        positive, negative = (self._mask(codes, rows, columns) for codes in self._codes)
        return positive, negative

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        positive, negative = self.masks(queries, database)
        return positive.float(), positive | negative


class Triplets(Relation):
    """Listed triplets (anchor, positive, negative): what they say of pairs; every other pair is unknown.

    >>> positive, negative = Triplets(3, [[0, 1, 2]]).masks()
    >>> positive.int().tolist()[0], negative.int().tolist()[0]
    ([0, 1, 0], [0, 0, 1])

    Args:
        n: items.
        triplets: rows of (anchor, positive, negative), (m, 3).
    """

    def __init__(self, n: int, triplets: Any) -> None:
        check_int(n, "n")
        self.triplets = as_indices(triplets, "triplets", 3, (n, n, n))
        self._pairs = Pairs(n, positive=self.triplets[:, :2], negative=self.triplets[:, ::2], both_ways=False)
        self.n_queries = self.n_database = n

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        return self._pairs.masks(queries, database)

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        return self._pairs.degrees(queries, database)
