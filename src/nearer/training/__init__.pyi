from ._batches import ImageBatches as ImageBatches
from ._batches import TensorBatches as TensorBatches
from ._caching import backward_in_chunks as backward_in_chunks
from ._checkpoints import Checkpoints as Checkpoints
from ._following_samplers import AnchorNeighborSampler as AnchorNeighborSampler
from ._following_samplers import RankRangeSampler as RankRangeSampler
from ._logs import CSVLog as CSVLog
from ._logs import JSONLinesLog as JSONLinesLog
from ._logs import MLflowLog as MLflowLog
from ._logs import TensorBoardLog as TensorBoardLog
from ._logs import WandbLog as WandbLog
from ._loop import train as train
from ._parameters import freeze as freeze
from ._parameters import freeze_for as freeze_for
from ._parameters import parameter_groups as parameter_groups
from ._processes import joint_loss as joint_loss
from ._processes import process_group as process_group
from ._progress import ProgressBar as ProgressBar
from ._rebuilding import follow_loss as follow_loss
from ._rebuilding import rebuild as rebuild
from ._riemannian import RiemannianAdam as RiemannianAdam
from ._riemannian import RiemannianSGD as RiemannianSGD
from ._samplers import ClassSampler as ClassSampler
from ._samplers import HierarchicalSampler as HierarchicalSampler
from ._samplers import NPairSampler as NPairSampler
from ._samplers import UniformSampler as UniformSampler
from ._schedules import cosine as cosine
from ._schedules import linear as linear
from ._schedules import milestones as milestones
from ._step import EncoderStep as EncoderStep
from ._streams import TwoStreams as TwoStreams

__all__ = [
    "AnchorNeighborSampler",
    "CSVLog",
    "Checkpoints",
    "ClassSampler",
    "EncoderStep",
    "HierarchicalSampler",
    "ImageBatches",
    "JSONLinesLog",
    "MLflowLog",
    "NPairSampler",
    "ProgressBar",
    "RankRangeSampler",
    "RiemannianAdam",
    "RiemannianSGD",
    "TensorBatches",
    "TensorBoardLog",
    "TwoStreams",
    "UniformSampler",
    "WandbLog",
    "backward_in_chunks",
    "cosine",
    "follow_loss",
    "freeze",
    "freeze_for",
    "joint_loss",
    "linear",
    "milestones",
    "parameter_groups",
    "process_group",
    "rebuild",
    "train",
]
