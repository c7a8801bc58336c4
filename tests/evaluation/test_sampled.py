"""Scores of a sample of the queries: near those of all, with an interval that holds, and said in the result."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nearer.evaluation import Evaluation, evaluate
from nearer.evaluation._engine._problem import prepare
from nearer.evaluation._paired import mean_interval
from nearer.evaluation._retrieval import score_each, score_problem
from nearer.exceptions import LabelError, ParameterError

NAMES = ["recall@1", "precision@5", "map@r", "r-precision", "mrr"]


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    centers, y = chance.normal(size=(20, 8)), chance.integers(0, 20, 3000)
    return (centers[y] + 0.9 * chance.normal(size=(3000, 8))).astype(np.float32), y


def test_the_mean_of_the_queries_is_the_score(rows: tuple[np.ndarray, np.ndarray]) -> None:
    problem = prepare(rows[0][:400], rows[1][:400])
    each, whole = score_each(problem, NAMES), score_problem(problem, NAMES)
    assert {name: float(values.mean()) for name, values in each.items()} == pytest.approx(whole)
    assert all(values.shape == (400,) for values in each.values())


def test_sampled_queries_have_the_scores_that_they_have_among_all(rows: tuple[np.ndarray, np.ndarray]) -> None:
    # The whole database is searched: a sampled query's score is its score in the full evaluation.
    x, y = rows
    found = evaluate(x, y, scores=NAMES, sample=300, seed=4)
    chosen = np.sort(np.random.default_rng(4).permutation(len(x))[:300])
    each = score_each(prepare(x, y), NAMES)
    assert dict(found) == pytest.approx({name: float(values[chosen].mean()) for name, values in each.items()})
    assert found.counts["queries"] == 300
    assert found.counts["database"] == 3000
    assert found.settings["sample"] == 300
    assert found.settings["seed"] == 4


def test_the_interval_holds_the_score_of_all_queries_about_as_often_as_it_says(
    rows: tuple[np.ndarray, np.ndarray],
) -> None:
    each = score_each(prepare(*rows), ["recall@1", "map@r"])
    chance = np.random.default_rng(1)
    for values in each.values():
        truth, held = float(values.mean()), 0
        for _ in range(400):
            low, high = mean_interval(chance.permutation(values)[:200], len(values))
            held += low <= truth <= high
        assert 0.92 <= held / 400 <= 0.985


def test_an_exactness_takes_the_queries_it_needs(rows: tuple[np.ndarray, np.ndarray]) -> None:
    found = evaluate(*rows, scores=["recall@1", "map@r"], sample=0.015)
    assert 1000 < found.counts["queries"] < 3000
    assert max(high - low for low, high in found.intervals.values()) / 2 <= 0.0152
    everything = evaluate(*rows, scores=["recall@1", "map@r"])
    for name, (low, high) in found.intervals.items():
        assert low <= found[name] <= high
        assert abs(found[name] - everything[name]) < 0.03
    rough = evaluate(*rows, scores=["recall@1"], sample=0.1)
    assert rough.counts["queries"] == 1000  # the first look was enough


def test_as_many_as_there_are_is_the_exact_score(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = rows[0][:500], rows[1][:500]
    exact = evaluate(x, y, scores=NAMES)
    for sample in (500, 10**6, 1e-6):
        found = evaluate(x, y, scores=NAMES, sample=sample)
        assert dict(found) == dict(exact)
        assert all(low == high == found[name] for name, (low, high) in found.intervals.items())


def test_queries_without_another_of_their_class_are_not_drawn() -> None:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(300, 4))
    y = np.where(np.arange(300) < 100, np.arange(300) + 10, np.arange(300) % 2)
    found = evaluate(x, y, scores=["recall@1"], sample=50)
    assert found.counts["queries"] == 50
    assert found.counts["excluded"] == 100
    with pytest.raises(LabelError, match="something to find"):
        evaluate(x, np.arange(300), scores=["recall@1"], sample=50)


def test_a_separate_database_and_clusters(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = rows
    found = evaluate(x[:600], y[:600], x[600:], y[600:], scores=["recall@1", "nmi"], sample=200)
    assert found["nmi"] == evaluate(x[:600], y[:600], x[600:], y[600:], scores=["nmi"])["nmi"]
    assert set(found.intervals) == {"recall@1"}
    assert "all" in str(found)
    assert "95 %" in str(found)
    # A clustering of all rows is not what a sample is asked for.
    assert "nmi" not in evaluate(x[:600], y[:600], sample=200)
    assert "nmi" in evaluate(x[:200], y[:200])


def test_the_result_keeps_its_intervals(rows: tuple[np.ndarray, np.ndarray]) -> None:
    found = evaluate(rows[0][:400], rows[1][:400], scores=["mrr"], sample=100)
    again = Evaluation.from_dict(json.loads(found.to_json()))
    assert again == found
    assert again.intervals == found.intervals
    assert "intervals" not in evaluate(rows[0][:400], rows[1][:400], scores=["mrr"]).to_dict()


@pytest.mark.parametrize("sample", [0, 1, -5, 0.7, "many", float("nan")])
def test_what_is_no_sample_is_refused(rows: tuple[np.ndarray, np.ndarray], sample: Any) -> None:
    with pytest.raises(ParameterError, match="sample"):
        evaluate(rows[0][:50], rows[1][:50], scores=["recall@1"], sample=sample)
