"""Relations with degrees: label sets, label distributions and numbers, near to the degree that they agree."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer._validation import as_matrix, as_tensor, check_finite
from nearer.exceptions import LabelError, ShapeError
from nearer.relations._difference import Difference, find_difference, l1
from nearer.relations._relation import ALL, GradedRelation, Relation, TableRelation, set_difference, set_table


def as_indicator(value: Any, name: str) -> Tensor:
    """A 0/1 matrix as float32."""
    tensor = as_tensor(value, name)
    if tensor.ndim != 2:
        raise ShapeError(f"`{name}` must be a 0/1 matrix of shape (n, labels), got {tuple(tensor.shape)}.")
    table = tensor.to(torch.float32)
    if bool(((table != 0) & (table != 1)).any()):
        raise LabelError(f"`{name}` must hold only 0 and 1. For probabilities use relations.LabelDistributions.")
    return table


class MultiLabels(GradedRelation):
    """Degree = Jaccard index |A∩B| / |A∪B| of the two label sets (two empty sets: 1); every pair is known.

    `function` chooses another degree, `1 − g/largest`: "l1" (g = number of labels that differ, largest q), "cosine"
    of the label vectors, or a function of your own of two rows. A pair is positive if its degree is at least
    `positive_from`; the default takes every pair that shares a label (with "l1", every pair that agrees on at least
    one label).

    >>> MultiLabels([[1, 1, 0], [0, 1, 0], [0, 0, 1]]).degrees()[0].tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Args:
        labels: a 0/1 matrix, (n, q).
        database_labels: that of the database; the same items if None.
        positive_from: the degree from which a pair is positive.
        function: how different two rows are, by name or as a function.
    """

    read = staticmethod(as_indicator)

    def __init__(
        self,
        labels: Any,
        database_labels: Any = None,
        *,
        positive_from: float = 1e-6,
        function: str | Callable[[Tensor, Tensor], Tensor] = "jaccard",
    ) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        set_table(self, labels, database_labels)
        set_difference(self, find_difference(function, "sets", self.queries))


def as_distribution(value: Any, name: str) -> Tensor:
    """Rows that are non-negative and sum to one."""
    table = as_matrix(value, name)
    if bool((table < 0).any()) or bool(((table.sum(1) - 1).abs() > 1e-3).any()):
        raise LabelError(f"each row of `{name}` must be non-negative and sum to 1. Divide the rows by their sums.")
    return table


class LabelDistributions(GradedRelation):
    """Degree = the intersection Σₖ min(pₖ, qₖ) = 1 − ½‖p − q‖₁; every pair is known.

    `function` chooses another degree, `1 − g/largest`: "hellinger" (squared), "jensen_shannon", "kullback_leibler"
    (symmetric, bounded), "chebyshev", "cosine", or a function of your own of two rows. A pair is positive if its
    degree is at least `positive_from`.

    >>> LabelDistributions([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]).degrees()[0].tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]

    Args:
        labels: rows that sum to one, (n, q).
        database_labels: those of the database; the same items if None.
        positive_from: the degree from which a pair is positive.
        function: how different two rows are, by name or as a function.
    """

    read = staticmethod(as_distribution)

    def __init__(
        self,
        labels: Any,
        database_labels: Any = None,
        *,
        positive_from: float = 0.5,
        function: str | Callable[[Tensor, Tensor], Tensor] = "l1",
    ) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        set_table(self, labels, database_labels)
        set_difference(self, find_difference(function, "distributions", self.queries))


def as_numbers(value: Any, name: str) -> Tensor:
    """Finite numbers (n,) as a table (n, 1) of float64."""
    tensor = as_tensor(value, name).to(torch.float64)
    tensor = tensor[:, None] if tensor.ndim == 1 else tensor
    if tensor.ndim != 2 or tensor.shape[1] != 1:
        raise ShapeError(f"`{name}` must be numbers of shape (n,), got {tuple(tensor.shape)}.")
    check_finite(tensor, name)
    return tensor


class Numbers(GradedRelation):
    """Degree = 1 − |y − y'|/span, at least 0; `span` is the range of the numbers unless it is given.

    A pair is positive if its degree is at least `positive_from`.

    >>> Numbers([0.0, 1.0, 4.0]).degrees()[0].tolist()
    [[1.0, 0.75, 0.0], [0.75, 1.0, 0.25], [0.0, 0.25, 1.0]]

    Args:
        values: numbers, (n,).
        database_values: those of the database; the same items if None.
        span: the difference of degree 0; the range of the numbers if None.
        positive_from: the degree from which a pair is positive.
    """

    columns = "columns"
    names = ("values", "database_values")
    read = staticmethod(as_numbers)

    def __init__(
        self, values: Any, database_values: Any = None, *, span: float | None = None, positive_from: float = 0.9
    ) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        set_table(self, values, database_values)
        if span is None:
            both = torch.cat([self.queries, self.database])
            span = float(both.max() - both.min()) if both.numel() else 1.0
            span = span if span > 0 else 1.0  # all equal: every degree is 1
        set_difference(self, Difference(l1, check_number(span, "span", above=0.0), 4.0))


class Soft(TableRelation):
    """A graded relation whose degrees weigh pairs, for any pair loss: `loss(embeddings, Soft(MultiLabels(Y)))`.

    The loss is the mean of the losses at the thresholds `(t − ½)/levels`, t = 1..levels. A pair of degree d is a
    positive at the share d of them (to 1/(2·levels)) and a negative at the others, so in a loss that is a sum over
    pairs it weighs exactly d and 1 − d. Losses with a log-sum-exp, a hinge or mining keep their own shape at each
    threshold. The cost is that of `levels` losses.

    >>> from nearer.relations._graded import MultiLabels
    >>> [round(share, 2) for share, _ in Soft(MultiLabels([[1, 1], [1, 0]]), levels=4).layers()]
    [0.25, 0.25, 0.25, 0.25]

    Args:
        relation: a graded relation.
        levels: thresholds at which the loss is taken.
    """

    def __init__(self, relation: Relation, *, levels: int = 4) -> None:
        if not isinstance(relation, GradedRelation):
            raise LabelError(
                f"`relation` must have degrees between 0 and 1 (MultiLabels, LabelDistributions, Numbers, Tree), "
                f"got {type(relation).__name__}, which knows only yes and no."
            )
        self.relation = relation
        self.levels = check_int(levels, "levels")
        self.queries, self.database = relation.queries, relation.database
        self.n_queries, self.n_database = relation.n_queries, relation.n_database
        self.largest, self.farthest, self.attainable = relation.largest, relation.farthest, relation.attainable

    def layers(self) -> list[tuple[float, Relation]]:
        result: list[tuple[float, Relation]] = []
        for number in range(self.levels):
            layer = copy.copy(self.relation)
            layer.positive_from = (number + 0.5) / self.levels
            result.append((1 / self.levels, layer))
        return result

    def between(self, queries: Tensor, database: Tensor) -> Soft:
        inner = self.relation.between(queries, database)
        return Soft(inner, levels=self.levels)

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        return self.relation.degrees(queries, database)

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        return self.relation.masks(queries, database)
