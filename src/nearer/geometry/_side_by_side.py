"""Several networks on the same items, their embeddings one beside the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer.exceptions import ParameterError
from nearer.geometry._saving import description, save_module

__all__ = ["SideBySide"]


class SideBySide(nn.Module):
    """`x → [φ₁(x), …, φ_m(x)] / √m`: the squared distance is the mean of those of the parts.

    >>> from nearer.geometry import Mahalanobis
    >>> double, half = Mahalanobis.from_factor([[2.0]]), Mahalanobis.from_factor([[0.5]])
    >>> round(SideBySide(double, half)(torch.tensor([[1.0]])).square().sum().item(), 3)
    2.125
    """

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        if not parts:
            raise ParameterError("`parts` must hold at least one module, got none.")
        self.parts = nn.ModuleList(parts)
        self.settings: dict[str, Any] = {
            "parts": [description(part) for part in parts]  # type: ignore[arg-type]
        }

    def forward(self, x: Any) -> Tensor:
        rows: Tensor = torch.cat([part(x) for part in self.parts], dim=1) / len(self.parts) ** 0.5
        return rows

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `nearer.geometry.load` reads."""
        return save_module(self, path)
