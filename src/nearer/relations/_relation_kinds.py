"""The kind of labels that a relation was made for."""

from __future__ import annotations

from nearer.relations._distribution import LabelDistributions
from nearer.relations._kinds import Kind
from nearer.relations._labels import ClassLabels
from nearer.relations._multilabel import MultiLabels
from nearer.relations._numbers import Numbers
from nearer.relations._pairs import Pairs, Triplets
from nearer.relations._partial import PartialLabels
from nearer.relations._relation import Relation
from nearer.relations._soft import Soft

__all__ = ["kind_of_relation"]

_OF_RELATIONS: dict[type[Relation], Kind] = {
    ClassLabels: "classes",
    PartialLabels: "partial",
    MultiLabels: "sets",
    LabelDistributions: "distributions",
    Numbers: "numbers",
    Pairs: "pairs",
    Triplets: "pairs",
}


def kind_of_relation(relation: Relation) -> Kind:
    """The kind of the labels behind a relation; of the one inside where it is `Soft`."""
    return _OF_RELATIONS[type(relation.relation if isinstance(relation, Soft) else relation)]
