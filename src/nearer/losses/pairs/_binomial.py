"""Binomial deviance: a soft threshold on every pair."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._validation import check_number
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise._masked import exponent_is_safe, softplus
from nearer.pairwise._panels import Miner, Panel, Rows
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors

__all__ = ["BinomialDevianceLoss", "binomial_deviance"]


class BinomialDevianceLoss(RowLoss):
    """Σᵢ { mean_P log(1 + e^{α(γ−s)}) + mean_N log(1 + e^{β(s−γ)}) }, by default divided by the anchors.

    Weights: −(α/|Pᵢ|)·σ(α(γ−s)) on positives, +(β/|Nᵢ|)·σ(β(s−γ)) on negatives. With `normalize_by_scale` the
    two sides are divided by α and β, so that equal sigmoids weigh the same. An empty side adds 0.

    >>> loss = BinomialDevianceLoss(alpha=2, beta=2, gamma=0)
    >>> round(loss(torch.eye(2), torch.tensor([0, 1])).item(), 4)  # log 2
    0.6931

    Related: RAW sums the exponentials before the logarithm. Reference: eq 12 (which prints no 1/m).
    """

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

    def formula(self, panel: Panel) -> Tensor:
        s, (up, un) = panel.similarity, self._sides
        pull = softplus(self.alpha * (self.gamma - s)) * panel.positive
        push = softplus(self.beta * (s - self.gamma)) * panel.negative
        n_p, n_n = panel.positive.sum(1).clamp(min=1), panel.negative.sum(1).clamp(min=1)
        total = (up * pull.sum(1) / n_p + un * push.sum(1) / n_n).sum()
        return total / max(len(s), 1) if self.reduction == "mean" else total

    def rows(self, panel: Panel) -> Rows:
        s, (up, un) = panel.similarity, self._sides
        p = panel.positive * (up / panel.positive.sum(1, keepdim=True, dtype=s.dtype).clamp_(min=1))
        n = panel.negative * (un / panel.negative.sum(1, keepdim=True, dtype=s.dtype).clamp_(min=1))
        x_p, x_n = (s - self.gamma) * -self.alpha, (s - self.gamma) * self.beta
        value = (softplus(x_p) * p).sum(1) + (softplus(x_n) * n).sum(1)
        weight = torch.sigmoid(x_n).mul_(n * self.beta) - torch.sigmoid(x_p).mul_(p * self.alpha)
        return Rows(value, weight)

    def kernel(self, bound: float) -> BinomialKernel | None:
        return BinomialKernel(self) if exponent_is_safe(self.beta * (bound + abs(self.gamma))) else None


@dataclass(frozen=True)
class BinomialKernel:
    """e = log(1 + e^x), w = σ(x); a_i = 1/|N_i| is known in advance."""

    loss: BinomialDevianceLoss
    one_pass: bool = True
    counts: bool = False

    @property
    def scale(self) -> float:
        return self.loss.beta * math.log2(math.e)

    def nothing(self, scaled: Tensor) -> bool:
        return False

    def tile(self, scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        one_more = scaled.exp2_().mul_(math.exp(-self.loss.beta * self.loss.gamma)).add_(1)
        w = torch.reciprocal(one_more, out=spare).neg_().add_(1)
        return one_more.log_(), w

    def negative_factors(self, segments: Segments, dtype: torch.dtype) -> Tensor:
        return self._shares(segments, dtype)[1] * self.loss.beta

    def _shares(self, segments: Segments, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What one positive and one negative term of each anchor counts."""
        unit = 1 / segments.n if self.loss.reduction == "mean" else 1.0
        up, un = self.loss._sides
        n_p, n_n = segments.positives(dtype).clamp_(min=1), segments.negatives(dtype).clamp_(min=1)
        return n_p.reciprocal_().mul_(up * unit), n_n.reciprocal_().mul_(un * unit)

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        loss = self.loss
        share_p, share_n = self._shares(segments, sums.dtype)

        def pull(s: Tensor, block: Block) -> Tensor:
            return (softplus(loss.alpha * (loss.gamma - s)) * block.other).sum(2)

        def positive(s: Tensor, block: Block) -> Tensor:
            slope = -loss.alpha * share_p[block.rows]
            return torch.sigmoid(loss.alpha * (loss.gamma - s)).mul_(slope[:, :, None])

        value = (segments.reduce_positives(embeddings, pull) * share_p + sums * share_n).sum()
        return Factors(value, sums, positive)


binomial_deviance = as_function(BinomialDevianceLoss, "binomial_deviance")
