"""What a pair costs: every pair-based loss of the field as a weight on pairs.

Each is a module, `XLoss(...)(embeddings, labels)`. Each can be asked for its `weights` on a matrix of similarities,
computes itself in tiles, has a `dense` twin by the printed formula, takes a miner, a database of other items, any
relation, and (in `ShardedLoss`) the joint batch of many processes.
"""

from nearer.losses._adapters import SentenceTransformersLoss, for_transformers, mined_indices, relation_from_indices
from nearer.losses._memory import CrossBatchMemory, DatabaseMemory
from nearer.losses.layers._jrs import IntraClassPenalty, JMMDLoss, JRDLoss, JRSLoss
from nearer.losses.layers._layer_input import LayerInput
from nearer.losses.layers._layer_kernels import Gaussian, Laplace, MomentGenerating, Polynomial
from nearer.losses.layers._taps import tapped
from nearer.losses.pairs._angular import AngularLoss, AngularTripletLoss
from nearer.losses.pairs._angular_triplets import ProjectedAngularLoss
from nearer.losses.pairs._binomial import BinomialDevianceLoss
from nearer.losses.pairs._circle import CircleLoss
from nearer.losses.pairs._contrastive import ContrastiveLoss
from nearer.losses.pairs._distance_contrastive import DistanceContrastiveLoss
from nearer.losses.pairs._energy_confusion import EnergyConfusionLoss
from nearer.losses.pairs._equal import EqualWeightLoss
from nearer.losses.pairs._facility_location import FacilityLocationLoss, choose_medoids
from nearer.losses.pairs._generalized_lifted import GeneralizedLiftedLoss
from nearer.losses.pairs._global_loss import GlobalLoss, SmartMiningLoss
from nearer.losses.pairs._hierarchical_triplet import HierarchicalTripletLoss
from nearer.losses.pairs._histogram import HistogramLoss
from nearer.losses.pairs._lifted import LiftedStructureLoss
from nearer.losses.pairs._margin import MarginLoss
from nearer.losses.pairs._n_pairs import NPairsLoss
from nearer.losses.pairs._neighborhood import NeighborhoodLoss
from nearer.losses.pairs._pair_loss import PairLoss, ShardedLoss
from nearer.losses.pairs._quadruplet import QuadrupletLoss, TwoTermQuadrupletLoss
from nearer.losses.pairs._ranking import FastAPLoss, SmoothAPLoss
from nearer.losses.pairs._raw import MultiSimilarityLoss, RAWLoss
from nearer.losses.pairs._relation_alignment import RelationAlignmentLoss
from nearer.losses.pairs._row_loss import RowLoss
from nearer.losses.pairs._softmax import InfoNCELoss, NCALoss, NTXentLoss
from nearer.losses.pairs._squared_contrastive import SquaredContrastiveLoss
from nearer.losses.pairs._supcon import SupConLoss
from nearer.losses.pairs._triplet import (
    BatchHardTripletLoss,
    PairSemiHardTripletLoss,
    RandomTripletLoss,
    SemiHardTripletLoss,
    TripletLoss,
)
from nearer.losses.proxies._margin_softmax import AMSoftmaxLoss, ArcFaceLoss, NormalizedSoftmaxLoss
from nearer.losses.proxies._proxy_anchor import ProxyAnchorLoss
from nearer.losses.proxies._proxy_loss import ProxyLoss, ShardedProxies
from nearer.losses.proxies._proxy_nca import ProxyNCALoss
from nearer.losses.proxies._soft_triple import SoftTripleLoss
from nearer.losses.systems._bier import ABIERLoss, BIERLoss, HeadDiversity
from nearer.losses.systems._deml import DeMLLoss
from nearer.losses.systems._hdc import CascadeHeads, HDCLoss
from nearer.losses.systems._hdml import HDMLLoss
from nearer.losses.systems._pddm import PairScore, PDDMLoss
from nearer.losses.systems._streams import AcrossStreams
from nearer.losses.systems._synthetic import SyntheticLoss

__all__ = [
    "ABIERLoss",
    "AMSoftmaxLoss",
    "AcrossStreams",
    "AngularLoss",
    "AngularTripletLoss",
    "ArcFaceLoss",
    "BIERLoss",
    "BatchHardTripletLoss",
    "BinomialDevianceLoss",
    "CascadeHeads",
    "CircleLoss",
    "ContrastiveLoss",
    "CrossBatchMemory",
    "DatabaseMemory",
    "DeMLLoss",
    "DistanceContrastiveLoss",
    "EnergyConfusionLoss",
    "EqualWeightLoss",
    "FacilityLocationLoss",
    "FastAPLoss",
    "Gaussian",
    "GeneralizedLiftedLoss",
    "GlobalLoss",
    "HDCLoss",
    "HDMLLoss",
    "HeadDiversity",
    "HierarchicalTripletLoss",
    "HistogramLoss",
    "InfoNCELoss",
    "IntraClassPenalty",
    "JMMDLoss",
    "JRDLoss",
    "JRSLoss",
    "Laplace",
    "LayerInput",
    "LiftedStructureLoss",
    "MarginLoss",
    "MomentGenerating",
    "MultiSimilarityLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NeighborhoodLoss",
    "NormalizedSoftmaxLoss",
    "PDDMLoss",
    "PairLoss",
    "PairScore",
    "PairSemiHardTripletLoss",
    "Polynomial",
    "ProjectedAngularLoss",
    "ProxyAnchorLoss",
    "ProxyLoss",
    "ProxyNCALoss",
    "QuadrupletLoss",
    "RAWLoss",
    "RandomTripletLoss",
    "RelationAlignmentLoss",
    "RowLoss",
    "SemiHardTripletLoss",
    "SentenceTransformersLoss",
    "ShardedLoss",
    "ShardedProxies",
    "SmartMiningLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SquaredContrastiveLoss",
    "SupConLoss",
    "SyntheticLoss",
    "TripletLoss",
    "TwoTermQuadrupletLoss",
    "choose_medoids",
    "for_transformers",
    "mined_indices",
    "relation_from_indices",
    "tapped",
]
