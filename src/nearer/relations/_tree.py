"""Taxonomies: two items are as near as their deepest common ancestor is deep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_array, as_tensor
from nearer.exceptions import LabelError, ShapeError
from nearer.relations._difference import Difference
from nearer.relations._relation import GradedRelation, set_difference, set_table

NO_LEVEL = "`{}` must have at least one level, got none: every item would be the same."


def tree_levels(paths: Any, *, name: str = "labels") -> list[tuple[str, ...]]:
    """Paths from the root as tuples of names: of texts "family/genus/species", or of one column for each level.

    >>> tree_levels(["Aves/Icteridae", "Aves/Laridae"])
    [('Aves', 'Icteridae'), ('Aves', 'Laridae')]
    """
    if isinstance(paths, Sequence) and not isinstance(paths, str) and all(isinstance(path, str) for path in paths):
        rows = [tuple(part.strip() for part in path.strip("/").split("/")) for path in paths]
    else:
        table = as_array(paths, name)
        if table.ndim == 1 and table.dtype.kind in "UO":
            return tree_levels([str(path) for path in table.tolist()], name=name)
        if table.ndim != 2:
            raise ShapeError(
                f'`{name}` must hold a path for each item, texts such as "family/species" or a column for each '
                f"level (n, levels), got shape {table.shape}."
            )
        rows = [tuple(str(part) for part in row) for row in table.tolist()]
    if rows and not rows[0]:
        raise LabelError(NO_LEVEL.format(name))
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]) or not all(row):
            raise LabelError(
                f"`{name}` must have a name at every one of {len(rows[0])} levels, row {number} is "
                f"{'/'.join(row)!r}. Repeat the last name where a branch ends early."
            )
    return rows


def _of_names(sides: list[list[tuple[str, ...]]]) -> list[Tensor]:
    """The number of every node on the way, (n, levels) for each side; equal paths have equal numbers on both."""
    known: dict[tuple[str, ...], int] = {}
    tables = []
    for rows in sides:
        levels = range(1, len(rows[0]) + 1) if rows else range(0)
        codes = [[known.setdefault(row[:depth], len(known)) for depth in levels] for row in rows]
        tables.append(torch.tensor(codes, dtype=torch.float64).reshape(len(rows), len(levels)))
    return tables


def _of_numbers(sides: list[Tensor]) -> list[Tensor]:
    """The same of tensors, which stay on their device."""
    if len({side.shape[1] for side in sides}) > 1:
        raise ShapeError(
            f"queries and database must have the same number of levels, got {sides[0].shape[1]} and "
            f"{sides[1].shape[1]}."
        )
    table, columns, first = torch.cat(sides), [], 0
    for depth in range(1, table.shape[1] + 1):
        nodes, codes = torch.unique(table[:, :depth], dim=0, return_inverse=True)
        columns.append(codes + first)
        first += len(nodes)
    whole = torch.stack(columns, dim=1).to(torch.float64)
    return list(torch.split(whole, [len(side) for side in sides]))


def _levels_apart(a: Tensor, b: Tensor) -> Tensor:
    """At how many levels two items have left each other."""
    return torch.cdist(a, b, p=0)


class Tree(GradedRelation):
    """Degree = levels that two paths share from the root, divided by all levels; every pair is known.

    The degree is a kernel: unit vectors can have all these distances at once. A pair is positive if its degree is
    at least `positive_from`, by default only items of the same leaf; `Soft(Tree(paths), levels=...)` puts every
    level behind any pair loss, and `ancestors` gives the label sets that RAML takes.

    >>> Tree(["bird/gull", "bird/tern", "fish/cod"]).degrees()[0].tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Args:
        labels: paths from the root, as texts with "/" or as one column for each level, (n, levels).
        database_labels: those of the database; the same items if None.
        positive_from: the degree from which a pair is positive.
    """

    columns = "number of levels"

    def __init__(self, labels: Any, database_labels: Any = None, *, positive_from: float = 1.0) -> None:
        self.positive_from = check_number(positive_from, "positive_from", above=0.0, maximum=1.0)
        sides = [labels] if database_labels is None else [labels, database_labels]
        names = ("labels", "database_labels")
        if all(isinstance(side, Tensor) and side.ndim == 2 for side in sides):
            if not sides[0].shape[1]:
                raise LabelError(NO_LEVEL.format("labels"))
            tables = _of_numbers([as_tensor(side, name) for side, name in zip(sides, names, strict=False)])
        else:
            tables = _of_names([tree_levels(side, name=name) for side, name in zip(sides, names, strict=False)])
        set_table(self, tables[0], tables[1] if len(tables) > 1 else None)
        set_difference(self, Difference(_levels_apart, float(max(1, self.queries.shape[1])), 2.0))

    def ancestors(self) -> Tensor:
        """The nodes on each path as a label set, a 0/1 matrix (n, nodes) without nodes that all share.

        >>> Tree(["bird/gull", "bird/tern"]).ancestors().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        nodes = torch.unique(self.queries)
        sets = (self.queries[:, :, None] == nodes).any(dim=1)
        kept: Tensor = sets[:, ~sets.all(dim=0)].to(torch.float32)
        return kept
