"""Multi-labels: every item has a set of labels; the more two sets share, the nearer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._validation import as_tensor, check_number
from nearer.exceptions import LabelError, ShapeError
from nearer.relations.relation import ALL, TableRelation, all_known, set_table, threshold

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


class MultiLabels(TableRelation):
    """Degree = Jaccard index |A∩B| / |A∪B| of the two label sets (two empty sets: 1); every pair is known.

    A pair is positive if its degree is at least `positive_from`; the default takes every pair that shares a
    label.

    >>> MultiLabels([[1, 1, 0], [0, 1, 0], [0, 0, 1]]).degrees()[0].tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, labels: Any, database_labels: Any = None, *, positive_from: float = 1e-6) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        database = None if database_labels is None else as_indicator(database_labels, "database_labels")
        set_table(self, as_indicator(labels, "labels"), database, "number of labels")

    def between(self, queries: Tensor, database: Tensor) -> MultiLabels:
        return MultiLabels(queries, database, positive_from=self.positive_from)

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        rows, columns = self.queries[queries], self.database[database]
        shared = rows @ columns.T
        union = rows.sum(1)[:, None] + columns.sum(1)[None, :] - shared
        degree = torch.where(union > 0, shared / union.clamp(min=1), 1.0)
        return degree, all_known(degree)

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        return threshold(*self.degrees(queries, database), self.positive_from)
