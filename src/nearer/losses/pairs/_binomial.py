"""Binomial deviance: a soft threshold on every pair."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import LOG2E, exponent_is_safe, softplus


class BinomialDevianceLoss(RowLoss):
    """Σᵢ { mean_P log(1 + e^{α(γ−s)}) + mean_N log(1 + e^{β(s−γ)}) }, by default divided by the anchors.

    Weights: −(α/|Pᵢ|)·σ(α(γ−s)) on positives, +(β/|Nᵢ|)·σ(β(s−γ)) on negatives. An empty side adds 0.

    >>> loss = BinomialDevianceLoss(alpha=2, beta=2, gamma=0)
    >>> round(loss(torch.eye(2), torch.tensor([0, 1])).item(), 4)  # log 2
    0.6931

    Related: RAW sums the exponentials before the logarithm. Reference: eq 12 (which prints no 1/m).

    Args:
        alpha: the slope on positives.
        beta: the slope on negatives.
        gamma: the similarity at which both sides have half of their slope.
        normalize_by_scale: divide the sides by α and β, so that equal sigmoids weigh the same.
        reduction: "mean" over anchors or "sum".
        miner: which pairs count; all of them if None.
    """

    small = 256

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        gamma: float = 0.5,
        normalize_by_scale: bool = False,
        reduction: str = "mean",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.alpha = check_number(alpha, "alpha", above=0.0)
        self.beta = check_number(beta, "beta", above=0.0)
        self.gamma = check_number(gamma, "gamma")
        self.normalize_by_scale = normalize_by_scale

    @property
    def _sides(self) -> tuple[float, float]:
        return (1 / self.alpha, 1 / self.beta) if self.normalize_by_scale else (1.0, 1.0)

    def value(self, panel: Panel) -> Terms:
        s, (up, un) = panel.similarity, self._sides
        pull = softplus(self.alpha * (self.gamma - s)) * panel.positive
        push = softplus(self.beta * (s - self.gamma)) * panel.negative
        n_p, n_n = panel.positive.sum(1).clamp(min=1), panel.negative.sum(1).clamp(min=1)
        return Terms(up * pull.sum(1) / n_p + un * push.sum(1) / n_n)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s, (up, un) = panel.similarity, self._sides
        p = panel.p * panel.p.sum(1, keepdim=True).clamp_(min=1).reciprocal_().mul_(up)
        n = panel.n * panel.n.sum(1, keepdim=True).clamp_(min=1).reciprocal_().mul_(un)
        x_p, x_n = torch.sub(s, self.gamma).mul_(-self.alpha), torch.sub(s, self.gamma).mul_(self.beta)
        value = torch.linalg.vecdot(softplus(x_p), p) + torch.linalg.vecdot(softplus(x_n), n)
        weight = x_n.sigmoid_().mul_(n.mul_(self.beta))
        return Terms(value), weight.sub_(x_p.sigmoid_().mul_(p.mul_(self.alpha)))

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(self.beta * (bound + abs(self.gamma))):
            return None
        shift, (up, un) = math.exp(-self.beta * self.gamma), self._sides

        def tile(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            one_more = scaled.exp2_().mul_(shift).add_(1)
            w = torch.reciprocal(one_more, out=spare).neg_().add_(1)
            return one_more.log_(), w

        def head(far: Far, near: Near) -> Terms:
            pull = near.sum(lambda s: softplus(self.alpha * (self.gamma - s)))
            return Terms(up * pull / near.count.clamp(min=1) + un * far.sum / far.count.clamp(min=1))

        return Statistic(tile, head, scale=self.beta * LOG2E, slope=self.beta, linear=True)
