"""Ranked list: positives inside a small ball, negatives outside a larger one, the worst weighing most."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._distances import root
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Terms


class RankedListLoss(RowLoss):
    """Of each anchor (1 − λ) Σ_P w_p [D − (α − m)]₊ / Σ w_p + λ Σ_N w_n [α − D]₊ / Σ w_n.

    D is Euclidean on unit vectors. Only pairs with a positive hinge count, with w = e^{T · hinge}; T is
    `sharpness` for negatives and `positive_sharpness` for positives. A side without a violated pair is 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(RankedListLoss(balance=0.0)(z, torch.tensor([0, 0])).item(), 4)  # √2 − (1.2 − 0.4)
    0.6142

    pytorch-metric-learning's `RankedListLoss(margin, Tn)` is `RankedListLoss(margin=margin, sharpness=Tn)`, up to
    the 1e-5 that it adds to every weight; its default α is 1 + margin/2. Reference: Wang et al. 2019, eqs. 4 to 8.

    Args:
        margin: m, how much nearer than α positives should be.
        alpha: α, how far negatives should be.
        sharpness: how much more the nearest negatives weigh; 0 weighs all violated ones alike.
        positive_sharpness: the same for the farthest positives.
        balance: λ, the share of the negatives.
        reduction: "mean" over anchors or "sum".
        miner: which pairs count; all of them if None.
    """

    distance = True
    reductions = ("mean", "sum")

    def __init__(
        self,
        *,
        margin: float = 0.4,
        alpha: float = 1.2,
        sharpness: float = 10.0,
        positive_sharpness: float = 0.0,
        balance: float = 0.5,
        reduction: str = "mean",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)
        self.alpha = check_number(alpha, "alpha", above=0.0)
        self.sharpness = check_number(sharpness, "sharpness", minimum=0.0)
        self.positive_sharpness = check_number(positive_sharpness, "positive_sharpness", minimum=0.0)
        self.balance = check_number(balance, "balance", minimum=0.0, maximum=1.0)

    def value(self, panel: Panel) -> Terms:
        d = root(panel.measured())
        pull = _weighted(d - (self.alpha - self.margin), panel.positive, self.positive_sharpness)
        push = _weighted(self.alpha - d, panel.negative, self.sharpness)
        return Terms((1 - self.balance) * pull + self.balance * push)


def _weighted(hinge: Tensor, mask: Tensor, sharpness: float) -> Tensor:
    """The mean of the positive hinges of each row with weights e^{sharpness · hinge}; 0 without one."""
    active = mask & (hinge > 0)
    hinge = torch.where(active, hinge, 0.0)
    # Relative to the row's largest, as a softmax is: no exponent overflows.
    exponent = (sharpness * hinge).masked_fill(~active, -math.inf)
    exponent = torch.where(active.any(1, keepdim=True), exponent, 0.0)
    return (torch.softmax(exponent, 1) * hinge).sum(1)
