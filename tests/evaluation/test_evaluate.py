"""The one call, its result, and two results side by side."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nearer.evaluation import (
    Evaluation,
    ami,
    ari,
    compare,
    evaluate,
    evaluate_distribution,
    evaluate_multilabel,
    kmeans,
    nmi,
    pairwise_f1,
    purity,
)
from nearer.evaluation._engine._problem import unit_rows
from nearer.evaluation._evaluate import DEFAULT_SCORES
from nearer.exceptions import ParameterError


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data[:600], data.target[:600]


def test_the_default_scores_of_the_digits(digits: tuple[np.ndarray, np.ndarray]) -> None:
    result = evaluate(*digits, similarity="cosine")
    assert tuple(result) == DEFAULT_SCORES
    assert result["recall@1"] > 0.95
    assert result["recall@1"] <= result["recall@2"] <= result["recall@4"] <= result["recall@8"] <= 1
    assert result["map@r"] <= result["r-precision"] <= 1
    assert result.counts == {
        "queries": 600,
        "excluded": 0,
        "unlabeled": 0,
        "database": 600,
        "classes": 10,
        "dimension": 64,
    }
    assert result.settings["seed"] == 0


def test_clustering_scores_are_those_of_k_means(digits: tuple[np.ndarray, np.ndarray]) -> None:
    points, labels = digits
    names = ["nmi", "ami", "ari", "purity", "f1"]
    made = {"quick": "k-means from random points", "thorough": "scikit-learn k-means"}
    for similarity, rows in (("cosine", unit_rows(points)), ("euclidean", points)):
        for effort, clusterer in made.items():
            asked: dict[str, Any] = {"similarity": similarity, "effort": effort}
            result = evaluate(points, labels, scores=names, seed=5, **asked)
            clusters = kmeans(rows, 10, seed=5, effort=effort).assignments  # type: ignore[arg-type]
            expected = [score(labels, clusters) for score in (nmi, ami, ari, purity, pairwise_f1)]
            assert list(result.values()) == pytest.approx(expected, abs=0.02)
            assert result.to_dict()["settings"]["clusterer"] == clusterer
            if effort == "quick":
                assert result == evaluate(points, labels, scores=names, seed=5, similarity=similarity)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="`effort` must be one of 'quick', 'thorough'"):
        evaluate(points, labels, scores=names, effort="best")  # type: ignore[arg-type]
    assert "clusterer" not in evaluate(points, labels, scores=["recall@1"]).settings


def test_clusters_are_made_of_the_queries_when_there_is_a_database(digits: tuple[np.ndarray, np.ndarray]) -> None:
    points, labels = digits
    alone = evaluate(points[:200], labels[:200], scores=["nmi"], similarity="cosine")
    beside = evaluate(
        points[:200], labels[:200], points[200:], labels[200:], scores=["nmi", "recall@1"], similarity="cosine"
    )
    assert beside["nmi"] == alone["nmi"]
    assert beside.settings["search"] == "database"
    assert beside.counts["database"] == 400


def test_nmi_needs_no_second_item_of_a_class() -> None:
    assert evaluate([[1.0], [2.0], [3.0]], [0, 1, 2], scores=["nmi"], similarity="euclidean")["nmi"] == 1.0


def test_a_repeated_name_counts_once_and_one_name_is_enough() -> None:
    points, labels = [[1.0], [1.1], [3.0]], [0, 0, 1]
    assert list(evaluate(points, labels, scores=["mrr", "recall@1", "mrr"], similarity="cosine")) == [
        "mrr",
        "recall@1",
    ]
    assert list(evaluate(points, labels, scores="recall@3", similarity="cosine")) == ["recall@3"]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "must name at least one score"),
        (["recall@"], "Did you mean 'recall@K'"),
        (["recall@0"], "Did you mean"),
        (["recall@K"], "must give a number for K"),
        (["map_at_r"], "Did you mean 'map@r'"),
        (["accuracy"], "`scores` must be one of"),
    ],
)
def test_unknown_scores_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        evaluate([[1.0], [1.1]], [0, 0], scores=scores, similarity="cosine")


def test_settings_are_checked_even_when_they_are_not_needed() -> None:
    with pytest.raises(ParameterError, match="`seed` must be at least 0"):
        evaluate([[1.0], [1.1]], [0, 0], scores=["mrr"], seed=-1, similarity="cosine")
    with pytest.raises(ParameterError, match="`ties` must be one of"):
        evaluate([[1.0], [1.1]], [0, 0], scores=["nmi"], ties="best", similarity="cosine")  # type: ignore[arg-type]


def test_the_result_is_a_table_a_dict_and_json() -> None:
    result = evaluate(
        [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.5, 0.5]],
        [0, 0, 1, 2],
        scores=["recall@1", "precision@2"],
        similarity="cosine",
    )
    lines = str(result).splitlines()
    assert lines[0].split() == ["score", "value"]
    assert lines[1].split() == ["recall@1", "1.0000"]
    assert "queries 2, excluded 2" in lines[3]
    assert "similarity cosine, ties index" in lines[4]
    assert len({len(line) for line in lines[:3]}) == 1
    assert repr(result) == str(result)
    record = json.loads(result.to_json())
    assert record == result.to_dict()
    assert record["scores"] == {"recall@1": 1.0, "precision@2": 0.5}
    assert Evaluation.from_dict(record) == result
    assert hash(Evaluation.from_dict(record)) == hash(result)
    assert result != record
    assert len(result) == 2
    with pytest.raises(TypeError):
        result.scores["recall@1"] = 0.0  # type: ignore[index]
    with pytest.raises(ParameterError, match="got one without counts"):
        Evaluation.from_dict({"scores": {}, "settings": {}, "lower_is_better": []})


def test_two_results_side_by_side(digits: tuple[np.ndarray, np.ndarray]) -> None:
    points, labels = digits
    raw = evaluate(points, labels, scores=["recall@1", "map@r"], similarity="cosine")
    learned = evaluate(points[:, ::2], labels, scores=["recall@1", "map@r"], similarity="euclidean")
    both = compare(raw, learned)
    assert both.gains["map@r"] == learned["map@r"] - raw["map@r"]
    lines = str(both).splitlines()
    assert lines[0].split() == ["score", "raw", "learned", "gain"]
    assert "similarity cosine / euclidean" in str(both)
    assert lines[-1] == both.verdict
    record = json.loads(both.to_json())
    assert set(record) == {"raw", "learned", "gains", "verdict"}
    assert record["raw"] == raw.to_dict()
    assert str(compare(raw, learned, names=("before", "after"))).split()[1:3] == ["before", "after"]


def test_the_verdict_says_when_nothing_was_gained() -> None:
    low, high = Evaluation({"a": 0.1, "b": 0.5}), Evaluation({"a": 0.2, "b": 0.4})
    assert compare(low, low).verdict == "learned is not better than raw on any of the 2 scores."
    assert compare(low, high).verdict == "learned is better than raw on 1 of 2 scores, and worse on b."
    assert repr(compare(low, high)) == str(compare(low, high))


def test_lower_may_be_better() -> None:
    targets = [[1, 0, 0], [0, 1, 1]]
    bad = evaluate_multilabel([[0.1, 0.9, 0.3], [0.8, 0.6, 0.1]], targets)
    good = evaluate_multilabel([[0.9, 0.1, 0.3], [0.1, 0.6, 0.9]], targets)
    gains = compare(bad, good).gains
    assert all(gain > 0 for gain in gains.values())
    assert Evaluation.from_dict(json.loads(good.to_json())) == good


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": {"b": 1.0}}, "the same scores"),
        ({"counts": {"queries": 9}}, "the same items"),
        ({"settings": {"ties": "optimistic"}}, "the same settings"),
    ],
)
def test_results_that_cannot_be_compared(change: dict[str, Any], message: str) -> None:
    record: dict[str, Any] = {"scores": {"a": 1.0}, "settings": {"ties": "index"}, "counts": {"queries": 8}}
    with pytest.raises(ParameterError, match=message):
        compare(Evaluation(**record), Evaluation(**(record | change)))


def test_names_of_a_comparison() -> None:
    result = Evaluation({"a": 1.0})
    for names in (("x",), ("x", "x"), ("gains", "x")):
        with pytest.raises(ParameterError, match="`names` must be two different names"):
            compare(result, result, names=names)


def test_multilabel_in_one_call() -> None:
    scores, targets = [[0.9, 0.2, 0.7], [0.1, 0.6, 0.3]], [[1, 0, 0], [1, 1, 1]]
    result = evaluate_multilabel(scores, targets)
    assert result.counts == {"instances": 2, "left out": 1, "labels": 3}
    assert result["hamming-loss"] == 0.5
    assert evaluate_multilabel(scores, targets, targets)["hamming-loss"] == 0.0
    assert evaluate_multilabel(scores, targets, threshold=0.05)["hamming-loss"] == pytest.approx(2 / 6)
    with pytest.raises(ParameterError, match="`threshold` must be finite"):
        evaluate_multilabel(scores, targets, threshold=float("nan"))


def test_distributions_in_one_call() -> None:
    result = evaluate_distribution([[0.5, 0.5]], [[0.25, 0.75]])
    assert result["chebyshev"] == 0.25
    assert result["intersection"] == 0.75
    assert "cosine" not in result.lower_is_better
    assert "clark" in result.lower_is_better
