"""A taxonomy behind a pair loss and behind RAML: car models of makes, are mistakes less severe at equal Recall@1?

2,500 of the 8,144 frozen features of Cars-196 ask, the others are searched in and learned from. `closed form` is
`WithinClass` on car models, and the space that the others start from. `leaf loss` trains a square linear map from
there by RAW on car models alone, `tree loss` by the same loss, rate and batches with `Soft(Tree(...))`, half of
which is about makes; `leaf raml` and `tree raml` are RAML-KRR on the label sets of models, and of models and makes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.estimators import RAMLKRR, WithinClass
from nearer.evaluation import evaluate_tree
from nearer.geometry import normalize
from nearer.losses import RAWLoss
from nearer.relations import Soft, Tree
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["HEADER", "KEY", "METHODS", "measure", "present", "result_file", "summary"]

KEY = ("method", "seed")
METHODS = ("closed form", "leaf loss", "tree loss", "leaf raml", "tree raml")
ASKED, DRAWS = 2_500, 3
# Of the linear map: 20 car models of 4 photos in a batch, Adam with a cosine. The rate was chosen on draw 0 for the
# leaf loss, among 1e-3, 1e-4 and 3e-5; the tree loss takes the same. There a third about makes was tried too.
STEPS, RATE, CLASSES, PHOTOS = 280, 1e-4, 20, 4
TWO_WORDS = {"AM", "Aston", "Land"}


@cache
def features() -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    """All rows, the make and the model of each as numbers (n, 2), and the fingerprint of the set."""
    data = load("cars196_features")
    words = [name.split() for name in data.class_names]
    makes = [" ".join(name[: 2 if name[0] in TWO_WORDS else 1]) for name in words]
    of_class = np.unique(makes, return_inverse=True)[1]
    return data.all.matrix(), np.stack([of_class[data.all.y], data.all.y], axis=1), data.fingerprint()


def _trained(rows: torch.Tensor, paths: torch.Tensor, *, tree: bool, seed: int) -> torch.Tensor:
    """The square map of rows of length one that a loss has learned, from the identity on."""
    rng, loss = np.random.default_rng(seed), RAWLoss()
    weight = torch.eye(rows.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([weight], RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    members = [np.flatnonzero(paths[:, 1] == leaf) for leaf in torch.unique(paths[:, 1])]
    for _ in range(STEPS):
        drawn = rng.permutation(len(members))[:CLASSES]
        batch = np.concatenate([rng.choice(members[one], PHOTOS) for one in drawn])
        relation: Any = Soft(Tree(paths[batch]), levels=2) if tree else paths[batch, 1]
        optimizer.zero_grad()
        loss(torch.nn.functional.normalize(rows[batch] @ weight), relation).backward()
        optimizer.step()
        schedule.step()
    return weight.detach()


def _measure_row(method: str, seed: int) -> Measured:
    rows, paths, fingerprint = features()
    order = np.random.default_rng(seed).permutation(len(rows))
    asked, known = order[:ASKED], order[ASKED:]
    begin = time.process_time()
    start = WithinClass(random_state=seed).fit(rows[known], paths[known, 1])
    learned = torch.from_numpy(np.asarray(normalize(start.transform(rows)), dtype=np.float32))
    nodes = torch.from_numpy(paths)
    if method.endswith("loss"):
        weight = _trained(learned[known], nodes[known], tree=method.startswith("tree"), seed=seed)
        learned = torch.nn.functional.normalize(learned @ weight)
    elif method.endswith("raml"):
        levels = nodes[known] if method.startswith("tree") else nodes[known][:, 1:]
        sets = Tree(levels).ancestors().numpy()
        fitted = RAMLKRR(random_state=seed).fit(learned[known].numpy(), sets)
        learned = torch.from_numpy(np.asarray(fitted.transform(learned.numpy()), dtype=np.float32))
    seconds = time.process_time() - begin
    scores = evaluate_tree(learned[asked], nodes[asked], learned[known], nodes[known])
    row = {"method": method, "seed": seed, "scores": dict(scores), "cpu_seconds": round(seconds, 1)}
    return Measured(row, fingerprint)


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "taxonomy"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the methods that `only` names, three draws of each; the quick form is one draw without RAML."""
    for name in request.only:
        check_choice(name, "only", list(METHODS))
    plan = [
        (method, seed)
        for method in (METHODS[:3] if request.quick else METHODS)
        if not request.only or method in request.only
        for seed in range(1 if request.quick else DRAWS)
        if (method, seed) not in request.done
    ]
    for number, one in enumerate(plan):
        request.progress(f"{one[0]}, draw {one[1]}", number / len(plan))
        yield _measure_row(*one)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Every method: the mean of each score over the draws, recalls in points."""
    lines = []
    for method in METHODS:
        mine = [row["scores"] for row in rows if row["method"] == method]
        if mine:
            means = [statistics.mean(100 * one[f"recall@1, level {level}"] for one in mine) for level in (2, 1)]
            others = [
                statistics.mean(one[name] for one in mine) for name in ("mistake", "hierarchical-precision@10")
            ]
            severe = f"{100 - means[1]:.1f}"
            lines.append([method, f"{means[0]:.1f}", severe, *(f"{one:.3f}" for one in others), str(len(mine))])
    return lines


HEADER = ("method", "recall@1", "another make", "levels of a mistake", "hierarchical precision@10", "draws")


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each method."""
    text = "Of the nearest photo: its model is right, its make is wrong, in percent; models never left out."
    return Outcome("A taxonomy of cars", [Section("Mistakes", [text, Table(list(HEADER), summary(rows))])], {})
