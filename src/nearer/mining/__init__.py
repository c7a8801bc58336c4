"""Which pairs count: miners give a pair the weight zero, in any pair loss (`loss = RAWLoss(miner=VTHM())`).

A miner is prepared once per batch and then chooses in every row panel; its choice never depends on how the batch is
cut. The row-wise rules are also plain functions from masks to masks (`mine_*`).
"""

from nearer.mining.batch_hard import BatchHard, mine_batch_hard
from nearer.mining.class_tree import ClassTree
from nearer.mining.distance_weighted import DistanceWeighted
from nearer.mining.hardest_fraction import HardestFraction
from nearer.mining.largest_errors import LargestErrors
from nearer.mining.neighbourhood import mine_neighbourhood, mine_signed
from nearer.mining.partners import draw_partners
from nearer.mining.random_pairs import RandomPairs
from nearer.mining.rank_range import HardnessController, RankRange, mine_rank_range
from nearer.mining.semi_hard import SemiHard, SemiHardTriplets, mine_semi_hard, mine_semi_hard_triplets
from nearer.mining.spanning_tree import SpanningTree
from nearer.mining.vthm import VTHM, mine_valid_triplets

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
    "mine_neighbourhood",
    "mine_rank_range",
    "mine_semi_hard",
    "mine_semi_hard_triplets",
    "mine_signed",
    "mine_valid_triplets",
]
