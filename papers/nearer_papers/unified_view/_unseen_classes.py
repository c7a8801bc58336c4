"""One protocol for every loss: learn from some classes, choose on others, be scored on classes never seen.

A row of a table is a `Row`: a name, how to build its loss (and, where a method asks for it, its sampler, its head
and its other parts), the one constant that it lives by, and what its paper printed. `run_row` trains it with one
seed: the network of the data set, Adam, a falling rate, the best epoch by Recall@1 on validation classes, scores on
unseen classes. Everything but the row is the same within a data set.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer.evaluation import evaluate
from nearer.losses._shared import ProxyLoss
from nearer.models._whole_network import start_class_vectors
from nearer.training import ClassSampler, EncoderStep, UniformSampler, cosine, parameter_groups, train
from nearer.training._loop import Callback, History
from nearer.training._samplers import Sampler
from nearer.training._schedules import Schedule, constant
from nearer_papers.systems import NPairSampler, nn_discrepancy, nn_lambda
from nearer_papers.unified_view._unseen_class_data import Part, Protocol, UnseenClasses
from nearer_papers.unified_view._unseen_class_networks import Network, WithFeatures
from nearer_papers.unified_view._unseen_class_settings import Constant, Settings, tuned

__all__ = [
    "DEPTHS",
    "Learner",
    "Row",
    "Run",
    "Setting",
    "Steps",
    "plain_learner",
    "run_row",
    "summarize",
    "untrained",
    "validate_row",
]

# Recall@K of each data set as its papers print it.
DEPTHS = {
    "cub200": (1, 2, 4, 8, 16, 32),
    "cars196": (1, 2, 4, 8, 16, 32),
    "cars196_features": (1, 2, 4, 8, 16, 32),
    "sop": (1, 10, 100, 1000),
    "inshop": (1, 10, 20, 30, 40, 50),
}
# How the names of rows end that keep their printed constant, and that are learned for longer.
LITERAL, LENGTH = ", as printed", ", epochs: "


@dataclass(frozen=True)
class Setting:
    """What a loss has to know to be built."""

    classes: int
    dimension: int
    width: int
    seed: int
    constant: float = math.nan
    """The value of the row's `Constant`; NaN for a row without."""

    def generator(self) -> torch.Generator:
        """Random numbers of this run."""
        return torch.Generator().manual_seed(self.seed)


@dataclass(eq=False)
class Learner:
    """The parts of one training: what encodes a batch, its loss, its batches, and what embeds items afterwards."""

    encoder: nn.Module
    loss: nn.Module
    sampler: Sampler
    network: nn.Module
    callbacks: Sequence[Callback] = ()


@dataclass(frozen=True)
class Row:
    """One row of a table; `build` overrides the usual learner for methods with parts of their own."""

    name: str
    loss: Callable[[Setting], nn.Module] | None = None
    sampler: Literal["classes", "uniform", "pairs"] = "classes"
    features: bool = False
    """Whether the loss takes rows of embedding and features side by side."""
    proxy_rate: float = 1.0
    """Times the rate of class vectors of the data set."""
    build: Callable[[UnseenClasses, Network, int, float], Learner] | None = None
    """Called as build(data, network, seed, constant)."""
    constant: Constant | None = None
    """What is tuned beside the rate."""
    as_printed: bool = False
    """Whether it keeps its printed constant where another one was better."""
    epochs: int | None = None
    """Its own length; None for that of the data set."""
    printed: Mapping[str, float] | None = None
    """Recall@1 of the paper by data set (and its λ and d̂), for people to compare with."""
    at: float | None = None
    """The weight α of a row of a sweep: its place on the axis of the curve."""

    @property
    def runs(self) -> bool:
        """Whether there is anything to run; a system of which too little is known has its printed numbers only."""
        return self.loss is not None or self.build is not None

    @property
    def usual(self) -> float:
        """The printed value of its constant, NaN where it has none."""
        return math.nan if self.constant is None else self.constant.printed

    def settings(self, data: str) -> Settings:
        """Its rate and its constant on a data set, as tuned on validation classes."""
        name = self.name.removesuffix(LITERAL) if self.as_printed else self.name.split(LENGTH)[0]
        return tuned(data, name, self.constant, as_printed=self.as_printed)

    def literal(self, data: str) -> Row | None:
        """The same with its printed constant, where another one was better on this data set."""
        if self.constant is None or self.settings(data).constant == self.constant.printed:
            return None
        return replace(self, name=self.name + LITERAL, as_printed=True)


