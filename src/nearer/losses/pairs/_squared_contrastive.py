"""The contrastive loss on squared distances, with a price on negatives: what each head of HDC learns from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nearer._validation import check_number
from nearer.losses.pairs._contrastive import PointKernel, side_scales, two_sides
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise._panels import Miner, Panel, Rows

__all__ = ["SquaredContrastiveLoss", "squared_contrastive"]


class SquaredContrastiveLoss(RowLoss):
    """Σ_P D² + w·Σ_N [m − D²]₊ on unit vectors, D² = 2 − 2s.

    Weights: −2 on positives that are not yet in one place, 2w·1[D² < m] on negatives. Reductions: "sides" (default:
    each sum divided by its own terms that are not zero), "active", "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(SquaredContrastiveLoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # 2 + 10·(0.2 + 0.6)/2
    6.0

    Related: `ContrastiveLoss` is half of it with w = 1. Reference: Yuan et al. 2017 (HDC), with the
    constants of the released layers.
    """

    reductions = ("sides", "active", "mean", "sum")

    def __init__(
        self,
        *,
        margin: float = 1.0,
        negative_weight: float = 10.0,
        reduction: str = "sides",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", above=0.0, maximum=4.0)
        self.negative_weight = check_number(negative_weight, "negative_weight", above=0.0)

    def formula(self, panel: Panel) -> Tensor:
        squared = 2 - 2 * panel.similarity
        pull = squared[panel.positive & (squared > _tiny(squared))]
        push = (self.margin - squared).clamp(min=0)[panel.negative] * self.negative_weight
        return two_sides(pull, push, pull.numel(), int((push > 0).sum()), self.reduction, len(squared))

    def rows(self, panel: Panel) -> Rows:
        s = panel.similarity
        squared = 2 - 2 * s
        apart = panel.positive & (squared > _tiny(s))
        hot = panel.negative & (squared < self.margin)
        n_p, n_n = apart.sum(1, dtype=s.dtype), hot.sum(1, dtype=s.dtype)
        up, un = panel.scales or side_scales(n_p, n_n)
        un = un * self.negative_weight
        slope = apart.to(s.dtype).mul_(up).sub_(hot.to(s.dtype), alpha=un)
        value = (slope * squared).sum(1) + un * self.margin * n_n
        return Rows(value, slope.mul_(-2), active=n_p + n_n, sides=(n_p, n_n))

    def kernel(self, bound: float) -> PointKernel:
        threshold, slope = 1 - self.margin / 2, 2 * self.negative_weight

        def push(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            hot = torch.gt(s, threshold, out=spare).mul_(slope)
            return s.sub_(threshold).mul_(hot), hot

        def pull(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            squared = 2 - 2 * s
            apart = (squared > _tiny(s)).to(s.dtype)
            return squared * apart, apart, -2 * apart

        return PointKernel(
            push=push, pull=pull, quiet=lambda s: float(s.amax()) <= threshold, reduction=self.reduction
        )


def _tiny(values: Tensor) -> float:
    """What 2 − 2s of two equal unit vectors may differ from 0."""
    return 4 * float(torch.finfo(values.dtype).eps)


squared_contrastive: Callable[..., Any] = as_function(SquaredContrastiveLoss, "squared_contrastive")
