from ._alternating import Plan as Plan
from ._alternating import alternate as alternate
from ._checkpoints import Checkpoints as Checkpoints
from ._logs import CSVLog as CSVLog
from ._logs import JSONLinesLog as JSONLinesLog
from ._logs import MLflowLog as MLflowLog
from ._logs import ProgressBar as ProgressBar
from ._logs import TensorBoardLog as TensorBoardLog
from ._logs import WandbLog as WandbLog
from ._loop import train as train
from ._neighborhood_angular import NeighborhoodAngular as NeighborhoodAngular
from ._neighborhood_angular import PseudoLabelAngular as PseudoLabelAngular
from ._photo_batches import PhotoBatches as PhotoBatches
from ._processes import joint_loss as joint_loss
from ._processes import process_group as process_group
from ._riemannian import RiemannianAdam as RiemannianAdam
from ._riemannian import RiemannianSGD as RiemannianSGD
from ._samplers import ClassSampler as ClassSampler
from ._samplers import HierarchicalSampler as HierarchicalSampler
from ._samplers import UniformSampler as UniformSampler
from ._schedules import cosine as cosine
from ._schedules import linear as linear
from ._step import EncoderStep as EncoderStep
from ._step import TensorBatches as TensorBatches
from ._step import backward_in_chunks as backward_in_chunks
from ._step import parameter_groups as parameter_groups

__all__ = [
    "CSVLog",
    "Checkpoints",
    "ClassSampler",
    "EncoderStep",
    "HierarchicalSampler",
    "JSONLinesLog",
    "MLflowLog",
    "NeighborhoodAngular",
    "PhotoBatches",
    "Plan",
    "ProgressBar",
    "PseudoLabelAngular",
    "RiemannianAdam",
    "RiemannianSGD",
    "TensorBatches",
    "TensorBoardLog",
    "UniformSampler",
    "WandbLog",
    "alternate",
    "backward_in_chunks",
    "cosine",
    "joint_loss",
    "linear",
    "parameter_groups",
    "process_group",
    "train",
]
