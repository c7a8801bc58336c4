"""Class labels: one class per item, or none where it is not known."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_labels
from nearer.relations._relation import ALL, TableRelation, all_known, set_table


class ClassLabels(TableRelation):
    """Degree 1 for two items of one class, 0 otherwise; every pair is known. Any integers are classes.

    >>> positive, negative = ClassLabels([3, 3, 7]).masks()
    >>> positive.int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]

    Args:
        labels: classes, (n,).
        database_labels: classes of the database, (m,); the same items if None.
    """

    read = staticmethod(as_labels)

    def __init__(self, labels: Any, database_labels: Any = None) -> None:
        set_table(self, labels, database_labels)

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        degree = (self.queries[queries, None] == self.database[None, database]).float()
        return degree, all_known(degree)

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        positive = self.queries[queries, None] == self.database[None, database]
        return positive, ~positive


class PartialLabels(TableRelation):
    """As `ClassLabels`, but a pair is known only if both labels are; the label `unknown` (−1) marks the others.

    >>> positive, negative = PartialLabels([0, 0, 1, -1]).masks()
    >>> positive.int().tolist()[0], negative.int().tolist()[0]
    ([1, 1, 0, 0], [0, 0, 1, 0])

    Args:
        labels: classes, (n,).
        database_labels: classes of the database, (m,); the same items if None.
        unknown: the label of rows without one.
    """

    read = staticmethod(as_labels)

    def __init__(self, labels: Any, database_labels: Any = None, *, unknown: int = -1) -> None:
        self.unknown = check_int(unknown, "unknown", minimum=-(2**62))
        set_table(self, labels, database_labels)

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        rows, columns = self.queries[queries, None], self.database[None, database]
        return (rows == columns).float(), (rows != self.unknown) & (columns != self.unknown)

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        rows, columns = self.queries[queries, None], self.database[None, database]
        same = rows == columns
        known = (rows != self.unknown) & (columns != self.unknown)
        return same & known, ~same & known
