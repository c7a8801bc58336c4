"""Equal weights: every mined pair of an anchor counts the same."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_choice
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Terms

__all__ = ["EqualWeightLoss"]


class EqualWeightLoss(RowLoss):
    """(1/m) Σᵢ { mean_P (1 − s) + mean_N s } over the mined pairs; with `per="pair"` sums instead of means.

    Weights: −1/(m|Pᵢ|) on positives, +1/(m|Nᵢ|) on negatives (or −1/m and +1/m). This is "VTHM alone" of the
    pair-weighting paper when `miner=VTHM(margin=0.1)`. An empty side adds 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> EqualWeightLoss()(z, torch.tensor([0, 0])).item()
    1.0

    Args:
        per: "side" averages each side of an anchor, "pair" adds.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    def __init__(self, *, per: str = "side", reduction: str = "mean", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.per = check_choice(per, "per", ["side", "pair"])

    def value(self, panel: Panel) -> Terms:
        s, p, n = panel.similarity, panel.positive, panel.negative
        pull, push = ((1 - s) * p).sum(1), (s * n).sum(1)
        if self.per == "side":
            pull, push = pull / p.sum(1).clamp(min=1), push / n.sum(1).clamp(min=1)
        return Terms(pull + push)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        p, n = panel.p, panel.n
        if self.per == "side":
            p, n = (mask / mask.sum(1, keepdim=True).clamp_(min=1) for mask in (p, n))
        weight = n - p
        return Terms(p.sum(1) + torch.linalg.vecdot(weight, panel.similarity)), weight
