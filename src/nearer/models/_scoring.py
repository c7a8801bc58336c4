"""The raw features beside a learned metric, on rows that nothing was learned from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearer.estimators import AAKNN, MLKNN
from nearer.evaluation import Evaluation, evaluate, evaluate_distribution, evaluate_multilabel
from nearer.models._problem import Problem

__all__ = ["Encode", "evaluate_problem", "main_score"]

Encode = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Items (n, ...) to the rows (n, d) that are compared."""

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
NEIGHBORS = 10


def evaluate_problem(problem: Problem, encode: Encode, *, quick: bool = False) -> Evaluation:
    """The scores of the held-out rows under `encode`, which is asked for the rows that count and no others.

    Classes: each held-out row is searched among the others. Label sets and distributions: predicted by the
    neighbours among the training rows (ML-kNN, AA-kNN). `quick` leaves the clustering out.
    """
    train, labels = problem.train, problem.labels
    asked, answers = encode(problem.items[problem.held_out]), labels[problem.held_out]
    if labels.ndim == 1:
        scores = [name for name in SCORES if name != "nmi"] if quick else list(SCORES)
        return evaluate(asked, answers, scores=scores, similarity="euclidean")
    k = min(NEIGHBORS, len(train) - 1)
    if problem.kind == "sets":
        neighbors = MLKNN(k=k).fit(encode(problem.items[train]), labels[train])
        return evaluate_multilabel(neighbors.predict_scores(asked), answers, neighbors.predict(asked))
    average = AAKNN(k=k).fit(encode(problem.items[train]), labels[train])
    return evaluate_distribution(average.predict(asked), answers)


def main_score(evaluation: Evaluation) -> float:
    """The one number that methods are compared by, higher is better: MAP@R, average precision, or cosine."""
    return next(evaluation[name] for name in ("map@r", "average-precision", "cosine") if name in evaluation)
