"""Tuplet margin: one positive against all negatives of the anchor, with a slack on the positive's angle."""

from __future__ import annotations

import math

from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Terms
from nearer.pairwise._shared import masked_logsumexp, softplus


class TupletMarginLoss(RowLoss):
    """Mean over positive pairs (a, p) of log(1 + Σ_N e^{c (cos θ_an − cos(θ_ap − β))}), θ the angles, β in degrees.

    The slack β lets hard positives be: below it the angle of a positive no longer pulls. A positive pair without a
    negative adds 0 and is counted. Reductions: "tuples" (positive pairs), "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> round(TupletMarginLoss(margin=90, scale=1)(z[[0, 1, 2]], torch.tensor([0, 0, 1])).item(), 4)
    0.2201

    The same number as pytorch-metric-learning's at the defaults. Reference: Yu and Tao 2019, eq. 3.

    Args:
        margin: β, the slack of the positives.
        scale: c.
        reduction: as above.
        miner: which pairs count; all of them if None.
    """

    reductions = ("tuples", "mean", "sum")

    def __init__(
        self, *, margin: float = 5.73, scale: float = 64.0, reduction: str = "tuples", miner: Miner | None = None
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0, maximum=180.0)
        self.scale = check_number(scale, "scale", above=0.0)

    def value(self, panel: Panel) -> Terms:
        s, positive = panel.similarity, panel.positive
        far = masked_logsumexp(self.scale * s, panel.negative)
        terms = softplus(far[:, None] - self.scale * _slackened(s, math.radians(self.margin)))
        return Terms((terms * positive).sum(1), positive.sum(1))


def _slackened(cosine: Tensor, slack: float) -> Tensor:
    """cos(θ − slack) from cos θ."""
    c = cosine.clamp(-1, 1)
    # At θ = 0 and π the sine has no slope; a floor keeps the derivative finite.
    return c * math.cos(slack) + (1 - c * c).clamp_min(1e-12).sqrt() * math.sin(slack)
