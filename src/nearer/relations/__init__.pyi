from ._graded import LabelDistributions as LabelDistributions
from ._graded import MultiLabels as MultiLabels
from ._graded import Numbers as Numbers
from ._kinds import Kind as Kind
from ._kinds import kind_of as kind_of
from ._kinds import relation_of as relation_of
from ._labels import ClassLabels as ClassLabels
from ._labels import PartialLabels as PartialLabels
from ._pairs import Pairs as Pairs
from ._pairs import Triplets as Triplets
from ._relation import Relation as Relation
from ._soft import Soft as Soft
from ._tree import Tree as Tree

__all__ = [
    "ClassLabels",
    "Kind",
    "LabelDistributions",
    "MultiLabels",
    "Numbers",
    "Pairs",
    "PartialLabels",
    "Relation",
    "Soft",
    "Tree",
    "Triplets",
    "kind_of",
    "relation_of",
]
