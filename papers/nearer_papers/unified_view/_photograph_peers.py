"""The same loss in nearer and in pytorch-metric-learning, for rows of one network, batches, start and rates.

Six losses whose values and gradients are equal (a test compares them), each in two rows. Class vectors of the peer
start where ours start. `loss_cost` measures what the loss alone takes of a step, the two in turn.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from nearer.exceptions import MissingDataError
from nearer.losses import (
    ArcFaceLoss,
    DistanceContrastiveLoss,
    MultiSimilarityLoss,
    ProxyAnchorLoss,
    SoftTripleLoss,
    TripletLoss,
)
from nearer.losses._shared import ProxyLoss
from nearer.mining import VTHM
from nearer_papers.unified_view._unseen_classes import Row, Setting

__all__ = ["OURS", "PEER_ROWS", "loss_cost", "pair_of", "same_start_as_ours"]

THEIRS = ", pytorch-metric-learning"
PASSES = 15


@dataclass(frozen=True)
class _Pair:
    ours: Callable[[Setting], nn.Module]
    theirs: Callable[[Any, Setting], nn.Module]
    """Of the package and the setting."""


class _Mined(nn.Module):
    """A loss of the package behind one of its miners."""

    def __init__(self, loss: Any, miner: Any) -> None:
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = self.loss(embeddings, labels, self.miner(embeddings, labels))
        return value


def _triplet(package: Any, _: Setting) -> nn.Module:
    loss = package.losses.TripletMarginLoss(margin=0.1, distance=package.distances.CosineSimilarity())
    return _Mined(loss, package.miners.MultiSimilarityMiner(0.1))


def _multi_similarity(package: Any, _: Setting) -> nn.Module:
    loss = package.losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    return _Mined(loss, package.miners.MultiSimilarityMiner(0.1))


PAIRS = {
    "contrastive": _Pair(lambda _: DistanceContrastiveLoss(), lambda package, _: package.losses.ContrastiveLoss()),
    "triplet + miner": _Pair(lambda _: TripletLoss(margin=0.1, miner=VTHM(margin=0.1)), _triplet),
    "multi-similarity + miner": _Pair(lambda _: MultiSimilarityLoss(miner=VTHM(margin=0.1)), _multi_similarity),
    "ProxyAnchor": _Pair(
        lambda one: ProxyAnchorLoss(one.classes, one.dimension),
        lambda package, one: package.losses.ProxyAnchorLoss(one.classes, one.dimension, margin=0.1, alpha=32),
    ),
    "ArcFace": _Pair(
        lambda one: ArcFaceLoss(one.classes, one.dimension, scale=30.0, margin=20.0),
        lambda package, one: package.losses.ArcFaceLoss(one.classes, one.dimension, scale=30, margin=20.0),
    ),
    # The package has no term that merges centers.
    "SoftTriple, not merged": _Pair(
        lambda one: SoftTripleLoss(one.classes, one.dimension, centers=10, merging=0.0),
        lambda package, one: package.losses.SoftTripleLoss(one.classes, one.dimension, centers_per_class=10),
    ),
}
# The row of the package by the row of ours.
OURS = {f"{name}{THEIRS}": name for name in PAIRS}


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = ("distances", "losses", "miners")
            return SimpleNamespace(**{one: import_module(f"pytorch_metric_learning.{one}") for one in parts})
    except ImportError as error:
        raise MissingDataError("The rows of the peer need it. Run: pip install pytorch-metric-learning") from error


def _theirs(name: str) -> Callable[[Setting], nn.Module]:
    return lambda one: PAIRS[name].theirs(_package(), one)


PEER_ROWS = tuple(
    row for name, pair in PAIRS.items() for row in (Row(name, pair.ours), Row(f"{name}{THEIRS}", _theirs(name)))
)


def pair_of(name: str, setting: Setting) -> tuple[nn.Module, nn.Module]:
    """Both losses of a row's name, ours first."""
    name = OURS.get(name, name)
    return PAIRS[name].ours(setting), _theirs(name)(setting)


def same_start_as_ours(theirs: nn.Module, ours: nn.Module) -> None:
    """Give the class vectors of the peer the values of ours."""
    for module in ours.modules():
        if isinstance(module, ProxyLoss):
            (weight,) = theirs.parameters()
            vectors = module.proxies.detach()
            weight.data.copy_(vectors if weight.shape == vectors.shape else vectors.t())


def loss_cost(name: str, setting: Setting, labels: Tensor) -> dict[str, float]:
    """CPU milliseconds of both losses on a batch with these classes, forward and backward, in turn."""
    torch.manual_seed(0)
    rows = torch.randn(len(labels), setting.dimension) + 2 * torch.randn(setting.classes, setting.dimension)[labels]
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(PASSES):
        for side, loss in zip(spent, pair_of(name, setting), strict=True):
            given = rows.clone().requires_grad_()
            begin = time.process_time()
            loss(given, labels).backward()
            spent[side].append(1000 * (time.process_time() - begin))
    return {side: statistics.median(each) for side, each in spent.items()}
