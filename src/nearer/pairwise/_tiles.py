"""The driver of statistics: value and gradient of h(Σ_N e(s), positives) over the tiles of a walk.

The weight of a negative pair factors, G_in = a_i·e'(s_in) with a_i = ∂h/∂(Σ e): pass 1 sums e, the head is
differentiated, pass 2 weighs. Where a_i is known in advance one pass does both. With a threshold miner only the
negatives above an edge count; where these are few a tile is reduced to a list of pairs on the spot, and neither the
second look at S nor its gradient product is needed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nearer.pairwise._near import Near
from nearer.pairwise._reduce import Reduction, joined, shares
from nearer.pairwise._rule import Edges, Far, Gradient, Miner, Pairing, Statistic, Terms
from nearer.pairwise._walk import Tile, Walk

# A listed pair costs about as much as twenty pairs of a whole tile.
_MOSTLY = 0.05


def by_statistic(
    statistic: Statistic,
    pairing: Pairing,
    *,
    reduction: Reduction,
    miner: Miner | None = None,
    anchor_values: Tensor | None = None,
    gradient: bool = True,
) -> Gradient | None:
    """Value and gradient of a loss that has a statistic, on class labels; None if the miner has no edges."""
    walk = Walk(pairing)
    values = None if anchor_values is None else anchor_values[walk.order].detach()
    near = Near(walk, distance=statistic.distance, anchor_values=values)
    edges = None
    if miner is not None:
        edges = miner.edges(near) if statistic.scale > 0 and not statistic.distance else None
        if edges is None:
            return None
    negatives: _All | _Mined
    negatives = _All(statistic, walk, near) if edges is None else _Mined(statistic, walk, near, edges)
    gradients = walk.gradients() if gradient else None
    ahead = statistic.linear and edges is None and gradients is not None
    if ahead:
        zeros = torch.zeros_like(near.count).requires_grad_()
        with torch.enable_grad():
            alone = statistic.head(Far(zeros, near.negatives), near.silent()).value.sum()
        (factor,) = torch.autograd.grad(alone, zeros)
        far = negatives.sums(factor * statistic.slope, gradients)
    else:
        far = negatives.sums(None, gradients)

    roots = near.roots() if gradient else []
    with torch.set_grad_enabled(gradient):
        far = Far(far.sum.requires_grad_(gradient), far.count)
        if gradient and values is not None:
            near.anchor_values = values = values.requires_grad_()
        terms = statistic.head(far, near)
        whole = terms.value.sum()
    columns = shares(reduction, pairing.anchors, _counted(pairing, terms))
    value = joined(pairing.all_sum(terms.value.detach().sum(0)), columns)
    if gradients is None:
        return walk.finish(value, None)
    # With two columns the positives are in the first and the negatives in the second.
    wanted = [far.sum, *roots] if values is None else [far.sum, *roots, values]
    if whole.requires_grad:
        outer, *slopes = torch.autograd.grad(whole, wanted, materialize_grads=True)
    else:  # no anchor has what the loss needs
        outer, *slopes = (torch.zeros_like(root) for root in wanted)
    by_anchor = None if values is None else slopes.pop().mul_(columns[0])
    if ahead:
        for total in gradients[:1] if walk.symmetric else gradients:
            total.mul_(columns[-1])
    else:
        negatives.weigh(outer * (columns[-1] * statistic.slope), gradients)
    near.push(gradients, slopes, columns[0])
    return walk.finish(value, gradients, by_anchor)


def _counted(pairing: Pairing, terms: Terms) -> Terms:
    """The terms with the counts of all processes."""
    if terms.count is None or pairing.shards is None:
        return terms
    return Terms(terms.value, pairing.all_sum(terms.count.sum(0))[None])


class _All:
    """Every negative."""

    def __init__(self, statistic: Statistic, walk: Walk, near: Near) -> None:
        self.statistic, self.walk = statistic, walk
        self.negatives = near.negatives
        self.scaled = walk.queries * statistic.scale

    def sums(self, factor: Tensor | None, gradients: tuple[Tensor, Tensor] | None) -> Far:
        """Σ e of each anchor; with `factor`, a_i, also the gradient."""
        statistic, walk = self.statistic, self.walk
        total = torch.zeros_like(self.negatives)
        count = torch.zeros_like(total) if statistic.counts else self.negatives
        later = factor is None and gradients is not None
        for tile in walk.tiles():
            evaluated = self._evaluate(tile, keep=later)
            if evaluated is None:
                continue
            e, w = evaluated
            for part, axis in tile.roles:
                total[part] += e.sum(axis)
            if statistic.counts:
                hot = torch.gt(e, 0, out=walk.buffer(2, tile))
                for part, axis in tile.roles:
                    count[part] += hot.sum(axis)
            if factor is not None and gradients is not None:
                walk.push_both(*gradients, tile, w, factor)
            elif later:
                walk.keep(tile, w)
        return Far(total, count)

    def weigh(self, factor: Tensor, gradients: tuple[Tensor, Tensor]) -> None:
        """Add the gradient of a_i·e'(s)."""
        for tile in self.walk.tiles():
            w = self.walk.kept(tile)
            if w is None:
                evaluated = self._evaluate(tile)
                if evaluated is None:
                    continue
                w = evaluated[1]
            self.walk.push_both(*gradients, tile, w, factor)

    def _evaluate(self, tile: Tile, *, keep: bool = False) -> tuple[Tensor, Tensor] | None:
        """e and its slope; None for a tile that has neither value nor weight."""
        x = self.walk.similarity(tile, self.scaled, keep=keep)
        if self.statistic.quiet is not None and not tile.mixed and self.statistic.quiet(x):
            return None
        e, w = self.statistic.tile(x, self.walk.buffer(1, tile))
        self.walk.clear(tile, e)
        if w is not e:
            self.walk.clear(tile, w)
        return e, w


