"""The relation that whatever a user passes as labels means, and the kind of labels that it was made for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer.exceptions import LabelError, ShapeError
from nearer.relations._graded import LabelDistributions, MultiLabels, Numbers, Soft
from nearer.relations._kinds import Kind
from nearer.relations._labels import ClassLabels, PartialLabels
from nearer.relations._pairs import Pairs, Triplets
from nearer.relations._relation import Relation, TableRelation
from nearer.relations._tree import Tree


def relate(
    labels: Any,
    database_labels: Any = None,
    *,
    n: int,
    n_database: int | None = None,
    device: torch.device | None = None,
) -> Relation:
    """The relation between n queries and their database (themselves if there is none) that `labels` describe.

    Plain integers are class labels; anything else comes as a relation of its own. It is brought to `device`, that
    of the embeddings: the one place where labels that came elsewhere are moved.

    >>> type(relate([0, 0, 1], n=3)).__name__
    'ClassLabels'
    """
    if isinstance(labels, Relation):
        relation: Relation = labels
        if database_labels is not None:
            other = database_labels
            if not isinstance(relation, TableRelation):
                raise LabelError(f"{type(relation).__name__} already names its database; drop `database_labels`.")
            if not isinstance(other, TableRelation):
                table = relation.queries
                other = relation.between(table, other if isinstance(other, Tensor) else table.new_tensor(other))
                relation = other
            else:
                relation = relation.against(other)
    else:
        relation = ClassLabels(*(_on(device, side) for side in (labels, database_labels)))
    if relation.n_queries != n:
        raise ShapeError(f"`labels` must have one entry for each of the {n} rows, got {relation.n_queries}.")
    expected = n if n_database is None else n_database
    if relation.n_database != expected:
        raise ShapeError(
            f"`database_labels` must have one entry for each of the {expected} rows, got {relation.n_database}."
        )
    if device is None or (isinstance(relation, TableRelation) and relation.is_on(device)):
        return relation
    return relation.to(device)


def _on(device: torch.device | None, labels: Any) -> Any:
    return labels if device is None or not isinstance(labels, Tensor) else labels.to(device)


_OF_RELATIONS: dict[type[Relation], Kind] = {
    ClassLabels: "classes",
    PartialLabels: "partial",
    MultiLabels: "sets",
    LabelDistributions: "distributions",
    Numbers: "numbers",
    Tree: "sets",  # of the ancestors
    Pairs: "pairs",
    Triplets: "pairs",
}


def kind_of_relation(relation: Relation) -> Kind:
    """The kind of the labels behind a relation; of the one inside where it is `Soft`."""
    return _OF_RELATIONS[type(relation.relation if isinstance(relation, Soft) else relation)]
