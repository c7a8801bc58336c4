"""What the paper of joint representation similarity compares it with: JMMD and a penalty inside classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer.losses import Gaussian, JRSLoss
from nearer.losses.layers._jrs import Combine, checked_layers, pair_mean
from nearer.pairwise._function import refuse_second
from nearer.pairwise._precision import full_precision

__all__ = ["IntraClassPenalty", "JMMDLoss"]


class JMMDLoss(JRSLoss):
    """Minus the mean over pairs of classes of the squared joint mean discrepancy, to be minimised with a weight.

    Σ_{I≠J} JMMD² = 2(C−1) Σ_I S(I,I) − 2 Σ_{I≠J} S(I,J) with S the mean joint similarity of two classes: it also
    rewards classes for being compact. Classes are weighted by their pairs, i = j included in S(I,I).

    >>> JMMDLoss()([torch.zeros(2, 3)], torch.tensor([0, 1])).item()
    0.0

    Args:
        kernels: one for each layer; Gaussian mixtures if None.
        combine: "product", "sum" or "concatenate" of the layers.
    """

    def __init__(self, *, kernels: Sequence[Any] | None = None, combine: Combine = "product") -> None:
        super().__init__(kernels=kernels, combine=combine)

    @full_precision
    def forward(self, layers: Sequence[Tensor], labels: Any) -> Tensor:
        """Minus the mean discrepancy of `layers`, each (n, d_l), for class labels (n,)."""
        rows, y = checked_layers(layers, labels)
        classes, codes = torch.unique(y, return_inverse=True)
        if len(classes) < 2:
            return torch.stack([(row * 0).sum() for row in rows]).sum()
        if self.combine == "concatenate":
            rows = [torch.cat(rows, dim=1)]
        share = torch.nn.functional.one_hot(codes).to(rows[0].dtype)
        share = share / share.sum(0)
        logs: list[Tensor] = []
        values: list[Tensor] = []
        for kernel, row in zip(self._of_layers(len(rows)), rows, strict=True):
            table, is_log = _differentiable_kernel(kernel, row)
            (logs if is_log else values).append(table)
        if self.combine == "sum":
            joint = torch.stack([*(log.exp() for log in logs), *values]).sum(0)
        else:
            # The unbounded ones meet as logarithms first.
            joint = torch.stack([torch.stack(logs).sum(0).exp(), *values] if logs else values).prod(0)
        between = share.t() @ joint @ share
        c = len(classes)
        inside = between.diagonal().sum()
        outside = between.sum() - inside
        return 2 * (outside - (c - 1) * inside) / (c * (c - 1))


class IntraClassPenalty(nn.Module):
    """−Σ_I mean_{i≠j∈I} e^{−½‖x_i − x_j‖²}: a reward for compact classes (eq. 5, with the sign that makes sense).

    Classes of one item are left out.

    >>> IntraClassPenalty()(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])).item()
    -2.0
    """

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The penalty of embeddings (n, d) with class labels (n,)."""
        (x,), y = checked_layers([embeddings], labels)
        kernel = Gaussian(components=1, bandwidth=2.0)
        total = (x * 0).sum()
        for label in torch.unique(y):
            members = x[y == label]
            if len(members) > 1:
                same = torch.zeros(len(members), dtype=torch.int64, device=members.device)
                total = total - pair_mean([members], [kernel], same, "product", "same")
        return total


class _KernelTable(torch.autograd.Function):
    """k over all pairs of a batch, or log k where the kernel gives that, with the kernel's own derivative."""

    @staticmethod
    def forward(ctx: Any, kernel: Any, x: Tensor) -> Tensor:
        ctx.kernel = kernel
        tile = kernel.fitted(x).tile(slice(None), slice(None))
        slope = x.new_ones(()) if tile.slope is None else tile.slope
        table: Tensor
        if tile.log is None:
            table = tile.value * tile.constant
            # The slope is that of log k.
            ctx.save_for_backward(x, slope * table)
        else:
            table = tile.log + math.log(tile.constant)
            ctx.save_for_backward(x, slope)
        return table

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, slope = ctx.saved_tensors
        with torch.no_grad():
            weights = gradients[0] * slope
            # A fitted kernel gathers one gradient, so every backward pass has its own.
            fitted = ctx.kernel.fitted(x.detach())
            # All ordered pairs are in one tile, and K is symmetric: both roles of an item.
            fitted.pull(weights + weights.t(), slice(None), slice(None), mirrored=False)
            gradient = fitted.gradient()
        return None, *refuse_second([x], [gradient])


def _differentiable_kernel(kernel: Any, x: Tensor) -> tuple[Tensor, bool]:
    """The table of a kernel over a batch, and whether it is of logarithms."""
    first = kernel.fitted(x[:1].detach()).tile(slice(None), slice(None))
    table: Tensor = _KernelTable.apply(kernel, x)  # type: ignore[no-untyped-call]
    return table, first.log is not None
