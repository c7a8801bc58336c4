"""Gradient reversal: what is before it climbs while what is behind it descends, in one backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["reverse_gradient"]


def reverse_gradient(x: Tensor) -> Tensor:
    """x itself, with the gradient −g where g would have been.

    >>> x = torch.ones(2, requires_grad=True)
    >>> (3 * reverse_gradient(x)).sum().backward()
    >>> x.grad
    tensor([-3., -3.])

    Reference: Ganin and Lempitsky 2015.
    """
    return _Reverse.apply(x)  # type: ignore[no-untyped-call]


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]
