from ._batch_hard import BatchHard as BatchHard
from ._class_tree import ClassTree as ClassTree
from ._distance_weighted import DistanceWeighted as DistanceWeighted
from ._hardest_fraction import HardestFraction as HardestFraction
from ._largest_errors import LargestErrors as LargestErrors
from ._random_pairs import RandomPairs as RandomPairs
from ._rank_range import HardnessController as HardnessController
from ._rank_range import RankRange as RankRange
from ._semi_hard import SemiHard as SemiHard
from ._semi_hard import SemiHardTriplets as SemiHardTriplets
from ._spanning_tree import SpanningTree as SpanningTree
from ._vthm import VTHM as VTHM

__all__ = [
    "VTHM",
    "BatchHard",
    "ClassTree",
    "DistanceWeighted",
    "HardestFraction",
    "HardnessController",
    "LargestErrors",
    "RandomPairs",
    "RankRange",
    "SemiHard",
    "SemiHardTriplets",
    "SpanningTree",
]
