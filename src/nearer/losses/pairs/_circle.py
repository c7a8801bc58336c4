"""Circle loss: each similarity is weighed by how far it is from its optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._validation import check_number
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.losses.pairs._softmax import divide
from nearer.pairwise._masked import exponent_is_safe, masked_logsumexp, soft_rows, softplus
from nearer.pairwise._panels import Miner, Panel, Rows
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors

__all__ = ["CircleLoss", "circle"]


class CircleLoss(RowLoss):
    """Mean over anchors of softplus( LSE_N γ·α_n(s − m) + LSE_P −γ·α_p(s − 1 + m) ).

    α_n = [s + m]₊ and α_p = [1 + m − s]₊ are constants for the gradient. Anchors that lack a side are not counted
    (reduction "active", the default).

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> CircleLoss()(z, torch.tensor([0, 0, 1])).item() < 1e-5
    True

    Reference: Sun et al. 2020, per anchor (m = 0.4, γ = 80 are common settings).
    """

    reductions = ("active", "mean", "sum")

    def __init__(
        self,
        *,
        margin: float = 0.4,
        gamma: float = 80.0,
        reduction: str = "active",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0, maximum=1.0)
        self.gamma = check_number(gamma, "gamma", above=0.0)

    def _slopes(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """γα of positives (negated) and of negatives, constants of the gradient."""
        with torch.no_grad():
            return (
                -self.gamma * (1 + self.margin - s).clamp(min=0),
                self.gamma * (s + self.margin).clamp(min=0),
            )

    def formula(self, panel: Panel) -> Tensor:
        s, m = panel.similarity, self.margin
        a_p, a_n = self._slopes(s)
        pull = masked_logsumexp(a_p * (s - 1 + m), panel.positive)
        push = masked_logsumexp(a_n * (s - m), panel.negative)
        both = panel.positive.any(1) & panel.negative.any(1)
        return divide(softplus(pull[both] + push[both]).sum(), self.reduction, int(both.sum()), len(s))

    def rows(self, panel: Panel) -> Rows:
        s, m = panel.similarity, self.margin
        a_p, a_n = self._slopes(s)
        pull, w_p = soft_rows(a_p * (s - 1 + m), panel.positive)
        push, w_n = soft_rows(a_n * (s - m), panel.negative, self._largest_push(panel.bound))
        both = torch.isfinite(pull) & torch.isfinite(push)
        total = torch.where(both, pull + push, -torch.inf)
        weight = w_n.mul_(a_n).add_(w_p.mul_(a_p)).mul_(torch.sigmoid(total)[:, None])
        return Rows(softplus(total), weight, active=both)

    def _largest_push(self, bound: float) -> float:
        """The largest exponent of a negative, at s = bound; below −m it is 0, between it is at least −γm²."""
        return self.gamma * max((bound + self.margin) * abs(bound - self.margin), self.margin**2)

    def kernel(self, bound: float) -> CircleKernel | None:
        return CircleKernel(self) if exponent_is_safe(self._largest_push(bound)) else None


@dataclass(frozen=True)
class CircleKernel:
    """e = e^{γα_n(s−m)}, w = γα_n·e. Positives are few: their logarithms are taken with a row maximum."""

    loss: CircleLoss
    scale: float = 1.0
    one_pass: bool = False
    counts: bool = False

    def nothing(self, scaled: Tensor) -> bool:
        return False

    def tile(self, scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        m, gamma = self.loss.margin, self.loss.gamma
        slope = torch.add(scaled, m, out=spare).clamp_(min=0).mul_(gamma * math.log2(math.e))
        e = scaled.sub_(m).mul_(slope).exp2_()
        return e, slope.mul_(e)

    def negative_factors(self, segments: Segments, dtype: torch.dtype) -> Tensor:
        raise TypeError("a log-sum-exp needs its sums first")

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        loss = self.loss

        def logits(s: Tensor, block: Block) -> tuple[Tensor, Tensor]:
            slope = -loss.gamma * (1 + loss.margin - s).clamp(min=0)
            x = slope * (s - 1 + loss.margin)
            return x.masked_fill(block.other == 0, -torch.inf), slope

        pull = segments.reduce_positives(
            embeddings, lambda s, b: torch.logsumexp(logits(s, b)[0], 2), fill=-torch.inf
        )
        both = torch.isfinite(pull) & (sums > 0)
        safe = torch.where(both, sums, 1.0)
        total = torch.where(both, pull + safe.log(), -torch.inf)
        value = softplus(total)
        terms = {"sum": 1.0, "mean": float(segments.n)}.get(loss.reduction, max(float(both.sum()), 1.0))
        outer = torch.sigmoid(total) / terms

        def positive(s: Tensor, block: Block) -> Tensor:
            x, slope = logits(s, block)
            own = torch.where(both, pull, 0.0)[block.rows][:, :, None]
            return (x - own).exp() * slope * outer[block.rows][:, :, None]

        # w carries log₂e from the folded exponent.
        return Factors(value.sum() / terms, outer / (safe * math.log2(math.e)), positive)


circle = as_function(CircleLoss, "circle")
