"""The general driver: row panels of S = Q Γᵀ, one stretch of anchors against the whole database at a time.

Any rule, any relation, any miner and two different sets; a small batch is one panel. No q × n array exists unless
it is small: memory is O(n·(d + rows)).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from nearer._tracing import readable
from nearer.pairwise._reduce import Reduction, joined, shares
from nearer.pairwise._rule import Gradient, Miner, Pairing, Panel, Rule, Select, Terms
from nearer.relations import ClassLabels
from nearer.relations._shared import TableRelation

# Elements of one panel: large enough for the matrix product, small enough for the caches and the memory bound.
_PANEL_ELEMENTS = 1 << 20
_UNIT = 1 + 1e-4  # unit vectors, with what rounding may add
_forced_tile: ContextVar[int | None] = ContextVar("forced_tile", default=None)


@contextmanager
def tile_size(rows: int | None) -> Iterator[None]:
    """Force the number of rows (and columns) of every tile inside the block, in this thread only; for tests.

    >>> with tile_size(64):
    ...     forced_tile()
    64
    """
    token = _forced_tile.set(rows)
    try:
        yield
    finally:
        _forced_tile.reset(token)


def forced_tile() -> int | None:
    """The tile size that `tile_size` has forced, if any."""
    return None if torch.compiler.is_compiling() else _forced_tile.get()  # it cannot be traced


def panel_rows(q: int, n: int) -> int:
    """How many anchors make a panel."""
    return max(1, min(q, forced_tile() or _PANEL_ELEMENTS // max(n, 1)))


def nothing(pairing: Pairing, anchor_values: Tensor | None = None) -> Gradient:
    """A value and a gradient of zero."""
    q, d = pairing.queries, pairing.database
    anchor = None if anchor_values is None else torch.zeros_like(anchor_values)
    return Gradient(q.new_zeros(()), torch.zeros_like(q), None if pairing.shared else torch.zeros_like(d), anchor)


def class_mask(rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
    """(r, n): 1 where two labels are equal, 0 elsewhere."""
    same = torch.empty((rows.shape[0], columns.shape[0]), dtype=dtype, device=rows.device)
    # Single precision compares five times as fast, and holds whole numbers up to 2²⁴.
    if (
        same.numel() > 4096
        and readable(columns)
        and int(columns.amin()) > -(1 << 24)
        and int(columns.amax()) < 1 << 24
    ):
        rows, columns = rows.float(), columns.float()
    return torch.eq(rows.unsqueeze(1), columns.unsqueeze(0), out=same)


def squared_distances(similarity: Tensor, queries: Tensor, database: Tensor, diagonal: int | None) -> Tensor:
    """D² = ‖q‖² + ‖γ‖² − 2qᵀγ, at least 0; pairs so near that this cancels are computed again directly.

    Query i is database item i + `diagonal` (None: nobody): that pair needs no digits.
    """
    # In float32 the difference is good to 1e-7 of the lengths: below 1e-3 of them, D would lose digits.
    a, b = queries.square().sum(1)[:, None], database.square().sum(1)[None, :]
    squared = torch.sub(a, similarity, alpha=2).add_(b)
    if diagonal is not None:
        squared.diagonal(diagonal).fill_(torch.inf)
    limit = 1e-3 * (float(a.amax()) + float(b.amax()))
    if float(squared.amin()) < limit:
        i, j = (squared < torch.add(a, b).mul_(1e-3)).nonzero(as_tuple=True)
        for part in range(0, len(i), 1 << 16):
            rows, columns = i[part : part + (1 << 16)], j[part : part + (1 << 16)]
            squared[rows, columns] = (queries[rows] - database[columns]).square_().sum(1)
    if diagonal is not None:
        squared.diagonal(diagonal).fill_(0.0)
    return squared


def iterate_panels(
    pairing: Pairing, *, distance: bool = False, select: Select | None = None, anchor_values: Tensor | None = None
) -> Iterator[Panel]:
    """The panels of a batch in order, with only the selected pairs if there is a selection."""
    queries, n = pairing.queries, len(pairing.database)
    step = panel_rows(len(queries), n)
    for start in range(0, len(queries) if n else 0, step):
        panel = _panel(pairing, slice(start, min(start + step, len(queries))), distance, anchor_values)
        yield panel if select is None else panel.chosen(*select(panel))


def _panel(pairing: Pairing, anchors: slice, distance: bool, anchor_values: Tensor | None) -> Panel:
    """Some anchors against the whole database."""
    queries, database, relation, diagonal = pairing.queries, pairing.database, pairing.relation, pairing.offset
    whole = anchors.start == 0 and anchors.stop == queries.shape[0]
    q = queries if whole else queries[anchors]
    if diagonal is not None:
        diagonal += anchors.start
    similarity = torch.mm(q, database.T)
    if type(relation) is ClassLabels and relation.database.device == q.device:
        own = relation.queries if whole else relation.queries[anchors]
        positive, negative = class_mask(own, relation.database, q.dtype), None
    else:
        positive, negative = (mask.to(q.device) for mask in relation.masks(anchors, slice(None)))
    if diagonal is not None:
        # By index, never by value: a duplicate of the anchor is a genuine positive.
        positive.diagonal(diagonal).fill_(0)
        if negative is not None and not isinstance(
            relation, TableRelation
        ):  # labels never oppose an item to itself
            negative.diagonal(diagonal).fill_(0)
    return Panel(
        similarity,
        positive,
        negative,
        anchors,
        squared_distances(similarity, q, database, diagonal) if distance else None,
        None if anchor_values is None else anchor_values[anchors],
        bound=_UNIT if pairing.unit else math.inf,
        first=anchors.start if pairing.offset is None else anchors.start + pairing.offset,
        relation=relation,
        diagonal=diagonal,
    )


def by_panels(
    rule: Rule,
    pairing: Pairing,
    *,
    reduction: Reduction,
    miner: Miner | None = None,
    anchor_values: Tensor | None = None,
    gradient: bool = True,
) -> Gradient:
    """Value and gradient of a rule."""
    queries, database, n = pairing.queries, pairing.database, pairing.queries.shape[0]
    select = None if miner is None else miner.prepare(pairing)
    if pairing.shared and pairing.shards is None and panel_rows(n, n) >= n > 0:
        return _small(rule, pairing, reduction, select, anchor_values, gradient)
    sides = reduction == "sides"
    columns = [1.0, 1.0]  # what the positives and the negatives count, for a loss of two sides
    totals = queries.new_zeros((2, 2 if sides else 1))  # values and counts

    def panels() -> Iterator[Panel]:
        return iterate_panels(pairing, distance=rule.distance, select=select, anchor_values=anchor_values)

    if sides:
        # The two denominators must be known before the first weight is used: one pass only to count.
        for panel in panels():
            totals[1] += _counted(rule.value(panel)).sum(0)
        columns = shares(reduction, pairing.anchors, Terms(totals[:1], pairing.all_sum(totals[1:])))
    d_queries, d_database = torch.zeros_like(queries), torch.zeros_like(database)
    d_anchor = None if anchor_values is None else torch.zeros_like(anchor_values)
    for panel in panels():
        terms, weight = rule.weigh(panel)
        totals[0] += terms.value.sum(0) if sides else terms.value.sum()
        if reduction in ("active", "tuples"):
            totals[1] += _counted(terms).sum()
        if d_anchor is not None and terms.by_anchor is not None:
            d_anchor[panel.anchors] = terms.by_anchor
        if not gradient:
            continue
        if isinstance(weight, tuple):
            weight = torch.mul(weight[0], columns[0]).add_(weight[1], alpha=columns[1])
        q = queries[panel.anchors]
        d_queries[panel.anchors] = _apply(weight, q, database, rule.distance)
        d_database += _apply(weight.T, database, q, rule.distance)
    totals = pairing.all_sum(totals)
    scale = 1.0
    if not sides:
        columns = shares(reduction, pairing.anchors, Terms(totals[:1], totals[1:]))
        scale = columns[0]
    value = joined(totals[0], columns)
    d_anchor = None if d_anchor is None else d_anchor.mul_(scale)
    if not gradient:
        return Gradient(value, None, None, d_anchor)
    if pairing.shared:
        return Gradient(value, d_queries.add_(d_database).mul_(scale), None, d_anchor)
    return Gradient(value, d_queries.mul_(scale), d_database.mul_(scale), d_anchor)


def _small(
    rule: Rule,
    pairing: Pairing,
    reduction: Reduction,
    select: Select | None,
    anchor_values: Tensor | None,
    gradient: bool,
) -> Gradient:
    """A small batch against itself: the same, with as few operations as possible."""
    z, n = pairing.queries, pairing.queries.shape[0]
    panel = _panel(pairing, slice(0, n), rule.distance, anchor_values)
    if select is not None:
        panel = panel.chosen(*select(panel))
        if anchor_values is None and panel.is_empty():
            return nothing(pairing)  # nothing was mined: no pair, no loss
    terms, weight = rule.weigh(panel)
    columns = shares(reduction, n, terms)
    value, scale = joined(terms.value.sum(0), columns), columns[0]
    anchor = None if terms.by_anchor is None else terms.by_anchor * scale
    if not gradient:
        return Gradient(value, None, anchor_values=anchor)
    if isinstance(weight, tuple):
        weight, scale = torch.mul(weight[0], columns[0]).add_(weight[1], alpha=columns[1]), 1.0
    d_z = _apply(torch.add(weight, weight.T), z, z, rule.distance)
    return Gradient(value, d_z if scale == 1 else d_z.mul_(scale), anchor_values=anchor)


def _counted(terms: Terms) -> Tensor:
    if terms.count is None:
        raise TypeError("a reduction that counts needs terms with a count")
    return terms.count


def _apply(weight: Tensor, own: Tensor, other: Tensor, distance: bool) -> Tensor:
    """Gradient by `own` (r, d) of Σ weight·s, or of Σ weight·D², against `other` (n, d)."""
    pull = torch.mm(weight, other)
    if not distance:
        return pull
    return (weight.sum(1)[:, None] * own).sub_(pull).mul_(2)
