"""Label distributions: every item describes each label to a degree; degrees sum to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_matrix
from nearer.exceptions import LabelError
from nearer.relations._difference import Difference, find_difference
from nearer.relations._relation import GradedRelation, set_difference, set_table

__all__ = ["LabelDistributions"]


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

    def __init__(
        self,
        labels: Any,
        database_labels: Any = None,
        *,
        positive_from: float = 0.5,
        function: str | Callable[[Tensor, Tensor], Tensor] | Difference = "l1",
    ) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        database = None if database_labels is None else as_distribution(database_labels, "database_labels")
        set_table(self, as_distribution(labels, "labels"), database, "number of labels")
        set_difference(
            self,
            function
            if isinstance(function, Difference)
            else find_difference(function, "distributions", self.queries),
        )

    def between(self, queries: Tensor, database: Tensor) -> LabelDistributions:
        return LabelDistributions(queries, database, positive_from=self.positive_from, function=self.difference)
