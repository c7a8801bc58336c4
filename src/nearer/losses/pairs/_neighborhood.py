"""The latent-neighbour-set loss: the k-NN vote itself is what is trained.

`L(x, y) = max_h [S(x, h) + Δ(y, h)] − max_{h: Δ(y,h)=0} S(x, h)`, `S(x, h) = −Σ_{i∈h} D(x, x_i)`, |h| = k (eq 7).
It is not a loss on pairs: which 2k pairs of a query get a weight, +1 or −1, is decided by the two inferences of
`neighborhood_inference`. They run without gradient, tile by tile; the gradient goes through those pairs only.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nearer._checks import check_choice, check_int, check_number
from nearer._tracing import leave_to_eager
from nearer._validation import as_labels, as_tensor, check_finite
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pairs._distances import sum_weighted_squares
from nearer.losses.pairs._neighborhood_inference import (
    NeighborSets,
    choose_sets,
    choose_sets_greedily,
    nearest_by_class,
)
from nearer.losses.pairs._pair_loss import check_embeddings, check_range
from nearer.pairwise._shared import full_precision

Inference = Literal["exact", "greedy"]
NeighborhoodReduction = Literal["mean", "sum", "active"]

# Entries of a tile of distances: 32 MB in single precision.
_TILE = 1 << 23


class _Excluded(NamedTuple):
    """Pairs (row of the queries, row of the database) that are one item, sorted by the first."""

    rows: Tensor
    columns: Tensor


def set_weights(sets: NeighborSets) -> tuple[Tensor, Tensor, Tensor]:
    """`a_j = 1[j ∈ h*] − 1[j ∈ ĥ]` as a list: query rows, database rows and ±1, none for queries without h*.

    >>> one = torch.tensor([[4, 7]])
    >>> sets = NeighborSets(one, torch.tensor([[7, 9]]), torch.ones(1), torch.tensor([True]))
    >>> [part.tolist() for part in set_weights(sets)]
    [[0, 0], [4, 9], [1.0, -1.0]]
    """
    same = sets.targeted[:, :, None] == sets.augmented[:, None, :]
    alone = torch.cat([~same.any(dim=2), ~same.any(dim=1)], dim=1) & sets.feasible[:, None]
    rows, places = alone.nonzero(as_tuple=True)
    columns = torch.cat([sets.targeted, sets.augmented], dim=1)[rows, places]
    weights = torch.where(places < sets.targeted.shape[1], 1.0, -1.0)
    return rows, columns, weights


class NeighborhoodLoss(nn.Module):
    """By how much the best set of k neighbours that votes for the right class is beaten by a wrong one, eq 7.

    `loss(embeddings, labels)` is leave-one-out: no item is its own neighbour. With `database` and
    `database_labels` the queries are other items, or the same through another encoder: pairs with equal `ids` and
    `database_ids` are never neighbours. D is the squared Euclidean distance; for any other see
    `from_distances`.

    `task_loss` Λ is a number (the cost of every wrong class) or a matrix (c, c), row: true class, zeros on the
    diagonal, for labels 0..c−1. A set costs the largest Λ over the classes with most votes, so only a strict win
    is free and L bounds the cost of the k-NN vote under every rule for ties. A query for which no set of k items
    is free counts 0 without gradient; `skipped` says how many there were in the last call. `reduction` "mean" is
    over all queries, "active" over those with L > 0. `inference="greedy"` is the published procedure, which is
    not exact for more than two classes.

    >>> loss = NeighborhoodLoss(k=1)
    >>> loss(torch.tensor([[0.0], [2.0], [3.0]]), [0, 0, 1]).item()  # 1: 4 − 1 + 1, 0 needs no more, 2: skipped
    1.3333333730697632
    >>> loss.skipped
    1

    With k = 1 it is the triplet hinge of the nearest positive and the nearest negative. Reference: Trivedi,
    McAllester, Shakhnarovich 2014, and the asymmetric form of it.

    Args:
        k: neighbors that vote.
        task_loss: Λ, the cost of a wrong class: a number, or a matrix (c, c).
        inference: "exact" or "greedy" search for the sets.
        reduction: "mean" over queries, "sum", or "active", the mean over queries with a loss.
    """

    task_loss: Tensor | None

    def __init__(
        self,
        *,
        k: int = 3,
        task_loss: Any = 1.0,
        inference: Inference = "exact",
        reduction: NeighborhoodReduction = "mean",
    ) -> None:
        super().__init__()
        self.k = check_int(k, "k")
        self.inference = check_choice(inference, "inference", ["exact", "greedy"])
        self.reduction = check_choice(reduction, "reduction", ["mean", "sum", "active"])
        self.skipped = 0
        self.constant: float | None = None
        if isinstance(task_loss, int | float):
            self.constant = check_number(task_loss, "task_loss", above=0)
        self.register_buffer("task_loss", None if self.constant is not None else _checked_matrix(task_loss))

    @full_precision
    def forward(
        self,
        embeddings: Tensor,
        labels: Any,
        *,
        database: Tensor | None = None,
        database_labels: Any = None,
        ids: Any = None,
        database_ids: Any = None,
    ) -> Tensor:
        """The loss of `embeddings` (n, d) among themselves, or as queries against `database` (m, d)."""
        leave_to_eager("NeighborhoodLoss cannot be compiled: its sets of neighbors are searched, class by class.")
        queries = _wide(check_embeddings(embeddings, "embeddings"))
        classes = as_labels(labels, "labels", n=len(queries)).to(queries.device)
        if (database is None) != (database_labels is None) or (ids is None) != (database_ids is None):
            raise ParameterError(
                "`database` and `database_labels`, and `ids` and `database_ids`, must be given together."
            )
        if database is None:
            if ids is not None:
                raise ParameterError("`ids` must come with a `database`: a batch leaves each item out by itself.")
            items, item_classes = queries, classes
            own = torch.arange(len(queries), device=queries.device)
            excluded = _Excluded(own, own)
        else:
            items = _wide(check_embeddings(database, "database"))
            if items.shape[1] != queries.shape[1]:
                raise ShapeError(f"`database` must have {queries.shape[1]} columns, got {items.shape[1]}.")
            item_classes = as_labels(database_labels, "database_labels", n=len(items)).to(queries.device)
            excluded = _same_items(ids, database_ids, queries, items)
        dtype = torch.promote_types(queries.dtype, items.dtype)
        queries, items = queries.to(dtype), items.to(dtype)
        if not len(queries) or not len(items):
            return queries.sum() * 0 + items.sum() * 0
        with torch.no_grad():
            sets = self._infer(queries, classes, items, item_classes, excluded)
        rows, columns, weights = set_weights(sets)
        return self._reduce(sets, sum_weighted_squares(queries, items, rows, columns, weights.to(dtype)))

    def from_distances(
        self, distances: Any, labels: Any, database_labels: Any = None, *, own: Any = None
    ) -> Tensor:
        """The loss for any differentiable distances (q, n); `own` (q,) is the column of the query itself or −1.

        Without `database_labels` the matrix is square, of a batch with itself, and the diagonal is left out.
        """
        D = as_tensor(distances, "distances")
        if D.ndim != 2:
            raise ShapeError(f"`distances` must have shape (q, n), got {tuple(D.shape)}.")
        D = _wide(D)
        check_finite(D, "distances")
        classes = as_labels(labels, "labels", n=len(D)).to(D.device)
        if database_labels is None:
            if D.shape[0] != D.shape[1] or own is not None:
                raise ParameterError(
                    f"`database_labels` must be given unless `distances` is a batch with itself, got shape "
                    f"{tuple(D.shape)}."
                )
            item_classes, own = classes, torch.arange(len(D), device=D.device)
        else:
            item_classes = as_labels(database_labels, "database_labels", n=D.shape[1]).to(D.device)
        columns = (
            torch.full((len(D),), -1, device=D.device)
            if own is None
            else as_labels(own, "own", n=len(D)).to(D.device)
        )
        if len(columns) and int(columns.max()) >= D.shape[1]:
            raise ShapeError(f"`own` must point into the {D.shape[1]} columns, got {int(columns.max())}.")
        rows = (columns >= 0).nonzero()[:, 0]
        with torch.no_grad():
            codes, item_codes, n_classes = self._codes(classes, item_classes)
            self._check_k(len(D), D.shape[1], rows)
            hidden = D.detach().clone()
            hidden[rows, columns[rows]] = torch.inf
            sets = self._choose(hidden, codes, item_codes, n_classes)
        i, j, weights = set_weights(sets)
        sums = D.new_zeros(len(D)).index_add(0, i, D[i, j] * weights.to(D.dtype))
        return self._reduce(sets, sums)

    def _reduce(self, sets: NeighborSets, sums: Tensor) -> Tensor:
        # Sums of near ties may come out as −1e-7; the loss is not negative.
        values = (sums + torch.where(sets.feasible, sets.task_loss, 0.0).to(sums.dtype)).clamp(min=0)
        self.skipped = int((~sets.feasible).sum())
        total = values.sum()
        if self.reduction == "sum":
            return total
        count = len(values) if self.reduction == "mean" else int((values > 0).sum())
        return total / max(count, 1)

    def _codes(self, classes: Tensor, item_classes: Tensor) -> tuple[Tensor, Tensor, int]:
        """Class codes 0..c−1 of both sides; a matrix of task losses says which code is which class."""
        both = torch.cat([classes, item_classes])
        if self.task_loss is None:
            names, codes = torch.unique(both, return_inverse=True)
            return codes[: len(classes)], codes[len(classes) :], len(names)
        c = len(self.task_loss)
        check_range(both, c, "the rows of `task_loss`")
        return classes, item_classes, c

    def _check_k(self, q: int, n: int, excluded_rows: Tensor) -> None:
        left_out = int(torch.bincount(excluded_rows).max()) if len(excluded_rows) else 0
        if q and self.k > n - left_out:
            raise ParameterError(
                f"`k` must be at most the {max(n - left_out, 0)} items that can be neighbours, got {self.k}. "
                f"Take a larger batch or a smaller k."
            )

    def _choose(self, distances: Tensor, codes: Tensor, item_codes: Tensor, n_classes: int) -> NeighborSets:
        near = nearest_by_class(distances, item_codes, n_classes, self.k)
        if self.task_loss is None:
            own = codes[:, None] == torch.arange(n_classes, device=codes.device)
            penalties = torch.where(own, 0.0, float(self.constant or 0)).to(distances.dtype)
        else:
            penalties = self.task_loss.to(distances.dtype)[codes]
        return (choose_sets if self.inference == "exact" else choose_sets_greedily)(near, penalties)

    def _infer(
        self, queries: Tensor, classes: Tensor, items: Tensor, item_classes: Tensor, excluded: _Excluded
    ) -> NeighborSets:
        """Both sets of every query, a tile of queries at a time; items sorted by class are slices of a tile."""
        codes, item_codes, n_classes = self._codes(classes, item_classes)
        self._check_k(len(queries), len(items), excluded.rows)
        item_codes, order = item_codes.sort(stable=True)
        position = torch.empty_like(order)
        position[order] = torch.arange(len(order), device=order.device)
        center = items.mean(dim=0) if len(items) else 0.0
        rows, sorted_items = queries - center, items[order] - center
        squares = sorted_items.square().sum(dim=1)
        step = max(1, _TILE // max(1, len(items), 4 * n_classes * self.k))
        parts = []
        for start in range(0, max(len(rows), 1), step):
            # ‖q‖² is the same for every set of k items, so it may be left out.
            tile = torch.addmm(squares, rows[start : start + step], sorted_items.T, alpha=-2.0)
            first, last = torch.searchsorted(
                excluded.rows, torch.tensor([start, start + len(tile)], device=excluded.rows.device)
            ).tolist()
            tile[excluded.rows[first:last] - start, position[excluded.columns[first:last]]] = torch.inf
            sets = self._choose(tile, codes[start : start + step], item_codes, n_classes)
            parts.append(sets._replace(targeted=order[sets.targeted], augmented=order[sets.augmented]))
        return NeighborSets(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def extra_repr(self) -> str:
        shown = f"matrix {tuple(self.task_loss.shape)}" if self.task_loss is not None else f"{self.constant:g}"
        return f"k={self.k}, task_loss={shown}, inference={self.inference!r}, reduction={self.reduction!r}"


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _checked_matrix(value: Any) -> Tensor:
    matrix = _wide(as_tensor(value, "task_loss"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"`task_loss` must be a number or a square matrix, got shape {tuple(matrix.shape)}.")
    check_finite(matrix, "task_loss")
    if bool((matrix < 0).any()) or bool((matrix.diagonal() != 0).any()):
        raise ParameterError("`task_loss` must not be negative and must be 0 on the diagonal.")
    return matrix.detach().clone()


def _same_items(ids: Any, database_ids: Any, queries: Tensor, items: Tensor) -> _Excluded:
    """All pairs with equal ids, without a q×n comparison."""
    if ids is None:
        none = queries.new_empty(0, dtype=torch.int64)
        return _Excluded(none, none)
    q, device = len(queries), queries.device
    mine = as_labels(ids, "ids", n=q).to(device)
    theirs, order = as_labels(database_ids, "database_ids", n=len(items)).to(device).sort(stable=True)
    first = torch.searchsorted(theirs, mine)
    counts = torch.searchsorted(theirs, mine, right=True) - first
    rows = torch.repeat_interleave(torch.arange(q, device=counts.device), counts)
    within = torch.arange(len(rows), device=rows.device) - torch.repeat_interleave(
        counts.cumsum(0) - counts, counts
    )
    return _Excluded(rows, order[first[rows] + within])
