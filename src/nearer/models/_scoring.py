"""The raw features beside a learned metric, on rows that nothing was learned from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.estimators import MLKNN
from nearer.evaluation import Comparison, Evaluation, compare, evaluate, evaluate_distribution, evaluate_multilabel
from nearer.evaluation._paired import bootstrap_intervals, per_query_scores
from nearer.exceptions import NearerError
from nearer.models._problem import CLASSES, Problem
from nearer.neighbors import search

Encode = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Items (n, ...) to the rows (n, d) that are compared."""

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
RECALL = {"recall@2": 2, "recall@4": 4, "recall@8": 8}
NEIGHBORS = 10
DRAWS, GROUPS = 300, 100
NO_MEANS = ("root-mean-squared-error", "r2")
# Of more held-out rows a sample is asked, enough for ± .014 at worst, and more rows are not searched in.
LARGE, ASKED = 20_000, 5_000


def compare_problem(
    problem: Problem, raw: Encode, learned: Encode, *, database: Encode | None = None
) -> Comparison:
    """Raw beside learned on the held-out rows, with intervals over the rows where a score is a mean over them.

    `database` is the map of an asymmetric model for the items that are searched in.
    """
    sides = [(raw, None), (learned, database)]
    if problem.kind == "pairs":
        first, second = (evaluate_problem(problem, encode) for encode in (raw, learned))
        return compare(first, second, intervals=_pair_intervals(problem, raw, learned))
    gains: dict[str, NDArray[Any]] = {}
    if problem.kind in CLASSES:
        found = [_searched(problem, encode, other) for encode, other in sides]
        clustered = database is None
        first, second = (_of_classes(problem, one, clustered=clustered) for one in found)
        both = [per_query_scores(*one, sample=_sample(problem)) for one in found]
        gains = {name: both[1][name] - both[0][name] for name in both[0] if name in first}
        return compare(first, second, intervals=bootstrap_intervals(gains))
    predicted = [_predicted(problem, encode) for encode, _ in sides]
    first, second = (_of_predictions(problem, one, slice(None)) for one in predicted)
    return compare(first, second, intervals=_intervals_of_groups(problem, predicted))


def _intervals_of_groups(problem: Problem, predicted: list[Any]) -> dict[str, tuple[float, float]]:
    """From the gains of up to 100 groups of rows: these scores are means over rows, if not given row by row."""
    n = len(problem.held_out)
    groups = np.array_split(np.random.default_rng(0).permutation(n), min(GROUPS, n))
    gains: dict[str, list[float]] = {}
    for group in groups:
        try:
            first, second = (_of_predictions(problem, one, group) for one in predicted)
        except NearerError:
            continue  # none of these rows has a label to find
        for name, gain in compare(first, second).gains.items():
            gains.setdefault(name, []).append(gain)
    # The errors' root and the share of the variance are no means over rows.
    return bootstrap_intervals({name: np.array(each) for name, each in gains.items() if name not in NO_MEANS})


def _sample(problem: Problem) -> int | None:
    return ASKED if len(problem.held_out) > LARGE else None


def _searched(problem: Problem, encode: Encode, database: Encode | None = None) -> tuple[Any, ...]:
    """Queries and their classes, and the rows that they are searched in, or nothing: then among each other."""
    asked = (encode(problem.items[problem.held_out]), problem.labels[problem.held_out])
    rows = problem.searched(LARGE)
    if rows is None:
        return asked
    return (*asked, (database or encode)(problem.items[rows]), problem.labels[rows])


def evaluate_problem(problem: Problem, encode: Encode, *, quick: bool = False) -> Evaluation:
    """The scores of the held-out rows under `encode`, which is asked for the rows that count and no others.

    Classes: each held-out row is searched among the labelled training rows, 20,000 of them at most; where its class
    is new, among the other held-out rows. Label sets, distributions and numbers: predicted by the neighbours among
    the training rows (ML-kNN, means). Pairs: those that touch a held-out row, ranked by distance. `quick` leaves
    the clustering out. Of more than 20,000 held-out rows with classes 5,000 are asked.
    """
    if problem.kind == "pairs":
        return evaluate_pairs(
            _pair_distances(problem, encode), problem.pairs_of(problem.held_out, touching=True)[1]
        )
    if problem.kind in CLASSES:
        return _of_classes(problem, _searched(problem, encode), clustered=not quick)
    return _of_predictions(problem, _predicted(problem, encode), slice(None))


