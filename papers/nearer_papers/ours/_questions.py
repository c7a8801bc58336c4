"""How many answers does a metric need? Questions by influence beside random ones and beside margin sampling.

Twenty random labels to begin with, then batches of twenty answers up to 400. After each batch a linear metric is
learned from the labels, spread over the graph of the training rows with equal classes: whitening inside classes,
weighted by confidence, shrunk by .3, and the directions of the class means weighted by √(b/(b + 1)). MAP@R on
held-out rows (30 %, at most 2,000; at most 5,000 train). "Answers for random's" is the smallest number of answers
at which the strategy has reached the MAP@R of random answers at 200 and at 400, from the mean curves. For pairs an
answer is same or different, and groups of rows that are the same stand for classes; where scikit-query and
cobras-ts are installed, the pairs that they ask for are rows too.

The rule was settled in a prototype on the same data sets with other splits; nothing was tuned here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from nearer._checks import check_choice
from nearer.datasets import load, stratified_split
from nearer.evaluation import evaluate
from nearer.judging import suggest_pairs
from nearer.judging._influence import graph_of, pick, spread, walk
from nearer.judging._suggest import groups_of
from nearer.neighbors import Neighbors
from nearer.relations import Pairs
from nearer.reports import training_curve
from nearer.reports._page import Picture, Section, Table
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.ours._question_peers import PEERS, asked_pairs, installed

__all__ = ["KEY", "SETS", "STRATEGIES", "learn_from_spread", "lines", "measure", "present", "result_file"]

Array = NDArray[Any]
KEY = ("data", "strategy", "seed")
SETS = {"digits": None, "fashion_mnist": 50, "isolet": 50, "banking77": None}
STRATEGIES = ("random", "margin", "influence", "random pairs", "suggested pairs", *PEERS)
BATCH, MOST, FIRST = 20, 400, 20
SEEDS = 5
MOST_TRAIN, MOST_HELD_OUT = 5_000, 2_000
# What every direction keeps: with two or three classes known the others are not yet to be thrown away.
FLOOR = 0.1


def learn_from_spread(neighbors: Neighbors, x: Array, labels: Array) -> Array:
    """The matrix (p, p) learned from labels (n,), −1 for unknown, spread over a graph; I for one class."""
    spread_labels = spread(neighbors, labels)
    shares, classes = spread_labels.shares.numpy(), spread_labels.classes.numpy()
    c = len(classes)
    if c < 2:
        return np.eye(x.shape[1])
    confidence, codes = np.square(shares.max(axis=1)), shares.argmax(axis=1)
    known = labels >= 0
    codes[known], confidence[known] = np.searchsorted(classes, labels[known]), 1.0
    weight = np.bincount(codes, confidence, minlength=c)
    sums = np.stack([np.bincount(codes, confidence * column, minlength=c) for column in x.T], axis=1)
    means = sums / np.maximum(weight, 1e-12)[:, None]
    rest = x - means[codes]
    within = (rest * confidence[:, None]).T @ rest / confidence.sum()
    within = 0.7 * within + 0.3 * np.trace(within) / len(within) * np.eye(len(within))
    values, vectors = np.linalg.eigh(within)
    white = vectors / np.sqrt(values) @ vectors.T
    centers = (means - means.mean(axis=0)) @ white
    between, axes = np.linalg.eigh(centers.T @ centers / c)
    between = np.maximum(between, 0) + FLOOR
    learned: Array = white @ (axes * np.sqrt(between / (between + 1)))
    return learned


def _rows(name: str, seed: int) -> tuple[Array, Array, Array, Array, str]:
    data = load(name)
    x, y = data.all.matrix(), data.all.y
    train, held_out = stratified_split(y, test=min(MOST_HELD_OUT, round(0.3 * len(y))), seed=seed)
    train = np.random.default_rng(seed).permutation(train)[:MOST_TRAIN]
    first, second = x[train], x[held_out]
    width = SETS[name]
    if width is not None:
        pca = PCA(width, random_state=0).fit(first)
        first, second = (pca.transform(one).astype(np.float32) for one in (first, second))
    return first, y[train], second, y[held_out], data.fingerprint()


def _curve(strategy: str, x: Array, y: Array, test: Array, test_y: Array, seed: int, most: int) -> dict[int, float]:
    neighbors = graph_of(x)
    S = walk(neighbors)
    rng = np.random.default_rng(seed)
    found: dict[int, float] = {}

    def score(labels: Array) -> float:
        return evaluate(test @ learn_from_spread(neighbors, x, labels), test_y, scores=["map@r"])["map@r"]

    if "pairs" in strategy:
        listed = asked_pairs(strategy, x, y, most, seed) if strategy in PEERS else []
        asked: dict[tuple[int, int], bool] = {}
        while len(asked) < most:
            if strategy in PEERS:
                fresh, listed = np.array(listed[:BATCH]).reshape(-1, 2), listed[BATCH:]
            elif strategy == "random pairs":
                fresh = rng.integers(0, len(y), (BATCH, 2))
            else:
                fresh = suggest_pairs(None, x, _answers(asked, len(y)) if asked else None, BATCH)
            if not len(fresh):
                # A library that asks no more is done; its last score stands.
                return found
            for a, b in fresh.tolist():
                asked[min(a, b), max(a, b)] = bool(y[a] == y[b])
            groups, _ = groups_of(_answers(asked, len(y)))
            found[len(asked)] = score(np.where(np.isin(groups, _of_two(groups)), groups, -1))
        return found
    labels = np.full(len(y), -1, dtype=np.int64)
    order = rng.permutation(len(y))
    labels[order[:FIRST]] = y[order[:FIRST]]
    while True:
        count = int((labels >= 0).sum())
        found[count] = score(labels)
        if count >= most:
            return found
        if strategy == "random":
            fresh = order[count : count + BATCH]
        elif strategy == "margin":
            lead = np.where(labels < 0, spread(neighbors, labels).lead.numpy(), np.inf)
            fresh = np.argsort(lead, kind="stable")[:BATCH]
        else:
            fresh = np.array(pick(S, spread(neighbors, labels), BATCH, allowed=labels < 0))
        labels[fresh] = y[fresh]


def _answers(asked: Mapping[tuple[int, int], bool], n: int) -> Pairs:
    near = [pair for pair, same in asked.items() if same and pair[0] != pair[1]]
    return Pairs(n, positive=near, negative=[pair for pair, same in asked.items() if not same])


def _of_two(groups: Array) -> Array:
    """Groups of at least two rows: an item that was only ever different says nothing of its class."""
    names, sizes = np.unique(groups[groups >= 0], return_counts=True)
    found: Array = names[sizes > 1]
    return found


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "questions"


def measure(request: Request) -> Iterator[Measured]:
    """Curves of the sets and strategies that `only` names; the quick form is one seed of digits up to 100
    answers.
    """
    for name in request.only:
        check_choice(name, "only", [*SETS, *STRATEGIES])
    sets = [name for name in SETS if name in request.only] or (["digits"] if request.quick else list(SETS))
    strategies = [one for one in STRATEGIES if one in request.only]
    strategies = strategies or [
        one for one in STRATEGIES if installed(one) and not (request.quick and one in PEERS)
    ]
    seeds = 1 if request.quick else max(request.seeds, SEEDS)
    plan = [
        (name, strategy, seed)
        for name in sets
        for seed in range(seeds)
        for strategy in strategies
        if (name, strategy, seed) not in request.done
    ]
    held: tuple[str, int] | None = None
    for number, (name, strategy, seed) in enumerate(plan):
        request.progress(f"{name}, seed {seed}: {strategy}", number / len(plan))
        if held != (name, seed):
            (x, y, test, test_y, fingerprint), held = _rows(name, seed), (name, seed)
        curve = _curve(strategy, x, y, test, test_y, seed, 100 if request.quick else MOST)
        row = {"data": name, "strategy": strategy, "seed": seed, "train": len(x), "held_out": len(test)}
        yield Measured({**row, "map@r": {str(count): value for count, value in curve.items()}}, fingerprint)


def _mean_curve(rows: Sequence[Mapping[str, Any]], data: str, strategy: str) -> tuple[dict[int, float], int]:
    """MAP@R by the number of answers, mean over seeds; counts that do not end on a batch are read between two."""
    curves = [row["map@r"] for row in rows if (row["data"], row["strategy"]) == (data, strategy)]
    steps = np.arange(BATCH, MOST + 1, BATCH)
    values = [
        np.interp(steps, [int(count) for count in curve], [float(curve[count]) for count in curve])
        for curve in curves
    ]
    if not values:
        return {}, 0
    return dict(zip(steps.tolist(), np.mean(values, axis=0).tolist(), strict=True)), len(values)


HEADER = (
    "data",
    "questions",
    "seeds",
    "MAP@R at 100",
    "at 200",
    "at 400",
    "answers for random's 200",
    "for random's 400",
)


def lines(rows: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """One line for each set and strategy."""
    shown: list[tuple[object, ...]] = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for strategy in STRATEGIES:
            curve, seeds = _mean_curve(rows, data, strategy)
            if not curve:
                continue
            rival, _ = _mean_curve(rows, data, "random pairs" if "pairs" in strategy else "random")
            needed = []
            for at in (200, 400):
                reached = [count for count, value in curve.items() if rival and value >= rival[at]]
                needed.append(str(reached[0]) if reached else "more than 400")
            if strategy.startswith("random"):
                needed = ["200", "400"]
            shown.append((data, strategy, seeds, *(f"{curve[at]:.4f}" for at in (100, 200, 400)), *needed))
    return shown


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """The table, and the mean curves of every set."""
    text = "MAP@R on held-out rows by the number of answers, and how many answers reach what random ones do."
    sections = [Section("Answers", [text, Table(HEADER, lines(rows))])]
    for data in dict.fromkeys(row["data"] for row in rows):
        series = {
            f"MAP@R/{strategy}": list(_mean_curve(rows, data, strategy)[0].values())
            for strategy in STRATEGIES
            if _mean_curve(rows, data, strategy)[0] and "pairs" not in strategy
        }
        if series:
            figure = training_curve(series, title=data, unit=f"batches of {BATCH} answers")
            sections.append(Section(data, [Picture(figure, f"MAP@R on {data} by the number of answers")]))
    return Outcome("What to ask next", sections, {})
