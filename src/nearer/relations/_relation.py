"""What a relation is: how near two items should be, and whether that is known, asked for one tile at a time."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor

from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.relations._difference import Difference

ALL = slice(None)


class Relation(ABC):
    """Between `n_queries` queries and `n_database` database items: a degree in [0, 1] and what is known.

    A tile is asked for by two slices or index tensors, so the whole n_queries × n_database matrix never has
    to exist. Self-pairs are the business of whoever asks: a relation does not know which items are the same.

    >>> from nearer.relations import ClassLabels
    >>> relation = ClassLabels([0, 0, 1])
    >>> isinstance(relation, Relation), relation.degrees()[0].tolist()
    (True, [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """

    n_queries: int
    n_database: int
    largest: float = 2.0  # what the relation function g is at degree 0; for classes the L1 of two one-hot rows
    farthest: float = 2.0  # the squared distance of unit vectors that degree 0 asks for, and that all can meet
    attainable: bool = True  # whether unit vectors can meet `farthest·(1 − degree)` for all pairs at once

    @abstractmethod
    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        """The tile's degree (q, n) in [0, 1], and the mask of the pairs for which it is known."""

    @abstractmethod
    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        """The tile's positive and negative pairs, two masks (q, n) that never overlap."""

    def layers(self) -> list[tuple[float, Relation]]:
        """Shares and relations whose losses add up to the loss of this one; only soft relations have several."""
        return [(1.0, self)]

    def to(self, device: torch.device | str) -> Self:
        """The same relation with its tables on a device; itself if they are there already."""
        seen: dict[int, Any] = {}
        try:
            device = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ParameterError(
                f"`device` must be a device of torch, such as 'cpu' or 'cuda:0': {error}."
            ) from error

        def move(value: Any) -> Any:
            if id(value) in seen:  # a table that stands for both sides stays one
                return seen[id(value)]
            if isinstance(value, tuple):
                parts = tuple(move(entry) for entry in value)
                return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
            moved = value.to(device) if isinstance(value, Tensor | Relation) else value
            return seen.setdefault(id(value), moved)

        parts = {name: move(value) for name, value in vars(self).items()}
        if all(parts[name] is value for name, value in vars(self).items()):
            return self
        twin = copy.copy(self)
        vars(twin).update(parts)
        return twin


class TableRelation(Relation):
    """A relation that follows from one row of a table per item: labels, label sets, distributions."""

    queries: Tensor
    database: Tensor

    columns = "columns"  # what the two tables must have in common
    names = ("labels", "database_labels")

    @staticmethod
    def read(value: Any, name: str) -> Tensor:
        """Labels as they come, as a table with a row for each item; a table stays as it is."""
        return value

    def is_on(self, device: torch.device) -> bool:
        """Whether both tables are on a device."""
        return self.queries.device == device and self.database.device == device

    def between(self, queries: Tensor, database: Tensor) -> Self:
        """The same relation between two other tables (a memory bank, the shards of a distributed batch)."""
        made = copy.copy(self)
        set_table(made, queries, database)
        return made

    def against(self, other: TableRelation) -> TableRelation:
        """These items as queries, the items of `other` as the database."""
        if type(other) is not type(self):
            raise LabelError(
                f"queries and database must be related by one kind of labels, got {type(self).__name__} and "
                f"{type(other).__name__}."
            )
        return self.between(self.queries, other.queries)


class GradedRelation(TableRelation):
    """A table relation whose degrees follow from a relation function; positive from a threshold on."""

    positive_from: float
    difference: Difference
    columns = "number of labels"

    def degrees(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        degree = self.difference.degree(self.queries[queries], self.database[database])
        return degree, all_known(degree)

    def masks(self, queries: Any = ALL, database: Any = ALL) -> tuple[Tensor, Tensor]:
        degree, known = self.degrees(queries, database)
        positive = degree >= self.positive_from * (1 - 1e-5)  # a third must be a third whatever the rounding
        return positive & known, ~positive & known


def set_difference(relation: GradedRelation, difference: Difference) -> None:
    """Store a relation function and what it asks of unit vectors."""
    relation.difference = difference
    relation.largest = difference.largest
    relation.farthest = difference.farthest
    relation.attainable = difference.attainable


def set_table(relation: TableRelation, labels: Any, database_labels: Any) -> None:
    """Store two tables of equal width in a relation, one for both sides if there are no labels of a database."""
    side, other = relation.names
    relation.queries = relation.read(labels, side)
    relation.database = relation.queries if database_labels is None else relation.read(database_labels, other)
    if relation.database.shape[1:] != relation.queries.shape[1:]:
        raise ShapeError(
            f"queries and database must have the same {relation.columns}, got {tuple(relation.queries.shape[1:])} "
            f"and {tuple(relation.database.shape[1:])}."
        )
    relation.n_queries = relation.queries.shape[0]
    relation.n_database = relation.database.shape[0]


def all_known(degree: Tensor) -> Tensor:
    """The mask of a relation that knows every pair."""
    return torch.ones_like(degree, dtype=torch.bool)
