"""Fine-tuning of a whole network behind a head that stays: the recipe, for `nearer.fit` and for the experiments.

The closed form of the frozen features is the head, so the network that comes in is as good as the closed form, and
the loop keeps it where training finds nothing better. The head does not move (one that learns faster than the trunk
destroys what was there), the trunk does, in small steps; normalisation is frozen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.estimators import WithinClass
from nearer.geometry import Chain
from nearer.losses._shared import ProxyLoss
from nearer.models._maps import as_module
from nearer.training import Checkpoints, EncoderStep, cosine, parameter_groups, train
from nearer.training._shared import Callback, History, Sampler, activation_bytes

# What a step holds beside what the backward pass needs: gradients, the layer that is computed, the batch itself.
MARGIN = 1.5


@dataclass(frozen=True)
class Recipe:
    """What was found on validation classes of photographs; rates are those of AdamW."""

    rate: float = 1e-4
    class_rate: float = 1e-3
    """Of class vectors, which start at the means of their classes."""
    decay: float = 1e-4
    warm_up: int = 30
    max_norm: float = 10.0
    classes: int = 16
    per_class: int = 5


def closed_form(
    rows: NDArray[np.float32], labels: Any, *, new_classes: bool, n_components: int | None = None, seed: int = 0
) -> tuple[Chain, WithinClass]:
    """The head: the within-class map of these features, chosen on blocks of them, as a module that does not
    learn.
    """
    kept = None if n_components is None else min(n_components, rows.shape[1])
    learner = WithinClass(kept, unit=True, new_classes=new_classes, random_state=seed).fit(rows, labels)
    made = as_module(learner)
    head = made if isinstance(made, Chain) else Chain(made)
    return head.eval().requires_grad_(False), learner


def start_class_vectors(loss: nn.Module, rows: Tensor, labels: Tensor) -> None:
    """Put class vectors at the means of their classes, with a little noise where a class has several."""
    for module in loss.modules():
        if isinstance(module, ProxyLoss) and module.embedding_dim == rows.shape[1]:
            means = rows.new_zeros(module.n_classes, rows.shape[1]).index_add_(0, labels, rows)
            start = nn.functional.normalize(means, dim=1).repeat_interleave(module.width, dim=0)
            if module.width > 1:
                start = start + 0.02 * torch.randn(start.shape)
            module.proxies.data.copy_(start)


def classes_and_items(labels: Any, recipe: Recipe, *, batch: int | None = None) -> tuple[int, int]:
    """How many classes, and how many items of each, a batch has: fewer classes where there are fewer, with more
    items, as far as half of the classes have them.

    >>> three, twenty = [0] * 40 + [1] * 40 + [2] * 40, list(range(20)) * 2
    >>> classes_and_items(three, Recipe()), classes_and_items(twenty, Recipe())
    ((3, 26), (16, 2))
    """
    _, counts = np.unique(np.asarray(labels), return_counts=True)
    size = recipe.classes * recipe.per_class if batch is None else batch
    usual = recipe.classes if batch is None else max(2, batch // recipe.per_class)
    classes = min(len(counts), usual)
    return classes, max(2, min(size // classes, int(np.median(counts))))


def items_at_once(network: nn.Module, items: Tensor, batch: int, memory: float) -> int | None:
    """How many items may be encoded at a time so that a step keeps to some bytes of memory: None if all may; 0 if
    not even two.

    >>> layer = nn.Sequential(nn.Linear(1000, 1000), nn.Tanh(), nn.Linear(1000, 1))
    >>> items_at_once(layer, torch.rand(2, 1000), 100, 1e9), items_at_once(layer, torch.rand(2, 1000), 100, 1e5)
    (None, 8)
    """
    each = MARGIN * activation_bytes(network, items)
    if each * batch <= memory:
        return None
    fit = int(memory / each)
    return 0 if fit < 2 else fit


class WithFeatures(nn.Module):
    """Embedding and features of a network that has `trunk` and `head`, in one row (n, d + p)."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, items: Tensor) -> Tensor:
        features = self.network.trunk(items)
        return torch.cat([self.network.head(features), features], dim=1)


class _Pooled(nn.Module):
    """A loss that is given the features beside the embedding, of such rows."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, rows: Tensor, labels: Any) -> Tensor:
        d = self.loss.softmax.embedding_dim
        return self.loss(rows[:, :d], labels, pooled=rows[:, d:])


def train_whole(
    network: nn.Module,
    loss: nn.Module,
    data: Any,
    sampler: Sampler,
    *,
    recipe: Recipe,
    epochs: int,
    validate: Callable[[], Mapping[str, float]] | None,
    patience: int | None = None,
    chunk: int | None = None,
    precision: Any = "float32",
    callbacks: Sequence[Callback] = (),
    checkpoints: Checkpoints | None = None,
) -> History:
    """AdamW in small steps with warm-up, then along half a cosine to zero; with `validate` the best epoch is kept,
    the start among them, and without it the last. A loss that takes the layer `pooled` gets the features.
    """
    if "pooled" in inspect.signature(loss.forward).parameters:
        network, loss = WithFeatures(network), _Pooled(loss)
    groups = parameter_groups(
        {"encoder": network, "loss": loss},
        {"encoder": recipe.rate, "loss": recipe.class_rate},
        weight_decay=recipe.decay,
    )
    steps = epochs * len(sampler)
    step = EncoderStep(
        network,
        loss,
        torch.optim.AdamW(groups),
        data,
        schedule=cosine(steps, warm_up=min(recipe.warm_up, steps // 4)),
        precision=precision,
        chunk=chunk,
        max_norm=recipe.max_norm,
    )
    return train(
        step,
        sampler,
        epochs=epochs,
        validate=validate,
        patience=patience,
        keep_best=validate is not None,
        callbacks=callbacks,
        checkpoints=checkpoints,
    )
