"""Learning an encoder and a metric on top of it in turn: fix the encoder, learn the metric; fix the metric,
step the encoder. One loop for every semi-supervised method.

A run goes through partitions: all labelled items and some random unlabelled ones. At the start of a partition the
learner sees the embeddings of all of it (`prepare`: the graph, the triplets, the metric); then come mini-batches,
and for each the learner may refine its metric (`refine`) before the encoder takes a step on its `loss`.

Reference: Dutta, Harandi, Sekhar (2021), Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nearer._checks import check_int
from nearer._validation import as_labels, as_tensor
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import embed
from nearer.training._checkpoints import Checkpoints
from nearer.training._loop import Callback, History, train
from nearer.training._processes import average_gradients, joint_rows, same_draws, same_start, share
from nearer.training._samplers import UniformSampler
from nearer.training._schedules import Schedule, constant


class AlternatingLearner(Protocol):
    """A metric that is learnt in turn with an encoder; `module` maps embeddings to where they are compared.

    >>> from nearer_papers.systems import DeepLRML
    >>> isinstance(DeepLRML(4).module, torch.nn.Module)
    True
    """

    module: nn.Module

    def count(self, n: int) -> int:
        """How many things an epoch goes through in a partition of n items: items, pairs or triplets."""

    def prepare(self, embeddings: Tensor, labels: Tensor) -> None:
        """See a whole partition, (n, d) and (n,) with −1 for unlabelled: graph, triplets, metric."""

    def batch(self, numbers: Tensor) -> tuple[Tensor, Any]:
        """The items of the partition that these numbers (of `count`) need, (b,), and what else `loss` must know.

        That is a tensor or a named tuple of them, which is brought to the device of the encoder.
        """

    def refine(self, embeddings: Tensor, content: Any) -> None:
        """With the encoder fixed: learn the metric from a batch."""

    def loss(self, embeddings: Tensor, content: Any) -> Tensor:
        """With the metric fixed: what the encoder is to lower on a batch."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs of the current partition."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""


@dataclass(frozen=True)
class Plan:
    """How long and on how much: `partitions` times `epochs` passes over all labelled and `unlabeled` other items.

    >>> Plan(partitions=2, epochs=1).total
    2
    """

    partitions: int = 5
    epochs: int = 10
    unlabeled: int = 9000
    batch_size: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("partitions", "epochs", "batch_size"):
            check_int(getattr(self, name), name)
        check_int(self.unlabeled, "unlabeled", minimum=0)
        check_int(self.seed, "seed", minimum=0)

    @property
    def total(self) -> int:
        """Epochs of the whole run."""
        return self.partitions * self.epochs


