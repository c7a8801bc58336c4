"""Every pair loss there is, found by walking `nearer.losses` and `nearer_papers.systems`.

A new file is under contract without being listed.

The other losses and the miners are made and called in ways of their own: `OTHERS`, `MINERS`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import nearer.losses
import nearer.mining
import nearer_papers.systems
from nearer.losses import ContrastiveLoss, NeighborhoodLoss, PairLoss, RAWLoss
from nearer.losses.pairs._pair_loss import PairLoss as Root
from nearer.mining import VTHM
from nearer_papers.systems import BoostedHeads, ClassTree

HOUSES = ((nearer.losses, "nearer.losses."), (nearer_papers.systems, "nearer_papers.systems."))
for _module in (module for package, name in HOUSES for module in pkgutil.walk_packages(package.__path__, name)):
    importlib.import_module(_module.name)


def _concrete(kind: type[PairLoss]) -> list[type[PairLoss]]:
    found = [] if inspect.isabstract(kind) or kind.__name__.startswith("_") else [kind]
    return found + [loss for child in kind.__subclasses__() for loss in _concrete(child)]


LOSSES = sorted(
    {kind for kind in _concrete(Root) if kind.__module__.startswith(("nearer.", "nearer_papers."))},
    key=lambda kind: kind.__name__,
)


def _tree() -> ClassTree:
    """Sixty-four classes at random places."""
    tree = ClassTree(levels=5)
    generator = torch.Generator().manual_seed(3)
    tree.update(torch.randn(256, 3, generator=generator, dtype=torch.float64), torch.arange(256) // 4)
    return tree


# Settings beside the defaults that take another path through the code.
_VARIANTS: dict[str, list[dict[str, object]]] = {
    "ContrastiveLoss": [{"reduction": "active"}, {"reduction": "mean"}, {"reduction": "sum"}],
    "DistanceContrastiveLoss": [
        {"power": 2, "reduction": "mean"},
        {"positive_margin": 0.3},
        {"normalize": False, "negative_margin": 6.0},
    ],
    "TripletLoss": [{"reduction": "tuples"}, {"reduction": "mean", "margin": 0.5}],
    "SemiHardTripletLoss": [{"reduction": "tuples", "margin": 0.4}],
    "BatchHardTripletLoss": [{"margin": None}, {"reduction": "mean"}],
    "GeneralizedLiftedLoss": [{"variant": "as_printed"}, {"margin": -4.0}],
    "LiftedStructureLoss": [{"normalize": True}],
    "BinomialDevianceLoss": [{"normalize_by_scale": True, "reduction": "sum"}],
    "RAWLoss": [{"alpha": 1.0, "beta": 10.0, "reduction": "sum"}, {"beta": 200.0}],
    "SquaredContrastiveLoss": [{"margin": 1.6, "reduction": "active"}, {"reduction": "mean"}, {"reduction": "sum"}],
    "SupConLoss": [{"temperature": 0.01}, {"reduction": "mean"}],
    "NTXentLoss": [{"temperature": 0.005}, {"reduction": "mean"}],
    "CircleLoss": [{"gamma": 256.0}, {"reduction": "sum"}],
    "NCALoss": [{"normalize": False}],
    "MarginLoss": [{"over": "triplets", "nu": 0.1}, {"n_classes": 64, "nu": 0.05}],
    "HierarchicalTripletLoss": [{"tree": _tree()}, {"tree": _tree(), "reduction": "active", "beta": -1.5}],
    "GlobalLoss": [{"weight": 2.0, "margin": 3.0}, {"margin": -3.0}],
    "FacilityLocationLoss": [{"gamma": 30.0, "reduction": "mean"}, {"gamma": 0.0}],
    "EqualWeightLoss": [{"per": "pair"}],
    "AngularLoss": [{"angle": 36.0, "reduction": "sum"}],
    "AngularTripletLoss": [{"cost": "hinge", "angle": 30.0}],
    "HistogramLoss": [{"bins": 12}],
    "QuadrupletLoss": [{"reduction": "tuples"}],
    "TwoTermQuadrupletLoss": [{"reduction": "active"}],
    "SmoothAPLoss": [{"temperature": 0.2}],
    "RelationAlignmentLoss": [{"scale": "affine"}, {"scale": 0.5, "reduction": "mean"}, {"reduction": "sum"}],
    "NPairsLoss": [{"normalize": True, "scale": 10.0, "reduction": "sum"}],
}

Make = Callable[[], PairLoss]


def _make(kind: type[PairLoss], settings: dict[str, object]) -> Make:
    def make() -> PairLoss:
        if "generator" in inspect.signature(kind).parameters:
            return kind(**{**settings, "generator": torch.Generator().manual_seed(5)})
        return kind(**settings)

    return make


CASES: dict[str, Make] = {
    f"{kind.__name__}({', '.join(f'{key}={value}' for key, value in settings.items())})": _make(kind, settings)
    for kind in LOSSES
    for settings in [{}, *_VARIANTS.get(kind.__name__, [])]
}

# Their second row or their whole batch is part of the formula, so queries and database must be one set.
ONE_SET_ONLY = {
    "AngularLoss",
    "AngularTripletLoss",
    "FacilityLocationLoss",
    "LiftedStructureLoss",
    "NPairsLoss",
    "TwoTermQuadrupletLoss",
}


def batch(
    n: int, classes: int, dimension: int = 8, *, spread: float = 1.0, seed: int = 0, even: bool = False
) -> tuple[Tensor, Tensor]:
    """Ragged (or even) classes around random centres, float64."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes if even else torch.randint(classes, (n,), generator=generator)
    centers = torch.randn(classes, dimension, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, dimension, generator=generator, dtype=torch.float64)
    return centers[labels] + spread * noise, labels


