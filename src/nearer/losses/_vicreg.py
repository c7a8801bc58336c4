"""VICReg: two views near each other, every dimension alive, no two dimensions alike; no negatives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_number
from nearer.exceptions import ShapeError
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._shared import full_precision, inner_settings


class VICRegLoss(nn.Module):
    """λ·mean (z − z')² + μ/2·[v(Z) + v(Z')] + ν·[c(Z) + c(Z')] of two views of the same items, row by row.

    v(Z) = mean_j [1 − √(Var_j + ε)]₊ keeps every dimension spread, c(Z) = Σ_{j≠k} C²_jk / d keeps dimensions apart,
    with C the covariance (n − 1 in the denominator). Embeddings are taken as they are, not normalised. One row has
    no variance and no covariance: those terms are 0; no row gives 0.

    >>> z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> VICRegLoss(variance=0.0)(2 * z, 2 * z).item()   # the same views, no covariance
    0.0

    `loss(first, second)` or `loss(first, ref_emb=second)`; the same number as pytorch-metric-learning's at the
    defaults. For the joint batch of many processes use `nearer.training.joint_loss`, with both views in one call
    to the encoder. Reference: Bardes et al. 2022, eqs. 1 to 6, with the means of its code.

    Args:
        invariance: λ.
        variance: μ.
        covariance: ν.
        epsilon: ε, under the root.
    """

    extra_repr = inner_settings

    def __init__(
        self, *, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0, epsilon: float = 1e-4
    ) -> None:
        super().__init__()
        self.invariance = check_number(invariance, "invariance", minimum=0.0)
        self.variance = check_number(variance, "variance", minimum=0.0)
        self.covariance = check_number(covariance, "covariance", minimum=0.0)
        self.epsilon = check_number(epsilon, "epsilon", above=0.0)

    @full_precision
    def forward(self, embeddings: Tensor, ref_emb: Any) -> Tensor:
        """The loss of two views (n, d) whose rows are the same items."""
        first = check_embeddings(embeddings, "embeddings")
        second = check_embeddings(ref_emb, "ref_emb")
        if first.shape != second.shape:
            raise ShapeError(
                f"`ref_emb` must be the second view, of shape {tuple(first.shape)} like the first, got "
                f"{tuple(second.shape)}. Labels are not used."
            )
        work = torch.float64 if first.dtype == torch.float64 else torch.float32
        first, second = first.to(work), second.to(work)
        n = len(first)
        total = self.invariance * (first - second).square().sum() / max(first.numel(), 1)
        if n < 2:
            return total
        for view in (first, second):
            spread = (view.var(0) + self.epsilon).sqrt()
            centered = view - view.mean(0)
            cross = centered.T @ centered / (n - 1)
            apart = (cross.square().sum() - cross.diagonal().square().sum()) / view.shape[1]
            total = total + 0.5 * self.variance * (1 - spread).clamp(min=0).mean() + self.covariance * apart
        return total