@dataclass(eq=False)
class Run:
    """A trained network, its scores on unseen classes, and how it came about."""

    network: nn.Module
    scores: dict[str, float]
    validation: float
    """Recall@1 on validation classes at the best epoch, in percent."""
    best: int
    history: list[dict[str, float]]
    seconds: float


class Steps:
    """Epochs of equal length from a sampler whose own epochs have another."""

    def __init__(self, sampler: Sampler, steps: int) -> None:
        self.sampler, self.steps = sampler, steps

    def __len__(self) -> int:
        return self.steps

    def epoch(self, number: int) -> Sequence[Tensor]:
        """The batches number·steps .. (number+1)·steps of the endless row of epochs."""
        own = len(self.sampler)
        first = number * self.steps
        found: list[Tensor] = []
        for inner in range(first // own, (first + self.steps - 1) // own + 1):
            found += list(self.sampler.epoch(inner))
        return found[first % own : first % own + self.steps]


def make_sampler(kind: str, data: UnseenClasses, seed: int) -> Sampler:
    """Batches of one size for all rows: classes × items, or random items, or pairs of items."""
    plan = data.protocol
    check_choice(kind, "kind", ["classes", "uniform", "pairs"])
    classes = min(plan.classes, data.classes)
    size = classes * plan.per_class
    if kind == "uniform":
        rows = len(data.labels)
        return Steps(UniformSampler(rows, batch_size=min(rows, size), drop_last=True, seed=seed), plan.steps)
    if kind == "pairs":
        return NPairSampler(data.labels, pairs=min(size // 2, data.classes), batches=plan.steps, seed=seed)
    return ClassSampler(data.labels, n_classes=classes, per_class=plan.per_class, batches=plan.steps, seed=seed)


def plain_learner(row: Row, data: UnseenClasses, network: Network, seed: int, constant: float) -> Learner:
    """A network, a loss, a sampler."""
    if row.loss is None:
        raise TypeError(f"{row.name} has neither a loss nor a learner of its own.")
    loss = row.loss(Setting(data.classes, network.dimension, network.width, seed, constant))
    encoder: nn.Module = WithFeatures(network) if row.features else network
    return Learner(encoder, loss, make_sampler(row.sampler, data, seed), network)


def validate_row(row: Row, data: UnseenClasses, seed: int, settings: Settings) -> float:
    """Recall@1 on validation classes, in percent, with these settings: all that a choice may see."""
    return 100 * _fit(row, data, seed, settings, validate=True)[1].best_score


def run_row(row: Row, data: UnseenClasses, seed: int) -> Run:
    """Train one row with one seed and score it."""
    begin = time.perf_counter()
    settings = row.settings(data.name)
    learner, history = _fit(row, data, seed, settings, validate=True)
    best = history.best or 0
    validation = 100 * history.best_score
    kept = data
    if data.whole is not None:
        # The number of epochs is all that the second training takes from the first.
        learner, _ = _fit(row, data.whole, seed, settings, validate=False, epochs=best)
        kept = data.whole
    scores = score(learner.network, kept)
    return Run(learner.network, scores, validation, best, history.epochs, time.perf_counter() - begin)


def untrained(data: UnseenClasses, seed: int) -> Run:
    """The network as it starts, scored like the others."""
    begin = time.perf_counter()
    kept = data.whole or data
    network = kept.network(seed)
    validation = _recall(data.network(seed), data.validation)
    return Run(network, score(network, kept), validation, 0, [], time.perf_counter() - begin)


def _fit(
    row: Row, data: UnseenClasses, seed: int, settings: Settings, *, validate: bool, epochs: int | None = None
) -> tuple[Learner, History]:
    plan = data.protocol if row.epochs is None else replace(data.protocol, epochs=row.epochs)
    constant = math.nan if settings.constant is None else settings.constant
    torch.manual_seed(seed)
    network = data.network(seed)
    learner = (row.build or functools.partial(plain_learner, row))(data, network, seed, constant)
    if plan.proxies_from_means and any(isinstance(module, ProxyLoss) for module in learner.loss.modules()):
        start_class_vectors(learner.loss, data.seen.embed(network), data.labels)
    rates = {"encoder": settings.factor * plan.rate, "loss": row.proxy_rate * plan.proxy_rate}
    groups = parameter_groups({"encoder": learner.encoder, "loss": learner.loss}, rates)
    step = EncoderStep(
        learner.encoder,
        learner.loss,
        torch.optim.Adam(groups, eps=plan.eps, weight_decay=plan.decay),
        data.train,
        schedule=_schedule(plan),
    )
    history = train(
        step,
        learner.sampler,
        epochs=plan.epochs if epochs is None else epochs,
        validate=(lambda: {"recall@1": _recall(learner.network, data.validation) / 100}) if validate else None,
        callbacks=learner.callbacks,
    )
    return learner, history


def _schedule(plan: Protocol) -> Schedule | None:
    if plan.schedule == "fixed":
        return None
    if plan.schedule == "cosine":
        return cosine(plan.epochs * plan.steps)
    return milestones([epoch * plan.steps for epoch in range(plan.falls_every, plan.epochs, plan.falls_every)])


def _recall(network: nn.Module, part: Part) -> float:
    return 100 * evaluate(part.embed(network), part.labels, scores=("recall@1",), similarity="cosine")["recall@1"]


def score(network: nn.Module, data: UnseenClasses) -> dict[str, float]:
    """Recall@K, MAP@R, and how seen and unseen classes differ (λ^NN, d̂), all but d̂ in percent."""
    depths = DEPTHS.get(data.name, (1, 2, 4, 8))
    names = (*(f"recall@{k}" for k in depths), "map@r")
    unseen = data.test.embed(network)
    if data.database is None:
        found = evaluate(unseen, data.test.labels, scores=names, similarity="cosine")
    else:
        there = data.database
        found = evaluate(
            unseen, data.test.labels, there.embed(network), there.labels, scores=names, similarity="cosine"
        )
    scores = {name: 100 * found[name] for name in names}
    seen = data.seen.embed(network)
    scores["lambda"] = 100 * nn_lambda(seen, data.labels, unseen, data.test.labels)
    scores["discrepancy"] = nn_discrepancy(seen, unseen)
    return scores


def summarize(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard error over seeds of every score, for each data set and row, in the order they came.

    >>> runs = [{"data": "a", "row": "RAW", "scores": {"recall@1": value}} for value in (70.0, 72.0)]
    >>> summarize(runs)[0]["recall@1"], summarize(runs)[0]["recall@1 error"]
    (71.0, 1.0)
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["row"]), []).append(row)
    found = []
    for (data, name), members in groups.items():
        line: dict[str, Any] = {"data": data, "row": name, "seeds": len(members)}
        # A score that some of the rows were measured without has no mean.
        for key in [one for one in members[0]["scores"] if all(one in member["scores"] for member in members)]:
            values = [float(member["scores"][key]) for member in members]
            line[key] = statistics.fmean(values)
            line[f"{key} error"] = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        found.append(line)
    return found


def milestones(steps: Sequence[int], *, factor: float = 0.1, warm_up: int = 0) -> Schedule:
    """Multiplied by `factor` at each of the given steps.

    >>> [milestones([2, 4], factor=0.5)(step) for step in (0, 2, 3, 4)]
    [1.0, 0.5, 0.5, 0.25]

    Args:
        steps: the steps at which the rate falls.
        factor: by what it is multiplied.
        warm_up: steps from 0 up to 1 before it.
    """
    rise = constant(warm_up=warm_up)
    return lambda step: rise(step) * factor ** sum(step >= fall for fall in steps)
