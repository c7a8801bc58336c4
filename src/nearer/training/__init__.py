"""How the geometry moves: one small loop, samplers, schedules, checkpoints, logs, many processes.

`train(step, sampler, epochs=...)` repeats a step over the batches that a sampler names. `EncoderStep` is the usual
step: encode, take the loss, move the parameters. Everything can be killed and resumed to the same last bit.
"""

from nearer.training.alternating import AlternatingLearner, AlternatingStep, Plan, alternate
from nearer.training.batches import ImageBatches, TensorBatches
from nearer.training.caching import backward_in_chunks
from nearer.training.checkpoints import Checkpoints
from nearer.training.comparators import (
    DeepClusterStep,
    ExemplarStep,
    InstanceStep,
    RotNetStep,
    SyntheticStep,
)
from nearer.training.following_samplers import AnchorNeighbourSampler, RankRangeSampler
from nearer.training.logs import CSVLog, JSONLinesLog, MLflowLog, TensorBoardLog, WandbLog
from nearer.training.loop import Callback, History, Moment, TrainingInterrupted, train
from nearer.training.neighbourhood_angular import BelievedAngular, NeighbourhoodAngular
from nearer.training.parameters import freeze, freeze_for, parameter_groups, unfreeze
from nearer.training.processes import JointLoss, joint_loss, process_group
from nearer.training.progress import ProgressBar
from nearer.training.rebuilding import follow_loss, rebuild
from nearer.training.riemannian import Descent, RiemannianAdam, RiemannianSGD, riemannian_conjugate_gradient
from nearer.training.samplers import ClassSampler, HierarchicalSampler, NPairSampler, Sampler, UniformSampler
from nearer.training.schedules import Schedule, constant, cosine, linear, milestones
from nearer.training.step import Batches, EncoderStep, Step
from nearer.training.streams import TwoStreams
from nearer.training.views import exemplar_views, jiggled, rotations

__all__ = [
    "AlternatingLearner",
    "AlternatingStep",
    "AnchorNeighbourSampler",
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
    "NeighbourhoodAngular",
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
