"""Two maps, one for queries and one for the database: `D(x, y) = ‖Uᵀx − Vᵀy‖²`.

Not a metric: it is not symmetric and `D(x, x)` is not 0 in general. Index `Vᵀy` in any Euclidean index and search
it with `Uᵀx`; new database items need only V, and a new U needs no new index. U and V have shape (p, d) here, one
column per output, like every factor of this folder (the paper prints their transposes).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer._validation import as_matrix, check_int
from nearer.exceptions import ShapeError
from nearer.geometry.saving import save_module
from nearer.geometry.similarity import squared_euclidean_distance

__all__ = ["AsymmetricMap", "inner_product_database", "inner_product_queries"]


def inner_product_queries(queries: Any) -> Tensor:
    """Queries for an index that knows only inner products, `[q ; 1]`: (q, d) -> (q, d + 1).

    >>> inner_product_queries([[3, 4]])
    tensor([[3., 4., 1.]])
    """
    q = as_matrix(queries, "queries", minimum_rows=0)
    return torch.cat([q, q.new_ones(len(q), 1)], dim=1)


def inner_product_database(database: Any) -> Tensor:
    """Items for an index that knows only inner products, `[2y ; −‖y‖²]`: (n, d) -> (n, d + 1).

    The score with `inner_product_queries(q)` is `‖q‖² − ‖q − y‖²`: larger means nearer.

    >>> inner_product_database([[1, 2]])
    tensor([[ 2.,  4., -5.]])
    """
    y = as_matrix(database, "database", minimum_rows=0)
    return torch.cat([2 * y, -y.square().sum(dim=1, keepdim=True)], dim=1)


class AsymmetricMap(nn.Module):
    """A learnable asymmetric squared distance with factors `U`, `V` of shape (p, d), the identity at first.

    With `U = V` it is a Mahalanobis distance. Never start from zeros: every gradient vanishes there.

    >>> both = AsymmetricMap.from_factors([[1], [0]], [[0], [1]])
    >>> both([[3, 9]], [[9, 1], [9, 3]]).tolist()
    [[4.0, 0.0]]
    """

    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        super().__init__()
        p = check_int(in_features, "in_features")
        d = check_int(p if out_features is None else out_features, "out_features")
        self.settings: dict[str, Any] = {"in_features": p, "out_features": d}
        self.query_factor = nn.Parameter(torch.eye(p, d))  # U (p, d)
        self.database_factor = nn.Parameter(torch.eye(p, d))  # V (p, d)

    @classmethod
    def from_factors(cls, query_factor: Any, database_factor: Any) -> AsymmetricMap:
        """The distance of given `U` and `V`, both (p, d), in the wider of their precisions.

        >>> AsymmetricMap.from_factors([[2]], [[1]])([[1]], [[1]]).tolist()
        [[1.0]]
        """
        U, V = as_matrix(query_factor, "query_factor"), as_matrix(database_factor, "database_factor")
        if U.shape != V.shape:
            raise ShapeError(
                f"`database_factor` must have the shape {tuple(U.shape)} of `query_factor`, got {tuple(V.shape)}."
            )
        dtype = torch.promote_types(U.dtype, V.dtype)
        maps = cls(*U.shape)
        maps.query_factor = nn.Parameter(U.detach().to(dtype, copy=True))
        maps.database_factor = nn.Parameter(V.detach().to(dtype, copy=True))
        return maps

    def matrix(self) -> Tensor:
        """`W = [UUᵀ, −UVᵀ; −VUᵀ, VVᵀ]` (2p, 2p), with `D(x, y) = [x; y]ᵀW[x; y]`; never indefinite."""
        both = torch.cat([self.query_factor, -self.database_factor], dim=0)
        return both @ both.T

    def transform_queries(self, queries: Any) -> Tensor:
        """Rows to search with, `Uᵀx`: (q, p) -> (q, d)."""
        return self._rows(queries, "queries") @ self.query_factor

    def transform_database(self, database: Any) -> Tensor:
        """Rows to index, `Vᵀy`: (n, p) -> (n, d)."""
        return self._rows(database, "database") @ self.database_factor

    def squared_distance(self, queries: Any, database: Any) -> Tensor:
        """`D_ij = ‖Uᵀx_i − Vᵀy_j‖²`: (q, p) and (n, p) -> (q, n)."""
        return squared_euclidean_distance(self.transform_queries(queries), self.transform_database(database))

    def forward(self, queries: Any, database: Any) -> Tensor:
        return self.squared_distance(queries, database)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `nearer.geometry.load` reads."""
        return save_module(self, path)

    def extra_repr(self) -> str:
        return f"{self.query_factor.shape[0]} -> {self.query_factor.shape[1]}"

    def _rows(self, value: Any, name: str) -> Tensor:
        rows = as_matrix(value, name, columns=self.query_factor.shape[0], minimum_rows=0)
        return rows.to(self.query_factor.dtype)
