"""The general engine: row panels of S = Q Γᵀ, one stretch of anchors against the whole database at a time.

A row-statistic loss is one function from a panel to the value of each anchor and the weight G = ∂L/∂S of each
pair. This engine feeds it panels, so that any relation, any miner and two different sets work, and no q × n
array exists unless it is small. Memory is O(n·(d + rows)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from nearer.relations import Relation
from nearer.relations._relation import TableRelation

__all__ = [
    "AllSum",
    "Gradient",
    "Miner",
    "Pairing",
    "Panel",
    "Reduction",
    "RowRule",
    "Rows",
    "Select",
    "by_panels",
    "tile_size",
]

Reduction = Literal["sum", "mean", "active", "tuples", "sides"]

# Elements of one panel: large enough for the matrix product, small enough for the caches and the memory bound.
_PANEL_ELEMENTS = 1 << 20
_forced_tile: int | None = None
_UNIT = 1 + 1e-4  # unit vectors, with what rounding may add


@contextmanager
def tile_size(rows: int | None) -> Iterator[None]:
    """Force the number of rows (and columns) of every tile inside the block; for tests and for tuning.

    >>> with tile_size(64):
    ...     forced_tile()
    64
    """
    global _forced_tile
    before = _forced_tile
    _forced_tile = rows
    try:
        yield
    finally:
        _forced_tile = before


def forced_tile() -> int | None:
    """The tile size that `tile_size` has forced, if any."""
    return _forced_tile


@dataclass(frozen=True)
class Pairing:
    """Who meets whom: queries, database, their relation, and which database items the queries themselves are.

    Query i is database item i + `offset`; with `offset` None the two sets are different things. `shared` says
    that both are one tensor, whose gradient is then the sum of both roles.
    """

    queries: Tensor  # (q, d)
    database: Tensor  # (n, d)
    relation: Relation
    offset: int | None = None
    unit: bool = False  # all rows have length one (or zero), so no similarity exceeds 1

    @property
    def shared(self) -> bool:
        return self.queries is self.database

    def joint(self) -> Pairing:
        """The whole batch of which this may be one process's part; for what must be known of all anchors."""
        relation = self.relation
        if (
            self.offset is None
            or len(self.queries) == len(self.database)
            or not isinstance(relation, TableRelation)
        ):
            return self
        everyone = relation.between(relation.database, relation.database)
        return Pairing(self.database, self.database, everyone, 0, self.unit)


@dataclass(frozen=True)
class Panel:
    """Some anchors against the whole database: what a loss or a miner sees."""

    similarity: Tensor  # (r, n)
    positive: Tensor  # (r, n) mask, self-pairs removed
    negative: Tensor  # (r, n) mask
    anchors: slice  # which queries these rows are
    squared: Tensor | None = None  # (r, n) squared distances, for the losses that ask for them
    anchor_values: Tensor | None = None  # (r,) one number per anchor that the loss learns (margin's β)
    # For reduction "sides": 1/active positives, 1/active negatives; None if the panel is the whole batch and the
    # loss can count for itself.
    scales: tuple[float, float] | None = (1.0, 1.0)
    bound: float = math.inf  # no |similarity| exceeds it
    first: int = 0  # the first anchor's number in the joint batch; anchors.start unless the batch is sharded
    relation: Relation | None = None  # whose degrees a loss may ask for; the masks are all that most need

    @property
    def numbers(self) -> Tensor:
        """(r,) the anchors' numbers in the joint batch, which random draws belong to."""
        return torch.arange(self.first, self.first + len(self.similarity), device=self.similarity.device)


@dataclass(frozen=True)
class Rows:
    """What a loss makes of a panel, before the reduction."""

    value: Tensor  # (r,)
    weight: Tensor  # (r, n): ∂value/∂s, or ∂value/∂D² for a distance loss
    active: Tensor | None = None  # (r,) terms that are not zero
    valid: Tensor | None = None  # (r,) terms that there are
    sides: tuple[Tensor, Tensor] | None = None  # (r,) active positive and negative terms
    anchor_weight: Tensor | None = None  # (r,): ∂value/∂anchor_values


@dataclass
class Gradient:
    """A loss and its gradient by each input; `database` is None when the two sets are one tensor."""

    value: Tensor
    queries: Tensor | None
    database: Tensor | None = None
    anchor_values: Tensor | None = None


