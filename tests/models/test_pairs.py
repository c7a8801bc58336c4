"""Pairs instead of labels at the front door: what is held out, what is learned, what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import average_precision_score, roc_auc_score

import nearer
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.models._scoring import evaluate_pairs
from nearer.relations import ClassLabels, Pairs

X, Y = load_wine(return_X_y=True)


def some_pairs(count: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Pairs]:
    drawn = np.random.default_rng(seed).integers(0, len(Y), (count, 2))
    table = np.unique(np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1), axis=0)
    near = Y[table[:, 0]] == Y[table[:, 1]]
    return table, near, Pairs(len(Y), positive=table[near], negative=table[~near])


def test_every_pair_is_listed_once_whatever_its_direction() -> None:
    pairs, near = Pairs(4, positive=[[2, 1], [1, 2]], negative=[[3, 0]]).listed()
    assert pairs.tolist() == [[1, 2], [0, 3]]
    assert near.tolist() == [True, False]
    one_way, _ = Pairs(2, 3, positive=[[1, 2]], negative=[[0, 0]]).listed()
    assert one_way.tolist() == [[1, 2], [0, 0]]


def test_a_metric_from_pairs_beats_the_features_on_pairs_of_new_rows() -> None:
    model = nearer.fit(X, some_pairs()[2])
    found = model.fitted.comparison
    assert found.gains["auc"] > 0.05
    assert found.intervals["auc"][0] > 0
    assert "better" in found.verdict
    assert "pairs" in str(model)


def test_held_out_pairs_touch_a_row_that_no_training_pair_has() -> None:
    problem = nearer.fit(X, some_pairs()[2], method="kissme").fitted.problem
    taught, _ = problem.pairs_of(problem.train)
    asked, _ = problem.pairs_of(problem.held_out, touching=True)
    assert not np.isin(taught, problem.held_out).any()
    assert np.isin(asked, problem.held_out).any(axis=1).all()
    assert len(taught) + len(asked) == len(problem.pairs)
    assert 0.1 < len(asked) / len(problem.pairs) < 0.3


def test_the_pair_scores_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    distances, near = rng.random(60).round(1), rng.random(60) < 0.4
    weights = rng.integers(0, 3, 60).astype(float)
    found = evaluate_pairs(distances, near, weights)
    assert found["auc"] == pytest.approx(roc_auc_score(near, -distances, sample_weight=weights))
    expected = average_precision_score(near, -distances, sample_weight=weights)
    assert found["average-precision"] == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["itml", "gmml", "ldml", "mmc", "euclidean"])
def test_every_pair_learner_is_reachable(metric: str) -> None:
    model = nearer.fit(X, some_pairs(300)[2], method=metric, n_components=5)
    assert model.method == metric
    assert model.transform(X).shape == (len(X), 5)


def test_pairs_are_saved_loaded_and_evaluated(tmp_path: Path) -> None:
    _, _, pairs = some_pairs()
    model = nearer.fit(X[:150], Pairs(150, positive=[[0, 1], [2, 3], [60, 61], [62, 65], [131, 140]] * 1, negative=[
        [0, 60], [1, 140], [61, 131], [2, 62], [3, 65], [140, 62]]), method="euclidean")  # fmt: skip
    again = nearer.load(model.save(tmp_path / "model"))
    found = nearer.evaluate(again, X, pairs)
    assert found.first.counts["pairs"] < len(pairs.listed()[0])
    assert 0.5 < found.first["auc"] < 1


def test_a_report_about_pairs_has_no_map(tmp_path: Path) -> None:
    page = nearer.fit(X, some_pairs()[2], method="kissme").report(tmp_path / "page.html").read_text()
    assert "average-precision" in page
    assert "The map" not in page


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (Pairs(178, positive=[[0, 1], [2, 3]]), LabelError, "near and far"),
        (Pairs(170, positive=[[0, 1]], negative=[[0, 100]]), ShapeError, "178 rows"),
        (Pairs(178, 178, positive=[[0, 1]], negative=[[0, 100]], both_ways=False), ShapeError, "one direction"),
        (ClassLabels(Y), ParameterError, "relations.Pairs"),
    ],
)
def test_pairs_that_cannot_teach_are_refused(y: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nearer.fit(X, y)


def test_a_method_for_classes_is_refused_for_pairs() -> None:
    with pytest.raises(ParameterError, match="learns from pairs"):
        nearer.fit(X, some_pairs()[2], method="lmnn")
