"""The raw features beside a learned metric, on rows that nothing was learned from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearer.estimators import AAKNN, MLKNN
from nearer.evaluation import Evaluation, evaluate, evaluate_distribution, evaluate_multilabel
from nearer.models.problem import Problem

__all__ = ["evaluate_problem", "main_score"]

SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi")
NEIGHBOURS = 10


def evaluate_problem(problem: Problem, embeddings: NDArray[np.float32], *, quick: bool = False) -> Evaluation:
    """The scores of embeddings (n, d) of all rows, on the held-out rows.

    Classes: each held-out row is searched among the others. Label sets and distributions: predicted by the
    neighbours among the training rows (ML-kNN, AA-kNN). `quick` leaves the clustering out.
    """
    held_out, train = problem.held_out, problem.train
    labels = problem.labels
    if labels.ndim == 1:
        scores = [name for name in SCORES if name != "nmi"] if quick else list(SCORES)
        return evaluate(embeddings[held_out], labels[held_out], scores=scores, similarity="euclidean")
    k = min(NEIGHBOURS, len(train) - 1)
    if problem.supervision == "label sets":
        neighbours = MLKNN(k=k).fit(embeddings[train], labels[train])
        sure = neighbours.predict_scores(embeddings[held_out])
        return evaluate_multilabel(sure, labels[held_out], neighbours.predict(embeddings[held_out]))
    average = AAKNN(k=k).fit(embeddings[train], labels[train])
    return evaluate_distribution(average.predict(embeddings[held_out]), labels[held_out])


def main_score(evaluation: Evaluation) -> float:
    """The one number that methods are compared by, higher is better: MAP@R, average precision, or cosine."""
    return next(evaluation[name] for name in ("map@r", "average-precision", "cosine") if name in evaluation)