class RowRule(Protocol):
    """A row-statistic loss as the engine sees it."""

    @property
    def distance(self) -> bool:
        """Whether panels must hold squared distances."""
        ...

    def rows(self, panel: Panel) -> Rows:
        """The value of each anchor and the weight of each pair."""
        ...


Select = Callable[[Panel], tuple[Tensor, Tensor]]


class Miner(Protocol):
    """Chooses pairs; those not chosen get the weight zero."""

    def prepare(self, pairing: Pairing) -> Select:
        """Learn what must be known of the whole batch (draws, thresholds), and return the choice for a panel.

        The choice must not depend on how the batch is cut into panels.
        """
        ...


class AllSum(Protocol):
    """Sums a tensor over all processes."""

    def __call__(self, tensor: Tensor) -> Tensor:
        """The sum, the same in every process."""
        ...


def panel_rows(q: int, n: int) -> int:
    """How many anchors make a panel."""
    return min(q, max(1, _forced_tile or _PANEL_ELEMENTS // n))


def squared_distances(similarity: Tensor, queries: Tensor, database: Tensor, diagonal: int | None) -> Tensor:
    """D² = ‖q‖² + ‖γ‖² − 2qᵀγ, clamped at 0; pairs so near that this cancels are computed again directly.

    Query i is database item i + `diagonal` (None: nobody): that pair needs no digits.
    """
    a, b = queries.square().sum(1)[:, None], database.square().sum(1)[None, :]
    scale = a + b
    squared = torch.sub(scale, similarity, alpha=2).clamp_(min=0)
    # In float32 the difference above is good to 1e-7 of the scale: below 1e-3 of it, D would lose digits.
    near = squared < 1e-3 * scale
    if diagonal is not None:
        near.diagonal(diagonal).fill_(False)
    if bool(near.any()):
        i, j = near.nonzero(as_tuple=True)
        for part in range(0, len(i), 1 << 16):
            rows, columns = i[part : part + (1 << 16)], j[part : part + (1 << 16)]
            squared[rows, columns] = (queries[rows] - database[columns]).square_().sum(1)
    return squared


def iterate_panels(
    pairing: Pairing, *, distance: bool = False, select: Select | None = None, anchor_values: Tensor | None = None
) -> Iterator[Panel]:
    """The panels of a batch in order, with only the selected pairs if there is a selection."""
    queries, database = pairing.queries, pairing.database
    step = panel_rows(len(queries), len(database))
    for start in range(0, len(queries), step):
        anchors = slice(start, min(start + step, len(queries)))
        q = queries[anchors]
        similarity = q @ database.T
        positive, negative = pairing.relation.masks(anchors, slice(None))
        if positive.device != q.device:
            positive, negative = positive.to(q.device), negative.to(q.device)
        if pairing.offset is not None:
            # By index, never by value: a duplicate of the anchor is a genuine positive.
            positive.diagonal(start + pairing.offset).fill_(False)
            if not isinstance(pairing.relation, TableRelation):  # labels never set an item against itself
                negative.diagonal(start + pairing.offset).fill_(False)
        diagonal = None if pairing.offset is None else start + pairing.offset
        squared = squared_distances(similarity, q, database, diagonal) if distance else None
        first = start + (pairing.offset or 0)
        values = None if anchor_values is None else anchor_values[anchors]
        bound = _UNIT if pairing.unit else math.inf
        panel = Panel(
            similarity,
            positive,
            negative,
            anchors,
            squared,
            values,
            bound=bound,
            first=first,
            relation=pairing.relation,
        )
        if select is not None:
            positive, negative = select(panel)
            panel = replace(panel, positive=positive, negative=negative)
        yield panel


def by_panels(
    rule: RowRule,
    pairing: Pairing,
    *,
    reduction: Reduction,
    miner: Miner | None = None,
    anchor_values: Tensor | None = None,
    gradient: bool = True,
    total_anchors: int | None = None,
    all_sum: AllSum | None = None,
) -> Gradient:
    """Value and gradient of a row-statistic loss.

    `total_anchors` and `all_sum` belong to the sharded form: the number of anchors of the whole batch, and the
    sum of a tensor over all processes.
    """
    queries, database = pairing.queries, pairing.database
    select = None if miner is None else miner.prepare(pairing)
    if pairing.shared and all_sum is None and panel_rows(len(queries), len(database)) == len(queries) > 0:
        return _one_panel(rule, pairing, reduction, select, anchor_values, gradient)
    scales = (1.0, 1.0)
    if reduction == "sides":
        # The two denominators must be known before the first weight is used: one pass only to count.
        counts = queries.new_zeros(2)
        for panel in iterate_panels(pairing, distance=rule.distance, select=select, anchor_values=anchor_values):
            sides = rule.rows(panel).sides
            if sides is None:
                raise TypeError(f"{type(rule).__name__} does not count its sides.")
            counts += torch.stack([side.sum() for side in sides])
        counts = counts if all_sum is None else all_sum(counts)
        scales = (1 / max(float(counts[0]), 1.0), 1 / max(float(counts[1]), 1.0))

    value = queries.new_zeros(2)  # the sum, and the terms that the reduction counts
    d_queries = torch.zeros_like(queries) if gradient else None
    d_database = torch.zeros_like(database) if gradient and not pairing.shared else None
    d_anchor = None if anchor_values is None else torch.zeros_like(anchor_values)
    target = d_queries if pairing.shared else d_database
    for panel in iterate_panels(pairing, distance=rule.distance, select=select, anchor_values=anchor_values):
        rows = rule.rows(replace(panel, scales=scales) if reduction == "sides" else panel)
        value[0] += rows.value.sum()
        counted = {"active": rows.active, "tuples": rows.valid}.get(reduction)
        if counted is not None:
            value[1] += counted.sum()
        if d_anchor is not None and rows.anchor_weight is not None:
            d_anchor[panel.anchors] = rows.anchor_weight
        if d_queries is None or target is None:
            continue
        q, weight = queries[panel.anchors], rows.weight
        d_queries[panel.anchors] += _apply(weight, q, database, rule.distance)
        target += _apply(weight.T, database, q, rule.distance)
    value = value if all_sum is None else all_sum(value)
    scale = _denominator(reduction, value[1], len(queries) if total_anchors is None else total_anchors)
    for tensor in (d_queries, d_database, d_anchor):
        if tensor is not None and reduction not in ("sum", "sides"):
            tensor *= scale
    return Gradient(value[0] * scale, d_queries, d_database, d_anchor)


def _one_panel(
    rule: RowRule,
    pairing: Pairing,
    reduction: Reduction,
    select: Select | None,
    anchor_values: Tensor | None,
    gradient: bool,
) -> Gradient:
    """A small batch against itself: the same, with as few operations as possible."""
    z = pairing.queries
    (panel,) = iterate_panels(pairing, distance=rule.distance, select=select, anchor_values=anchor_values)
    if select is not None and anchor_values is None and not bool(panel.negative.any() | panel.positive.any()):
        return Gradient(z.new_zeros(()), torch.zeros_like(z))  # nothing was mined: no pair, no loss
    rows = rule.rows(replace(panel, scales=None) if reduction == "sides" else panel)
    counted = {"active": rows.active, "tuples": rows.valid}.get(reduction)
    scale = _denominator(reduction, None if counted is None else counted.sum(), len(z))
    d_z = None
    if gradient:
        d_z = _apply(rows.weight + rows.weight.T, z, z, rule.distance).mul_(scale)
    anchor = None if rows.anchor_weight is None else rows.anchor_weight * scale
    return Gradient(rows.value.sum().mul_(scale), d_z, anchor_values=anchor)


def _apply(weight: Tensor, own: Tensor, other: Tensor, distance: bool) -> Tensor:
    """Gradient by `own` (r, d) of Σ weight·s, or of Σ weight·D², against `other` (n, d)."""
    pull = weight @ other
    if not distance:
        return pull
    return (weight.sum(1)[:, None] * own).sub_(pull).mul_(2)


def _denominator(reduction: Reduction, counted: Tensor | None, anchors: int) -> float:
    if reduction == "mean":
        return 1.0 / max(anchors, 1)
    if reduction in ("active", "tuples") and counted is not None:
        return 1.0 / max(float(counted), 1.0)
    return 1.0
