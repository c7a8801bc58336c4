"""The raw features beside a learned metric, on rows that nothing was learned from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.estimators import AAKNN, MLKNN
from nearer.evaluation import Comparison, Evaluation, compare, evaluate, evaluate_distribution, evaluate_multilabel
from nearer.evaluation._paired import bootstrap_intervals, per_query_scores
from nearer.models._problem import CLASSES, Problem
from nearer.neighbors import search

__all__ = ["Encode", "compare_problem", "evaluate_problem", "main_score", "row_scores"]

Encode = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Items (n, ...) to the rows (n, d) that are compared."""

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
NEIGHBORS = 10
DRAWS = 300
# Of more held-out rows a sample is asked, each in all of them: enough for ± .014 at worst.
LARGE, ASKED = 20_000, 5_000


def compare_problem(
    problem: Problem, raw: Encode, learned: Encode, *, database: Encode | None = None
) -> Comparison:
    """Raw beside learned on the held-out rows, with intervals over the queries where a score has one per query.

    `database` is the map of an asymmetric model for the items that are searched in: the held-out rows are then
    queries against the training rows, under the raw features too.
    """
    sides = [(raw, raw), (learned, database)] if database is not None else [(raw, None), (learned, None)]
    first, second = (evaluate_problem(problem, encode, database=other) for encode, other in sides)
    gains: dict[str, NDArray[Any]] = {}
    if problem.kind in CLASSES:
        sample = _sample(problem)
        both = [per_query_scores(*_searched(problem, encode, other), sample=sample) for encode, other in sides]
        gains = {name: both[1][name] - both[0][name] for name in both[0] if name in first}
    elif problem.kind == "numbers":
        truth = problem.labels[problem.held_out]
        errors = [np.abs(_predicted_numbers(problem, encode) - truth) for encode in (raw, learned)]
        gains = {"mean-absolute-error": errors[0] - errors[1]}
    elif problem.kind == "pairs":
        return compare(first, second, intervals=_pair_intervals(problem, raw, learned))
    return compare(first, second, intervals=bootstrap_intervals(gains))


def _sample(problem: Problem) -> int | None:
    return ASKED if len(problem.held_out) > LARGE else None


def _searched(problem: Problem, encode: Encode, database: Encode | None) -> tuple[Any, ...]:
    """Queries and their classes, and where something else is searched in, the labelled training rows."""
    asked = (encode(problem.items[problem.held_out]), problem.labels[problem.held_out])
    if database is None:
        return asked
    rows = problem.train[problem.labels[problem.train] >= 0]
    return (*asked, database(problem.items[rows]), problem.labels[rows])


def evaluate_problem(
    problem: Problem, encode: Encode, *, database: Encode | None = None, quick: bool = False
) -> Evaluation:
    """The scores of the held-out rows under `encode`, which is asked for the rows that count and no others.

    Classes: each held-out row is searched among the others. Label sets, distributions and numbers: predicted by the
    neighbours among the training rows (ML-kNN, AA-kNN, their mean). Pairs: those that touch a held-out row, ranked
    by distance. `quick` leaves the clustering out. Of more than 20,000 held-out rows with classes 5,000 are asked.
    """
    train, labels = problem.train, problem.labels
    if problem.kind == "pairs":
        return evaluate_pairs(
            _pair_distances(problem, encode), problem.pairs_of(problem.held_out, touching=True)[1]
        )
    if problem.kind == "numbers":
        return evaluate_numbers(_predicted_numbers(problem, encode), labels[problem.held_out])
    if problem.kind in CLASSES:
        sample = _sample(problem)
        # There is no clustering of two spaces, and one of very many rows takes longer than all else.
        skip = quick or database is not None or sample is not None
        scores = [name for name in SCORES if name != "nmi"] if skip else list(SCORES)
        return evaluate(*_searched(problem, encode, database), scores=scores, sample=sample)
    asked, answers = encode(problem.items[problem.held_out]), labels[problem.held_out]
    k = min(NEIGHBORS, len(train) - 1)
    if problem.kind == "sets":
        neighbors = MLKNN(n_neighbors=k).fit(encode(problem.items[train]), labels[train])
        return evaluate_multilabel(neighbors.predict_scores(asked), answers, neighbors.predict(asked))
    average = AAKNN(n_neighbors=k).fit(encode(problem.items[train]), labels[train])
    return evaluate_distribution(average.predict(asked), answers)


def _predicted_numbers(problem: Problem, encode: Encode) -> NDArray[Any]:
    """The mean of the numbers of the nearest training rows, for every held-out row."""
    rows, asked = encode(problem.items[problem.train]), encode(problem.items[problem.held_out])
    near = search(asked, rows, k=min(NEIGHBORS, len(rows))).indices
    predicted: NDArray[Any] = problem.labels[problem.train][near].mean(axis=1)
    return predicted


def _pair_distances(problem: Problem, encode: Encode) -> NDArray[Any]:
    pairs, _ = problem.pairs_of(problem.held_out, touching=True)
    rows, places = np.unique(pairs, return_inverse=True)
    left, right = encode(problem.items[rows])[places.reshape(pairs.shape).T]
    distances: NDArray[Any] = np.linalg.norm(left.astype(np.float64) - right, axis=1)
    return distances


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
    return {name: (float(a), float(b)) for name, (a, b) in _middle(gains).items()}


def _middle(gains: dict[str, list[float]]) -> dict[str, Any]:
    return {name: np.quantile(values, [0.025, 0.975]) for name, values in gains.items()}


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
    return Evaluation(scores, {"k": NEIGHBORS}, {"rows": len(truth)}, lower)


def row_scores(problem: Problem, encode: Encode) -> NDArray[np.float64]:
    """The mean of 1-NN and MAP@R for every held-out row, searched among the labelled training rows."""
    scores = per_query_scores(*_searched(problem, encode, encode), sample=_sample(problem))
    both: NDArray[np.float64] = (scores["recall@1"] + scores["map@r"]) / 2
    return both


def main_score(evaluation: Evaluation) -> float:
    """The one number that methods are compared by, higher is better: MAP@R, average precision, cosine or R²."""
    return next(evaluation[name] for name in ("map@r", "average-precision", "cosine", "r2") if name in evaluation)
