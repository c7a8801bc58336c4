from ._class_sets import ClassSets as ClassSets
from ._same_pair import SamePair as SamePair

__all__ = [
    "ClassSets",
    "SamePair",
]
