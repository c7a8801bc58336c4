"""Questions of other libraries as rows of the recipe."""

from __future__ import annotations

import numpy as np
import pytest

from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.ours import _questions as questions
from nearer_papers.ours._question_peers import PEERS, asked_pairs, installed


@pytest.mark.parametrize("strategy", PEERS)
def test_a_library_asks_about_pairs_and_leaves_the_random_state(strategy: str) -> None:
    pytest.importorskip(PEERS[strategy])
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    x = rng.normal(size=(60, 4)) + 4 * y[:, None]
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    pairs = asked_pairs(strategy, x, y, 25, 0)
    assert 10 < len(pairs) <= 25
    assert all(0 <= a < b < 60 for a, b in pairs)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert asked_pairs(strategy, x, y, 25, 0) == pairs


def test_curves_from_pairs_that_a_library_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(PEERS))
    listed = [(i, i + 10) for i in range(50)]
    monkeypatch.setattr(questions, "asked_pairs", lambda *_: listed)
    outcome = run_recipe(recipe_named("questions"), Request(quick=True, only=("digits", name)))
    (row,) = outcome.record["rows"]
    # Fifty pairs in batches of twenty: a library that asks no more has no more points.
    assert list(row["map@r"]) == ["20", "40", "50"]
    assert all(0 < value < 1 for value in row["map@r"].values())


def test_a_library_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearer_papers.ours._question_peers.find_spec", lambda name: None)
    assert not any(installed(strategy) for strategy in PEERS)
    assert installed("influence")
