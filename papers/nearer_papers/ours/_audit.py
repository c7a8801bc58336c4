"""Ten percent of the labels are flipped, and every score orders the rows: average precision of the flipped ones.

Random flips go to any other class, confusable ones to one of the two nearest classes (means, in units of the
spread inside classes). The classifier of cleanlab is ours: cross-fitted logistic regression whose strength is
chosen by the likelihood of the noisy labels, the same probabilities for both. The weight of the ranks was chosen on
other seeds (10 and 11); `knn` and `logistic` alone stand beside it.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.exceptions import MissingDataError
from nearer.judging._audit import NEIGHBORS, cross_fitted, label_quality, neighbor_votes
from nearer.neighbors import search
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["KEY", "SCORES", "SETS", "flipped", "measure", "present", "result_file", "summary"]

KEY = ("set", "flips", "seed")
SETS = ("banking77", "digits", "fashion", "isolet")
FLIPS = ("confusable", "random")
SCORES = ("cleanlab self_confidence", "cleanlab normalized_margin", "knn", "logistic", "nearer")
SHARE, FASHION, COLUMNS = 0.1, 10_000, 50

Array = NDArray[Any]


def data_of(name: str) -> tuple[Array, Array, str]:
    """Features (n, p), the true codes (n,) and the fingerprint; Fashion-MNIST as 50 principal components."""
    data = load({"fashion": "fashion_mnist"}.get(name, name))
    if name != "fashion":
        return data.all.matrix(), data.all.y, data.fingerprint()
    rows = data.train.matrix()[:FASHION]
    centered = rows - rows.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    return centered @ axes[:, ::-1][:, :COLUMNS], data.train.y[:FASHION], data.fingerprint()


def flipped(x: Array, y: Array, how: str, *, seed: int) -> Array:
    """The labels with a tenth of them wrong."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[: round(SHARE * len(y))]
    n_classes = int(y.max()) + 1
    wrong = y.copy()
    if how == "random":
        wrong[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
        return wrong
    means = np.stack([x[y == code].mean(axis=0) for code in range(n_classes)]).astype(np.float64)
    spread = np.cov((x - means[y]).T)
    spread += 0.01 * np.trace(spread) / len(spread) * np.eye(len(spread))
    white = means @ np.linalg.cholesky(np.linalg.inv(spread))
    apart = np.square(white[:, None] - white[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    wrong[rows] = apart.argsort(axis=1)[:, :2][y[rows], rng.integers(0, 2, len(rows))]
    return wrong


def _measure_row(name: str, flips: str, seed: int) -> Measured:
    from sklearn.metrics import average_precision_score

    x, truth, fingerprint = data_of(name)
    y = flipped(x, truth, flips, seed=seed)
    n_classes = int(truth.max()) + 1
    logistic = cross_fitted(x, y, n_classes, seed=seed)
    votes = neighbor_votes(search(x, k=NEIGHBORS).indices.numpy(), y, n_classes)
    ranks = _cleanlab()
    low = {
        "cleanlab self_confidence": ranks(y, logistic.astype(np.float64), method="self_confidence"),
        "cleanlab normalized_margin": ranks(y, logistic.astype(np.float64), method="normalized_margin"),
        "knn": label_quality(votes, y),
        "logistic": label_quality(logistic, y),
        "nearer": label_quality((logistic + votes) / 2, y),
    }
    row = {
        **dict(zip(KEY, (name, flips, seed), strict=True)),
        "rows": len(y),
        "wrong": int((y != truth).sum()),
        "accuracy": round(float((logistic.argmax(axis=1) == truth).mean()), 4),
        **{score: round(float(average_precision_score(y != truth, -low[score])), 5) for score in SCORES},
    }
    return Measured(row, fingerprint)


def _cleanlab() -> Any:
    try:
        return importlib.import_module("cleanlab.rank").get_label_quality_scores
    except ImportError as error:
        raise MissingDataError("The comparison needs cleanlab. Run: pip install cleanlab") from error


def result_file(row: Mapping[str, Any]) -> str:
    """All data sets in one file."""
    return "audit"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the data sets that `only` names; the quick form is one seed of the digits."""
    for name in request.only:
        check_choice(name, "only", list(SETS))
    sets = [name for name in SETS if name in request.only] or (["digits"] if request.quick else list(SETS))
    seeds = range(1 if request.quick else request.seeds)
    plan = [(a, b, c) for a in sets for b in FLIPS for c in seeds if (a, b, c) not in request.done]
    for number, (name, flips, seed) in enumerate(plan):
        request.progress(f"{name}, {flips} flips, seed {seed}", number / len(plan))
        yield _measure_row(name, flips, seed)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every data set and kind of flip: the mean of each score over seeds, the gain over cleanlab's default."""
    lines = []
    for name in SETS:
        for flips in FLIPS:
            mine = [row for row in rows if (row["set"], row["flips"]) == (name, flips)]
            if mine:
                means = {score: statistics.mean(row[score] for row in mine) for score in SCORES}
                gain = means["nearer"] - means["cleanlab self_confidence"]
                lines.append({"set": name, "flips": flips, "runs": len(mine), **means, "gain": gain})
    return lines


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each data set and kind of flip."""
    lines = [
        [line["set"], line["flips"], *(line[score] for score in SCORES), f"{line['gain']:+.4f}", line["runs"]]
        for line in summary(rows)
    ]
    header = ["data", "flips", *SCORES, "gain", "runs"]
    text = "Average precision of the flipped labels; the gain is over cleanlab's default."
    return Outcome("Wrong labels", [Section("Planted flips", [text, Table(header, lines, digits=4)])], {})
