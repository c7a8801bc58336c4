"""Degrees as soft weights: a pair counts as a positive by the share of its degree and as a negative by the rest."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from nearer._checks import check_int
from nearer.exceptions import LabelError
from nearer.relations._relation import ALL, GradedRelation, Relation, TableRelation

__all__ = ["Soft"]


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
