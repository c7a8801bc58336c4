from ._bier import HeadDiversity as HeadDiversity
from ._hdc import CascadeHeads as CascadeHeads
from ._pddm import PairScore as PairScore
from ._streams import AcrossStreams as AcrossStreams
from ._synthetic import SyntheticLoss as SyntheticLoss

__all__ = ["AcrossStreams", "CascadeHeads", "HeadDiversity", "PairScore", "SyntheticLoss"]
