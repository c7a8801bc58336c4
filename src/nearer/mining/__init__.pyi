from ._batch_hard import BatchHard as BatchHard
from ._batch_hard import SemiHard as SemiHard
from ._batch_hard import SemiHardTriplets as SemiHardTriplets
from ._distance_weighted import DistanceWeighted as DistanceWeighted
from ._hardest_fraction import HardestFraction as HardestFraction
from ._hardest_fraction import LargestErrors as LargestErrors
from ._vthm import VTHM as VTHM
