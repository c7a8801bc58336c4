"""Distances from squared ones (the one place that decides what coincident points mean), and weighted sums."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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


# Entries of gathered rows that are held at once: 16 MB in single precision.
_CHUNK = 1 << 22


def sum_weighted_squares(queries: Tensor, items: Tensor, rows: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """`Σ_{(i,j,w)} w ‖q_i − x_j‖²` of every query i: (q, d), (n, d) and m pairs -> (q,). The weights are constants.

    >>> one = torch.tensor([0, 0])
    >>> items, weights = torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, -1.0])
    >>> sum_weighted_squares(torch.zeros(2, 1), items, one, torch.tensor([0, 1]), weights)
    tensor([-8.,  0.])
    """
    return _WeightedSquares.apply(queries, items, rows, columns, weights)  # type: ignore[no-untyped-call]


def _parts(m: int, d: int) -> list[slice]:
    step = max(1, _CHUNK // max(1, d))
    return [slice(start, start + step) for start in range(0, m, step)]


class _WeightedSquares(torch.autograd.Function):
    """dQ_i = 2 Σ w (q_i − x_j), dX_j = −2 Σ w (q_i − x_j)."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, x: Tensor, rows: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
        sums = q.new_zeros(len(q))
        for part in _parts(len(rows), q.shape[1]):
            squares = (q[rows[part]] - x[columns[part]]).square().sum(dim=1)
            sums.index_add_(0, rows[part], squares * weights[part])
        ctx.save_for_backward(q, x, rows, columns, weights)
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (g,) = gradients
        q, x, rows, columns, weights = ctx.saved_tensors
        to_q, to_x = torch.zeros_like(q), torch.zeros_like(x)
        for part in _parts(len(rows), q.shape[1]):
            pull = (2 * g[rows[part]] * weights[part])[:, None] * (q[rows[part]] - x[columns[part]])
            to_q.index_add_(0, rows[part], pull)
            to_x.index_add_(0, columns[part], -pull)
        return to_q, to_x, None, None, None