def value_and_gradient(function: Callable[..., Tensor], embeddings: Tensor, *args: object) -> tuple[Tensor, Tensor]:
    leaf = embeddings.clone().requires_grad_()
    value = function(leaf, *args)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def _classes(name: str, **settings: Any) -> Callable[[], Any]:
    return lambda: getattr(nearer.losses, name)(8, 8, generator=torch.Generator().manual_seed(1), **settings)


def plain(loss: Any, x: Tensor, y: Tensor) -> Any:
    return loss(x, y)


class _Tail(nn.Module):
    """A loss that looks at what went into a layer, with that layer."""

    def __init__(self, make: Callable[[Any], nn.Module], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.layer = layer or nn.Linear(8, 6).double()
        self.loss = make(self.layer)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = self.loss(self.layer(x), y)
        return value


def drawn() -> torch.Generator:
    return torch.Generator().manual_seed(1)


# Every loss that is not a pair loss: how it is made and how it is called with embeddings (48, 8) and labels.
OTHERS: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "ABIERLoss": (
        lambda: _Tail(nearer_papers.systems.ABIERLoss, BoostedHeads(8, (3, 5), generator=drawn())).double(),
        plain,
    ),
    "AMSoftmaxLoss": (_classes("AMSoftmaxLoss"), plain),
    "ArcFaceLoss": (_classes("ArcFaceLoss"), plain),
    "BIERLoss": (lambda: nearer_papers.systems.BIERLoss((3, 5)), plain),
    "BinaryLoss": (lambda: nearer.losses.BinaryLoss(RAWLoss(), steps=3), plain),
    "CrossBatchMemory": (
        lambda: nearer.losses.CrossBatchMemory(RAWLoss(), size=60, embedding_dim=8),
        lambda loss, x, y: loss(x, y) + loss(x.flip(0), y.flip(0)),
    ),
    "DatabaseMemory": (
        lambda: nearer.losses.DatabaseMemory(NeighborhoodLoss(k=3), size=60, embedding_dim=8),
        lambda loss, x, y: loss(x, 2 * x, y) + loss(x, x.flip(0), y),
    ),
    "DeMLLoss": (lambda: nearer_papers.systems.DeMLLoss((2, 3, 3), generator=drawn()).double(), plain),
    "DynamicSoftMarginLoss": (lambda: nearer.losses.DynamicSoftMarginLoss(), plain),
    "EnergyConfusionLoss": (
        lambda: _Tail(
            lambda layer: nearer_papers.systems.EnergyConfusionLoss(ContrastiveLoss(), layer, generator=drawn())
        ),
        plain,
    ),
    "HDCLoss": (lambda: nearer_papers.systems.HDCLoss(), lambda loss, x, y: loss(torch.cat([x, 2 * x, -x], 1), y)),
    "HDMLLoss": (
        lambda: _Tail(
            lambda layer: nearer_papers.systems.HDMLLoss(layer, 8, 6, 8, epoch_steps=3, generator=drawn()).double()
        ),
        plain,
    ),
    "IntraClassPenalty": (lambda: nearer_papers.systems.IntraClassPenalty(), plain),
    "JMMDLoss": (lambda: nearer_papers.systems.JMMDLoss(), lambda loss, x, y: loss([x, x.square()], y)),
    "JRDLoss": (
        lambda: nearer.losses.JRDLoss(nearer.losses.AMSoftmaxLoss(8, 8, generator=drawn())).double(),
        lambda loss, x, y: loss(x, y, pooled=2 * x),
    ),
    "JRSLoss": (lambda: nearer.losses.JRSLoss(), lambda loss, x, y: loss([x, x.square()], y)),
    "ManifoldLoss": (lambda: nearer.losses.ManifoldLoss(8, n_proxies=8, generator=drawn()), plain),
    "NeighborhoodLoss": (lambda: NeighborhoodLoss(k=3), plain),
    "NestedLoss": (lambda: nearer.losses.NestedLoss(RAWLoss(), widths=(2, 4, 8)), plain),
    "NormalizedSoftmaxLoss": (_classes("NormalizedSoftmaxLoss"), plain),
    "P2SGradLoss": (_classes("P2SGradLoss"), plain),
    "PDDMLoss": (lambda: nearer_papers.systems.PDDMLoss(8, generator=drawn()).double(), plain),
    "ProxyAnchorLoss": (_classes("ProxyAnchorLoss"), plain),
    "ProxyNCALoss": (_classes("ProxyNCALoss"), plain),
    "SentenceTransformersLoss": (
        lambda: nearer.losses.SentenceTransformersLoss(_Sentences(), RAWLoss()),
        lambda loss, x, y: loss([{"x": x}], y),
    ),
    "SmartMiningLoss": (lambda: nearer_papers.systems.SmartMiningLoss(), plain),
    "SoftTripleLoss": (_classes("SoftTripleLoss", centers=2), plain),
    "SubCenterArcFaceLoss": (_classes("SubCenterArcFaceLoss"), plain),
    "VICRegLoss": (lambda: nearer.losses.VICRegLoss(), lambda loss, x, y: loss(x, x.flip(0))),
}
# Bases, kernels of the layer losses (they run inside them), functions without tensors of their own, and what talks
# to other processes: its messages are torch.distributed's business.
LEFT_OUT = {"PairLoss", "RowLoss", "Gaussian", "Laplace", "MomentGenerating", "Polynomial", "ShardedLoss"}


class _Sentences(nn.Module):
    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["x"]}


MINERS: dict[str, Callable[[], Any]] = {
    "BatchHard": nearer.mining.BatchHard,
    "DistanceWeighted": lambda: nearer.mining.DistanceWeighted(generator=drawn()),
    "HardestFraction": lambda: nearer.mining.HardestFraction(0.3),
    "LargestErrors": lambda: nearer.mining.LargestErrors(0.4),
    "RandomPairs": lambda: nearer_papers.systems.RandomPairs(negatives=3, generator=drawn()),
    "SemiHard": nearer.mining.SemiHard,
    "SemiHardTriplets": lambda: nearer.mining.SemiHardTriplets(0.3),
    "SpanningTree": nearer_papers.systems.SpanningTree,
    "VTHM": VTHM,
}
REBUILT = {"ClassTree", "RankRange", "HardnessController"}
