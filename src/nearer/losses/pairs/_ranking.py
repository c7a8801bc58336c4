"""Losses that approximate average precision: FastAP by soft histograms, SmoothAP by soft ranks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Terms


class FastAPLoss(RowLoss):
    """1 − FastAP: average precision from histograms of D² over `bins` + 1 nodes on [0, 4], linearly shared.

    With h⁺, h the histograms of the positives and of all items and H⁺, H their running sums,
    FastAP = (1/|P|) Σ_l H⁺_l h⁺_l / H_l. Mean over anchors with a positive (reduction "active"). No positive: 0.
    A pair whose D² is a node has the slope of the bin above it.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    >>> FastAPLoss()(z, torch.tensor([0, 0, 1])).item()
    0.0

    Reference: Cakir et al. 2019.

    Args:
        bins: nodes of the histograms.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("active", "mean", "sum")

    def __init__(self, *, bins: int = 10, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.bins = check_int(bins, "bins", minimum=1)

    def value(self, panel: Panel) -> Terms:
        squared = (2 - 2 * panel.similarity).clamp(0, 4)
        nodes = torch.linspace(0, 4, self.bins + 1, dtype=squared.dtype, device=squared.device)
        share = (1 - (squared[:, :, None] - nodes).abs() * (self.bins / 4)).clamp(min=0)
        h_p = (share * panel.positive[:, :, None]).sum(1)
        h = (share * (panel.positive | panel.negative)[:, :, None]).sum(1)
        run = h.cumsum(1)
        terms = torch.where(run > 0, h_p.cumsum(1) * h_p / run.clamp(min=1e-30), 0.0).sum(1)
        n_p = panel.positive.sum(1)
        some = n_p > 0
        return Terms((1 - terms / n_p.clamp(min=1)) * some, some)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s = panel.similarity
        position = (2 - 2 * s).clamp_(0, 4).mul_(self.bins / 4)
        left = position.floor().clamp_(max=self.bins - 1)
        part, bin_ = position - left, left.to(torch.int64)
        p, valid = panel.positive.to(s.dtype), (panel.positive | panel.negative).to(s.dtype)

        def histogram(mask: Tensor) -> Tensor:
            h = s.new_zeros((len(s), self.bins + 1))
            h.scatter_add_(1, bin_, (1 - part) * mask)
            return h.scatter_add_(1, bin_ + 1, part * mask)

        h_p, h = histogram(p), histogram(valid)
        run_p, run = h_p.cumsum(1), h.cumsum(1)
        safe = torch.where(run > 0, run, 1.0)
        n_p = p.sum(1)
        some = n_p > 0
        unit = torch.where(some, 1 / n_p.clamp(min=1), 0.0)[:, None]
        value = torch.where(some, 1 - (run_p * h_p / safe).sum(1) * unit[:, 0], 0.0)
        # ∂FastAP/∂h⁺ and ∂FastAP/∂h at each node; a running sum passes its slope to every node before it.
        by_p = (run_p / safe + _from_right(h_p / safe)) * unit
        by_all = -_from_right(run_p * h_p / safe.square()) * unit
        # Moving a pair by dD² moves its mass from the left node to the right one.
        slope_p, slope_all = (torch.diff(by, dim=1).gather(1, bin_) for by in (by_p, by_all))
        weight = (slope_p * p + slope_all * valid) * (2 * self.bins / 4)  # −∂FastAP, and ∂D²/∂s = −2
        inside = (s > -1) & (s < 1)
        return Terms(value, some), weight * inside


def _from_right(x: Tensor) -> Tensor:
    """Sum of each entry and all after it."""
    return x.flip(1).cumsum(1).flip(1)


class SmoothAPLoss(RowLoss):
    """1 − mean over positives of (1 + Σ_P σ((s_q − s_p)/τ)) / (1 + Σ_{P∪N} σ((s_j − s_p)/τ)), q ≠ p, j ≠ p.

    Mean over anchors with a positive (reduction "active"). No positive: 0. O(|P|·n) per anchor, never n³.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    >>> SmoothAPLoss()(z, torch.tensor([0, 0, 1])).item() < 1e-6
    True

    Classes may have any sizes and any order. pytorch-metric-learning counts a query as its own positive and is
    right only for k classes of k items in order; there `loss(z, y, database=z, database_labels=y)` gives its
    number. Reference: Brown et al. 2020.

    Args:
        temperature: τ of the sigmoid that stands for a step.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    cubic = True
    reductions = ("active", "mean", "sum")

    def __init__(self, *, temperature: float = 0.01, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def value(self, panel: Panel) -> Terms:
        s, p = panel.similarity, panel.positive
        above = torch.sigmoid((s[:, None, :] - s[:, :, None]) / self.temperature)  # [anchor, p, j]
        other = ~torch.eye(s.shape[1], dtype=torch.bool, device=s.device)
        rank_p = 1 + (above * (p[:, None, :] & other)).sum(2)
        rank = 1 + (above * ((p | panel.negative)[:, None, :] & other)).sum(2)
        n_p = p.sum(1)
        some = n_p > 0
        precision = (rank_p / rank * p).sum(1) / n_p.clamp(min=1)
        return Terms((1 - precision) * some, some)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s = panel.similarity
        p, n = panel.positive.to(s.dtype), panel.negative.to(s.dtype)
        n_p = p.sum(1)
        some = n_p > 0
        most = int(n_p.max()) if n_p.numel() else 0
        near, index = s.masked_fill(~panel.positive, math.inf).topk(most, dim=1, largest=False)
        precision, weight = torch.zeros_like(n_p), torch.zeros_like(s)
        for k in range(most):
            column = index[:, k, None]
            valid = torch.isfinite(near[:, k]).to(s.dtype)
            edge = torch.where(valid > 0, near[:, k], 0.0)
            above = torch.sigmoid((s - edge[:, None]) / self.temperature)
            others = p.scatter(1, column, 0.0)
            rank_p = 1 + (above * others).sum(1)
            rank = rank_p + (above * n).sum(1)
            precision += valid * rank_p / rank
            # −∂(rank_p/rank)/∂s_j of the others; s_p itself moves all of them the other way.
            by_p, by_n = (1 / rank - rank_p / rank.square()), -rank_p / rank.square()
            slope = above.mul_(1 - above) * (others * by_p[:, None] + n * by_n[:, None])
            slope *= (valid / self.temperature)[:, None]
            weight -= slope
            weight.scatter_add_(1, column, slope.sum(1, keepdim=True))
        unit = torch.where(some, 1 / n_p.clamp(min=1), 0.0)
        return Terms((1 - precision * unit) * some, some), weight * unit[:, None]
