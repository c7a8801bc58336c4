"""What a pair costs: every pair-based loss of the field as a weight on pairs.

Each is a module, `XLoss(...)(embeddings, labels)`, and a function, `x(embeddings, labels, ...)`. Each can be asked
for its `weights` on a matrix of similarities, computes itself in tiles, has a `dense` twin by the printed formula,
takes a miner, a database of other items, any relation, and (in `ShardedLoss`) the joint batch of many processes.
"""

from nearer.losses._adapters import (
    SentenceTransformersLoss,
    for_transformers,
    mined_indices,
    relation_from_indices,
)
from nearer.losses._memory import CrossBatchMemory, DatabaseMemory
from nearer.losses.layers._jrs import IntraClassPenalty, JMMDLoss, JRDLoss, JRSLoss, class_layer
from nearer.losses.layers._layer_input import LayerInput
from nearer.losses.layers._layer_kernels import (
    Gaussian,
    Laplace,
    MomentGenerating,
    Polynomial,
    mean_squared_distance,
)
from nearer.losses.layers._taps import tapped
from nearer.losses.pairs._angular import AngularLoss, AngularTripletLoss, angular, angular_triplet
from nearer.losses.pairs._angular_triplets import (
    ProjectedAngularLoss,
    angular_factor_gradient,
    angular_margins,
    projected_angular,
    tangent_weight,
)
from nearer.losses.pairs._asymmetric_regularizers import asymmetric_regularizer
from nearer.losses.pairs._binomial import BinomialDevianceLoss, binomial_deviance
from nearer.losses.pairs._circle import CircleLoss, circle
from nearer.losses.pairs._contrastive import (
    ContrastiveLoss,
    DistanceContrastiveLoss,
    contrastive,
    distance_contrastive,
)
from nearer.losses.pairs._energy_confusion import EnergyConfusionLoss, energy_confusion
from nearer.losses.pairs._equal import EqualWeightLoss, equal_weight
from nearer.losses.pairs._facility_location import FacilityLocationLoss, choose_medoids, facility_location
from nearer.losses.pairs._global_loss import GlobalLoss, SmartMiningLoss, global_statistics
from nearer.losses.pairs._hierarchical_triplet import HierarchicalTripletLoss, hierarchical_triplet
from nearer.losses.pairs._histogram import HistogramLoss, histogram
from nearer.losses.pairs._lifted import (
    GeneralizedLiftedLoss,
    LiftedStructureLoss,
    generalized_lifted,
    lifted_structure,
)
from nearer.losses.pairs._margin import MarginLoss, margin
from nearer.losses.pairs._n_pairs import NPairsLoss, n_pairs
from nearer.losses.pairs._neighborhood import NeighborhoodLoss, neighborhood, neighborhood_of_distances
from nearer.losses.pairs._pair_loss import PairLoss, ShardedLoss
from nearer.losses.pairs._quadruplet import QuadrupletLoss, TwoTermQuadrupletLoss, quadruplet, two_term_quadruplet
from nearer.losses.pairs._ranking import FastAPLoss, SmoothAPLoss, fast_ap, smooth_ap
from nearer.losses.pairs._raw import MultiSimilarityLoss, RAWLoss, multi_similarity, raw
from nearer.losses.pairs._relation_alignment import RelationAlignmentLoss, relation_alignment
from nearer.losses.pairs._row_loss import RowLoss
from nearer.losses.pairs._softmax import (
    InfoNCELoss,
    NCALoss,
    NTXentLoss,
    SupConLoss,
    info_nce,
    nca,
    nt_xent,
    supcon,
)
from nearer.losses.pairs._squared_contrastive import SquaredContrastiveLoss, squared_contrastive
from nearer.losses.pairs._triplet import (
    BatchHardTripletLoss,
    PairSemiHardTripletLoss,
    RandomTripletLoss,
    SemiHardTripletLoss,
    TripletLoss,
    batch_hard_triplet,
    pair_semi_hard_triplet,
    random_triplet,
    semi_hard_triplet,
    triplet,
)
from nearer.losses.proxies._margin_softmax import AMSoftmaxLoss, ArcFaceLoss, NormalizedSoftmaxLoss
from nearer.losses.proxies._proxy_anchor import ProxyAnchorLoss
from nearer.losses.proxies._proxy_loss import ProxyLoss, ShardedProxies
from nearer.losses.proxies._proxy_nca import ProxyNCALoss
from nearer.losses.proxies._soft_triple import SoftTripleLoss
from nearer.losses.systems._bier import ABIERLoss, BIERLoss, HeadDiversity, decorrelate
from nearer.losses.systems._deml import DeMLLoss, activation_product, branch_separation
from nearer.losses.systems._hdc import CascadeHeads, HDCLoss
from nearer.losses.systems._hdml import HDMLLoss, harder_negatives
from nearer.losses.systems._pddm import PairScore, PDDMLoss
from nearer.losses.systems._reversal import reverse_gradient
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
    "activation_product",
    "angular",
    "angular_factor_gradient",
    "angular_margins",
    "angular_triplet",
    "asymmetric_regularizer",
    "batch_hard_triplet",
    "binomial_deviance",
    "branch_separation",
    "choose_medoids",
    "circle",
    "class_layer",
    "contrastive",
    "decorrelate",
    "distance_contrastive",
    "energy_confusion",
    "equal_weight",
    "facility_location",
    "fast_ap",
    "for_transformers",
    "generalized_lifted",
    "global_statistics",
    "harder_negatives",
    "hierarchical_triplet",
    "histogram",
    "info_nce",
    "lifted_structure",
    "margin",
    "mean_squared_distance",
    "mined_indices",
    "multi_similarity",
    "n_pairs",
    "nca",
    "neighborhood",
    "neighborhood_of_distances",
    "nt_xent",
    "pair_semi_hard_triplet",
    "projected_angular",
    "quadruplet",
    "random_triplet",
    "raw",
    "relation_alignment",
    "relation_from_indices",
    "reverse_gradient",
    "semi_hard_triplet",
    "smooth_ap",
    "squared_contrastive",
    "supcon",
    "tangent_weight",
    "tapped",
    "triplet",
    "two_term_quadruplet",
]
