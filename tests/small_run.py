"""A small training run as a program of its own, so that tests can kill it, resume it and run it in many processes.

python small_run.py FOLDER [--every N] [--epochs N] [--die-at STEP] [--die-rank N] [--slow SECONDS] [--loss NAME]

Ends by writing the sha256 of all weights to FOLDER/digest-<rank>.txt and every loss to FOLDER/losses-<rank>.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from nearer import losses
from nearer.geometry import MLP
from nearer.mining import VTHM
from nearer.training import (
    Checkpoints,
    ClassSampler,
    EncoderStep,
    JSONLinesLog,
    TensorBatches,
    cosine,
    process_group,
    train,
)
from nearer.training import _processes as processes
from nearer.training._alternating import AlternatingStep, Plan
from nearer.training._neighborhood_angular import PseudoLabelAngular
from nearer.training._processes import rank


class Noisy(nn.Module):
    """An encoder that draws random numbers from all three generators."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.encoder = MLP(8, 4, hidden=(16,), generator=torch.Generator().manual_seed(1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.dropout.p:
            x = x + 1e-3 * float(np.random.rand())  # noqa: NPY002
        return self.encoder(self.dropout(x))


LOSSES = {
    "raw": lambda: losses.RAWLoss(miner=VTHM()),
    "supcon": losses.SupConLoss,
    "margin": lambda: losses.MarginLoss(),
    # Six classes on two processes: each has the vectors of three.
    "proxy": lambda: losses.AMSoftmaxLoss(6, 4, generator=torch.Generator().manual_seed(3)),
    "memory": lambda: losses.CrossBatchMemory(losses.ContrastiveLoss(), size=40, embedding_dim=4),
}


def digest(module: nn.Module) -> str:
    sums = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        sums.update(name.encode())
        sums.update(tensor.numpy().tobytes())
    return sums.hexdigest()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--die-at", type=int)
    parser.add_argument("--die-rank", type=int, default=1, help="the process that dies there")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--loss", nargs="+", default=["raw"], help="one run for each, in a folder of its own")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--large", type=int, help="the size from which gradients are averaged early")
    settings = parser.parse_args(arguments)
    if settings.large is not None:
        processes.LARGE = settings.large
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random = torch.Generator().manual_seed(5)
    labels = torch.arange(6).repeat_interleave(20)
    items = torch.randn(6, 8, generator=random)[labels] + 0.7 * torch.randn(120, 8, generator=random)
    with process_group(timeout=30):
        for name in settings.loss:
            learn(settings, name, items, labels)


def plain(settings, encoder, loss, items, labels):
    adam = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=0.01)
    sampler = ClassSampler(labels, n_classes=6, per_class=4, seed=2)
    schedule = cosine(settings.epochs * len(sampler))
    return EncoderStep(encoder, loss, adam, TensorBatches(items, labels), schedule=schedule), sampler


def alternating(settings, encoder, items, labels):
    """The semi-supervised loop: two labels of each class, the graph, the orthogonal metric."""
    few = torch.where(torch.arange(len(labels)) % 20 < 2, labels, -1)
    learner = PseudoLabelAngular(4, 3, k=6, generator=torch.Generator().manual_seed(4))
    plan = Plan(partitions=settings.epochs, epochs=1, unlabeled=80, batch_size=23)
    step = AlternatingStep(encoder, learner, torch.optim.Adam(encoder.parameters(), lr=0.01), items, few, plan=plan)
    return step, step.sampler()


def learn(settings: argparse.Namespace, name: str, items: torch.Tensor, labels: torch.Tensor) -> None:
    folder = settings.folder / name if len(settings.loss) > 1 else settings.folder
    folder.mkdir(exist_ok=True)
    encoder = Noisy(settings.dropout)
    step, sampler = (
        alternating(settings, encoder, items, labels)
        if name == "alternating"
        else plain(settings, encoder, LOSSES[name](), items, labels)
    )
    seen = []
    # Another process may die for good only once: the second life of an elastic job must go on.
    marker = settings.folder / "died"

    def watch(moment):
        if moment.kind == "step":
            seen.append(moment.values["loss"])
            if settings.slow:
                time.sleep(settings.slow)
            if settings.die_at == moment.step and rank() == settings.die_rank and not marker.exists():
                marker.touch()
                os._exit(13)

    def validate():
        with torch.no_grad():
            encoder.eval()
            value = -float(losses.ContrastiveLoss()(encoder(items), labels))
        return {"score": value}

    train(
        step,
        sampler,
        epochs=settings.epochs,
        validate=validate,
        callbacks=[JSONLinesLog(folder / "log.jsonl"), watch],
        checkpoints=Checkpoints(folder / "checkpoints", every=settings.every),
    )
    number = rank()
    (folder / f"digest-{number}.txt").write_text(digest(step.module))
    (folder / f"losses-{number}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
