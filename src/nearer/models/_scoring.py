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

__all__ = ["Encode", "compare_problem", "evaluate_problem", "main_score"]

Encode = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Items (n, ...) to the rows (n, d) that are compared."""

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
NEIGHBORS = 10


def compare_problem(problem: Problem, raw: Encode, learned: Encode) -> Comparison:
    """Raw beside learned on the held-out rows, with intervals over the queries where a score has one per query."""
    first, second = evaluate_problem(problem, raw), evaluate_problem(problem, learned)
    gains: dict[str, NDArray[Any]] = {}
    if problem.kind in CLASSES:
        y = problem.labels[problem.held_out]
        both = [per_query_scores(encode(problem.items[problem.held_out]), y) for encode in (raw, learned)]
        gains = {name: both[1][name] - both[0][name] for name in both[0] if name in first}
    elif problem.kind == "numbers":
        truth = problem.labels[problem.held_out]
        errors = [np.abs(_predicted_numbers(problem, encode) - truth) for encode in (raw, learned)]
        gains = {"mean-absolute-error": errors[0] - errors[1]}
    return compare(first, second, intervals=bootstrap_intervals(gains))


def evaluate_problem(problem: Problem, encode: Encode, *, quick: bool = False) -> Evaluation:
    """The scores of the held-out rows under `encode`, which is asked for the rows that count and no others.

    Classes: each held-out row is searched among the others. Label sets, distributions and numbers: predicted by the
    neighbours among the training rows (ML-kNN, AA-kNN, their mean). `quick` leaves the clustering out.
    """
    train, labels = problem.train, problem.labels
    if problem.kind == "numbers":
        return evaluate_numbers(_predicted_numbers(problem, encode), labels[problem.held_out])
    asked, answers = encode(problem.items[problem.held_out]), labels[problem.held_out]
    if problem.kind in CLASSES:
        scores = [name for name in SCORES if name != "nmi"] if quick else list(SCORES)
        return evaluate(asked, answers, scores=scores, similarity="euclidean")
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


def main_score(evaluation: Evaluation) -> float:
    """The one number that methods are compared by, higher is better: MAP@R, average precision, cosine or R²."""
    return next(evaluation[name] for name in ("map@r", "average-precision", "cosine", "r2") if name in evaluation)
