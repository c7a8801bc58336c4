"""The triplet family: hinge on s_an − s_ap + λ, over all triplets or over chosen ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._validation import check_number
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss, sortable_labels
from nearer.losses.pairs._softmax import divide
from nearer.pairwise._counting import count_row_triplets, equal_within, triplets_by_tiles
from nearer.pairwise._draws import fresh_seed, uniform
from nearer.pairwise._masked import hardest, softplus
from nearer.pairwise._panels import AllSum, Gradient, Miner, Pairing, Panel, Rows, by_panels

__all__ = [
    "BatchHardTripletLoss",
    "PairSemiHardTripletLoss",
    "RandomTripletLoss",
    "SemiHardTripletLoss",
    "TripletLoss",
    "batch_hard_triplet",
    "pair_semi_hard_triplet",
    "random_triplet",
    "semi_hard_triplet",
    "triplet",
]


class _CountedTripletLoss(RowLoss):
    """Triplet losses whose weights are counts; subclasses say which triplets count."""

    reductions = ("active", "tuples", "mean", "sum")

    def __init__(self, *, margin: float, reduction: str, miner: Miner | None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)

    @property
    @abstractmethod
    def semi_hard(self) -> bool:
        """Whether only triplets with s_an < s_ap count."""

    def formula(self, panel: Panel) -> Tensor:
        s = panel.similarity
        triplets = panel.positive[:, :, None] & panel.negative[:, None, :]  # (q, n, n): anchor, positive, negative
        hinge = (s[:, None, :] - s[:, :, None] + self.margin).clamp(min=0) * triplets
        if self.semi_hard:
            hinge = hinge * (s[:, None, :] < s[:, :, None] - equal_within(s.dtype))
        terms = {"active": int((hinge > 0).sum()), "tuples": int(triplets.sum())}.get(self.reduction, 0)
        return divide(hinge.sum(), self.reduction, terms, len(s))

    def rows(self, panel: Panel) -> Rows:
        counts, value, violated = count_row_triplets(
            panel.similarity, panel.positive, panel.negative, self.margin, self.semi_hard
        )
        valid = panel.positive.sum(1) * panel.negative.sum(1)
        return Rows(value, counts, active=violated, valid=valid)

    def fast(self, pairing: Pairing, gradient: bool) -> Gradient | None:
        labels = sortable_labels(pairing, self.miner)
        if labels is None:
            return None
        return triplets_by_tiles(pairing.queries, labels, self.margin, self.semi_hard, self.reduction, gradient)


class TripletLoss(_CountedTripletLoss):
    """All triplets of the batch: [s_an − s_ap + λ]₊, by default the mean over the violated ones.

    Weights are counts: −#{n : s_an > s_ap − λ} on a positive, +#{p : s_ap < s_an + λ} on a negative. They come
    from comparisons in O(n² log K); no triplet is ever formed. Reductions: "active", "tuples" (all valid
    triplets), "mean" over anchors, "sum". No triplet: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(TripletLoss(margin=0.1, reduction="sum")(z, torch.tensor([0, 0, 1])).item(), 4)  # 0.7 + 0.9
    1.6

    Margins of squared distances on unit vectors are twice these. Reference: eq 7 of the pair-weighting paper.
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
    """

    semi_hard = True

    def __init__(self, *, margin: float = 0.1, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(margin=margin, reduction=reduction, miner=miner)


class PairSemiHardTripletLoss(RowLoss):
    """One negative per positive pair: the most similar one below s_ap, or the least similar one if none is.

    Mean over positive pairs that have a negative of [s_an − s_ap + λ]₊ (reduction "tuples"). No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.7071, 0.7071]])
    >>> round(PairSemiHardTripletLoss(margin=0.2)(z, torch.tensor([0, 0, 1])).item(), 4)  # (0.1071 + 0.3899)/2
    0.2485

    Reference: Schroff et al. 2015, in the form that is common in public code.
    """

    reductions = ("tuples", "active", "mean", "sum")

    def __init__(self, *, margin: float = 0.1, reduction: str = "tuples", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)

    def formula(self, panel: Panel) -> Tensor:
        s = panel.similarity
        terms = []
        for i, p in panel.positive.nonzero().tolist():
            others = s[i][panel.negative[i]]
            if len(others):
                below = others[others < s[i, p]]
                terms.append((below.max() if len(below) else others.min()) - s[i, p] + self.margin)
        hinge = torch.stack(terms).clamp(min=0) if terms else s.sum()[None] * 0
        counted = int((hinge > 0).sum()) if self.reduction == "active" else len(terms)
        return divide(hinge.sum(), self.reduction, counted, len(s))

    def rows(self, panel: Panel) -> Rows:
        s, n = panel.similarity, panel.negative
        weight, value, active = torch.zeros_like(s), torch.zeros_like(s[:, 0]), torch.zeros_like(s[:, 0])
        some = n.any(1)
        valid = panel.positive.sum(1) * some
        fallback, j_last = s.masked_fill(~n, math.inf).min(1)
        most = int(valid.max()) if valid.numel() else 0
        near, index = s.masked_fill(~panel.positive, math.inf).topk(most, dim=1, largest=False)
        for k in range(most):
            edge, column = near[:, k], index[:, k]
            best, j_best = s.masked_fill(~(n & (s < edge[:, None])), -math.inf).max(1)
            found = torch.isfinite(best)
            gap = torch.where(found, best, fallback) - edge + self.margin
            hot = (gap > 0) & torch.isfinite(edge) & some
            value += torch.where(hot, gap, 0.0)
            active += hot
            one = hot.to(s.dtype)[:, None]
            weight.scatter_add_(1, torch.where(found, j_best, j_last)[:, None], one)
            weight.scatter_add_(1, column[:, None], -one)
        return Rows(value, weight, active=active, valid=valid)


class BatchHardTripletLoss(RowLoss):
    """The hardest triplet of each anchor: [λ + max_N s − min_P s]₊; softplus(max_N s − min_P s) if margin is None.

    Mean over the anchors that have both sides (reduction "tuples"); ties go to the first item. No triplet: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(BatchHardTripletLoss(margin=0.1)(z, torch.tensor([0, 0, 1])).item(), 4)  # (0.7 + 0.9)/2
    0.8

    Reference: Hermans et al. 2017.
    """

    reductions = ("tuples", "mean", "sum")

    def __init__(
        self, *, margin: float | None = 0.1, reduction: str = "tuples", miner: Miner | None = None
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = None if margin is None else check_number(margin, "margin", minimum=0.0)

    def _cost(self, gap: Tensor) -> Tensor:
        return softplus(gap) if self.margin is None else (gap + self.margin).clamp(min=0)

    def formula(self, panel: Panel) -> Tensor:
        s = panel.similarity
        both = panel.positive.any(1) & panel.negative.any(1)
        low, _, high, _ = hardest(s[both], panel.positive[both], panel.negative[both])
        return divide(self._cost(high - low).sum(), self.reduction, int(both.sum()), len(s))

    def rows(self, panel: Panel) -> Rows:
        s = panel.similarity
        low, p, high, n = hardest(s, panel.positive, panel.negative)
        both = torch.isfinite(low) & torch.isfinite(high)
        gap = torch.where(both, high - low, -math.inf)
        slope = torch.sigmoid(gap) if self.margin is None else (gap + self.margin > 0).to(s.dtype)
        weight = torch.zeros_like(s)
        weight.scatter_add_(1, n[:, None], slope[:, None])
        weight.scatter_add_(1, p[:, None], -slope[:, None])
        return Rows(self._cost(gap), weight, valid=both)


class RandomTripletLoss(RowLoss):
    """One negative per positive pair, drawn uniformly; the expected weights are those of all triplets over |N|.

    [s_an − s_ap + λ]₊, mean over positive pairs that have a negative (reduction "tuples"). The draws come from
    `generator` (torch's own if None), one batch one seed, and do not depend on tiles or shards. No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(RandomTripletLoss(margin=0.1)(z, torch.tensor([0, 0, 1])).item(), 4)  # only one negative to draw
    0.8
    """

    reductions = ("tuples", "active", "mean", "sum")

    def __init__(
        self,
        *,
        margin: float = 0.1,
        generator: torch.Generator | None = None,
        reduction: str = "tuples",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)
        self.generator = generator

    def formula(self, panel: Panel) -> Tensor:
        s, seed = panel.similarity, fresh_seed(self.generator)
        terms = []
        for i in range(len(s)):
            others = panel.negative[i].nonzero()[:, 0]
            for rank, p in enumerate(panel.positive[i].nonzero()[:, 0].tolist()):
                if len(others):
                    draw = uniform(seed, panel.numbers[i], torch.tensor(rank))
                    n = others[int(draw * len(others))]
                    terms.append(s[i, n] - s[i, p] + self.margin)
        hinge = torch.stack(terms).clamp(min=0) if terms else s.sum()[None] * 0
        counted = int((hinge > 0).sum()) if self.reduction == "active" else len(terms)
        return divide(hinge.sum(), self.reduction, counted, len(s))

    def rows(self, panel: Panel) -> Rows:
        return _RandomTriplets(self.margin, fresh_seed(self.generator)).rows(panel)

    def program(
        self,
        pairing: Pairing,
        anchor_values: Tensor | None,
        gradient: bool,
        *,
        total_anchors: int | None = None,
        all_sum: AllSum | None = None,
    ) -> Gradient:
        """One seed for the whole batch, however it is cut."""
        return by_panels(
            _RandomTriplets(self.margin, fresh_seed(self.generator)),
            pairing,
            reduction=self.reduction,
            miner=self.miner,
            gradient=gradient,
            total_anchors=total_anchors,
            all_sum=all_sum,
        )


@dataclass(frozen=True)
class _RandomTriplets:
    """The rule of `RandomTripletLoss` with its seed fixed."""

    margin: float
    seed: int
    distance: bool = False

    def rows(self, panel: Panel) -> Rows:
        s, n = panel.similarity, panel.negative
        i, p = panel.positive.nonzero(as_tuple=True)
        sizes = panel.positive.sum(1)
        rank = torch.arange(len(i), device=s.device) - (sizes.cumsum(0) - sizes)[i]
        n_n = n.sum(1)
        draws = uniform(self.seed, panel.numbers[i], rank)
        wanted = (draws * n_n[i]).to(torch.int64)  # the position among the anchor's negatives
        order = torch.cat([n_n.new_zeros(1), n_n.cumsum(0)])[i] + wanted
        columns = n.nonzero()[:, 1]
        some = n_n[i] > 0
        j = columns[order.clamp(max=max(len(columns) - 1, 0))] if len(columns) else torch.zeros_like(i)
        gap = torch.where(some, s[i, j] - s[i, p] + self.margin, -1.0)
        hot = (gap > 0).to(s.dtype)
        weight = torch.zeros_like(s)
        weight.index_put_((i, j), hot, accumulate=True)
        weight.index_put_((i, p), -hot, accumulate=True)
        value = torch.zeros_like(s[:, 0]).index_add_(0, i, gap.clamp(min=0))
        active = torch.zeros_like(value).index_add_(0, i, hot)
        return Rows(value, weight, active=active, valid=sizes * (n_n > 0))


triplet = as_function(TripletLoss, "triplet")
semi_hard_triplet = as_function(SemiHardTripletLoss, "semi_hard_triplet")
pair_semi_hard_triplet = as_function(PairSemiHardTripletLoss, "pair_semi_hard_triplet")
batch_hard_triplet = as_function(BatchHardTripletLoss, "batch_hard_triplet")
random_triplet = as_function(RandomTripletLoss, "random_triplet")
