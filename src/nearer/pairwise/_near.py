"""The positives of a walk: what the head of a statistic may ask of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nearer.pairwise._rule import Edges
from nearer.pairwise._walk import Block, Walk

# Up to so many positive pairs their similarities are the leaves of the head's graph; beyond, blocks are made again.
_LEAVES = 1 << 22


class Near:
    """Sums over each anchor's positives, by small blocks; every result is (n,) in the order of the walk.

    Functions get similarities (c, r, k), or squared distances if the statistic says so, and whatever numbers per
    anchor they ask for, shaped to fit.

    >>> from nearer.losses import RAWLoss  # the head of its statistic asks a Near for sums over positives
    >>> RAWLoss().statistic(1.0).head.__annotations__["near"]
    'Near'

    Args:
        walk: the walk over the batch.
        distance: whether functions get squared distances.
        anchor_values: numbers of each anchor that the loss learns.
    """

    def __init__(self, walk: Walk, *, distance: bool = False, anchor_values: Tensor | None = None) -> None:
        self.walk = walk
        self.distance = distance
        self.blocks = walk.blocks()
        self.count = walk.positives
        self.negatives = walk.negatives
        self.anchor_values = anchor_values
        self._masks = [block.mask for block in self.blocks]
        self._leaves: list[Tensor] | None = None
        self._roots: tuple[Tensor, Tensor] | None = None
        if sum(block.rows.numel() * block.columns.shape[1] for block in self.blocks) <= _LEAVES:
            self._leaves = [self._measure(block, walk.queries, walk.database) for block in self.blocks]
        self._silent = False
        self._place = self._places()

    def _measure(self, block: Block, queries: Tensor, database: Tensor) -> Tensor:
        """The similarities of a block, or its squared distances."""
        own = block.take(queries)
        other = own if block.square else database[block.columns]
        s = torch.bmm(own, other.transpose(1, 2))
        if not self.distance:
            return s
        a, b = own.square().sum(2)[:, :, None], other.square().sum(2)[:, None, :]
        squared = (a + b - 2 * s).clamp(min=0)
        # As everywhere: what nearly cancels is computed again, pair by pair.
        with torch.no_grad():
            scale = 1e-3 * (a + b)
            near = squared + (1 - block.mask) * scale.amax()
        if bool(near.amin() < scale.amax()):
            c, i, j = (near < scale).nonzero(as_tuple=True)
            squared = squared.index_put((c, i, j), (own[c, i] - other[c, j]).square().sum(1))
        return squared

    def _places(self) -> Tensor | None:
        """Where among the rows of all blocks each anchor is; None if they are the anchors in order."""
        if len(self.blocks) == 1 and self.blocks[0].span is not None:
            return None
        total = sum(block.rows.numel() for block in self.blocks)
        position = torch.full((self.walk.n,), total, device=self.walk.queries.device)
        at = 0
        for block in self.blocks:
            numbers = torch.arange(at, at + block.rows.numel(), device=position.device).view(block.rows.shape)
            real = slice(None) if block.real is None else block.real
            position[block.rows[real]] = numbers[real]
            at += block.rows.numel()
        return position

    def sum(self, function: Callable[..., Tensor], *anchors: Tensor) -> Tensor:
        """Σ_P function(s, …)."""
        return self._each(lambda s, mask, *own: (function(s, *own) * mask).sum(2), 0.0, anchors)

    def tally(self, condition: Callable[..., Tensor], *anchors: Tensor) -> Tensor:
        """How many positives meet a condition; a constant of the gradient."""
        with torch.no_grad():
            return self.sum(condition, *anchors)

    def logsumexp(self, function: Callable[..., Tensor], *anchors: Tensor) -> Tensor:
        """log Σ_P e^{function(s, …)}, −∞ for an anchor without a positive."""

        def reduced(s: Tensor, mask: Tensor, *own: Tensor) -> Tensor:
            some = (mask > 0).any(2)
            x = function(s, *own).masked_fill(mask == 0, -math.inf)
            return torch.where(some, torch.where(some[:, :, None], x, 0.0).logsumexp(2), -math.inf)

        return self._each(reduced, -math.inf, anchors)

    def least(self) -> Tensor:
        """min_P s, ∞ for an anchor without a positive."""
        with torch.no_grad():
            return self._each(lambda s, mask: s.masked_fill(mask == 0, math.inf).amin(2), math.inf, ())

    def _each(self, reduced: Callable[..., Tensor], fill: float, anchors: tuple[Tensor, ...]) -> Tensor:
        nobody = self.walk.queries.new_full((self.walk.n if self._silent or not self.blocks else 1,), fill)
        if self._silent or not self.blocks:
            return nobody
        parts = []
        for number, block in enumerate(self.blocks):
            own = [block.take(values)[:, :, None] for values in anchors]
            if self._leaves is not None:
                parts.append(reduced(self._leaves[number], self._masks[number], *own).reshape(-1))
                continue
            queries, database = self._roots or (self.walk.queries, self.walk.database)

            def made(
                q: Tensor, d: Tensor, *own: Tensor, block: Block = block, mask: Tensor = self._masks[number]
            ) -> Any:
                return reduced(self._measure(block, q, d), mask, *own).reshape(-1)

            if torch.is_grad_enabled():
                parts.append(checkpoint(made, queries, database, *own, use_reentrant=False))
            else:
                parts.append(made(queries, database, *own))
        return parts[0] if self._place is None else torch.cat([*parts, nobody])[self._place]

    def silent(self) -> Near:
        """The same without any positive's part, for what depends on counts only."""
        other = copy.copy(self)
        other._silent = True
        return other

    def select(self, edges: Edges, high: Tensor) -> None:
        """Only the positives that a threshold miner chooses, given the best negative of each anchor."""
        masks = []
        for number, block in enumerate(self.blocks):
            s = block.similarity(self.walk) if self._leaves is None or self.distance else self._leaves[number]
            edge, best = (block.take(values)[:, :, None] for values in (edges.edge, high))
            masks.append(block.mask * edges.choose(s.detach(), edge, best))
        self._masks = masks
        self.count = self.sum(torch.ones_like).detach()

    def roots(self) -> list[Tensor]:
        """What the head must be differentiated by: the similarities, or the embeddings where these are too many."""
        if self._leaves is not None:
            self._leaves = [leaf.detach().requires_grad_() for leaf in self._leaves]
            return self._leaves
        queries = self.walk.queries.detach().requires_grad_()
        database = queries if self.walk.symmetric else self.walk.database.detach().requires_grad_()
        self._roots = queries, database
        return [queries] if self.walk.symmetric else [queries, database]

    def push(self, gradients: tuple[Tensor, Tensor], slopes: list[Tensor], scale: float) -> None:
        """Add the gradient by the positives, from the slopes by `roots`."""
        if self._leaves is None:
            for total, slope in zip(gradients, slopes, strict=False):
                total.add_(slope, alpha=scale)
            return
        # On unit vectors D² = 2 − 2s; what points along a vector is projected away by its normalisation.
        factor = -2 * scale if self.distance else scale
        for block, slope in zip(self.blocks, slopes, strict=True):
            self.walk.push_block(*gradients, block, slope * factor)
