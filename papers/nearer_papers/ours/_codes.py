"""How small can an embedding be? Nested widths and bits on BANKING77 questions (MiniLM features, 384 columns).

A linear head of 128 columns, SupCon at 0.1, batches of 64 classes × 8, AdamW at 2e-3 with one cycle, 600 steps.
"seen" searches the test questions of all 77 intents among the training questions; "unseen" trains on intents 0 to
38 and searches the test questions of the others among each other. Recall@1; equal Hamming distances count by
expectation. "float query" keeps the query unrounded against bits. Settings are those of a prototype; nothing was
tuned here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.geometry import embed, itq, normalize
from nearer.losses import BinaryLoss, NestedLoss, SupConLoss
from nearer.reports._page import Section, Table
from nearer.training import ClassSampler
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["HEADER", "KEY", "METHODS", "lines", "measure", "present", "recall_at_1", "result_file"]

KEY = ("split", "method", "width", "seed")
METHODS: dict[str, tuple[int, ...]] = {
    "features": (384,),
    "sign of the features": (384,),
    "ITQ": (64, 128),
    "floats": (16, 32, 64, 128),
    "sign of floats": (64, 128),
    "nested": (16, 32, 64, 128),
    "bits": (64, 128),
    "bits, float query": (64, 128),
}
SPLITS = ("seen", "unseen")
STEPS, RATE, PER_CLASS = 600, 2e-3, 8


def recall_at_1(
    queries: Tensor, database: Tensor, y: Tensor, other: Tensor, *, itself: bool = False, batch: int = 1024
) -> float:
    """Recall@1 by inner product; equal ones count by the share of them that is right.

    >>> ones = torch.ones(3, 2)
    >>> recall_at_1(ones[:1], ones, torch.tensor([0]), torch.tensor([0, 0, 1]))
    0.6666666865348816
    """
    right = 0.0
    for start in range(0, len(queries), batch):
        scores = queries[start : start + batch] @ database.T
        if itself:
            rows = torch.arange(len(scores))
            scores[rows, start + rows] = -torch.inf
        best = scores >= scores.amax(dim=1, keepdim=True)
        same = other[None, :] == y[start : start + batch, None]
        right += float((best & same).sum(1).div(best.sum(1)).sum())
    return right / len(queries)


def _signs(rows: Tensor) -> Tensor:
    return torch.where(rows >= 0, 1.0, -1.0)


def _train(x: Tensor, y: Tensor, width: int, loss: nn.Module, *, steps: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    head = itq(x, width, seed=seed)
    optimizer = torch.optim.AdamW([*head.parameters(), *loss.parameters()], lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps + 1)
    classes = min(64, len(torch.unique(y)))
    sampler = ClassSampler(y, n_classes=classes, per_class=PER_CLASS, batches=steps, seed=seed)
    head.train()
    for rows in sampler.epoch(0):
        value = loss(head(x[rows]), y[rows])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
    return head.eval()


def _rows(split: str) -> tuple[Tensor, Tensor, Tensor, Tensor, str]:
    data = load("banking77")
    train, test = data["train"], data["test"]
    x, y = torch.from_numpy(train.matrix()), torch.from_numpy(train.y)
    z, t = torch.from_numpy(test.matrix()), torch.from_numpy(test.y)
    if split == "unseen":
        x, y, z, t = x[y < 39], y[y < 39], z[t >= 39], t[t >= 39]
    return normalize(x), y, normalize(z), t, data.fingerprint()


def _scored(split: str, query: Tensor, database: Tensor, y: Tensor, t: Tensor) -> float:
    if split == "seen":
        return recall_at_1(query, database, t, y)
    return recall_at_1(query, database, t, t, itself=True)


def _measure(split: str, method: str, width: int, seed: int, *, steps: int) -> tuple[float, str]:
    x, y, z, t, fingerprint = _rows(split)
    if method in ("features", "sign of the features"):
        rows = [z, x if split == "seen" else z]
        if method != "features":
            rows = [_signs(one - x.mean(0)) for one in rows]
        return _scored(split, rows[0], rows[1], y, t), fingerprint
    if method == "ITQ":
        head: nn.Module = itq(x, width, seed=seed)
    elif method == "nested":
        head = _train(x, y, 128, NestedLoss(SupConLoss(), widths=METHODS["nested"]), steps=steps, seed=seed)
    elif method.startswith("bits"):
        head = _train(x, y, width, BinaryLoss(SupConLoss(), steps=steps), steps=steps, seed=seed)
    else:
        head = _train(x, y, width, SupConLoss(), steps=steps, seed=seed)
    query, database = embed(head, z)[:, :width], embed(head, x if split == "seen" else z)[:, :width]
    if method in ("ITQ", "sign of floats", "bits"):
        query, database = _signs(query), _signs(database)
    elif method == "bits, float query":
        query, database = normalize(query), _signs(database)
    else:
        query, database = normalize(query), normalize(database)
    return _scored(split, query, database, y, t), fingerprint


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "codes"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the splits and methods that `only` names; the quick form is one seed of the seen classes, 100
    steps.
    """
    for name in request.only:
        check_choice(name, "only", [*SPLITS, *METHODS])
    splits = [one for one in SPLITS if one in request.only] or (["seen"] if request.quick else list(SPLITS))
    methods = [one for one in METHODS if one in request.only] or list(METHODS)
    plan = [
        (split, method, width, seed)
        for split in splits
        for method in methods
        for width in METHODS[method]
        for seed in range(1 if request.quick or "features" in method else request.seeds)
        if (split, method, width, seed) not in request.done
    ]
    for number, (split, method, width, seed) in enumerate(plan):
        request.progress(f"{split}: {method}, {width}, seed {seed}", number / len(plan))
        recall, fingerprint = _measure(split, method, width, seed, steps=100 if request.quick else STEPS)
        row = {"split": split, "method": method, "width": width, "seed": seed, "recall@1": recall}
        yield Measured(row, fingerprint)


HEADER = ("code", "columns", "bytes", "seen", "unseen", "seeds")


def lines(rows: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """One line for each method and width: the mean over the seeds."""
    shown: list[tuple[object, ...]] = []
    for method, widths in METHODS.items():
        for width in widths:
            cells, seeds = [], 0
            for split in SPLITS:
                mine = [
                    row["recall@1"]
                    for row in rows
                    if (row["split"], row["method"], row["width"]) == (split, method, width)
                ]
                seeds = max(seeds, len(mine))
                cells.append(f"{np.mean(mine):.4f}" if mine else "")
            small = method in ("ITQ", "bits", "bits, float query") or method.startswith("sign")
            if seeds:
                shown.append((method, width, width // 8 if small else 4 * width, *cells, seeds))
    return shown


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One table."""
    text = "Recall@1 of questions among the training questions (seen) and of new intents among each other (unseen)."
    return Outcome("Small codes", [Section("BANKING77", [text, Table(HEADER, lines(rows))])], {})
