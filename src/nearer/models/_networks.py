"""Networks under `nearer fit`: an encoder for the data, a loss by name, batches, validation, checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer import losses, mining
from nearer._checks import check_choice
from nearer.evaluation import recall_at_k
from nearer.exceptions import ParameterError
from nearer.geometry import MLP, Chain, embed
from nearer.geometry._shared import ColorCNN, DigitsCNN, Standardize
from nearer.losses import RAWLoss
from nearer.mining import VTHM
from nearer.models._learning import Learned, Watch
from nearer.models._problem import Problem
from nearer.models._scoring import evaluate_problem, main_score
from nearer.models._settings import FitSettings
from nearer.pairwise import Miner
from nearer.relations._shared import relation_of
from nearer.training import ClassSampler, EncoderStep, TensorBatches, UniformSampler, cosine, train
from nearer.training._shared import Sampler

VALIDATION = 0.15
PER_CLASS = 4
DIMENSIONS = 64
# Training rows that validation searches in; more would only cost time.
SEARCHED = 10_000
# What losses are made of, and those around a loss.
BASES = ("PairLoss", "RowLoss")


class _RelatedBatches(TensorBatches):
    """Label sets or distributions reach the loss as a relation between the items of the batch."""

    def labels(self, rows: Tensor) -> Any:
        return relation_of(super().labels(rows).numpy())


def train_network(problem: Problem, settings: FitSettings, watch: Watch, target: str) -> Learned:
    """Train with the loss `target`, or that of the settings, on the training rows but a few, which choose the best
    epoch.
    """
    torch.manual_seed(settings.seed)
    inner = problem.inner(share=VALIDATION, seed=settings.seed + 1)
    encoder = encoder_for(problem, settings)
    with torch.no_grad():
        width = int(encoder(torch.from_numpy(problem.items[:2])).shape[1])
    loss = _loss(target, settings, problem, width)
    rows = inner.train
    table = problem.labels.ndim == 2
    batches = _RelatedBatches if table else TensorBatches
    data = batches(torch.from_numpy(problem.items[rows]), torch.from_numpy(problem.labels[rows]))
    sampler = _sampler(problem.labels[rows], settings)
    optimizer = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=settings.lr)
    step = EncoderStep(
        encoder,
        loss,
        optimizer,
        data,
        schedule=cosine(settings.epochs * len(sampler)),
        precision=settings.precision,
        chunk=settings.chunk,
    )

    def validate() -> Mapping[str, float]:
        if not table:
            held_out = inner.held_out
            embeddings = embed(encoder, torch.from_numpy(problem.items[held_out]))
            if inner.split == "classes":
                return {"recall@1": recall_at_k(embeddings, problem.labels[held_out], k=1, similarity="euclidean")}
            known = rows[problem.labels[rows] >= 0][:SEARCHED]
            database = embed(encoder, torch.from_numpy(problem.items[known]))
            score = recall_at_k(
                embeddings, problem.labels[held_out], database, problem.labels[known], k=1, similarity="euclidean"
            )
            return {"recall@1": score}
        scores = evaluate_problem(inner, lambda items: embed(encoder, torch.from_numpy(items)).numpy(), quick=True)
        return {"validation": main_score(scores)}

    history = train(
        step,
        sampler,
        epochs=settings.epochs,
        validate=validate,
        patience=settings.patience,
        callbacks=[*watch.logs(), *watch.callbacks],
        checkpoints=watch.checkpoints(),
    )
    return Learned(encoder.eval(), history)


def encoder_for(problem: Problem, settings: FitSettings) -> nn.Module:
    """The network for these items, untrained."""
    generator = torch.Generator().manual_seed(settings.seed)
    if problem.images:
        if problem.inputs.size[0] == 1:
            return DigitsCNN(settings.n_components or 128, batch_norm=True, generator=generator)
        if settings.n_components not in (None, 64):
            raise ParameterError(
                f"`n_components` must be 64 for the small network on colour images, got {settings.n_components}."
            )
        return ColorCNN(batch_norm=True, generator=generator)
    width = problem.inputs.size[0]
    network = MLP(width, settings.n_components or DIMENSIONS, hidden=settings.hidden, generator=generator)
    if not settings.standardize:
        return Chain(network)
    return Chain(Standardize.from_rows(problem.items[problem.train]), network)


def _loss(target: str, settings: FitSettings, problem: Problem, width: int) -> nn.Module:
    if target and target != "RAWLoss":
        return getattr(losses, target)()
    return named_loss(FitSettings() if target else settings, problem.n_classes, width)


def named_loss(settings: FitSettings, n_classes: int, width: int) -> nn.Module:
    """The loss of the settings for embeddings of this width; RAW weights with valid-triplet hard mining by
    default.
    """
    if settings.loss is None:
        return RAWLoss(miner=VTHM())
    names = [name for name in losses.__all__ if name.endswith("Loss") and name not in BASES]
    name = check_choice(settings.loss, "loss", names)
    kind = getattr(losses, name)
    known = inspect.signature(kind).parameters
    wanted = dict(settings.loss_settings)
    # A loss with class vectors is told how many classes and dimensions there are.
    for setting, value in (("n_classes", n_classes), ("embedding_dim", width)):
        if setting in known and known[setting].default is inspect.Parameter.empty:
            wanted.setdefault(setting, value)
    _with_miner(wanted, name)
    for setting in wanted:
        check_choice(setting, f"setting of {name}", list(known))
    if "layers" in inspect.signature(kind.forward).parameters:
        raise ParameterError(
            f"`loss` must be one of embeddings and labels, {name} is one of layers. JRDLoss takes it beside "
            f"AMSoftmax."
        )
    if "softmax" in known:
        wanted.setdefault("softmax", losses.AMSoftmaxLoss(n_classes, width))
    needs = [
        parameter.name
        for parameter in known.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.name not in wanted
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if needs:
        raise ParameterError(
            f"`loss` must be one that works on embeddings and labels alone, {name} needs {needs[0]}."
        )
    return kind(**wanted)


def _with_miner(wanted: dict[str, Any], loss: str) -> None:
    """Make the miner that settings name: `miner` "VTHM", and its own settings as `miner.margin`."""
    own = {key.partition(".")[2]: wanted.pop(key) for key in [*wanted] if key.startswith("miner.")}
    name = wanted.get("miner")
    if not isinstance(name, str):
        if own:
            raise ParameterError(
                f"`miner.{next(iter(own))}` must come with `miner`, the name of a miner for {loss}."
            )
        return
    known = {entry: getattr(mining, entry) for entry in dir(mining) if not entry.startswith("_")}
    miners = [entry for entry, kind in known.items() if inspect.isclass(kind) and issubclass(kind, Miner)]
    kind = known[check_choice(name, "miner", miners)]
    settings = inspect.signature(kind).parameters
    for setting in own:
        check_choice(setting, f"setting of {name}", list(settings))
    wanted["miner"] = kind(**own)


def _sampler(labels: np.ndarray[Any, Any], settings: FitSettings) -> Sampler:
    if labels.ndim == 2:
        return UniformSampler(len(labels), batch_size=min(settings.batch_size, len(labels)), seed=settings.seed)
    names, counts = np.unique(labels[labels >= 0], return_counts=True)
    # With few classes all of them are in a batch, with more items each.
    classes = min(len(names), max(2, settings.batch_size // PER_CLASS))
    per_class = max(2, min(settings.batch_size // classes, int(np.median(counts))))
    return ClassSampler(labels, n_classes=classes, per_class=per_class, seed=settings.seed)