def _of_classes(problem: Problem, found: tuple[Any, ...], *, clustered: bool) -> Evaluation:
    sample = _sample(problem)
    most = len(found[-1]) - (len(found) == 2)
    # There is no clustering of two spaces, and one of very many rows takes longer than all else.
    skip = not clustered or sample is not None
    scores = [name for name in SCORES if not (skip and name == "nmi") and int(RECALL.get(name, 1)) <= most]
    return evaluate(*found, scores=scores, sample=sample, effort="thorough")


def _of_predictions(problem: Problem, predicted: Any, some: Any) -> Evaluation:
    truth = problem.labels[problem.held_out][some]
    if problem.kind == "numbers":
        return evaluate_numbers(predicted[some], truth)
    if problem.kind == "sets":
        return evaluate_multilabel(predicted[some], truth, (predicted[some] >= 0.5).astype(np.int64))
    return evaluate_distribution(predicted[some], truth)


def _predicted(problem: Problem, encode: Encode) -> NDArray[Any]:
    """For every held-out row what its nearest training rows say: a score of each label, or their mean."""
    rows, labels = encode(problem.items[problem.train]), problem.labels[problem.train]
    asked = encode(problem.items[problem.held_out])
    if problem.kind == "sets":
        return np.asarray(MLKNN(n_neighbors=min(NEIGHBORS, len(rows) - 1)).fit(rows, labels).predict_scores(asked))
    return np.asarray(labels[np.asarray(search(asked, rows, k=problem.asked).indices)].mean(axis=1))


def _pair_distances(problem: Problem, encode: Encode) -> NDArray[Any]:
    pairs, _ = problem.pairs_of(problem.held_out, touching=True)
    rows, places = np.unique(pairs, return_inverse=True)
    left, right = encode(problem.items[rows])[places.reshape(pairs.shape).T]
    return np.linalg.norm(left.astype(np.float64) - right, axis=1)


def evaluate_pairs(
    distances: NDArray[Any], similar: NDArray[np.bool_], weights: NDArray[Any] | None = None
) -> Evaluation:
    """How well distance tells near pairs from far ones: the area under the ROC curve, the average precision of the
    near pairs, and the share of them that is found where 5 % of the far pairs pass.

    >>> evaluate_pairs(np.array([0.1, 0.2, 0.3, 0.9]), np.array([True, True, False, False]))["auc"]
    1.0
    """
    weights = np.ones(len(similar)) if weights is None else weights
    scores = _pair_scores(_ranked(distances), similar, weights)
    return Evaluation(scores, {}, {"pairs": len(similar), "near": int(similar.sum())})


