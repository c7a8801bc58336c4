from ._across_streams import AcrossStreams as AcrossStreams
from ._attention_heads import AttentionHeads as AttentionHeads
from ._attention_heads import DecoupledEncoder as DecoupledEncoder
from ._bier import ABIERLoss as ABIERLoss
from ._bier import BIERLoss as BIERLoss
from ._bier import HeadDiversity as HeadDiversity
from ._boosted_heads import BoostedHeads as BoostedHeads
from ._class_tree import ClassTree as ClassTree
from ._deep_pairs import DeepAPIT as DeepAPIT
from ._deep_pairs import DeepAPLLR as DeepAPLLR
from ._deep_pairs import DeepISDML as DeepISDML
from ._deep_pairs import DeepLRML as DeepLRML
from ._deep_pairs import DeepSERAPH as DeepSERAPH
from ._deml import DeMLLoss as DeMLLoss
from ._discrepancy import nn_discrepancy as nn_discrepancy
from ._discrepancy import nn_lambda as nn_lambda
from ._dml_eig import DMLEig as DMLEig
from ._doublet_svm import DoubletSVM as DoubletSVM
from ._energy_confusion import EnergyConfusionLoss as EnergyConfusionLoss
from ._equal import EqualWeightLoss as EqualWeightLoss
from ._facility_location import FacilityLocationLoss as FacilityLocationLoss
from ._following_samplers import AnchorNeighborSampler as AnchorNeighborSampler
from ._following_samplers import RankRangeSampler as RankRangeSampler
from ._gerrymandering import GerrymanderingMetric as GerrymanderingMetric
from ._global_loss import GlobalLoss as GlobalLoss
from ._global_loss import SmartMiningLoss as SmartMiningLoss
from ._hdc import CascadeHeads as CascadeHeads
from ._hdc import HDCLoss as HDCLoss
from ._hdml import HDMLLoss as HDMLLoss
from ._hierarchical_triplet import HierarchicalTripletLoss as HierarchicalTripletLoss
from ._image_batches import ImageBatches as ImageBatches
from ._layer_discrepancies import IntraClassPenalty as IntraClassPenalty
from ._layer_discrepancies import JMMDLoss as JMMDLoss
from ._n_pair_sampler import NPairSampler as NPairSampler
from ._pddm import PairScore as PairScore
from ._pddm import PDDMLoss as PDDMLoss
from ._quadruplet import QuadrupletLoss as QuadrupletLoss
from ._quadruplet import TwoTermQuadrupletLoss as TwoTermQuadrupletLoss
from ._random_triplet import RandomTripletLoss as RandomTripletLoss
from ._rank_range import HardnessController as HardnessController
from ._rank_range import RankRange as RankRange
from ._rebuilding import follow_loss as follow_loss
from ._rebuilding import rebuild as rebuild
from ._rmac import rmac as rmac
from ._spanning_tree import SpanningTree as SpanningTree
from ._synthetic import SyntheticLoss as SyntheticLoss
from ._two_streams import TwoStreams as TwoStreams

__all__ = [
    "ABIERLoss",
    "AcrossStreams",
    "AnchorNeighborSampler",
    "AttentionHeads",
    "BIERLoss",
    "BoostedHeads",
    "CascadeHeads",
    "ClassTree",
    "DMLEig",
    "DeMLLoss",
    "DecoupledEncoder",
    "DeepAPIT",
    "DeepAPLLR",
    "DeepISDML",
    "DeepLRML",
    "DeepSERAPH",
    "DoubletSVM",
    "EnergyConfusionLoss",
    "EqualWeightLoss",
    "FacilityLocationLoss",
    "GerrymanderingMetric",
    "GlobalLoss",
    "HDCLoss",
    "HDMLLoss",
    "HardnessController",
    "HeadDiversity",
    "HierarchicalTripletLoss",
    "ImageBatches",
    "IntraClassPenalty",
    "JMMDLoss",
    "NPairSampler",
    "PDDMLoss",
    "PairScore",
    "QuadrupletLoss",
    "RandomTripletLoss",
    "RankRange",
    "RankRangeSampler",
    "SmartMiningLoss",
    "SpanningTree",
    "SyntheticLoss",
    "TwoStreams",
    "TwoTermQuadrupletLoss",
    "follow_loss",
    "nn_discrepancy",
    "nn_lambda",
    "rebuild",
    "rmac",
]
