"""RAW, weights by relative and absolute similarity; also known as the multi-similarity loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import exponent_is_safe, exponential, masked_logsumexp, soft_rows_with_zero


class RAWLoss(RowLoss):
    """RAW = (1/m) Σᵢ { (1/α) log(1 + Σ_P e^{−α(s−γ)}) + (1/β) log(1 + Σ_N e^{β(s−γ)}) }.

    Weights: softmax with one extra zero logit on each side, so the sum of |G| over a row is at most 2/m.
    With the miner `VTHM(margin=0.1)` this is the multi-similarity loss with its own mining; `MultiSimilarityLoss`
    is this class under its other name. The same number as pytorch-metric-learning's at the defaults; its `base` is
    `gamma`. No pair: 0.

    >>> loss = RAWLoss()
    >>> loss(torch.eye(2), torch.tensor([0, 1])).item() < 1e-10  # two far apart classes
    True

    Related: one positive and one negative give the two terms of binomial deviance; α = β = 1 without the 1 is the
    generalised lifted loss without its hinge. Reference: eqs 15 to 17 (weights times 1/m); Wang et al. 2019.

    Args:
        alpha: how sharply a positive of low similarity is preferred.
        beta: how sharply a negative of high similarity is preferred.
        gamma: the similarity at which a pair weighs as much as the extra zero logit.
        reduction: "mean" over anchors or "sum".
        miner: which pairs count; all of them if None.
    """

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        gamma: float = 0.5,
        reduction: str = "mean",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.alpha = check_number(alpha, "alpha", above=0.0)
        self.beta = check_number(beta, "beta", above=0.0)
        self.gamma = check_number(gamma, "gamma")

    def value(self, panel: Panel) -> Terms:
        s = panel.similarity
        zero = torch.zeros_like(s[:, 0])
        pull = torch.logaddexp(masked_logsumexp(-self.alpha * (s - self.gamma), panel.positive), zero)
        push = torch.logaddexp(masked_logsumexp(self.beta * (s - self.gamma), panel.negative), zero)
        return Terms(pull / self.alpha + push / self.beta)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s, most = panel.similarity, panel.bound + abs(self.gamma)
        pull, w_p = soft_rows_with_zero(s, panel.p, -self.alpha, self.gamma, largest=self.alpha * most)
        push, w_n = soft_rows_with_zero(s, panel.n, self.beta, self.gamma, largest=self.beta * most)
        return Terms(pull.mul_(1 / self.alpha).add_(push, alpha=1 / self.beta)), w_n.sub_(w_p)

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(max(self.alpha, self.beta) * (bound + abs(self.gamma))):
            return None

        def head(far: Far, near: Near) -> Terms:
            pull = near.sum(lambda s: torch.exp(-self.alpha * (s - self.gamma))).log1p()
            push = (far.sum * math.exp(-self.beta * self.gamma)).log1p()
            return Terms(pull / self.alpha + push / self.beta)

        return exponential(self.beta, head)


MultiSimilarityLoss = RAWLoss
"""`RAWLoss` under the name of its origin; the defaults are the same."""
