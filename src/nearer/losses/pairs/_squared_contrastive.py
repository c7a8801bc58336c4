"""The contrastive loss on squared distances, with a price on negatives: what each head of HDC learns from."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms

__all__ = ["SquaredContrastiveLoss"]


class SquaredContrastiveLoss(RowLoss):
    """Σ_P D² + w·Σ_N [m − D²]₊ on unit vectors, D² = 2 − 2s.

    Weights: −2 on positives that are not yet in one place, 2w·1[D² < m] on negatives. Reductions: "sides" (default:
    each sum divided by its own terms that are not zero), "active", "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(SquaredContrastiveLoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # 2 + 10·(0.2 + 0.6)/2
    6.0

    Related: `ContrastiveLoss` is half of it with w = 1. Reference: Yuan et al. 2017 (HDC), with the
    constants of the released layers.

    Args:
        margin: m, the squared distance at which a negative costs nothing.
        negative_weight: w.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("sides", "active", "mean", "sum")

    def __init__(
        self,
        *,
        margin: float = 1.0,
        negative_weight: float = 10.0,
        reduction: str = "sides",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", above=0.0, maximum=4.0)
        self.negative_weight = check_number(negative_weight, "negative_weight", above=0.0)

    def value(self, panel: Panel) -> Terms:
        squared = 2 - 2 * panel.similarity
        apart = panel.positive & (squared > _tiny(squared))
        push = (self.margin - squared).relu() * panel.negative * self.negative_weight
        sides = torch.stack([(squared * apart).sum(1), push.sum(1)], 1)
        return Terms(sides, torch.stack([apart.sum(1), (push > 0).sum(1)], 1))

    def weigh(self, panel: Panel) -> tuple[Terms, tuple[Tensor, Tensor]]:
        squared = torch.mul(panel.similarity, -2).add_(2)
        apart = torch.gt(squared, _tiny(squared), out=torch.empty_like(squared)).mul_(panel.p)
        hot = torch.lt(squared, self.margin, out=torch.empty_like(squared)).mul_(panel.n)
        count = torch.stack([apart.sum(1), hot.sum(1)], 1)
        push = (self.margin * count[:, 1] - torch.linalg.vecdot(squared, hot)) * self.negative_weight
        sides = torch.stack([torch.linalg.vecdot(squared, apart), push], 1)
        return Terms(sides, count), (apart.mul_(-2), hot.mul_(2 * self.negative_weight))

    def statistic(self, bound: float) -> Statistic:
        threshold, slope = 1 - self.margin / 2, 2 * self.negative_weight

        def tile(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            hot = torch.gt(s, threshold, out=spare).mul_(slope)
            return s.sub_(threshold).mul_(hot), hot

        def head(far: Far, near: Near) -> Terms:
            def apart(s: Tensor) -> Tensor:
                return (2 - 2 * s > _tiny(s)).to(s.dtype)

            pull = near.sum(lambda s: (2 - 2 * s) * apart(s))
            return Terms(torch.stack([pull, far.sum], 1), torch.stack([near.tally(apart), far.count], 1))

        def quiet(s: Tensor) -> bool:
            return float(s.amax()) <= threshold

        return Statistic(tile, head, quiet=quiet, linear=True, counts=True)


def _tiny(values: Tensor) -> float:
    """What 2 − 2s of two equal unit vectors may differ from 0."""
    return 4 * float(torch.finfo(values.dtype).eps)
