"""Joint similarity of several layers over all pairs, in symmetric tiles with exact gradients.

K_ij = Π_l k_l(x_i, x_j) (or Σ_l) of a batch whose items each have several representations. Only tiles I ≤ J are
visited, each is used for both of its roles, and no B × B array is ever held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

__all__ = ["LayerKernel", "joint_similarity"]

# Items per side of a tile: the few tiles of one step then stay in the second-level cache.
SIDE = 256


class LayerKernel(Protocol):
    """A kernel on one layer, worked out for this batch (its bandwidth is fixed and carries no gradient)."""

    def values(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """log k and ∂log k by the pair quantity that `pull` understands, each (a, b)."""

    def pull(self, weights: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """From weights (a, b) on that quantity: the gradients by the rows of x and of y."""


def joint_similarity(
    layers: Sequence[Tensor],
    kernels: Sequence[LayerKernel],
    labels: Tensor,
    *,
    combine: Literal["product", "sum"],
    pairs: Literal["different", "same"],
    gradient: bool,
) -> tuple[Tensor, list[Tensor], int]:
    """The sum of K over ordered pairs of different (or of the same) classes, its gradients, and how many pairs."""
    n = len(labels)
    value = layers[0].new_zeros(())
    gradients = [torch.zeros_like(layer) for layer in layers]
    count = 0
    for a in range(0, n, SIDE):
        for b in range(a, n, SIDE):
            rows, columns = slice(a, min(a + SIDE, n)), slice(b, min(b + SIDE, n))
            keep = labels[rows, None] != labels[None, columns]
            if pairs == "same":
                keep = ~keep
                if a == b:
                    keep.fill_diagonal_(False)
            inside = int(keep.sum())
            if not inside:
                continue
            # A tile off the diagonal stands for its mirror image too.
            times = 1 if a == b else 2
            count += times * inside
            found = [
                kernel.values(layer[rows], layer[columns]) for kernel, layer in zip(kernels, layers, strict=True)
            ]
            mask = keep.to(layers[0].dtype)
            logs = [log for log, _ in found]
            if combine == "product":
                joint = torch.stack(logs).sum(0).exp_() if len(logs) > 1 else logs[0].exp()
                joint.mul_(mask)
                parts = [joint] * len(logs)
                value += times * joint.sum()
            else:
                parts = [log.exp().mul_(mask) for log in logs]
                value += times * torch.stack([part.sum() for part in parts]).sum()
            if not gradient:
                continue
            for layer, kernel, (_, slope), part, total in zip(
                layers, kernels, found, parts, gradients, strict=True
            ):
                by_rows, by_columns = kernel.pull(part * slope, layer[rows], layer[columns])
                total[rows] += times * by_rows
                total[columns] += times * by_columns
    return value, gradients, count
