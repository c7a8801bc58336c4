"""Do no harm: every semi-supervised linear learner at its defaults against the features it was given.

Eight data sets with 5, 10 and 50 labels per class, three seeds. 30 % of the rows, at most 2,000, are held out; at
most 3,000 of the others are trained on, of which the labelled ones are a random few of every class. Recall@1 is
among the held-out rows, 1-NN accuracy that of held-out rows by the nearest of all training rows, "few" the same by
the nearest labelled one. "published" is the learner with blend=0. The rule of the default blend was settled on the
seeds 100 and 101; the first rows of seed 0 were seen too, so they are not among those that are reported.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from nearer._checks import check_choice
from nearer.datasets import few_labels, load, stratified_split
from nearer.estimators import APIT, APLLR, ISDML, LRML, SERAPH, SemiSupervisedMetric
from nearer.exceptions import NearerWarning
from nearer.neighbors import search
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "LEARNERS", "SETS", "measure", "present", "result_file", "summary"]

KEY = ("set", "labels_per_class", "seed", "learner")
SETS = {
    "digits": "as it is",
    "usps": "pca 50",
    "letter": "standardized",
    "satimage": "standardized",
    "isolet": "pca 50",
    "mnist": "pca 50",
    "fashion_mnist": "pca 50",
    "coil20": "pca 50",
}
LABELS = (5, 10, 50)
SEEDS = (10, 11, 12)
MOST_TRAIN, MOST_HELD_OUT, SHARE = 3000, 2000, 0.3
LEARNERS: dict[str, Any] = {
    "SemiSupervisedMetric": lambda **more: SemiSupervisedMetric(random_state=0, **more),
    "LRML": lambda **more: LRML(**more),
    "SERAPH": lambda **more: SERAPH(random_state=0, **more),
    "ISDML": lambda **more: ISDML(**more),
    "APLLR": lambda **more: APLLR(**more),
    "APIT": lambda **more: APIT(random_state=0, **more),
}


def rows_of(name: str, seed: int) -> dict[str, Any]:
    """The features a learner is given: held out, training, and their classes."""
    data = load(name)
    everything = data.all
    x, y = everything.matrix().astype(np.float64), everything.y
    train, held_out = stratified_split(y, test=min(MOST_HELD_OUT, round(SHARE * len(y))), seed=seed)
    train = np.random.default_rng(seed).permutation(train)[:MOST_TRAIN]
    first, second = x[train], x[held_out]
    if SETS[name] == "pca 50":
        pca = PCA(50, random_state=0).fit(first)
        first, second = pca.transform(first), pca.transform(second)
    elif SETS[name] == "standardized":
        mean, deviation = first.mean(axis=0), first.std(axis=0)
        deviation[deviation == 0] = 1
        first, second = (first - mean) / deviation, (second - mean) / deviation
    return {"x": first, "y": y[train], "test": second, "test_y": y[held_out], "data": data.fingerprint()}


def scores(train: Any, test: Any, rows: dict[str, Any], given: Any) -> dict[str, float]:
    y, wanted, known = rows["y"], rows["test_y"], given >= 0
    among = search(test, k=1).indices[:, 0].numpy()
    nearest = search(test, train, 1).indices[:, 0].numpy()
    few = search(test, train[known], 1).indices[:, 0].numpy()
    return {
        "recall@1": float((wanted[among] == wanted).mean()),
        "1-nn": float((y[nearest] == wanted).mean()),
        "few": float((given[known][few] == wanted).mean()),
    }


def _measure_row(name: str, per_class: int, seed: int, learner: str, rows: dict[str, Any]) -> dict[str, Any]:
    given = few_labels(rows["y"], per_class=per_class, seed=seed)
    with warnings.catch_warnings():
        # A method that stops early is measured as it is.
        warnings.simplefilter("ignore", NearerWarning)
        begin = time.perf_counter()
        fitted = LEARNERS[learner]().fit(rows["x"], given)
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        published = LEARNERS[learner](blend=0.0).fit(rows["x"], given)
        published_seconds = time.perf_counter() - begin

    def of(one: Any) -> dict[str, float]:
        return scores(one.transform(rows["x"]), one.transform(rows["test"]), rows, given)

    return {
        "set": name,
        "features": SETS[name],
        "labels_per_class": per_class,
        "seed": seed,
        "learner": learner,
        "train": len(rows["x"]),
        "labeled": int((given >= 0).sum()),
        "held_out": len(rows["test"]),
        "columns": rows["x"].shape[1],
        "raw": scores(rows["x"], rows["test"], rows, given),
        "learned": of(fitted),
        "published": of(published),
        "blend": float(fitted.blend_),
        "seconds": round(seconds, 2),
        "published_seconds": round(published_seconds, 2),
    }


def result_file(row: Mapping[str, Any]) -> str:
    """All data sets in one file."""
    return "partial_labels"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the data sets and learners that `only` names; the quick form is one seed of digits, ten labels."""
    for name in request.only:
        check_choice(name, "only", [*SETS, *LEARNERS])
    sets = [name for name in SETS if name in request.only] or (["digits"] if request.quick else list(SETS))
    learners = [name for name in LEARNERS if name in request.only] or list(LEARNERS)
    labels = (10,) if request.quick else LABELS
    seeds = SEEDS[: 1 if request.quick else request.seeds]
    plan = [
        (name, per_class, seed, learner)
        for seed in seeds
        for name in sets
        for per_class in labels
        for learner in learners
        if (name, per_class, seed, learner) not in request.done
    ]
    held: tuple[str, int] | None = None
    for number, (name, per_class, seed, learner) in enumerate(plan):
        request.progress(f"{name}, {per_class} labels, seed {seed}: {learner}", number / len(plan))
        if held != (name, seed):
            rows, held = rows_of(name, seed), (name, seed)
        yield Measured(_measure_row(name, per_class, seed, learner, rows), rows["data"])


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every learner over all rows, in points: mean gain over the features, the worst, and losses of a point."""
    lines = []
    for learner in dict.fromkeys(row["learner"] for row in rows):
        mine = [row for row in rows if row["learner"] == learner]
        line: dict[str, Any] = {"learner": learner, "runs": len(mine)}
        for side, score in (("learned", "recall@1"), ("learned", "1-nn"), ("published", "recall@1")):
            gains = [100 * (row[side][score] - row["raw"][score]) for row in mine]
            line[f"{side} {score}"] = {
                "mean": statistics.mean(gains),
                "worst": min(gains),
                "lost": sum(gain < -1 for gain in gains),
            }
        lines.append(line)
    return lines


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each learner."""
    lines = []
    for line in summary(rows):
        cells: list[object] = [line["learner"], line["runs"]]
        for key in ("learned recall@1", "learned 1-nn", "published recall@1"):
            cells += [f"{line[key]['mean']:+.2f}", f"{line[key]['worst']:+.2f}", line[key]["lost"]]
        lines.append(cells)
    header = [
        "learner",
        "runs",
        "R@1",
        "worst",
        "below −1",
        "1-NN",
        "worst ",
        "below −1 ",
        "blend=0: R@1",
        "worst  ",
        "below −1  ",
    ]
    text = "Points gained over the features that the learner was given, at its defaults and as published."
    return Outcome("Few labels, linear learners", [Section("Do no harm", [text, Table(header, lines)])], {})
