"""What takes five minutes, beside the raw features: PCA, LDA, and the answer that is the same for every row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor

from nearer.estimators import LDA
from nearer.evaluation import Evaluation, evaluate_distribution, evaluate_multilabel
from nearer.exceptions import NearerError
from nearer.models._problem import CLASSES, Problem
from nearer.models._scoring import Encode, evaluate_numbers, evaluate_problem

# Rows that are enough to find the directions of largest variance.
LOOKED_AT = 10_000
KEPT_VARIANCE = 0.95
# Beyond so many features a discriminant analysis takes longer than what it is compared with.
WIDE = 2_000


def baselines_of(
    problem: Problem, raw: Encode, *, standardize: bool = True, quick: bool = False
) -> dict[str, Evaluation]:
    """Scores on the held-out rows by the name of the baseline; one that would repeat the raw features is left out.

    "scaled" are the features at one scale; "pca (d)" keeps the d directions that hold 95 % of the variance of
    the training rows, scaled if `standardize`, and "lda (d)" those that tell the class means apart. For label sets,
    distributions and numbers "the mean" answers every row with the mean of the training labels: where neighbors
    know little it is hard to beat. Numbers are also predicted by boosted trees. `quick` leaves the clustering out.
    """
    maps: dict[str, Encode] = {}
    encode = raw
    if problem.inputs.kind == "features" and problem.inputs.encoder is None:
        scale = problem.inputs.scale(problem.items[problem.train])
        maps["scaled"] = lambda items: np.asarray(scale(items).numpy())
        encode = maps["scaled"] if standardize else raw
    if not problem.images:
        maps |= _pca(problem, encode)
    if problem.kind in CLASSES and not problem.images:
        maps |= _lda(problem, encode)
    found = {name: evaluate_problem(problem, one, quick=quick) for name, one in maps.items()}
    if problem.kind in ("sets", "distributions", "numbers"):
        truth = problem.labels[problem.held_out]
        mean = problem.labels[problem.train].mean(axis=0, dtype=np.float64)
        same: NDArray[np.float64] = np.broadcast_to(mean, truth.shape).copy()
        if problem.kind == "sets":
            found["the mean"] = evaluate_multilabel(same, truth, same >= 0.5)
        elif problem.kind == "distributions":
            found["the mean"] = evaluate_distribution(same, truth)
        else:
            found["the mean"] = evaluate_numbers(same, truth)
            found |= _boosting(problem)
    return found


def _boosting(problem: Problem) -> dict[str, Evaluation]:
    rows = np.sort(np.random.default_rng(0).permutation(problem.train)[:LOOKED_AT])
    if problem.items.shape[1] > WIDE:
        return {}
    trees = HistGradientBoostingRegressor(early_stopping=False, random_state=0)
    trees.fit(problem.items[rows], problem.labels[rows])
    predicted = trees.predict(problem.items[problem.held_out])
    return {"boosting": evaluate_numbers(predicted, problem.labels[problem.held_out])}


def _lda(problem: Problem, encode: Encode) -> dict[str, Encode]:
    rows = problem.train[problem.labels[problem.train] >= 0]
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:LOOKED_AT])
    x = encode(problem.items[rows])
    if x.shape[1] > WIDE:
        return {}
    try:
        learner = LDA().fit(x, problem.labels[rows])
    except NearerError:
        return {}  # one row a class, or nothing that varies inside classes
    d = len(learner.components_)
    return {f"lda ({d})": lambda items: learner.transform(encode(items))}


def _pca(problem: Problem, encode: Encode) -> dict[str, Encode]:
    rows = np.random.default_rng(0).permutation(problem.train)[:LOOKED_AT]
    x = encode(problem.items[np.sort(rows)])
    if min(x.shape) < 3 or not np.ptp(x, axis=0).any():
        return {}
    solver = "covariance_eigh" if len(x) > x.shape[1] else "full"
    spectrum = PCA(svd_solver=solver).fit(x.astype(np.float64))  # squares of 1e-37 are 0 in float32
    shares = np.cumsum(spectrum.explained_variance_ratio_)
    d = 1 + int(np.searchsorted(shares, KEPT_VARIANCE))
    if d >= x.shape[1]:
        return {}  # a rotation, whose distances are those of the features
    directions = spectrum.components_[:d].T.astype(np.float32)
    return {f"pca ({d})": lambda items: np.asarray(encode(items) @ directions)}
