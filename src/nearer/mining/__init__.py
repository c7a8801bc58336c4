"""Which pairs count: miners give a pair the weight zero, in any pair loss (`loss = RAWLoss(miner=VTHM())`).

A miner is prepared once per batch and then chooses in every row panel; its choice never depends on how the batch is
cut. The row-wise rules are also plain functions from masks to masks (`mine_*`).
"""

from nearer.mining._batch_hard import BatchHard, mine_batch_hard
from nearer.mining._class_tree import ClassTree
from nearer.mining._distance_weighted import DistanceWeighted
from nearer.mining._hardest_fraction import HardestFraction
from nearer.mining._largest_errors import LargestErrors
from nearer.mining._neighborhood import mine_neighborhood, mine_signed
from nearer.mining._partners import draw_partners
from nearer.mining._random_pairs import RandomPairs
from nearer.mining._rank_range import HardnessController, RankRange
from nearer.mining._semi_hard import SemiHard, SemiHardTriplets, mine_semi_hard
from nearer.mining._spanning_tree import SpanningTree
from nearer.mining._vthm import VTHM, mine_valid_triplets

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
    "draw_partners",
    "mine_batch_hard",
    "mine_neighborhood",
    "mine_semi_hard",
    "mine_signed",
    "mine_valid_triplets",
]
