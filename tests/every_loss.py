"""Every pair loss there is, found by walking `nearer.losses`: a new file is under contract without being listed."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import torch
from torch import Tensor

import nearer.losses
from nearer.losses import PairLoss
from nearer.losses.pairs._pair_loss import PairLoss as Root
from nearer.mining import ClassTree

for _module in pkgutil.walk_packages(nearer.losses.__path__, "nearer.losses."):
    importlib.import_module(_module.name)


def _concrete(kind: type[PairLoss]) -> list[type[PairLoss]]:
    found = [] if inspect.isabstract(kind) or kind.__name__.startswith("_") else [kind]
    return found + [loss for child in kind.__subclasses__() for loss in _concrete(child)]


LOSSES = sorted(
    {kind for kind in _concrete(Root) if kind.__module__.startswith("nearer.")}, key=lambda kind: kind.__name__
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
