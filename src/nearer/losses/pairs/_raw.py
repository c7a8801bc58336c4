"""RAW, the relaxed adaptive weights of the pair-weighting paper, also known as the multi-similarity loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._validation import check_number
from nearer.losses.pairs._exponential import ExponentKernel
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss, is_large
from nearer.mining import VTHM
from nearer.pairwise._masked import exponent_is_safe, masked_logsumexp, soft_rows_with_zero
from nearer.pairwise._mined import mined_by_tiles
from nearer.pairwise._panels import Gradient, Miner, Pairing, Panel, Rows
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors
from nearer.relations import ClassLabels

__all__ = ["MultiSimilarityLoss", "RAWLoss", "multi_similarity", "raw"]


class RAWLoss(RowLoss):
    """RAW = (1/m) Σᵢ { (1/α) log(1 + Σ_P e^{−α(s−γ)}) + (1/β) log(1 + Σ_N e^{β(s−γ)}) }.

    Weights: softmax with one extra zero logit on each side, so the sum of |G| over a row is at most 2/m.
    With the miner `VTHM(margin=0.1)` this is the multi-similarity loss with its own mining; `MultiSimilarityLoss`
    is the same class under its other name. No pair: 0.

    >>> loss = RAWLoss()
    >>> loss(torch.eye(2), torch.tensor([0, 1])).item() < 1e-10  # two far apart classes
    True

    Related: one positive and one negative give the two terms of binomial deviance; α = β = 1 without the 1 is the
    generalised lifted loss without its hinge. Reference: eqs 15 to 17 (weights times 1/m); Wang et al. 2019.
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

    def formula(self, panel: Panel) -> Tensor:
        s = panel.similarity
        zero = torch.zeros_like(s[:, 0])
        pull = torch.logaddexp(masked_logsumexp(-self.alpha * (s - self.gamma), panel.positive), zero)
        push = torch.logaddexp(masked_logsumexp(self.beta * (s - self.gamma), panel.negative), zero)
        total = (pull / self.alpha + push / self.beta).sum()
        return total / max(len(s), 1) if self.reduction == "mean" else total

    def rows(self, panel: Panel) -> Rows:
        x = panel.similarity - self.gamma
        largest = panel.bound + abs(self.gamma)
        pull, w_p = soft_rows_with_zero(x * -self.alpha, panel.positive, self.alpha * largest)
        push, w_n = soft_rows_with_zero(x * self.beta, panel.negative, self.beta * largest)
        return Rows(pull / self.alpha + push / self.beta, w_n.sub_(w_p))

    def fast(self, pairing: Pairing, gradient: bool) -> Gradient | None:
        z, relation, miner = pairing.queries, pairing.relation, self.miner
        if not isinstance(miner, VTHM) or not isinstance(relation, ClassLabels) or not pairing.shared:
            return super().fast(pairing, gradient)
        if not is_large(pairing) or z.device.type != "cpu" or self.kernel(1.0) is None:
            return None
        return mined_by_tiles(
            z,
            relation.queries,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            margin=miner.margin,
            anchors=len(z) if self.reduction == "mean" else 1,
            gradient=gradient,
        )

    def kernel(self, bound: float) -> RAWKernel | None:
        largest = max(self.alpha, self.beta) * (bound + abs(self.gamma))
        if not exponent_is_safe(largest):
            return None
        return RAWKernel(self.alpha, self.beta, self.gamma, self.reduction)


class MultiSimilarityLoss(RAWLoss):
    """The multi-similarity loss, which is RAW: one implementation, two names."""


@dataclass(frozen=True)
class RAWKernel(ExponentKernel):
    """Σ_N e^{βs} in tiles; the constant e^{−βγ} is applied to the sums."""

    alpha: float
    beta: float
    gamma: float
    reduction: str

    @property
    def exponent(self) -> float:
        return self.beta

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        m = segments.n if self.reduction == "mean" else 1
        shift = math.exp(-self.beta * self.gamma)

        def pull(s: Tensor, block: Block) -> Tensor:
            return torch.exp(-self.alpha * (s - self.gamma)) * block.other

        near = segments.reduce_positives(embeddings, lambda s, b: pull(s, b).sum(2))
        far = sums * shift
        value = (near.log1p() / self.alpha + far.log1p() / self.beta).sum() / m
        share = 1 / ((1 + near) * m)
        return Factors(value, shift / ((1 + far) * m), lambda s, b: pull(s, b).mul_(-share[b.rows][:, :, None]))


raw = as_function(RAWLoss, "raw")
multi_similarity = as_function(MultiSimilarityLoss, "multi_similarity")
