"""Whether a difference holds up: both metrics are scored query by query, and the queries are drawn again.

A mean over 36 held-out rows can rise by luck. The gain of each query is one number; the interval is the middle 95
% of the mean gain over bootstrap samples of the queries, which keeps both metrics on the same queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearer._checks import check_int
from nearer._plain import Array
from nearer.evaluation._engine._problem import prepare
from nearer.evaluation._retrieval import score_each
from nearer.evaluation._sampled import draw_queries

__all__ = ["bootstrap_intervals", "per_query_scores"]

RECALLS = (1, 2, 4, 8)
LEVEL = 0.95


def per_query_scores(
    embeddings: Any,
    labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    sample: int | None = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Recall@1, 2, 4, 8 and the average precision at R of every row that has another of its class, (q,) each.

    Rows are searched among the others, or in a database, by Euclidean distance, ties by row number, as `evaluate`
    does; `sample` and `seed` draw the queries that `evaluate` draws.

    >>> scores = per_query_scores([[0.0], [1.0], [5.0], [5.5], [0.4]], [0, 0, 1, 1, 2])
    >>> scores["recall@1"].tolist(), scores["map@r"].tolist()
    ([0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    """
    problem = prepare(embeddings, labels, database, database_labels, unlabeled="class")
    if not problem.answerable.any():
        return {}
    most = len(problem.database) - (database is None)
    names = [*(f"recall@{at}" for at in RECALLS if at <= most), "map@r"]
    if sample is not None:
        problem = problem.subset(draw_queries(problem, seed)[:sample])
    return {name: each.astype(np.float64) for name, each in score_each(problem, names).items()}


def bootstrap_intervals(
    gains: Mapping[str, Array], *, draws: int = 2000, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """The middle 95 % of the mean gain, by drawing queries with replacement; all scores share the draws.

    >>> low, high = bootstrap_intervals({"x": np.array([1.0, 1.0, 1.0])})["x"]
    >>> low, high
    (1.0, 1.0)
    """
    check_int(draws, "draws", minimum=100)
    if not gains:
        return {}
    table = np.column_stack(list(gains.values()))
    n = len(table)
    rng = np.random.default_rng(seed)
    means = np.empty((draws, table.shape[1]))
    for start in range(0, draws, 100):
        # How often each query is drawn is all that matters; a hundred draws at a time stay small.
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(100, draws - start))
        means[start : start + len(weights)] = weights @ table / n
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return {name: (float(a), float(b)) for name, a, b in zip(gains, low, high, strict=True)}
