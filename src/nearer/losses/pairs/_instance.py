"""Instance loss: every item is a class of its own, and the other items of the batch are its wrong classes."""

from __future__ import annotations

import math

from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import exponent_is_safe, exponential, masked_logsumexp, soft_rows_with_zero, softplus

__all__ = ["InstanceLoss"]


class InstanceLoss(RowLoss):
    """Mean over items of −log e^{γ} / (e^{γ} + Σ_N e^{γ s}): the softmax in which an item must find itself.

    With a label for every item (views of one thing share one) only other things are pushed away. Positives are not
    pulled: add a ranking loss, as the paper does. No negative: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(InstanceLoss(gamma=1.0)(z, torch.tensor([0, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    With labels 0..n−1 the same number as pytorch-metric-learning's; with classes that one takes the numbers of
    classes for those of rows. Related: the paper's form with a learnt vector for every thing is
    `NormalizedSoftmaxLoss`. Reference: Zheng et al. 2020.

    Args:
        gamma: γ, what cosines are multiplied by.
        reduction: "mean" over items or "sum".
        miner: which pairs count; all of them if None.
    """

    reductions = ("mean", "sum")

    def __init__(self, *, gamma: float = 64.0, reduction: str = "mean", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.gamma = check_number(gamma, "gamma", above=0.0)

    def value(self, panel: Panel) -> Terms:
        return Terms(softplus(masked_logsumexp(self.gamma * (panel.similarity - 1), panel.negative)))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        largest = self.gamma * (panel.bound + 1)
        value, soft = soft_rows_with_zero(panel.similarity, panel.n, self.gamma, 1.0, largest=largest)
        return Terms(value), soft.mul_(self.gamma)

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(self.gamma * (bound + 1)):
            return None

        def head(far: Far, near: Near) -> Terms:
            return Terms((far.sum * math.exp(-self.gamma)).log1p())

        return exponential(self.gamma, head)
