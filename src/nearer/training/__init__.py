"""How the geometry moves: one small loop, samplers, schedules, checkpoints, logs, many processes.

`train(step, sampler, epochs=...)` repeats a step over the batches that a sampler names. `EncoderStep` is the usual
step: encode, take the loss, move the parameters. Everything can be killed and resumed to the same last bit.
"""

from nearer.training._alternating import AlternatingLearner, AlternatingStep, Plan, alternate
from nearer.training._batches import ImageBatches, TensorBatches
from nearer.training._caching import backward_in_chunks
from nearer.training._checkpoints import Checkpoints
from nearer.training._comparators import (
    DeepClusterStep,
    ExemplarStep,
    InstanceStep,
    RotNetStep,
    SyntheticStep,
)
from nearer.training._following_samplers import AnchorNeighborSampler, RankRangeSampler
from nearer.training._logs import CSVLog, JSONLinesLog, MLflowLog, TensorBoardLog, WandbLog
from nearer.training._loop import Callback, History, Moment, TrainingInterrupted, train
from nearer.training._neighborhood_angular import BelievedAngular, NeighborhoodAngular
from nearer.training._parameters import freeze, freeze_for, parameter_groups, unfreeze
from nearer.training._processes import JointLoss, joint_loss, process_group
from nearer.training._progress import ProgressBar
from nearer.training._rebuilding import follow_loss, rebuild
from nearer.training._riemannian import Descent, RiemannianAdam, RiemannianSGD, riemannian_conjugate_gradient
from nearer.training._samplers import ClassSampler, HierarchicalSampler, NPairSampler, Sampler, UniformSampler
from nearer.training._schedules import Schedule, constant, cosine, linear, milestones
from nearer.training._step import Batches, EncoderStep, Step
from nearer.training._streams import TwoStreams
from nearer.training._views import exemplar_views, jiggled, rotations

__all__ = [
    "AlternatingLearner",
    "AlternatingStep",
    "AnchorNeighborSampler",
    "Batches",
    "BelievedAngular",
    "CSVLog",
    "Callback",
    "Checkpoints",
    "ClassSampler",
    "DeepClusterStep",
    "Descent",
    "EncoderStep",
    "ExemplarStep",
    "HierarchicalSampler",
    "History",
    "ImageBatches",
    "InstanceStep",
    "JSONLinesLog",
    "JointLoss",
    "MLflowLog",
    "Moment",
    "NPairSampler",
    "NeighborhoodAngular",
    "Plan",
    "ProgressBar",
    "RankRangeSampler",
    "RiemannianAdam",
    "RiemannianSGD",
    "RotNetStep",
    "Sampler",
    "Schedule",
    "Step",
    "SyntheticStep",
    "TensorBatches",
    "TensorBoardLog",
    "TrainingInterrupted",
    "TwoStreams",
    "UniformSampler",
    "WandbLog",
    "alternate",
    "backward_in_chunks",
    "constant",
    "cosine",
    "exemplar_views",
    "follow_loss",
    "freeze",
    "freeze_for",
    "jiggled",
    "joint_loss",
    "linear",
    "milestones",
    "parameter_groups",
    "process_group",
    "rebuild",
    "riemannian_conjugate_gradient",
    "rotations",
    "train",
    "unfreeze",
]
