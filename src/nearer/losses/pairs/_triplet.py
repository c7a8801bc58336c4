"""The triplet family: hinge on s_an − s_ap + λ, over all triplets or over chosen ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Terms
from nearer.pairwise._shared import (
    Gradient,
    Pairing,
    count_row_triplets,
    divisor,
    equal_within,
    hardest,
    normalize_rows,
    reduce,
    softplus,
    sortable,
    triplets_by_tiles,
)


class _CountedTripletLoss(RowLoss):
    """Triplet losses whose weights are counts; subclasses say which triplets count."""

    reductions = ("active", "tuples", "mean", "sum")
    semi_hard: bool  # only triplets with s_an < s_ap count

    def __init__(self, *, margin: float, reduction: str, miner: Miner | None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)

    def value(self, panel: Panel) -> Terms:
        s = panel.similarity
        triplets = panel.positive[:, :, None] & panel.negative[:, None, :]  # (q, n, n): anchor, positive, negative
        hinge = (s[:, None, :] - s[:, :, None] + self.margin).relu() * triplets
        if self.semi_hard:
            hinge = hinge * (s[:, None, :] < s[:, :, None] - equal_within(s.dtype))
        counted = hinge > 0 if self.reduction == "active" else triplets
        return Terms(hinge.sum((1, 2)), counted.sum((1, 2)))

    def traceable(self, panel: Panel) -> Tensor:
        return self.by_weight(panel)  # the formula is cubic

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        counts, value, violated = count_row_triplets(panel, self.margin, self.semi_hard)
        valid = panel.p.sum(1) * panel.n.sum(1)
        return Terms(value, violated if self.reduction == "active" else valid), counts

    def of_triplets(self, queries: Tensor, database: Tensor | None, triplets: Tensor, dense: bool) -> Tensor:
        """O(triplets·d): each as often as it is listed, no crossing of positives and negatives; by autograd both
        ways."""
        work = torch.float64 if queries.dtype == torch.float64 else torch.float32
        q = normalize_rows(queries.to(work))[0]
        d = q if database is None else normalize_rows(database.to(work), "database")[0]
        a, p, n = triplets.T
        near, far = (q[a] * d[p]).sum(1), (q[a] * d[n]).sum(1)
        hinge = (far - near + self.margin).relu()
        if self.semi_hard:
            hinge = hinge * (far < near - equal_within(near.dtype))
        counted = hinge > 0 if self.reduction == "active" else torch.ones_like(hinge)
        return hinge.sum() / divisor(self.reduction, len(q), counted.sum())

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Counts by tiles for class labels, by panels otherwise."""
        counted = None
        if self.miner is None and pairing.shards is None and sortable(pairing, small=256):
            counted = triplets_by_tiles(pairing, self.margin, self.semi_hard, self.reduction, gradient)
        return super().program(pairing, anchor_values, gradient) if counted is None else counted


