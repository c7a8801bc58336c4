"""Histogram loss: the probability that a negative pair is more similar than a positive one.

Its statistic is two histograms of the whole batch, so it goes over panels or over the tiles of a walk by itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Gradient, Pairing, Tile, Walk, iterate_panels, sortable


class HistogramLoss(PairLoss):
    """Σ_r h⁻_r Σ_{q≤r} h⁺_q ∈ [0, 1], with h⁺, h⁻ the linearly shared histograms of positive and negative pairs.

    `bins` is the number of nodes R from −1 to 1, Δ = 2/(R−1). Weights: −h⁻_r/(Δ|S⁺|) on a positive whose left node
    is r, +h⁺_{r+1}/(Δ|S⁻|) on a negative. No positive or no negative pair: 0. Use large batches: the estimate
    from a small one is biased.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    >>> HistogramLoss()(z, torch.tensor([0, 0, 1])).item()
    0.0

    Reference: Ustinova, Lempitsky 2016.

    Args:
        bins: nodes of the histograms.
        miner: which pairs count; all of them if None.
    """

    reductions = ("mean",)

    def __init__(self, *, bins: int = 101, miner: Miner | None = None) -> None:
        super().__init__(reduction="mean", miner=miner)
        self.bins = check_int(bins, "bins", minimum=2)

    def formula(self, panel: Panel) -> Tensor:
        if not panel.positive.any() or not panel.negative.any():
            return panel.similarity.sum() * 0
        nodes = torch.linspace(-1, 1, self.bins, dtype=panel.similarity.dtype, device=panel.similarity.device)
        step = 2 / (self.bins - 1)

        def soft(mask: Tensor) -> Tensor:
            s = panel.similarity[mask].clamp(-1, 1)
            return (1 - (s[:, None] - nodes).abs() / step).clamp(min=0).sum(0) / mask.sum()

        return (soft(panel.negative) * soft(panel.positive).cumsum(0)).sum()

    def traceable(self, panel: Panel) -> Tensor:
        s = panel.similarity
        inside = s.clamp(-1, 1)
        # The place of a pair is a constant, how far it is on the way to the next node is not.
        left = self._place(s.detach())[0].view(-1)
        part = ((inside + 1) * ((self.bins - 1) / 2)).reshape(-1) - left

        def share(mask: Tensor) -> Tensor:
            mass = mask.reshape(-1).to(s.dtype)
            h = s.new_zeros(self.bins).scatter_add(0, left, (1 - part) * mass)
            return h.scatter_add(0, left + 1, part * mass) / mass.sum().clamp(min=1)

        return (share(panel.negative) * share(panel.positive).cumsum(0)).sum()

    def _place(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Left node of each similarity, and how far it is on the way to the next."""
        # Duplicates have s = 1 exactly or a rounding above it: without the clamp they would fall off the end.
        u = s.clamp(-1, 1).add_(1).mul_((self.bins - 1) / 2)
        left = u.to(torch.int64).clamp_(max=self.bins - 2)
        return left, u.sub_(left)

    def _histogram(self, s: Tensor, weight: Tensor | None = None) -> Tensor:
        """Mass at each node (R,), float64; `weight` 0 leaves a pair out."""
        left, part = self._place(s.reshape(-1))
        mass = None if weight is None else weight.reshape(-1).to(part.dtype)
        on = torch.bincount(left, weights=mass, minlength=self.bins).to(torch.float64)
        over = torch.bincount(left, weights=part if mass is None else part * mass, minlength=self.bins).double()
        return on - over + torch.cat([over.new_zeros(1), over[:-1]])

    def _tables(self, h_p: Tensor, h_n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, and the weight of a positive and of a negative by its left node (R,)."""
        count_p, count_n = h_p.sum().clamp(min=1e-30), h_n.sum().clamp(min=1e-30)
        if float(h_p.sum()) == 0 or float(h_n.sum()) == 0:
            return h_p.new_zeros(()), torch.zeros_like(h_p), torch.zeros_like(h_p)
        step = 2 / (self.bins - 1)
        p, n = h_p / count_p, h_n / count_n
        after = torch.cat([p[1:], p.new_zeros(1)])
        return (n * p.cumsum(0)).sum(), -n / (step * count_p), after / (step * count_n)

    def _weights(self, s: Tensor, table: Tensor) -> Tensor:
        left = self._place(s)[0]
        return table.to(s.dtype).index_select(0, left.view(-1)).view(s.shape)

    def dense_weights(self, panel: Panel) -> Tensor:
        s = panel.similarity
        h_p, h_n = (self._histogram(s, mask) for mask in (panel.positive, panel.negative))
        _, by_p, by_n = self._tables(h_p, h_n)
        weight = self._weights(s, by_p) * panel.positive + self._weights(s, by_n) * panel.negative
        return weight * (s < 1)

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Two passes: histograms, then weights by table."""
        if self.miner is None and sortable(pairing, small=256):
            return self._by_tiles(Walk(pairing), gradient)
        q, d = pairing.queries, pairing.database
        select = None if self.miner is None else self.miner.prepare(pairing)
        h_p, h_n = q.new_zeros((2, self.bins), dtype=torch.float64)
        for panel in iterate_panels(pairing, select=select):
            h_p += self._histogram(panel.similarity, panel.positive)
            h_n += self._histogram(panel.similarity, panel.negative)
        value, by_p, by_n = self._tables(h_p, h_n)
        if not gradient:
            return Gradient(value.to(q.dtype), None)
        d_q, d_d = torch.zeros_like(q), torch.zeros_like(d)
        for panel in iterate_panels(pairing, select=select):
            s = panel.similarity
            w = self._weights(s, by_p) * panel.positive + self._weights(s, by_n) * panel.negative
            w *= s < 1
            d_q[panel.anchors] = w @ d
            d_d += w.T @ q[panel.anchors]
        if pairing.shared:
            return Gradient(value.to(q.dtype), d_q + d_d)
        return Gradient(value.to(q.dtype), d_q, d_d)

    def _by_tiles(self, walk: Walk, gradient: bool) -> Gradient:
        z = walk.queries
        h_p, h_n = z.new_zeros((2, self.bins), dtype=torch.float64)
        blocks = [(block, block.similarity(walk)) for block in walk.blocks()]
        for block, s in blocks:
            h_p += self._histogram(s, block.mask.expand_as(s))
        # Scaled by (R−1)/2 a tile holds node numbers minus their middle; same-class pairs get a node of their own.
        half, nowhere = (self.bins - 1) / 2, self.bins
        scaled = z * half

        def nodes(tile: Tile) -> Tensor:
            u = walk.similarity(tile, scaled).add_(half).clamp_(0, 2 * half)
            walk.clear(tile, u, nowhere)
            return u

        for tile in walk.tiles():
            u = nodes(tile)
            left = u.to(torch.int32)
            on = torch.bincount(left.view(-1), minlength=nowhere + 1).double()
            over = torch.bincount(left.view(-1), weights=u.frac_().view(-1), minlength=nowhere + 1).double()
            mass = (on - over)[:nowhere]
            mass[1:] += over[: nowhere - 1]
            h_n += mass * len(tile.roles)
            if gradient:
                walk.keep(tile, left)
        value, by_p, by_n = self._tables(h_p, h_n)
        if not gradient:
            return walk.finish(value.to(z.dtype), None)
        # A pair of a symmetric walk stands for both of its orders.
        table = torch.cat([by_n, by_n.new_zeros(1)]).mul_(2 if walk.symmetric else 1).to(z.dtype)
        gradients = walk.gradients()
        for tile in walk.tiles():
            held = walk.kept(tile)
            left = nodes(tile).to(torch.int32) if held is None else held
            w = table.index_select(0, left.view(-1)).view(tile.shape)
            if walk.symmetric:
                walk.push_sum(gradients[0], tile, w)
            else:
                walk.push(*gradients, tile, w)
        for block, s in blocks:
            walk.push_block(*gradients, block, self._weights(s, by_p) * (s < 1) * block.mask)
        return walk.finish(value.to(z.dtype), gradients)
