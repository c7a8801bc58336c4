"""Whether a difference holds up: both metrics are scored query by query, and the queries are drawn again.

A mean over 36 held-out rows can rise by luck. The gain of each query is one number; the interval is the middle 95
% of the mean gain over bootstrap samples of the queries, which keeps both metrics on the same queries.

Retrieval scores of some of the queries, asked in the whole database, and how far that leaves them open.

Every score is a mean over queries of numbers between 0 and 1, so a random sample without replacement says how exact
it is. The interval is Agresti and Coull's, with the correction for a finite number of queries Q: two queries with 0
and two with 1 are added before mean and variance are taken, so that a sample without any error does not claim to be
certain,

    m ± z·√(v/(q + 4) · (Q − q)/(Q − 1)),   z = 1.96.

Where an exactness h is asked for, the variance of the first 1,000 queries says how many it takes, and the queries
are taken in the order of one permutation until the interval is no wider.

Reference: Agresti, Coull (1998).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_int, check_number
from nearer._plain import Array
from nearer.evaluation._engine._problem import Retrieval, Ties, prepare
from nearer.evaluation._retrieval import score_each, score_problem
from nearer.exceptions import ParameterError

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


Z = 1.959964
FIRST = 1_000
# One sweep over the database serves this many queries; more of them only cost memory.
TOGETHER = 50_000

Interval = tuple[float, float]


def check_sample(sample: Any) -> int | float | None:
    """None, a number of queries from 2 on, or an exactness between 0 and 1.

    >>> check_sample(2000), check_sample(0.002)
    (2000, 0.002)
    """
    if sample is None:
        return None
    if isinstance(sample, (float, np.floating)) and not float(sample).is_integer():
        wide = check_number(sample, "sample", above=0.0)
        if wide >= 0.5:
            raise ParameterError(f"`sample` must be an exactness below 0.5 or a number of queries, got {wide}.")
        return wide
    return check_int(int(sample) if isinstance(sample, (float, np.floating)) else sample, "sample", minimum=2)


def mean_interval(values: NDArray[Any], total: int) -> Interval:
    """Where the mean of all `total` numbers between 0 and 1 lies with 95 % confidence, from some of them (q,).

    >>> low, high = mean_interval(np.ones(100), 10**6)
    >>> round(low, 3), high
    (0.954, 1.0)
    >>> mean_interval(np.array([0.0, 1.0]), 2)
    (0.5, 0.5)
    """
    q = len(values)
    mean = float(np.mean(values, dtype=np.float64))
    if q >= total:
        return mean, mean
    padded = np.concatenate([np.asarray(values, dtype=np.float64), [0, 0, 1, 1]])
    half = Z * math.sqrt(float(padded.var()) / len(padded) * (total - q) / max(total - 1, 1))
    middle = float(padded.mean())
    return max(0.0, min(mean, middle - half)), min(1.0, max(mean, middle + half))


def draw_queries(problem: Retrieval, seed: int) -> NDArray[Any]:
    """The queries that have something to find, in the order in which they are asked: its beginning is a sample."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(problem.answerable))


def score_sample(
    problem: Retrieval, names: Sequence[str], ties: Ties, wanted: int | float, seed: int
) -> tuple[dict[str, float], dict[str, Interval], int]:
    """The scores of a sample of the answerable queries, their intervals, and how many queries were asked."""
    order = draw_queries(problem, seed)
    total = len(order)
    most = min(total, wanted if isinstance(wanted, int) else FIRST)
    if most >= total:
        # Also where nothing can be found, which is its error to raise.
        scores = score_problem(problem, names, ties)
        return scores, {name: (value, value) for name, value in scores.items()}, total
    asked, parts = 0, dict[str, list[NDArray[Any]]]()
    while asked < most:
        rows = np.sort(order[asked : min(most, asked + TOGETHER)])
        for name, each in score_each(problem.subset(rows), names, ties).items():
            parts.setdefault(name, []).append(each)
        asked += len(rows)
        if asked == most and not isinstance(wanted, int):
            most = max(most, _needed({name: np.concatenate(each) for name, each in parts.items()}, total, wanted))
    values = {name: np.concatenate(each) for name, each in parts.items()}
    scores = {name: float(np.mean(each, dtype=np.float64)) for name, each in values.items()}
    return scores, {name: mean_interval(each, total) for name, each in values.items()}, asked


def _needed(values: Mapping[str, NDArray[Any]], total: int, half: float) -> int:
    """About how many queries make every interval as narrow as asked; as many as there are values when it is."""
    count = len(next(iter(values.values())))
    if count >= total:
        return count
    widest = max((high - low) / 2 for low, high in (mean_interval(each, total) for each in values.values()))
    if widest <= half:
        return count
    variance = max(float(np.concatenate([each, [0, 0, 1, 1]]).var()) for each in values.values())
    free = Z * Z * variance / (half * half)
    # A finite number of queries needs fewer; a little more than reckoned saves another round.
    return min(total, max(count + 1, math.ceil(1.02 * free / (1 + free / total)) + 4))
