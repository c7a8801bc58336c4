"""Baselines beside raw and learned: PCA, LDA, and the mean of the training labels."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

import nearer
from nearer.evaluation import Comparison, Evaluation
from nearer.models import _raw as room
from nearer.models._problem import Problem
from nearer.models._reading import read_items


def test_pca_keeps_the_directions_that_hold_most_of_the_variance() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 10)) + 0.01 * rng.normal(size=(200, 10))
    found = nearer.fit(x, rng.integers(0, 3, 200), method="kissme").fitted.comparison
    assert list(found.baselines) in (["scaled", f"pca ({d})", "lda (2)"] for d in (2, 3))


def test_a_rotation_of_the_raw_features_is_no_baseline() -> None:
    rng = np.random.default_rng(0)
    found = nearer.fit(rng.normal(size=(500, 4)), rng.integers(0, 2, 500), method="kissme").fitted.comparison
    assert list(found.baselines) == ["scaled", "lda (1)"]


def test_lda_stands_beside_the_learned_metric_and_is_named_where_it_is_better() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    x = np.column_stack([y + 0.2 * rng.normal(size=400), 10 * rng.normal(size=(400, 6))])
    comparison = nearer.fit(x, y, method="euclidean").fitted.comparison
    assert comparison.baselines["lda (1)"]["map@r"] > comparison.second["map@r"] + 0.2
    assert "Lda (1) does better" in comparison.verdict
    alone = nearer.fit(np.ones((40, 2)) * y[::10, None], y[::10], method="euclidean").fitted.comparison
    assert not any(name.startswith("lda") for name in alone.baselines), "nothing varies inside these classes"


def test_labels_that_features_say_nothing_about_are_answered_best_by_their_mean() -> None:
    rng = np.random.default_rng(0)
    x, shares = rng.normal(size=(300, 6)), rng.dirichlet(np.ones(4), 300)
    model = nearer.fit(x, shares)
    assert model.method == "euclidean", "what is not better is not taken"
    assert "no difference that 60 held-out rows could show" in model.fitted.verdict
    assert "the mean" in str(model)
    numbers = nearer.fit(x, rng.normal(size=300)).fitted.comparison
    assert -0.1 < numbers.baselines["the mean"]["r2"] <= 0
    assert numbers.baselines["boosting"]["r2"] < numbers.baselines["the mean"]["r2"], "there is nothing to find"
    sets = nearer.fit(x, rng.integers(0, 2, (300, 5)), method="raml-krr").fitted.comparison
    assert "the mean" in sets.baselines


def test_of_baselines_that_lead_in_as_many_scores_the_largest_lead_is_named() -> None:
    raw, learned, pca, lda = (
        {"x": 0.5, "y": 0.5},
        {"x": 0.6, "y": 0.6},
        {"x": 0.7, "y": 0.5},
        {"x": 0.9, "y": 0.5},
    )
    told = Comparison(
        Evaluation(raw),
        Evaluation(learned),
        intervals={"x": (0.09, 0.11), "y": (0.09, 0.11)},
        baselines={"pca (2)": Evaluation(pca), "lda (1)": Evaluation(lda)},
    ).verdict
    assert told.endswith("Lda (1) does better in x.")


def test_a_lead_within_the_interval_does_not_count() -> None:
    raw, learned, other = (Evaluation({"x": value}) for value in (0.5, 0.6, 0.61))
    doubtful = Comparison(raw, learned, intervals={"x": (0.05, 0.15)}, baselines={"pca (2)": other})
    clear = Comparison(raw, learned, intervals={"x": (0.099, 0.101)}, baselines={"pca (2)": other})
    assert "Pca (2) does better in x." not in doubtful.verdict
    assert "Pca (2) does better in x." in clear.verdict
    ahead = Comparison(raw, learned, intervals={"x": (0.099, 0.101)}, baselines={"pca (2)": raw, "lda (1)": raw})
    assert ahead.verdict.endswith("It is better than pca (2), lda (1) too in x.")
    assert doubtful.to_dict()["baselines"]["pca (2)"]["scores"] == {"x": 0.61}


def test_columns_of_a_table_are_scaled_unless_that_is_shown_to_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame({"a": np.arange(100.0) ** 2, "b": np.arange(100.0) % 7, "y": np.repeat([0, 1], 50)})
    array = (table[["a", "b"]].to_numpy(), table["y"])
    for data, y, ahead, scaled in ((table, "y", 52, True), (table, "y", 80, False), (array, None, 52, False)):
        lead = np.where(np.arange(100) < ahead, 1.0, -1.0)
        monkeypatch.setattr(room, "_right", Mock(side_effect=[lead, np.zeros(100)]))
        problem = Problem.from_data(read_items(data, y), held_out=0.2, split="auto", seed=0)
        assert room.needs_scale(problem) == scaled
