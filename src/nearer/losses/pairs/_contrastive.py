"""The contrastive loss on similarities: pull positives, push negatives below a threshold."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms

__all__ = ["ContrastiveLoss"]


class ContrastiveLoss(RowLoss):
    """Contrastive loss on similarities: Σ_P (1 − s) + Σ_N [s − threshold]₊.

    Weights: −1 on every positive, 1[s > threshold] on negatives. Reductions: "sides" (default: mean over the
    positives plus mean over the active negatives), "active", "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(ContrastiveLoss(reduction="sum")(z, torch.tensor([0, 0, 1])).item(), 4)  # 2·1 + 2·(0.1 + 0.3)
    2.8

    pytorch-metric-learning's `ContrastiveLoss()` is `DistanceContrastiveLoss()`; this one is its
    `ContrastiveLoss(pos_margin=1, neg_margin=0.5, distance=CosineSimilarity())`.

    Related: `DistanceContrastiveLoss`; RAW with a hard threshold. Reference: eq 5 of the pair-weighting paper,
    with 1 added per positive pair so that the value is never negative.

    Args:
        threshold: the similarity below which a negative costs nothing.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("sides", "active", "mean", "sum")

    def __init__(self, *, threshold: float = 0.5, reduction: str = "sides", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.threshold = check_number(threshold, "threshold")

    def value(self, panel: Panel) -> Terms:
        s = panel.similarity
        pull, push = (1 - s) * panel.positive, (s - self.threshold).relu() * panel.negative
        count = torch.stack([panel.positive.sum(1), (push > 0).sum(1)], 1)
        return Terms(torch.stack([pull.sum(1), push.sum(1)], 1), count)

    def weigh(self, panel: Panel) -> tuple[Terms, tuple[Tensor, Tensor]]:
        s, p = panel.similarity, panel.p
        hot = torch.gt(s, self.threshold, out=torch.empty_like(s)).mul_(panel.n)
        # Only sums over the anchors are asked for, and four sums of everything are faster than those of rows.
        n_p, n_n = p.sum().item(), hot.sum().item()
        pull, push = n_p - (s * p).sum().item(), (s * hot).sum().item() - self.threshold * n_n
        return Terms(s.new_tensor([[pull, push]]), s.new_tensor([[n_p, n_n]])), (-p, hot)

    def statistic(self, bound: float) -> Statistic:
        def tile(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            hot = torch.gt(s, self.threshold, out=spare)
            return s.sub_(self.threshold).mul_(hot), hot

        def head(far: Far, near: Near) -> Terms:
            value = torch.stack([near.sum(lambda s: 1 - s), far.sum], 1)
            return Terms(value, torch.stack([near.count, far.count], 1))

        def quiet(s: Tensor) -> bool:
            return float(s.amax()) <= self.threshold

        return Statistic(tile, head, quiet=quiet, linear=True, counts=True)