class AlternatingStep:
    """One batch of Algorithm 1 as a step of `train`; a new partition begins by itself when its time has come.

    `items` (n, ...) and `labels` (n,) are the training data, −1 for unlabelled. `transform` changes the items of a
    batch, not those that the graph is made of. Many processes share the work of the encoder; each learns the whole
    metric, from the same numbers. The metric lives where the encoder is; graphs are made on the host.
    """

    def __init__(
        self,
        encoder: nn.Module,
        learner: AlternatingLearner,
        optimizer: Optimizer,
        items: Any,
        labels: Any,
        *,
        plan: Plan,
        transform: Callable[[Tensor], Tensor] | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self.encoder, self.learner, self.optimizer, self.plan = encoder, learner, optimizer, plan
        self.items = as_tensor(items, "items")
        self.labels = as_labels(labels, "labels", n=len(self.items)).cpu()
        self._device = next((parameter.device for parameter in encoder.parameters()), self.items.device)
        learner.module.to(self._device)
        self.module = nn.ModuleDict({"encoder": encoder, "metric": learner.module})
        same_start(self.module)
        self.transform, self.schedule = transform, schedule or constant()
        self._given = (self.labels != -1).nonzero()[:, 0]
        self._free = (self.labels == -1).nonzero()[:, 0]
        self.size = len(self._given) + min(plan.unlabeled, len(self._free))
        if self.size < 3:
            raise ShapeError(f"a partition must hold at least three items, got {self.size}. Raise `unlabeled`.")
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._count, self._partition = 0, -1
        self.rows = torch.zeros(0, dtype=torch.int64)

    def sampler(self) -> UniformSampler:
        """The batches of numbers that this step is to be called with."""
        return UniformSampler(self.learner.count(self.size), batch_size=self.plan.batch_size, seed=self.plan.seed)

    def partition(self, number: int) -> Tensor:
        """The rows of a partition: every labelled item, and unlabelled ones, the same whenever it is asked."""
        random = np.random.default_rng([self.plan.seed, number])
        order = torch.from_numpy(random.permutation(len(self._free))[: self.plan.unlabeled])
        return torch.cat([self._given, self._free[order]])

    def __call__(self, rows: Tensor) -> float:
        """Refine the metric on a batch, then move the encoder; the loss of the batch."""
        number = self._count // (len(self.sampler()) * self.plan.epochs)
        if number != self._partition:
            self.rows = self.partition(number)
            embeddings = joint_rows(embed(self.encoder, self._items(share(self.rows)))).cpu()
            with same_draws(self.plan.seed, self._count, 0):
                self.learner.prepare(embeddings, self.labels[self.rows])
            self._partition = number
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * self.schedule(self._count)
        places, content = self.learner.batch(rows)
        content = _moved(content, self._device)
        items = self._items(self.rows[share(places)])
        self.encoder.train()
        items = items if self.transform is None else self.transform(items)
        embeddings = joint_rows(self.encoder(items.to(self._device)))
        self.optimizer.zero_grad()
        with same_draws(self.plan.seed, self._count, 1):
            self.learner.refine(embeddings.detach(), content)
            value = self.learner.loss(embeddings, content)
        loss = float(value.detach())
        if not np.isfinite(loss):
            raise NotFiniteError(
                f"The loss must be finite, got {loss} in step {self._count + 1}. Lower the learning rate."
            )
        value.backward()  # type: ignore[no-untyped-call]
        average_gradients(parameter for group in self.optimizer.param_groups for parameter in group["params"])
        self.optimizer.step()
        self._count += 1
        return loss

    def _items(self, rows: Tensor) -> Tensor:
        return self.items[rows.to(self.items.device)]

    @property
    def rate(self) -> float:
        """The learning rate of the first group at the next step."""
        return self._rates[0] * self.schedule(self._count)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next step depends on."""
        return {
            "module": dict(self.module.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "learner": self.learner.state_dict(),
            "place": [self._count, self._partition],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.learner.load_state_dict(state["learner"])
        self._count, self._partition = state["place"]
        if self._partition >= 0:
            self.rows = self.partition(self._partition)


def _moved(content: Any, device: torch.device) -> Any:
    """What a learner must know of a batch, on a device: a tensor, or a named tuple of them."""
    return (
        content.to(device)
        if isinstance(content, Tensor)
        else type(content)(*(entry.to(device) for entry in content))
    )


def alternate(
    encoder: nn.Module,
    learner: AlternatingLearner,
    optimizer: Optimizer,
    items: Any,
    labels: Any,
    *,
    plan: Plan | None = None,
    transform: Callable[[Tensor], Tensor] | None = None,
    schedule: Schedule | None = None,
    validate: Callable[[], Mapping[str, float]] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoints: Checkpoints | None = None,
) -> History:
    """Algorithm 1: train `encoder` (any module) and the metric of `learner` in turn; both end as the best model.

    `items` (n, ...) and `labels` (n,), −1 for unlabelled. `validate` scores held-out items after every epoch, for
    example R@1 of `learner.module(embed(encoder, held_out))`; those items must not be among `items`. The optimiser
    moves the encoder only.

    >>> from nearer.geometry import MLP
    >>> from nearer.training import NeighborhoodAngular
    >>> encoder, items = MLP(4, 3), torch.rand(30, 4)
    >>> labels = torch.where(torch.arange(30) < 6, torch.arange(30) % 2, -1)
    >>> sgd = torch.optim.SGD(encoder.parameters(), lr=0.01)
    >>> plan = Plan(partitions=1, epochs=2, unlabeled=20, batch_size=10)
    >>> history = alternate(encoder, NeighborhoodAngular(3, 2, k=4), sgd, items, labels, plan=plan)
    >>> len(history.epochs)
    2

    Args:
        encoder: the network that moves.
        learner: what learns on the graph of a partition.
        optimizer: the torch optimizer of the network.
        items: all items, (n, ...).
        labels: classes (n,), −1 for unlabelled.
        plan: partitions, epochs and batches.
        transform: changes images at random while training.
        schedule: factor on the learning rate by step; None keeps it.
        validate: called after an epoch, gives scores by name.
        callbacks: called as callback(moment) at steps and epochs.
        checkpoints: where to keep what is needed to go on.
    """
    chosen = plan or Plan()
    owned = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if any(id(parameter) in owned for parameter in learner.module.parameters()):
        raise ParameterError("`optimizer` must move the encoder only, got parameters of the metric as well.")
    step = AlternatingStep(
        encoder, learner, optimizer, items, labels, plan=chosen, transform=transform, schedule=schedule
    )
    if len(step.labels) and (step.labels < -1).any():
        raise LabelError(f"`labels` must be at least 0, or -1 for unlabelled, got {int(step.labels.min())}.")
    sampler = step.sampler()
    return train(
        step, sampler, epochs=chosen.total, validate=validate, callbacks=callbacks, checkpoints=checkpoints
    )