class TripletLoss(_CountedTripletLoss):
    """All triplets of the batch: [s_an − s_ap + λ]₊, by default the mean over the violated ones.

    Weights are counts: −#{n : s_an > s_ap − λ} on a positive, +#{p : s_ap < s_an + λ} on a negative. They come
    from comparisons in O(n² log K); no triplet is ever formed. Reductions: "active", "tuples" (all valid
    triplets), "mean" over anchors, "sum". No triplet: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(TripletLoss(margin=0.1, reduction="sum")(z, torch.tensor([0, 0, 1])).item(), 4)  # 0.7 + 0.9
    1.6

    Margins of squared distances on unit vectors are twice these. Reference: eq 7 of the pair-weighting paper.

    Args:
        margin: λ.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    semi_hard = False

    def __init__(self, *, margin: float = 0.1, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(margin=margin, reduction=reduction, miner=miner)


class SemiHardTripletLoss(_CountedTripletLoss):
    """All semi-hard triplets: those with s_ap − λ < s_an < s_ap.

    Weights are counts as in `TripletLoss`, over these triplets only; reductions are the same. No triplet: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.7071, 0.7071]])
    >>> round(SemiHardTripletLoss(margin=0.2, reduction="sum")(z, torch.tensor([0, 0, 1])).item(), 4)
    0.1071

    Args:
        margin: λ.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    semi_hard = True

    def __init__(self, *, margin: float = 0.1, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(margin=margin, reduction=reduction, miner=miner)


class PairSemiHardTripletLoss(RowLoss):
    """One negative per positive pair: the most similar one below s_ap, or the least similar one if none is.

    Mean over positive pairs that have a negative of [s_an − s_ap + λ]₊ (reduction "tuples"). Ties go to the first
    item; equal up to rounding is not below. No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.7071, 0.7071]])
    >>> round(PairSemiHardTripletLoss(margin=0.2)(z, torch.tensor([0, 0, 1])).item(), 4)  # (0.1071 + 0.3899)/2
    0.2485

    Reference: Schroff et al. 2015, in the form that is common in public code.

    Args:
        margin: λ.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("tuples", "active", "mean", "sum")

    def __init__(self, *, margin: float = 0.1, reduction: str = "tuples", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)

    def value(self, panel: Panel) -> Terms:
        s = panel.similarity
        terms: list[tuple[int, Tensor]] = []
        for i, p in panel.positive.nonzero().tolist():
            others = s[i][panel.negative[i]]
            if len(others):
                below = others[others < s[i, p] - equal_within(s.dtype)]
                chosen = below.max(0)[0] if len(below) else others.min(0)[0]
                terms.append((i, chosen - s[i, p] + self.margin))
        return hinges(terms, s, self.reduction)

    def traceable(self, panel: Panel) -> Tensor:
        s, n_n = panel.similarity, panel.negative.sum(1, keepdim=True)
        # Falling similarities of the negatives, the rest behind them: the first below an edge is the most similar.
        falling = (-s).masked_fill(~panel.negative, math.inf).sort(dim=1, stable=True)[0]
        place = torch.searchsorted(falling.detach(), equal_within(s.dtype) - s.detach(), right=True)
        chosen = -falling.gather(1, torch.minimum(place, n_n - 1).clamp(min=0))
        counted = panel.positive & (n_n > 0)
        hinge = torch.where(counted, chosen - s + self.margin, 0.0).relu()
        count = hinge > 0 if self.reduction == "active" else counted
        return reduce(Terms(hinge.sum(1), count.sum(1)), self.reduction, len(s))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s, n = panel.similarity, panel.negative
        weight, value, active = torch.zeros_like(s), torch.zeros_like(s[:, 0]), torch.zeros_like(s[:, 0])
        some = n.any(1)
        valid = panel.positive.sum(1) * some
        fallback, j_last = s.masked_fill(~n, math.inf).min(1)
        most = int(valid.max()) if valid.numel() else 0
        near, index = s.masked_fill(~panel.positive, math.inf).topk(most, dim=1, largest=False)
        for k in range(most):
            edge, column = near[:, k], index[:, k]
            below = n & (s < (edge - equal_within(s.dtype))[:, None])
            best, j_best = s.masked_fill(~below, -math.inf).max(1)
            has_negative = torch.isfinite(best)
            gap = torch.where(has_negative, best, fallback) - edge + self.margin
            hot = (gap > 0) & torch.isfinite(edge) & some
            value += torch.where(hot, gap, 0.0)
            active += hot
            hot_column = hot.to(s.dtype)[:, None]
            weight.scatter_add_(1, torch.where(has_negative, j_best, j_last)[:, None], hot_column)
            weight.scatter_add_(1, column[:, None], -hot_column)
        return Terms(value, active if self.reduction == "active" else valid), weight


class BatchHardTripletLoss(RowLoss):
    """The hardest triplet of each anchor: [λ + max_N s − min_P s]₊; softplus(max_N s − min_P s) if margin is None.

    Mean over the anchors that have both sides (reduction "tuples"); ties go to the first item. No triplet: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(BatchHardTripletLoss(margin=0.1)(z, torch.tensor([0, 0, 1])).item(), 4)  # (0.7 + 0.9)/2
    0.8

    Reference: Hermans et al. 2017.

    Args:
        margin: λ; None takes the softplus instead of the hinge.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("tuples", "mean", "sum")

    def __init__(
        self, *, margin: float | None = 0.1, reduction: str = "tuples", miner: Miner | None = None
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = None if margin is None else check_number(margin, "margin", minimum=0.0)

    def _cost(self, gap: Tensor) -> Tensor:
        return softplus(gap) if self.margin is None else (gap + self.margin).relu()

    def value(self, panel: Panel) -> Terms:
        s = panel.similarity
        both = panel.positive.any(1) & panel.negative.any(1)
        low, _, high, _ = hardest(s, panel.positive, panel.negative)
        return Terms(self._cost(torch.where(both, high - low, -math.inf)), both)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s = panel.similarity
        low, p, high, n = hardest(s, panel.positive, panel.negative)
        both = torch.isfinite(low) & torch.isfinite(high)
        gap = torch.where(both, high - low, -math.inf)
        slope = torch.sigmoid(gap) if self.margin is None else (gap + self.margin > 0).to(s.dtype)
        weight = torch.zeros_like(s)
        weight.scatter_add_(1, n[:, None], slope[:, None])
        weight.scatter_add_(1, p[:, None], -slope[:, None])
        return Terms(self._cost(gap), both), weight


def hinges(terms: list[tuple[int, Tensor]], s: Tensor, reduction: str) -> Terms:
    """The positive parts of terms, summed by their anchors."""
    value, count = s.sum(1) * 0, torch.zeros(len(s), device=s.device)
    for anchor, term in terms:
        value = value.index_add(0, torch.tensor([anchor], device=s.device), term.relu()[None])
        count[anchor] += float(term > 0) if reduction == "active" else 1.0
    return Terms(value, count)