def _ranked(distances: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs from near to far, and the last place of each distance: pairs that tie pass together."""
    order = np.argsort(distances)
    return order, np.flatnonzero(np.append(np.diff(distances[order]) > 0, True))


def _pair_scores(
    ranked: tuple[NDArray[Any], NDArray[Any]], similar: NDArray[np.bool_], weights: NDArray[Any]
) -> dict[str, float]:
    order, ends = ranked
    near, far = (np.cumsum((weights * side)[order])[ends] for side in (similar, ~similar))
    rise, fall = np.append(0.0, near / near[-1]), np.append(0.0, far / far[-1])
    precision = near / np.maximum(near + far, np.finfo(float).tiny)
    return {
        "auc": float(np.diff(fall) @ (rise[1:] + rise[:-1]) / 2),
        "average-precision": float(np.diff(rise) @ precision),
        "true-matches@5%": float(rise[fall <= 0.05 + 1e-12].max()),
    }


def _pair_intervals(problem: Problem, raw: Encode, learned: Encode) -> dict[str, tuple[float, float]]:
    """The middle 95 % of each gain when the held-out rows, not the pairs, are drawn again: pairs share rows."""
    pairs, similar = problem.pairs_of(problem.held_out, touching=True)
    both = [_ranked(_pair_distances(problem, encode)) for encode in (raw, learned)]
    rng = np.random.default_rng(0)
    weight = np.ones(len(problem.items))
    gains: dict[str, list[float]] = {}
    for _ in range(DRAWS):
        n = len(problem.held_out)
        weight[problem.held_out] = rng.multinomial(n, np.full(n, 1 / n))
        drawn = weight[pairs].prod(axis=1)
        if not drawn[similar].any() or not drawn[~similar].any():
            continue  # nothing to tell apart in this draw
        first, second = (_pair_scores(one, similar, drawn) for one in both)
        for name in first:
            gains.setdefault(name, []).append(second[name] - first[name])
    ends = {name: np.quantile(values, [0.025, 0.975]).tolist() for name, values in gains.items()}
    return {name: (low, high) for name, (low, high) in ends.items()}


def evaluate_numbers(predicted: NDArray[Any], truth: NDArray[Any]) -> Evaluation:
    """Mean absolute error, root of the mean squared error, and the share of the variance that is explained (R²)."""
    error = predicted.astype(np.float64) - truth
    spread = float(np.square(truth - truth.mean()).sum())
    scores = {
        "mean-absolute-error": float(np.abs(error).mean()),
        "root-mean-squared-error": float(np.sqrt(np.square(error).mean())),
        "r2": 1 - float(np.square(error).sum()) / spread if spread else 0.0,
    }
    lower = frozenset(("mean-absolute-error", "root-mean-squared-error"))
    return Evaluation(scores, {}, {"rows": len(truth)}, lower)


def row_scores(problem: Problem, encode: Encode) -> NDArray[np.float64]:
    """One score for every held-out row, or every near pair that touches one; higher is better, and it is smooth.

    Classes: the mean of 1-NN, by the rows that taught, and MAP@R among the rows that are asked: those that taught
    lie where the learner wants them, and would find each other under any map that is flexible enough. With few
    labels Recall@1 among the rows that are asked counts as much as each of them. Label sets: one minus the mean
    squared error of the scores of ML-kNN. Distributions: what prediction and truth share. Numbers: one minus the
    error over the mean error of the mean. Pairs: the share of far pairs that are farther.
    """
    if problem.kind == "pairs":
        distances = _pair_distances(problem, encode)
        similar = problem.pairs_of(problem.held_out, touching=True)[1]
        far = np.sort(distances[~similar])
        return np.asarray(1 - np.searchsorted(far, distances[similar], side="right") / len(far))
    if problem.kind in CLASSES:
        return _row_scores_of_classes(problem, *_searched(problem, encode))
    predicted, truth = _predicted(problem, encode), problem.labels[problem.held_out]
    if problem.kind == "sets":
        return np.asarray(1 - np.square(predicted - truth).mean(axis=1))
    if problem.kind == "distributions":
        return np.asarray(np.minimum(predicted, truth).sum(axis=1))
    spread = float(np.abs(truth - problem.labels[problem.train].mean()).mean()) or 1.0
    return np.asarray(1 - np.abs(predicted - truth) / spread)


def _row_scores_of_classes(problem: Problem, *searched: Any) -> NDArray[np.float64]:
    rows, labels, *taught = searched
    among = per_query_scores(rows, labels)
    if not taught:
        return np.asarray((among["recall@1"] + among["map@r"]) / 2)
    scores = per_query_scores(*searched)["recall@1"]
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    # A row that is alone in its class has none to find among those asked.
    found = counts[codes] > 1
    if found.any():
        parts = [scores[found], among["map@r"], *([among["recall@1"]] if problem.few else [])]
        scores[found] = np.mean(parts, axis=0)
    return np.asarray(scores)


def main_score(evaluation: Evaluation) -> float:
    """The one number that methods are compared by, higher is better: MAP@R, average precision, cosine or R²."""
    return next(evaluation[name] for name in ("map@r", "average-precision", "cosine", "r2") if name in evaluation)
