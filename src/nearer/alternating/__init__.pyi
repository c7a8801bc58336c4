from ._deep_pairs import DeepAPIT as DeepAPIT
from ._deep_pairs import DeepAPLLR as DeepAPLLR
from ._deep_pairs import DeepISDML as DeepISDML
from ._deep_pairs import DeepLRML as DeepLRML
from ._deep_pairs import DeepSERAPH as DeepSERAPH
from ._loop import AlternatingLearner as AlternatingLearner
from ._loop import BelievedAngular as BelievedAngular
from ._loop import NeighborhoodAngular as NeighborhoodAngular
from ._loop import Plan as Plan
from ._loop import alternate as alternate

__all__ = [
    "AlternatingLearner",
    "BelievedAngular",
    "DeepAPIT",
    "DeepAPLLR",
    "DeepISDML",
    "DeepLRML",
    "DeepSERAPH",
    "NeighborhoodAngular",
    "Plan",
    "alternate",
]
