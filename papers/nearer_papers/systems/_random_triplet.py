"""The triplet loss with one negative per positive pair, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses import RowLoss
from nearer.losses.pairs._triplet import hinges
from nearer.pairwise import Miner, Panel, Rule, Terms
from nearer.pairwise._draws import fresh_seed, uniform
from nearer.pairwise._panels import by_panels
from nearer.pairwise._reduce import reduce
from nearer.pairwise._rule import Gradient, Pairing

__all__ = ["RandomTripletLoss"]


class RandomTripletLoss(RowLoss):
    """One negative per positive pair, drawn uniformly; the expected weights are those of all triplets over |N|.

    [s_an − s_ap + λ]₊, mean over positive pairs that have a negative (reduction "tuples"). The draws come from
    `generator` (torch's own if None), one batch one seed, and do not depend on tiles or shards. No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(RandomTripletLoss(margin=0.1)(z, torch.tensor([0, 0, 1])).item(), 4)  # only one negative to draw
    0.8

    Args:
        margin: λ.
        generator: draws the negatives; torch's own if None.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
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

    def value(self, panel: Panel) -> Terms:
        s, seed = panel.similarity, fresh_seed(self.generator)
        terms: list[tuple[int, Tensor]] = []
        for i in range(len(s)):
            others = panel.negative[i].nonzero()[:, 0]
            for rank, p in enumerate(panel.positive[i].nonzero()[:, 0].tolist()):
                if len(others):
                    draw = uniform(seed, panel.numbers[i], torch.tensor(rank))
                    n = others[int(draw * len(others))]
                    terms.append((i, s[i, n] - s[i, p] + self.margin))
        return hinges(terms, s, self.reduction)

    def traceable(self, panel: Panel) -> Tensor:
        s, positive, n_n = panel.similarity, panel.positive, panel.negative.sum(1, keepdim=True)
        draws = uniform(fresh_seed(self.generator), panel.numbers[:, None], positive.cumsum(1) - 1)
        # The negatives of a row in order, the rest behind them.
        columns = (~panel.negative).to(torch.uint8).sort(dim=1, stable=True)[1]
        j = columns.gather(1, (draws * n_n).to(torch.int64))
        counted = positive & (n_n > 0)
        hinge = torch.where(counted, s.gather(1, j) - s + self.margin, 0.0).relu()
        count = hinge > 0 if self.reduction == "active" else counted
        return reduce(Terms(hinge.sum(1), count.sum(1)), self.reduction, len(s))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        return self._drawn().weigh(panel)

    def _drawn(self) -> _RandomTriplets:
        return _RandomTriplets(self.margin, self.reduction, fresh_seed(self.generator))

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """One seed for the whole batch, however it is cut."""
        return by_panels(self._drawn(), pairing, reduction=self.reduction, miner=self.miner, gradient=gradient)


@dataclass(frozen=True)
class _RandomTriplets(Rule):
    """The rule of `RandomTripletLoss` with its seed fixed."""

    margin: float
    reduction: str
    seed: int | Tensor

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
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
        return Terms(value, active if self.reduction == "active" else sizes * (n_n > 0)), weight
