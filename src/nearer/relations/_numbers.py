"""Numbers: the targets of a regression; the smaller the difference, the nearer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_tensor, check_finite
from nearer.exceptions import ShapeError
from nearer.relations._difference import Difference, l1
from nearer.relations._relation import GradedRelation, set_difference, set_table

__all__ = ["Numbers"]


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

    def __init__(
        self, values: Any, database_values: Any = None, *, span: float | None = None, positive_from: float = 0.9
    ) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        database = None if database_values is None else as_numbers(database_values, "database_values")
        set_table(self, as_numbers(values, "values"), database, "columns")
        if span is None:
            both = torch.cat([self.queries, self.database])
            span = float(both.max() - both.min()) if both.numel() else 1.0
            span = span if span > 0 else 1.0  # all equal: every degree is 1
        set_difference(self, Difference(l1, check_number(span, "span", above=0.0), 4.0))

    def between(self, queries: Tensor, database: Tensor) -> Numbers:
        return Numbers(queries, database, span=self.largest, positive_from=self.positive_from)
