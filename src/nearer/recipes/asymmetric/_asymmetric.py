"""Queries that look different from the database: two maps against the best single metric, on views of the digits.

Training items are seen from both sides; at test time a query has only its own side, and the database holds the
other side of the training items. A symmetric metric is learned from all rows of both sides together, which is the
most that one map can be given; to make that possible both sides have the same number of columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.datasets import load_digits, stratified_split
from nearer.estimators import ITML, LFDA, LMNN, NCA, AsymmetricKNN, Euclidean, GerrymanderingMetric
from nearer.estimators.neighbors._near import nearest_rows
from nearer.exceptions import NearerWarning, ParameterError
from nearer.neighbors import vote
from nearer.recipes._recipe import Outcome, Request
from nearer.reports import Section, Table

__all__ = ["PROBLEMS", "SYMMETRIC", "reproduce_asymmetric"]

Rows = NDArray[Any]
K = 3
DIMENSIONS = 16


def _halves(images: Rows) -> tuple[Rows, Rows]:
    """The left half is asked for, the right half is stored, mirrored so that the middle column meets itself."""
    n = len(images)
    return images[:, :, :4].reshape(n, -1), images[:, :, :3:-1].reshape(n, -1)


def _low_resolution(images: Rows) -> tuple[Rows, Rows]:
    """Queries in 2×4 blocks, brought to the size of the database by repetition."""
    n = len(images)
    blocks = images.reshape(n, 4, 2, 2, 4).mean(axis=(2, 4))
    return np.repeat(np.repeat(blocks, 2, axis=1), 4, axis=2).reshape(n, -1), images.reshape(n, -1)


def _upside_down(images: Rows) -> tuple[Rows, Rows]:
    """Queries turned by half a turn and in negative, as from another camera."""
    n = len(images)
    return images.max() - images[:, ::-1, ::-1].reshape(n, -1), images.reshape(n, -1)


PROBLEMS: dict[str, Callable[[Rows], tuple[Rows, Rows]]] = {
    "halves": _halves,
    "low resolution": _low_resolution,
    "turned negative": _upside_down,
}
SYMMETRIC: dict[str, Callable[[int], Any]] = {
    "Euclidean": lambda seed: Euclidean(),
    "LFDA": lambda seed: LFDA(),
    "ITML": lambda seed: ITML(random_state=seed),
    "LMNN": lambda seed: LMNN(random_state=seed),
    "NCA": lambda seed: NCA(max_iter=20, random_state=seed),
    "GerrymanderingMetric": lambda seed: GerrymanderingMetric(max_iter=15, random_state=seed),
}


def _error(queries: Rows, labels: Rows, database: Rows, database_labels: Rows) -> float:
    near = database_labels[nearest_rows(queries, database, K)]
    return float((vote(near) != labels).mean())


def _run(problem: str, seed: int, methods: list[str]) -> list[dict[str, Any]]:
    """The test error of every method on one split."""
    digits = load_digits().all
    queries, database = PROBLEMS[problem](digits.x.astype(np.float64) / 16)
    train, test = stratified_split(digits.y, test=0.3, seed=seed)
    y = digits.y[train]
    found = []
    for name in methods:
        if name in SYMMETRIC:
            both = np.concatenate([queries[train], database[train]])
            learner = SYMMETRIC[name](seed).fit(both, np.concatenate([y, y]))
            mapped = learner.transform(queries[test]), learner.transform(database[train])
        else:
            learner = AsymmetricKNN(DIMENSIONS, k=K, init="pca", random_state=seed)
            learner.fit_views(queries[train], database[train], y)
            mapped = learner.transform_queries(queries[test]), learner.transform_database(database[train])
        error = _error(mapped[0], digits.y[test], mapped[1], y)
        found.append({"problem": problem, "seed": seed, "method": name, "error": error})
    return found


def reproduce_asymmetric(request: Request) -> Outcome:
    """k-NN error of one metric for both sides and of two maps, when queries are another view of the digits.

    `request.only` names problems; the quick form is one split of each and leaves NCA and the slower metrics out.
    """
    problems = list(request.only) or list(PROBLEMS)
    unknown = [name for name in problems if name not in PROBLEMS]
    if unknown:
        raise ParameterError(f"`only` must name some of {', '.join(map(repr, PROBLEMS))}, got {unknown[0]!r}.")
    methods = ["Euclidean", "LFDA", "LMNN"] if request.quick else list(SYMMETRIC)
    methods = [*methods, "AsymmetricKNN"]
    seeds = 1 if request.quick else request.seeds
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        # Several of the symmetric metrics stop early on views that no single map can bring together.
        warnings.simplefilter("ignore", NearerWarning)
        for place, problem in enumerate(problems):
            for seed in range(seeds):
                request.progress(f"{problem}, split {seed + 1}", (place * seeds + seed) / (len(problems) * seeds))
                rows += _run(problem, seed, methods)
    request.progress("done", 1.0)
    settings = {"k": K, "seeds": seeds, "dimensions": DIMENSIONS, "held_out": 0.3, "data": "digits"}
    return Outcome(
        "Two maps for two views", [_section(rows, problems, methods, seeds)], {"settings": settings, "rows": rows}
    )


def _section(rows: list[dict[str, Any]], problems: list[str], methods: list[str], seeds: int) -> Section:
    def cell(problem: str, method: str) -> str:
        errors = [row["error"] for row in rows if row["problem"] == problem and row["method"] == method]
        return f"{100 * np.mean(errors):.1f} ± {100 * np.std(errors):.1f} %"

    table = Table(
        ["metric", *problems], [[name, *(cell(problem, name) for problem in problems)] for name in methods]
    )
    text = (
        f"Test error of the vote of {K} neighbours, mean and deviation over {seeds} splits. Every metric but the "
        f"last is one map for both sides, learned from both sides together."
    )
    return Section("Queries from another view", [text, table])