class _Mined:
    """The negatives above the edge of their anchor."""

    def __init__(self, statistic: Statistic, walk: Walk, near: Near, edges: Edges) -> None:
        self.statistic, self.walk, self.near, self.edges = statistic, walk, near, edges
        self.scaled = walk.queries * statistic.scale
        self.edge = edges.edge * statistic.scale
        # An exponential keeps the order, so that what is chosen can be told from e as well as from s.
        self.level = self.edge.exp2() if statistic.ordered else self.edge
        self.whole: list[Tile] = []
        self.listed = _Listed(walk)

    def sums(self, factor: Tensor | None, gradients: tuple[Tensor, Tensor] | None) -> Far:
        """Σ e over the mined negatives; the positives are chosen then."""
        walk, edge = self.walk, self.edge
        high = torch.full_like(edge, -torch.inf)
        total, count = torch.zeros_like(edge), torch.zeros_like(edge)
        mostly = gradients is not None  # whether a tile is likely to be kept, and is computed where it stays
        for tile in walk.tiles():
            x = walk.similarity(tile, self.scaled, keep=mostly)
            walk.clear(tile, x, -torch.inf)
            some = False
            for part, axis in tile.roles:
                top = x.amax(axis)
                torch.maximum(high[part], top, out=high[part])
                some = some or bool((top > edge[part]).any())
            mostly = False
            if not some or self.listed.add(tile, x, self._lowest(tile, x)):
                continue
            mostly = gradients is not None
            self.whole.append(tile)
            held, e, _ = self._evaluate(tile, x)
            if mostly:
                walk.keep(tile, held)
            for part, axis in tile.roles:
                hot = torch.gt(held, self.level[part].unsqueeze(axis), out=walk.buffer(2, tile))
                if self.statistic.counts:
                    hot.mul_(e > 0)
                count[part] += hot.sum(axis)
                total[part] += hot.mul_(e).sum(axis)
        self.listed.finish(self.statistic, edge, total, count)
        self.near.select(self.edges, high / self.statistic.scale)
        return Far(total, count)

    def _lowest(self, tile: Tile, x: Tensor) -> Tensor:
        """The lower of the two edges of each pair."""
        lowest = self.edge[tile.rows, None].expand(x.shape)
        if not tile.twice:
            return lowest
        return torch.minimum(lowest, self.edge[None, tile.columns], out=self.walk.buffer(1, tile))

    def _evaluate(self, tile: Tile, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the choice is told from, e and its slope."""
        if self.statistic.ordered:
            return x.exp2_(), x, x
        e, w = self.statistic.tile(self.walk.buffer(1, tile).copy_(x), self.walk.buffer(3, tile))
        self.walk.clear(tile, e)
        if w is not e:
            self.walk.clear(tile, w)
        return x, e, w

    def weigh(self, factor: Tensor, gradients: tuple[Tensor, Tensor]) -> None:
        """Add the gradient of a_i·e'(s) over the mined negatives."""
        walk = self.walk
        for tile in self.whole:
            held = walk.kept(tile)
            if held is None:
                x = walk.similarity(tile, self.scaled)
                walk.clear(tile, x, -torch.inf)
                held, _, w = self._evaluate(tile, x)
            else:
                w = held if self.statistic.ordered else self._evaluate(tile, held)[2]
            weight = walk.buffer(2, tile)
            torch.gt(held, self.level[tile.rows, None], out=weight).mul_(factor[tile.rows, None])
            if tile.twice:
                other = walk.buffer(4, tile)
                torch.gt(held, self.level[None, tile.columns], out=other).mul_(factor[None, tile.columns])
                weight.add_(other)
            walk.push(*gradients, tile, weight.mul_(w))
        self.listed.push(factor, gradients)


def _summed(index: np.ndarray, values: np.ndarray, like: Tensor) -> Tensor:
    """The sums of values by the anchor they belong to."""
    return torch.from_numpy(np.bincount(index, weights=values, minlength=len(like))).to(like.dtype)


class _Listed:
    """The mined pairs of the sparse tiles, as lists; on the CPU only, where lists are fast."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.cpu = walk.queries.device.type == "cpu"
        self.mask = np.empty(min(walk.tile, walk.n) * min(walk.tile, walk.m), dtype=np.bool_)
        self.i: list[np.ndarray] = []
        self.j: list[np.ndarray] = []
        self.x: list[np.ndarray] = []
        self.twice: list[np.ndarray] = []

    def add(self, tile: Tile, x: Tensor, lowest: Tensor) -> bool:
        """Take the pairs of a tile above `lowest`, unless they are too many."""
        if not self.cpu:
            return False
        # numpy compares into truth values several times as fast as torch does.
        hit = np.greater(x.numpy(), lowest.numpy(), out=self.mask[: x.numel()].reshape(x.shape))
        if np.count_nonzero(hit) > _MOSTLY * x.numel():
            return False
        flat = np.flatnonzero(hit)
        i, j = np.divmod(flat, tile.shape[1])
        self.i.append(i + tile.rows.start)
        self.j.append(j + tile.columns.start)
        self.x.append(x.numpy().reshape(-1)[flat])
        self.twice.append(np.full(len(flat), tile.twice))
        return True

    def finish(self, statistic: Statistic, edge: Tensor, total: Tensor, count: Tensor) -> None:
        """Add the listed pairs to the sums of their anchors."""
        if not self.i:
            return
        self.rows, self.columns, x, twice = (np.concatenate(part) for part in (self.i, self.j, self.x, self.twice))
        values = torch.from_numpy(x).to(torch.float64, copy=True)[None]
        e, w = statistic.tile(values, torch.empty_like(values))
        self.slope = w[0].numpy()
        limit = edge.numpy()
        self.as_row = x > limit[self.rows]
        self.as_column = np.zeros_like(twice)
        if self.walk.symmetric:
            self.as_column = twice & (x > limit[self.columns])
        value, counted = e[0].numpy(), e[0].numpy() > 0 if statistic.counts else np.True_
        for index, valid in ((self.rows, self.as_row), (self.columns, self.as_column)):
            if valid.any():
                total += _summed(index, value * valid, total)
                count += _summed(index, valid & counted, count)

    def push(self, factor: Tensor, gradients: tuple[Tensor, Tensor]) -> None:
        """Add the gradient of the listed pairs."""
        if not self.i:
            return
        from scipy import sparse  # half a second to load, and only mined batches need it

        walk, share = self.walk, factor.double().numpy()
        weights = self.as_row * share[self.rows]
        if walk.symmetric:
            weights = weights + self.as_column * share[self.columns]
        weights = (self.slope * weights).astype(walk.queries.numpy().dtype)
        g = sparse.csr_array((weights, (self.rows, self.columns)), shape=(walk.n, walk.m))
        gradients[0].add_(torch.from_numpy(g @ walk.database.numpy()))
        gradients[1].add_(torch.from_numpy(g.T @ walk.queries.numpy()))
