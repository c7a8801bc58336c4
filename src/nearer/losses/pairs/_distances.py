"""Distances from squared distances: the one place that decides what coincident points mean."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["inverse", "lengths", "root", "tile_lengths"]


def root(squared: Tensor) -> Tensor:
    """D from D², with gradient 0 instead of ∞ at coincident points."""
    zero = squared <= 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def inverse(d: Tensor) -> Tensor:
    """1/D, and 0 at coincident points."""
    return torch.where(d > 1e-9, 1 / d, 0.0)


def lengths(squared: Tensor) -> tuple[Tensor, Tensor]:
    """D and 1/D from D², with 0 for the inverse at coincident points; not for autograd."""
    inverse_d = torch.rsqrt(squared)
    if float(squared.amin()) <= 1e-18:
        inverse_d.masked_fill_(squared <= 1e-18, 0.0)
    return squared * inverse_d, inverse_d


def tile_lengths(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
    """D and 1/D of a tile that holds −2s of unit vectors, in place; 1/D is 0 at coincident points.

    ∂/∂s = −(1/D)·∂/∂D.
    """
    squared = scaled.add_(2)
    tiny = 4 * torch.finfo(scaled.dtype).eps  # what 2 − 2s of two equal vectors may differ from 0
    if float(squared.amin()) > tiny:
        inverse_d = torch.rsqrt(squared, out=spare)
    else:
        same = squared <= tiny
        squared.masked_fill_(same, 0.0)
        inverse_d = torch.rsqrt(squared, out=spare).masked_fill_(same, 0.0)
    return squared.mul_(inverse_d), inverse_d
