"""The recipe of two views: what the views are, that two maps win on them, and its bad input."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from nearer.exceptions import ParameterError
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.asymmetric import _asymmetric as asymmetric
from nearer_papers.asymmetric import _one_view
from nearer_papers.asymmetric._asymmetric import PROBLEMS
from nearer_papers.asymmetric._one_view import ONE_VIEW_METHODS, measure_one_view

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


def test_two_maps_are_far_better_than_one_and_the_outcome_says_so() -> None:
    seen: list[float] = []
    outcome = run_recipe(
        recipe_named("asymmetric"),
        Request(quick=True, only=["turned negative"], progress=lambda text, done: seen.append(done)),
    )
    errors = {row["method"]: row["error"] for row in outcome.record["rows"]}
    assert errors.pop("AsymmetricKNN") < 0.1 < 0.5 < min(errors.values())
    assert seen == sorted(seen)
    assert seen[-1] == 1
    (section,) = outcome.sections
    table = section.parts[1]
    assert [row[0] for row in table.rows] == ["Euclidean", "LFDA", "LMNN", "AsymmetricKNN"]


def test_the_example_runs() -> None:
    runpy.run_path(str(ROOT / "examples" / "two_views.py"))


def test_an_unknown_problem_is_named() -> None:
    with pytest.raises(
        ParameterError, match=r"`only` must be one of 'views', 'one view', 'halves', .*, got 'thirds'"
    ):
        run_recipe(recipe_named("asymmetric"), Request(only=["thirds"]))


def test_networks_for_two_sides_and_exact_beside_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asymmetric, "EPOCHS", 3)
    # Chance is 90 %; one map for both sides has 81 %.
    assert asymmetric._measure_view("turned negative", 0, "TwoEncoders") < 0.5
    names = ("GerrymanderingMetric", "GerrymanderingMetric, greedy")
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
