"""Equal weights: every mined pair of an anchor counts the same."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._validation import check_choice
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise._panels import Miner, Panel, Rows

__all__ = ["EqualWeightLoss", "equal_weight"]


class EqualWeightLoss(RowLoss):
    """(1/m) Σᵢ { mean_P (1 − s) + mean_N s } over the mined pairs; with `per="pair"` sums instead of means.

    Weights: −1/(m|Pᵢ|) on positives, +1/(m|Nᵢ|) on negatives (or −1/m and +1/m). This is "VTHM alone" of the
    pair-weighting paper when `miner=VTHM(margin=0.1)`. An empty side adds 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> EqualWeightLoss()(z, torch.tensor([0, 0])).item()
    1.0
    """

    def __init__(self, *, per: str = "side", reduction: str = "mean", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.per = check_choice(per, "per", ["side", "pair"])

    def _counts(self, panel: Panel) -> tuple[Tensor, Tensor]:
        p, n = panel.positive.sum(1).clamp(min=1), panel.negative.sum(1).clamp(min=1)
        dtype = panel.similarity.dtype
        return (p.to(dtype), n.to(dtype)) if self.per == "side" else (torch.ones_like(p, dtype=dtype),) * 2

    def formula(self, panel: Panel) -> Tensor:
        s = panel.similarity
        n_p, n_n = self._counts(panel)
        total = (((1 - s) * panel.positive).sum(1) / n_p + (s * panel.negative).sum(1) / n_n).sum()
        return total / max(len(s), 1) if self.reduction == "mean" else total

    def rows(self, panel: Panel) -> Rows:
        s = panel.similarity
        n_p, n_n = self._counts(panel)
        p, n = panel.positive / n_p[:, None], panel.negative / n_n[:, None]
        return Rows(((1 - s) * p + s * n).sum(1), n - p)


equal_weight = as_function(EqualWeightLoss, "equal_weight")
