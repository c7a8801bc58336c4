"""Features brought to one scale, as a part of the model, so that raw features go in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.geometry._saving import SavedModule


class Standardize(SavedModule):
    """Each feature minus its mean, divided by its deviation: (n, p) -> (n, p). Nothing in it is learnt by descent.

    A feature that does not vary is only centred.

    >>> Standardize.from_rows([[0, 5], [2, 5]])([[1, 6], [3, 5]])
    tensor([[0., 1.],
            [2., 0.]])

    Args:
        features: columns of the input.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        p = check_int(features, "features")
        self.settings: dict[str, Any] = {"features": p}
        self.register_buffer("mean", torch.zeros(p))
        self.register_buffer("scale", torch.ones(p))

    @classmethod
    def from_rows(cls, rows: Any) -> Standardize:
        """The mean and the deviation of these rows (n, p)."""
        x = as_matrix(rows, "rows")
        part = cls(x.shape[1])
        # float32 sums over many rows would lose digits.
        part.mean = x.mean(0, dtype=torch.float64).to(torch.float32)
        deviation = (x - part.mean.to(x.dtype)).square().mean(0, dtype=torch.float64).sqrt()
        varies = deviation > 1e-7 * part.mean.double().abs()
        part.scale = torch.where(varies, deviation, 1.0).to(torch.float32)
        return part

    def forward(self, x: Any) -> Tensor:
        rows = as_matrix(x, "x", columns=self.settings["features"], minimum_rows=0)
        return (rows - self.mean.to(rows.dtype)) / self.scale.to(rows.dtype)

    def extra_repr(self) -> str:
        """How many features."""
        return str(self.settings["features"])
