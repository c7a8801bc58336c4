"""Two maps, one for queries and one for the database: `D(x, y) = ‖Uᵀx − Vᵀy‖²`, linear or any two encoders.

Not a metric: it is not symmetric and `D(x, x)` is not 0 in general. Index `Vᵀy` in any Euclidean index and search
it with `Uᵀx`; new database items need only V, and a new U needs no new index. U and V have shape (p, d) here, one
column per output, like every factor of this folder (the paper prints their transposes). The two sides may have
different features: then U is (p, d) and V (p', d).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry._saving import SavedModule, description
from nearer.geometry._similarity import squared_euclidean_distance


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


class AsymmetricMap(SavedModule):
    """A learnable asymmetric squared distance with factors `U` (p, d) and `V` (p', d), the identity at first.

    `database_features` p' is p unless the two sides are described differently; d is the smaller of them by
    default. With `U = V` it is a Mahalanobis distance. Never start from zeros: every gradient vanishes there.

    >>> both = AsymmetricMap.from_factors([[1], [0]], [[0], [1]])
    >>> both([[3, 9]], [[9, 1], [9, 3]]).tolist()
    [[4.0, 0.0]]

    Args:
        in_features: columns p of a query.
        embedding_dim: dimensions d; the smaller of p and p' if None.
        database_features: columns p' of an item; p if None.
    """

    def __init__(
        self, in_features: int, embedding_dim: int | None = None, database_features: int | None = None
    ) -> None:
        super().__init__()
        p = check_int(in_features, "in_features")
        other = p if database_features is None else check_int(database_features, "database_features")
        d = check_int(min(p, other) if embedding_dim is None else embedding_dim, "embedding_dim")
        self.settings: dict[str, Any] = {"in_features": p, "embedding_dim": d, "database_features": other}
        self.query_factor = nn.Parameter(torch.eye(p, d))  # U (p, d)
        self.database_factor = nn.Parameter(torch.eye(other, d))  # V (p', d)

    @classmethod
    def from_factors(cls, query_factor: Any, database_factor: Any) -> AsymmetricMap:
        """The distance of given `U` (p, d) and `V` (p', d), in the wider of their precisions.

        >>> AsymmetricMap.from_factors([[2]], [[1]])([[1]], [[1]]).tolist()
        [[1.0]]
        """
        U, V = as_matrix(query_factor, "query_factor"), as_matrix(database_factor, "database_factor")
        if U.shape[1] != V.shape[1]:
            raise ShapeError(
                f"`database_factor` must have the {U.shape[1]} columns of `query_factor`, got {V.shape[1]}. "
                f"Both map into one space."
            )
        dtype = torch.promote_types(U.dtype, V.dtype)
        maps = cls(U.shape[0], U.shape[1], V.shape[0])
        maps.query_factor = nn.Parameter(U.detach().to(dtype, copy=True))
        maps.database_factor = nn.Parameter(V.detach().to(dtype, copy=True))
        return maps

    def matrix(self) -> Tensor:
        """`W = [UUᵀ, −UVᵀ; −VUᵀ, VVᵀ]` (p + p', p + p'), with `D(x, y) = [x; y]ᵀW[x; y]`; never indefinite."""
        both = torch.cat([self.query_factor, -self.database_factor], dim=0)
        return both @ both.T

    def rotated(self, rotation: Any) -> AsymmetricMap:
        """The same distances in turned coordinates, `UQ` and `VQ`, for an orthogonal Q (d, d).

        >>> turned = AsymmetricMap(2).rotated([[0, 1], [-1, 0]])
        >>> turned.transform_database([[3, 5]]).tolist(), turned([[0, 0]], [[3, 4]]).item()
        ([[-5.0, 3.0]], 25.0)
        """
        d = self.query_factor.shape[1]
        Q = as_matrix(rotation, "rotation", columns=d).to(self.query_factor.dtype)
        if len(Q) != d or not torch.allclose(Q.T @ Q, torch.eye(d, dtype=Q.dtype, device=Q.device), atol=1e-4):
            raise ParameterError(f"`rotation` must be an orthogonal matrix ({d}, {d}): QᵀQ = 1.")
        return AsymmetricMap.from_factors(self.query_factor.detach() @ Q, self.database_factor.detach() @ Q)

    def aligned(self, database: Any) -> AsymmetricMap:
        """The same distances along the principal axes of the mapped `database` (n, p'), the widest axis first.

        A quantiser or a truncated index then loses as little as possible.

        >>> AsymmetricMap(2).aligned([[0, 1], [0, 9]]).transform_database([[0, 9]]).abs().tolist()
        [[9.0, 0.0]]
        """
        rows = self.transform_database(database).detach()
        _, axes = torch.linalg.eigh((rows - rows.mean(dim=0)).T @ (rows - rows.mean(dim=0)))
        return self.rotated(axes.flip(1))

    def transform_queries(self, queries: Any) -> Tensor:
        """Rows to search with, `Uᵀx`: (q, p) -> (q, d)."""
        return self._rows(queries, "queries", self.query_factor) @ self.query_factor

    def transform_database(self, database: Any) -> Tensor:
        """Rows to index, `Vᵀy`: (n, p') -> (n, d)."""
        return self._rows(database, "database", self.database_factor) @ self.database_factor

    def squared_distance(self, queries: Any, database: Any) -> Tensor:
        """`D_ij = ‖Uᵀx_i − Vᵀy_j‖²`: (q, p) and (n, p) -> (q, n)."""
        return squared_euclidean_distance(self.transform_queries(queries), self.transform_database(database))

    def forward(self, queries: Any, database: Any) -> Tensor:
        return self.squared_distance(queries, database)

    def extra_repr(self) -> str:
        p, other, d = self.query_factor.shape[0], self.database_factor.shape[0], self.query_factor.shape[1]
        return f"{p} -> {d}" if p == other else f"{p} and {other} -> {d}"

    def _rows(self, value: Any, name: str, factor: Tensor) -> Tensor:
        return as_matrix(value, name, columns=factor.shape[0], minimum_rows=0).to(factor.dtype)


class TwoEncoders(SavedModule):
    """Any two networks into one space, `D(x, y) = ‖φ_q(x) − φ_d(y)‖²`: one for queries, one for the database.

    They may have different inputs and share parameters. Train both with `NeighborhoodLoss`; index
    `transform_database` and search with `transform_queries`. It can be saved if both are encoders of nearer.

    >>> from nearer.geometry._encoders import MLP
    >>> both = TwoEncoders(MLP(4, 2), MLP(9, 2))
    >>> both(torch.rand(3, 4), torch.rand(5, 9)).shape
    torch.Size([3, 5])

    Args:
        query_encoder: φ_q, for queries.
        database_encoder: φ_d, for the database.
    """

    def __init__(self, query_encoder: nn.Module, database_encoder: nn.Module) -> None:
        super().__init__()
        self.query_encoder = query_encoder
        self.database_encoder = database_encoder
        parts = {"query": query_encoder, "database": database_encoder}
        self.settings: dict[str, Any] = {
            name: description(part)  # type: ignore[arg-type]
            for name, part in parts.items()
            if isinstance(getattr(part, "settings", None), dict)
        }

    def transform_queries(self, queries: Any) -> Tensor:
        """Rows to search with, `φ_q(x)`: (q, ...) -> (q, d)."""
        return self._encoded(self.query_encoder, queries, "query_encoder")

    def transform_database(self, database: Any) -> Tensor:
        """Rows to index, `φ_d(y)`: (n, ...) -> (n, d)."""
        return self._encoded(self.database_encoder, database, "database_encoder")

    def squared_distance(self, queries: Any, database: Any) -> Tensor:
        """`D_ij = ‖φ_q(x_i) − φ_d(y_j)‖²`: (q, ...) and (n, ...) -> (q, n)."""
        left, right = self.transform_queries(queries), self.transform_database(database)
        if left.shape[1] != right.shape[1]:
            raise ShapeError(
                f"`database_encoder` must end in the {left.shape[1]} columns of `query_encoder`, got "
                f"{right.shape[1]}. Both map into one space."
            )
        return squared_euclidean_distance(left, right)

    def forward(self, queries: Any, database: Any) -> Tensor:
        return self.squared_distance(queries, database)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `nearer.geometry.load` reads."""
        for name, part in (("query_encoder", self.query_encoder), ("database_encoder", self.database_encoder)):
            if not isinstance(getattr(part, "settings", None), dict):
                raise ParameterError(
                    f"`{name}` must be an encoder of nearer to be saved, got {type(part).__name__}. "
                    f"Save the state_dict instead."
                )
        return super().save(path)

    @staticmethod
    def _encoded(encoder: nn.Module, items: Any, name: str) -> Tensor:
        rows: Tensor = encoder(items)
        if rows.ndim != 2:
            raise ShapeError(f"`{name}` must give one row per item, got shape {tuple(rows.shape)}.")
        return rows
