"""Supervised contrastive: all positives of an anchor against everything."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import (
    LOG2E,
    exponent_is_safe,
    exponential,
    masked_logsumexp,
    soft_rows_with_zero,
    softplus,
)


class SupConLoss(RowLoss):
    """Supervised contrastive: mean over anchors with a positive of −(1/|P|) Σ_P log( e^{s_p/τ} / Σ_{P∪N} e^{s/τ} ).

    Weights: (softmax − 1[P]/|P|)/τ over the whole row. Anchors without a positive add 0 and are not counted
    (reduction "active", the default); "mean" divides by all anchors.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(SupConLoss(temperature=1.0)(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    Related: one positive per anchor makes it InfoNCE. Reference: Khosla et al. 2020, L_out.

    Args:
        temperature: what similarities are divided by; smaller looks at fewer pairs.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("active", "mean", "sum")

    def __init__(self, *, temperature: float = 0.1, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def value(self, panel: Panel) -> Terms:
        x = panel.similarity / self.temperature
        total = masked_logsumexp(x, panel.positive | panel.negative)
        n_p = panel.positive.sum(1)
        some = n_p > 0
        mean = (x * panel.positive).sum(1) / n_p.clamp(min=1)
        return Terms(torch.where(some, torch.where(some, total, 0.0) - mean, 0.0), some)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor | tuple[Tensor, Tensor]]:
        s, p, scale = panel.similarity, panel.p, 1 / self.temperature
        if not exponent_is_safe(panel.bound * scale):
            return super().weigh(panel)
        e = panel.only_pairs(torch.mul(s, scale * LOG2E).exp2_())
        total = e.sum(1, keepdim=True).clamp_(min=torch.finfo(s.dtype).tiny)
        n_p = p.sum(1, keepdim=True)
        some = n_p.clamp(max=1)
        share = p / n_p.clamp_(min=1)
        value = total.log().mul_(some).sub_((s * share).sum(1, keepdim=True), alpha=scale)
        weight = e.mul_((some * scale).div_(total)).sub_(share, alpha=scale)
        return Terms(value.view(-1), some.view(-1)), weight

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(bound / self.temperature):
            return None

        def head(far: Far, near: Near) -> Terms:
            some = near.count > 0
            total = far.sum + near.sum(lambda s: torch.exp(s / self.temperature))
            mean = near.sum(lambda s: s / self.temperature) / near.count.clamp(min=1)
            return Terms(torch.where(some, total, 1.0).log() - mean, some)

        return exponential(1 / self.temperature, head)


class InstanceLoss(RowLoss):
    """Mean over items of −log e^{γ} / (e^{γ} + Σ_N e^{γ s}): the softmax in which an item must find itself.

    With a label for every item (views of one thing share one) only other things are pushed away. Positives are not
    pulled: add a ranking loss, as the paper does. No negative: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(InstanceLoss(gamma=1.0)(z, torch.tensor([0, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    With labels 0..n−1 the same number as pytorch-metric-learning's; with classes that one takes the numbers of
    classes for those of rows. Related: the paper's form with a learnt vector for every thing is
    `NormalizedSoftmaxLoss`. Reference: Zheng et al. 2020.

    Args:
        gamma: γ, what cosines are multiplied by.
        reduction: "mean" over items or "sum".
        miner: which pairs count; all of them if None.
    """

    reductions = ("mean", "sum")

    def __init__(self, *, gamma: float = 64.0, reduction: str = "mean", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.gamma = check_number(gamma, "gamma", above=0.0)

    def value(self, panel: Panel) -> Terms:
        return Terms(softplus(masked_logsumexp(self.gamma * (panel.similarity - 1), panel.negative)))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        largest = self.gamma * (panel.bound + 1)
        value, soft = soft_rows_with_zero(panel.similarity, panel.n, self.gamma, 1.0, largest=largest)
        return Terms(value), soft.mul_(self.gamma)

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(self.gamma * (bound + 1)):
            return None

        def head(far: Far, near: Near) -> Terms:
            return Terms((far.sum * math.exp(-self.gamma)).log1p())

        return exponential(self.gamma, head)
