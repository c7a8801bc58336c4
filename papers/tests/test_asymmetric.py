"""The recipe of two views: what the views are, that two maps win on them, and its bad input."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearer.exceptions import ParameterError
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.asymmetric import _asymmetric as asymmetric
from nearer_papers.asymmetric import _one_view
from nearer_papers.asymmetric._one_view import ONE_VIEW_METHODS, measure_one_view
from nearer_papers.asymmetric._two_views import METHODS, PROBLEMS, QUICK, TRIALS, _divided, _grid, measure_two_views

ROOT = Path(__file__).resolve().parents[2]


def test_both_sides_of_every_problem_have_the_same_columns() -> None:
    images = np.arange(128.0).reshape(2, 8, 8)
    for problem in PROBLEMS.values():
        left, right = problem(images)
        assert left.shape == right.shape
    left, right = PROBLEMS["halves"](images)
    assert left[0, :4].tolist() == [0, 1, 2, 3]
    assert right[0, :4].tolist() == [7, 6, 5, 4]
    low, full = PROBLEMS["low resolution"](images)
    assert len(np.unique(low[0])) == 8
    assert low[0].mean() == full[0].mean()
    turned, _ = PROBLEMS["turned negative"](images)
    np.testing.assert_array_equal(turned[1], images.max() - images[1].ravel()[::-1])


def test_two_maps_are_far_better_than_one_and_the_outcome_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    for name in QUICK:
        monkeypatch.setitem(METHODS, name, replace(METHODS[name], settings=METHODS[name].settings[:1]))
    outcome = run_recipe(
        recipe_named("asymmetric"),
        Request(quick=True, only=["turned negative"], progress=lambda text, done: seen.append(done)),
    )
    errors = {row["method"]: row["error"] for row in outcome.record["rows"]}
    two = errors.pop("AsymmetricKNN"), errors.pop("CCA")
    assert max(two) < 0.1 < 0.5 < min(errors.values())
    assert seen == sorted(seen)
    assert seen[-1] == 1
    (section,) = outcome.sections
    table = section.parts[1]
    assert [row[0] for row in table.rows] == ["Euclidean", "LFDA", "CCA", "AsymmetricKNN"]


def test_the_example_runs() -> None:
    runpy.run_path(str(ROOT / "examples" / "two_views.py"))


def test_an_unknown_problem_is_named() -> None:
    with pytest.raises(
        ParameterError, match=r"`only` must be one of 'views', 'one view', 'halves', .*, got 'thirds'"
    ):
        run_recipe(recipe_named("asymmetric"), Request(only=["thirds"]))


def test_every_method_has_the_same_number_of_trials_and_says_what_it_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {len(method.settings) for name, method in METHODS.items() if name != "Euclidean"} == {TRIALS}
    quick = replace(METHODS["TwoEncoders"], settings=_grid(epochs=[1, 3], decay=[0.0]))
    monkeypatch.setitem(METHODS, "TwoEncoders", quick)
    row = measure_two_views("turned negative", 0, "TwoEncoders")
    assert [one["setting"]["epochs"] for one in row["tried"]] == [1, 3]
    assert row["setting"] == {"epochs": 3, "decay": 0.0}
    assert row["error"] < 0.6  # chance is 90 %; one map for both sides has 81 %


@pytest.mark.parametrize("name", ["CCA", "kernel CCA", "ridge", "kernel ridge", "LDA of each side"])
def test_two_maps_bring_a_query_to_a_database_that_nobody_saw_from_its_side(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(METHODS, name, replace(METHODS[name], settings=METHODS[name].settings[:1]))
    assert measure_two_views("turned negative", 0, name)["error"] < 0.2


def test_no_item_is_on_two_sides() -> None:
    y = np.repeat(np.arange(4), 50)
    learn, stored, asked = _divided(y, 0, np.arange(200), (0.4, 0.3))
    assert np.array_equal(np.sort(np.concatenate([learn, stored, asked])), np.arange(200))
    assert [len(part) for part in (learn, stored, asked)] == [84, 56, 60]


def test_exact_beside_greedy() -> None:
    names = ("GerrymanderingMetric, k = 5", "GerrymanderingMetric, k = 5, greedy")
    values = {names[0]: (0.25, 0.5), names[1]: (0.25, 0.75, 0.125)}
    rows = [
        {"table": "one view", "problem": "wine", "method": method, "seed": seed, "error": error}
        for method, errors in values.items()
        for seed, error in enumerate(errors)
    ]
    table = asymmetric.present(rows, Request()).sections[-1].parts[1]
    # The third greedy split has no exact one beside it.
    assert table.rows == [["wine", "37.5 ± 12.5 % (2)", "50.0 ± 25.0 % (2)", "1 of 2"]]  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ONE_VIEW_METHODS)
def test_every_method_of_the_one_view_table_runs(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_one_view, "STEPS", 1)
    row = measure_one_view("wine", 0, method)
    assert row["error"] < 0.2
    assert row["rows"] == 124
