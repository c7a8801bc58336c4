"""Circle loss: each similarity is weighed by how far it is from its optimum."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import LOG2E, exponent_is_safe, masked_logsumexp, soft_rows, softplus


class CircleLoss(RowLoss):
    """Mean over anchors of softplus( LSE_N γ·α_n(s − m) + LSE_P −γ·α_p(s − 1 + m) ).

    α_n = [s + m]₊ and α_p = [1 + m − s]₊ are constants for the gradient. Anchors that lack a side are not counted
    (reduction "active", the default).

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> CircleLoss()(z, torch.tensor([0, 0, 1])).item() < 1e-5
    True

    Reference: Sun et al. 2020, per anchor (m = 0.4, γ = 80 are common settings).

    Args:
        margin: m, the radius of the circle.
        gamma: γ, how sharply pairs are told apart.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    small = 256
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
        fixed = s.detach()
        return (fixed - 1 - self.margin).clamp(max=0).mul_(self.gamma), (fixed + self.margin).clamp(min=0).mul_(
            self.gamma
        )

    def value(self, panel: Panel) -> Terms:
        s, m = panel.similarity, self.margin
        a_p, a_n = self._slopes(s)
        pull = masked_logsumexp(a_p * (s - 1 + m), panel.positive)
        push = masked_logsumexp(a_n * (s - m), panel.negative)
        both = panel.positive.any(1) & panel.negative.any(1)
        return Terms(softplus(torch.where(both, pull + push, -torch.inf)), both)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s, m = panel.similarity, self.margin
        a_p, a_n = self._slopes(s)
        pull, w_p = soft_rows((s - (1 - m)).mul_(a_p), panel.p)
        push, w_n = soft_rows((s - m).mul_(a_n), panel.n, largest=self._largest_push(panel.bound))
        both = torch.isfinite(pull) & torch.isfinite(push)
        total = torch.where(both, pull + push, -torch.inf)
        weight = w_n.mul_(a_n).add_(w_p.mul_(a_p)).mul_(torch.sigmoid(total)[:, None])
        return Terms(softplus(total), both), weight

    def _largest_push(self, bound: float) -> float:
        """The largest exponent of a negative, at s = bound; below −m it is 0, between it is at least −γm²."""
        return self.gamma * max((bound + self.margin) * abs(bound - self.margin), self.margin**2)

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(self._largest_push(bound)):
            return None

        def tile(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            slope = torch.add(s, self.margin, out=spare).clamp_(min=0).mul_(self.gamma * LOG2E)
            e = s.sub_(self.margin).mul_(slope).exp2_()
            return e, slope.mul_(e)

        def head(far: Far, near: Near) -> Terms:
            pull = near.logsumexp(lambda s: self._slopes(s)[0] * (s - 1 + self.margin))
            both = (near.count > 0) & (far.sum > 0)
            total = pull + torch.where(both, far.sum, 1.0).log()
            return Terms(softplus(torch.where(both, total, -torch.inf)), both)

        return Statistic(tile, head, slope=1 / LOG2E)
