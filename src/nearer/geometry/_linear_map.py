"""What every linear map with one factor L shares: `Lᵀx`, the distance there, saving and how it shows itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from nearer._validation import as_matrix
from nearer.geometry._saving import save_module
from nearer.geometry._similarity import euclidean_distance

__all__ = ["LinearMap"]


class LinearMap(nn.Module):
    """A factor L (p, d); `Mahalanobis` leaves it free, `OrthogonalMap` keeps its columns orthonormal."""

    factor: Tensor
    settings: dict[str, Any]

    def transform(self, x: Any) -> Tensor:
        """Rows in the space where the distance is Euclidean, `Lᵀx`: (n, p) -> (n, d)."""
        rows = as_matrix(x, "x", columns=self.factor.shape[0], minimum_rows=0)
        return rows.to(self.factor.dtype) @ self.factor

    def forward(self, x: Any) -> Tensor:
        return self.transform(x)

    def distance(self, queries: Any, database: Any = None) -> Tensor:
        """The distances `‖Lᵀ(q − x)‖`, not squared: (q, p) and (n, p) -> (q, n)."""
        return euclidean_distance(self.transform(queries), None if database is None else self.transform(database))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `nearer.geometry.load` reads."""
        return save_module(self, path)

    def extra_repr(self) -> str:
        return f"{self.factor.shape[0]} -> {self.factor.shape[1]}"
