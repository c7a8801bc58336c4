"""Multi-labels: every item has a set of labels; the more two sets share, the nearer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_tensor
from nearer.exceptions import LabelError, ShapeError
from nearer.relations._difference import Difference, find_difference
from nearer.relations._relation import GradedRelation, set_difference, set_table

__all__ = ["MultiLabels"]


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

    def __init__(
        self,
        labels: Any,
        database_labels: Any = None,
        *,
        positive_from: float = 1e-6,
        function: str | Callable[[Tensor, Tensor], Tensor] | Difference = "jaccard",
    ) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        database = None if database_labels is None else as_indicator(database_labels, "database_labels")
        set_table(self, as_indicator(labels, "labels"), database, "number of labels")
        set_difference(
            self,
            function if isinstance(function, Difference) else find_difference(function, "sets", self.queries),
        )

    def between(self, queries: Tensor, database: Tensor) -> MultiLabels:
        return MultiLabels(queries, database, positive_from=self.positive_from, function=self.difference)
