"""The generalised lifted structure loss, by rows."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_choice, check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import exponent_is_safe, exponential, masked_logsumexp, soft_rows

__all__ = ["GeneralizedLiftedLoss"]


class GeneralizedLiftedLoss(RowLoss):
    """(1/m) Σᵢ [ log Σ_P e^{−s} + log Σ_N e^{s+λ} ]₊; anchors without a positive or without a negative add 0.

    Weights of an active anchor: −softmax_P(−s)/m on positives, +softmax_N(s)/m on negatives.
    `variant="as_printed"` is eq 9 as the pair-weighting paper prints it, [ log Σ_P e^{−s} − log Σ_N e^{λ−s} ]₊:
    there λ lowers the loss and the easiest negatives weigh most.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> loss = GeneralizedLiftedLoss(margin=1.5)
    >>> round(loss(z, torch.tensor([0, 0, 1])).item(), 4)  # two anchors with −1 + 1.5, over three
    0.3333

    Related: RAW with α = β = 1 adds 1 inside each logarithm instead of the hinge. Reference: Hermans et al. 2017.

    Args:
        margin: λ.
        variant: "correct", or "as_printed" for the formula of the paper.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        variant: str = "correct",
        reduction: str = "mean",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin")
        self.variant = check_choice(variant, "variant", ["correct", "as_printed"])

    @property
    def _sign(self) -> float:
        """Of s in the exponent of a negative, and of the negatives' logarithm."""
        return -1.0 if self.variant == "as_printed" else 1.0

    def value(self, panel: Panel) -> Terms:
        s, sign = panel.similarity, self._sign
        pull = masked_logsumexp(-s, panel.positive)
        push = masked_logsumexp(sign * s + self.margin, panel.negative)
        both = panel.positive.any(1) & panel.negative.any(1)
        return Terms(torch.where(both, pull + sign * push, 0.0).relu())

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s, sign = panel.similarity, self._sign
        pull, w_p = soft_rows(s, panel.p, -1.0, largest=panel.bound)
        push, w_n = soft_rows(s, panel.n, sign, largest=panel.bound)
        both = torch.isfinite(pull) & torch.isfinite(push)
        value = torch.where(both, pull + sign * (push + self.margin), 0.0).clamp_(min=0)
        # ∂x_n/∂s is +1 where the sign is +1 and −1 where it is −1: the product is +1 either way.
        return Terms(value), w_n.sub_(w_p).mul_((value > 0)[:, None])

    def statistic(self, bound: float) -> Statistic | None:
        if self.variant == "as_printed" or not exponent_is_safe(bound):
            return None

        def head(far: Far, near: Near) -> Terms:
            both = (near.count > 0) & (far.sum > 0)
            pull = torch.where(both, near.sum(lambda s: torch.exp(-s)), 1.0).log()
            push = torch.where(both, far.sum, 1.0).log() + self.margin
            return Terms(torch.where(both, pull + push, 0.0).relu())

        return exponential(1.0, head)
