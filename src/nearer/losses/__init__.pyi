from ._adapters import SentenceTransformersLoss as SentenceTransformersLoss
from ._adapters import for_transformers as for_transformers
from ._compact import BinaryLoss as BinaryLoss
from ._compact import NestedLoss as NestedLoss
from ._memory import CrossBatchMemory as CrossBatchMemory
from ._memory import DatabaseMemory as DatabaseMemory
from ._vicreg import VICRegLoss as VICRegLoss
from .layers._jrs import JRDLoss as JRDLoss
from .layers._jrs import JRSLoss as JRSLoss
from .layers._layer_kernels import Gaussian as Gaussian
from .layers._layer_kernels import Laplace as Laplace
from .layers._layer_kernels import MomentGenerating as MomentGenerating
from .layers._layer_kernels import Polynomial as Polynomial
from .layers._taps import tapped as tapped
from .pairs._angular import AngularLoss as AngularLoss
from .pairs._angular import AngularTripletLoss as AngularTripletLoss
from .pairs._binomial import BinomialDevianceLoss as BinomialDevianceLoss
from .pairs._circle import CircleLoss as CircleLoss
from .pairs._contrastive import ContrastiveLoss as ContrastiveLoss
from .pairs._contrastive import DistanceContrastiveLoss as DistanceContrastiveLoss
from .pairs._contrastive import SquaredContrastiveLoss as SquaredContrastiveLoss
from .pairs._dynamic_margin import DynamicSoftMarginLoss as DynamicSoftMarginLoss
from .pairs._histogram import HistogramLoss as HistogramLoss
from .pairs._lifted import GeneralizedLiftedLoss as GeneralizedLiftedLoss
from .pairs._lifted import LiftedStructureLoss as LiftedStructureLoss
from .pairs._margin import MarginLoss as MarginLoss
from .pairs._n_pairs import NPairsLoss as NPairsLoss
from .pairs._neighborhood import NeighborhoodLoss as NeighborhoodLoss
from .pairs._pair_loss import PairLoss as PairLoss
from .pairs._pair_loss import ShardedLoss as ShardedLoss
from .pairs._ranked_list import RankedListLoss as RankedListLoss
from .pairs._ranking import FastAPLoss as FastAPLoss
from .pairs._ranking import SmoothAPLoss as SmoothAPLoss
from .pairs._raw import MultiSimilarityLoss as MultiSimilarityLoss
from .pairs._raw import RAWLoss as RAWLoss
from .pairs._relation_alignment import RelationAlignmentLoss as RelationAlignmentLoss
from .pairs._row_loss import RowLoss as RowLoss
from .pairs._softmax import InfoNCELoss as InfoNCELoss
from .pairs._softmax import NCALoss as NCALoss
from .pairs._softmax import NTXentLoss as NTXentLoss
from .pairs._supcon import InstanceLoss as InstanceLoss
from .pairs._supcon import SupConLoss as SupConLoss
from .pairs._triplet import BatchHardTripletLoss as BatchHardTripletLoss
from .pairs._triplet import PairSemiHardTripletLoss as PairSemiHardTripletLoss
from .pairs._triplet import SemiHardTripletLoss as SemiHardTripletLoss
from .pairs._triplet import TripletLoss as TripletLoss
from .pairs._tuplet_margin import TupletMarginLoss as TupletMarginLoss
from .proxies._manifold import ManifoldLoss as ManifoldLoss
from .proxies._margin_softmax import AMSoftmaxLoss as AMSoftmaxLoss
from .proxies._margin_softmax import ArcFaceLoss as ArcFaceLoss
from .proxies._margin_softmax import CosFaceLoss as CosFaceLoss
from .proxies._margin_softmax import NormalizedSoftmaxLoss as NormalizedSoftmaxLoss
from .proxies._p2s_grad import P2SGradLoss as P2SGradLoss
from .proxies._proxy_anchor import ProxyAnchorLoss as ProxyAnchorLoss
from .proxies._proxy_anchor import ProxyNCALoss as ProxyNCALoss
from .proxies._sub_center import SoftTripleLoss as SoftTripleLoss
from .proxies._sub_center import SubCenterArcFaceLoss as SubCenterArcFaceLoss

__all__ = [
    "AMSoftmaxLoss",
    "AngularLoss",
    "AngularTripletLoss",
    "ArcFaceLoss",
    "BatchHardTripletLoss",
    "BinaryLoss",
    "BinomialDevianceLoss",
    "CircleLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CrossBatchMemory",
    "DatabaseMemory",
    "DistanceContrastiveLoss",
    "DynamicSoftMarginLoss",
    "FastAPLoss",
    "Gaussian",
    "GeneralizedLiftedLoss",
    "HistogramLoss",
    "InfoNCELoss",
    "InstanceLoss",
    "JRDLoss",
    "JRSLoss",
    "Laplace",
    "LiftedStructureLoss",
    "ManifoldLoss",
    "MarginLoss",
    "MomentGenerating",
    "MultiSimilarityLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NeighborhoodLoss",
    "NestedLoss",
    "NormalizedSoftmaxLoss",
    "P2SGradLoss",
    "PairLoss",
    "PairSemiHardTripletLoss",
    "Polynomial",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "RAWLoss",
    "RankedListLoss",
    "RelationAlignmentLoss",
    "RowLoss",
    "SemiHardTripletLoss",
    "SentenceTransformersLoss",
    "ShardedLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SquaredContrastiveLoss",
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "TripletLoss",
    "TupletMarginLoss",
    "VICRegLoss",
    "for_transformers",
    "tapped",
]
