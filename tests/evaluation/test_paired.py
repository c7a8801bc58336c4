"""Scores query by query are those of `evaluate`, and intervals cover what they should."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.evaluation import compare, evaluate
from nearer.evaluation._paired import bootstrap_intervals, per_query_scores
from nearer.evaluation._result import Evaluation


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_over_queries_is_the_score(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, size=(60, 3)).astype(float)  # many ties
    labels = rng.integers(0, 5, size=60)
    expected = evaluate(points, labels, scores=["recall@1", "recall@4", "map@r"], similarity="euclidean")
    found = per_query_scores(points, labels)
    for name, value in expected.items():
        assert found[name].mean() == pytest.approx(value, abs=1e-9)


def test_intervals_cover_the_true_gain() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for number in range(200):
        low, high = bootstrap_intervals({"x": rng.normal(0.1, 1.0, size=80)}, draws=400, seed=number)["x"]
        covered += low <= 0.1 <= high
    assert 0.90 <= covered / 200 <= 0.99


def test_the_verdict_counts_what_holds_up() -> None:
    first = Evaluation({"a": 0.5, "b": 0.5, "c": 0.5}, {}, {"queries": 36})
    second = Evaluation({"a": 0.7, "b": 0.52, "c": 0.3}, {}, {"queries": 36})
    intervals = {"a": (0.1, 0.3), "b": (-0.1, 0.14), "c": (-0.3, -0.1)}
    told = compare(first, second, intervals=intervals).verdict
    assert told == (
        "learned is better than raw in a, and worse in c. No difference that 36 held-out rows could show in b."
    )
    nothing = compare(first, second, intervals={"b": (-0.1, 0.14)}).verdict
    assert nothing.startswith("learned and raw: no difference that 36 held-out rows could show. ")
    assert nothing.endswith("Without an interval: a +0.2000, c -0.2000.")
    worse = compare(first, second, intervals={"c": (-0.3, -0.1)}).verdict
    assert worse == "learned is worse than raw in c. Without an interval: a +0.2000, b +0.0200."
    assert compare(first, second, intervals=intervals).to_dict()["intervals"]["a"] == [0.1, 0.3]


def test_nothing_to_ask() -> None:
    assert per_query_scores([[0.0], [1.0]], [0, 1]) == {}
    assert bootstrap_intervals({}) == {}


def test_a_sample_is_the_one_that_evaluate_draws() -> None:
    rng = np.random.default_rng(3)
    points, labels = rng.normal(size=(300, 3)), np.concatenate([rng.integers(0, 5, size=280), np.arange(100, 120)])
    expected = evaluate(points, labels, scores=["recall@1", "map@r"], sample=40, seed=2)
    found = per_query_scores(points, labels, sample=40, seed=2)
    assert found["map@r"].shape == (40,)
    for name, value in expected.items():
        assert found[name].mean() == pytest.approx(value, abs=1e-12)
