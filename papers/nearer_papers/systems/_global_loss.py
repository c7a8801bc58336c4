"""The global loss: means and variances of the squared distances of all positive and of all negative pairs.

Its statistic is global, the moments of both sides, so it goes over the panels twice by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_number
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.losses.pairs._triplet import TripletLoss
from nearer.pairwise import Miner, Panel, Rule, Terms
from nearer.pairwise._panels import by_panels, iterate_panels
from nearer.pairwise._rule import Gradient, Pairing, Prepared

__all__ = ["GlobalLoss", "SmartMiningLoss"]


class GlobalLoss(PairLoss):
    """σ₊² + σ₋² + λ[μ₊ − μ₋ + t]₊ with μ, σ² of D² over the positive and over the negative pairs of the batch.

    Weights by D²: (2(D² − μ₊) + λ·1[μ₊ − μ₋ + t > 0])/|P| on a positive pair, (2(D² − μ₋) − λ·1[…])/|N| on a
    negative one. They change sign: a pair nearer than the mean of its side is pushed to it, whatever the side. A
    side without pairs counts 0, and the hinge needs both.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> GlobalLoss()(z, torch.tensor([0, 0, 1])).item()  # D² is 0 within, 2 between: nothing to do
    0.0

    Usage: with `TripletLoss` in `SmartMiningLoss`. Reference: Kumar et al. 2016, eq 2, on squared distances.

    Args:
        weight: λ, of the means beside the variances.
        margin: t, by how much the means should differ.
        miner: which pairs count; all of them if None.
    """

    distance = True
    rowwise = True
    reductions = ("mean",)

    def __init__(self, *, weight: float = 0.8, margin: float = 0.4, miner: Miner | None = None) -> None:
        super().__init__(reduction="mean", miner=miner)
        self.weight = check_number(weight, "weight", minimum=0.0)
        self.margin = check_number(margin, "margin")

    def formula(self, panel: Panel) -> Tensor:
        squared = panel.measured()
        near, far = squared[panel.positive], squared[panel.negative]
        total = squared.sum() * 0
        for side in (near, far):
            if len(side):
                total = total + side.var(correction=0)
        if len(near) and len(far):
            total = total + self.weight * (near.mean() - far.mean() + self.margin).relu()
        return total

    def traceable(self, panel: Panel) -> Tensor:
        squared = panel.measured()
        sides = []
        for mask in (panel.positive, panel.negative):
            count = mask.sum().clamp(min=1)
            mean = (squared * mask).sum() / count
            sides.append((mean, ((squared - mean).square() * mask).sum() / count, mask.any()))
        (near, near_spread, some), (far, far_spread, others) = sides
        hinge = torch.where(some & others, near - far + self.margin, 0.0).relu()
        return near_spread + far_spread + self.weight * hinge

    def dense_weights(self, panel: Panel) -> Tensor:
        return self._rule(_sums(panel)).weigh(panel)[1]

    def _rule(self, sums: Tensor) -> _SideWeights:
        """The weights that follow from count, sum and sum of squares of both sides, (2, 3)."""
        count, total, square = sums.T
        mean = total / count.clamp(min=1)
        variance = (square / count.clamp(min=1) - mean.square()).clamp(min=0)
        gap = mean[0] - mean[1] + self.margin
        push = self.weight if bool(count.all()) and float(gap) > 0 else 0.0
        value = float(variance.sum()) + push * float(gap)
        slopes = [(float(mean[side]), 1 / max(float(count[side]), 1.0)) for side in (0, 1)]
        return _SideWeights(value, slopes[0], slopes[1], push)

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Two passes: the moments of both sides, then the weights."""
        q = pairing.queries
        # What is drawn or measured for the choice must be the same in both passes.
        chosen = None if self.miner is None else Prepared(self.miner.prepare(pairing))
        sums = torch.zeros((2, 3), dtype=torch.float64, device=q.device)
        select = None if chosen is None else chosen.select
        for panel in iterate_panels(pairing, distance=True, select=select):
            sums += _sums(panel)
        rule = self._rule(pairing.all_sum(sums))
        value = q.new_tensor(rule.total)
        if not gradient:
            return Gradient(value, None)
        weighed = by_panels(rule, pairing, reduction="sum", miner=chosen)
        return Gradient(value, weighed.queries, weighed.database)


def _sums(panel: Panel) -> Tensor:
    """Count, sum and sum of squares of D² over positives and negatives, (2, 3) in double precision."""
    sides = [panel.measured()[mask].double() for mask in (panel.positive, panel.negative)]
    parts = [torch.stack([side.new_tensor(len(side)), side.sum(), side.square().sum()]) for side in sides]
    return torch.stack(parts)


@dataclass(frozen=True)
class _SideWeights(Rule):
    """Weights that are linear in D² on either side."""

    total: float
    near: tuple[float, float]  # mean and 1/count of the positives
    far: tuple[float, float]
    push: float
    distance = True

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        squared, (m_p, one_p), (m_n, one_n) = panel.measured(), self.near, self.far
        pull = (2 * (squared - m_p) + self.push) * one_p
        push = (2 * (squared - m_n) - self.push) * one_n
        weight = pull.mul_(panel.p).add_(push.mul_(panel.n))
        return Terms(torch.zeros_like(weight[:, 0])), weight


class SmartMiningLoss(nn.Module):
    """The loss of Smart Mining: mean over violated triplets of [D²_ap − D²_an + m]₊, plus the global loss.

    Usage: `SmartMiningLoss()(embeddings, labels)` on the batches of a `RankRangeSampler`.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> SmartMiningLoss()(z, torch.tensor([0, 0, 1])).item()
    0.0

    Reference: Harwood et al. 2017.

    Args:
        triplet_margin: m of the triplets.
        weight: λ of the global loss.
        margin: t of the global loss.
    """

    def __init__(self, *, triplet_margin: float = 0.01, weight: float = 0.8, margin: float = 0.4) -> None:
        super().__init__()
        # D² = 2 − 2s: a margin of squared distances is half of it on similarities, and the hinge twice as large.
        self.triplet = TripletLoss(margin=check_number(triplet_margin, "triplet_margin", minimum=0.0) / 2)
        self.spread = GlobalLoss(weight=weight, margin=margin)

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of embeddings (n, d) with class labels (n,) or any relation."""
        value: Tensor = 2 * self.triplet(embeddings, labels) + self.spread(embeddings, labels)
        return value
