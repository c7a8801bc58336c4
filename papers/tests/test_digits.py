"""The recorded experiment on digits, with few epochs: honest split and determinism."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from nearer.exceptions import NearerError
from nearer.geometry import embed
from nearer_papers.ours import _digits_training as digits
from nearer_papers.ours._digits_training import DigitsResult, learn_digits
from nearer_papers.semi_supervised._semi_supervised_figures import nearest_others

EPOCHS = 6


@pytest.fixture(scope="module")
def result() -> DigitsResult:
    return learn_digits(epochs=EPOCHS)


def test_it_beats_the_raw_features_where_it_matters_most(result: DigitsResult) -> None:
    assert result.learned["map@r"] > result.raw["map@r"] + 0.05
    assert result.learned["nmi"] > result.raw["nmi"]
    assert list(result.learned) == ["recall@1", "recall@2", "recall@4", "recall@8", "map@r", "nmi"]


def test_the_counts_are_those_of_the_protocol(result: DigitsResult) -> None:
    counts = result.counts
    assert counts["train"] + counts["held_out"] == 1797
    assert counts["given"] == 100
    assert counts["spread_right"] / counts["spread"] > 0.95
    assert counts["spread_again_right"] / counts["spread_again"] > 0.95
    assert len(result.held_out) == counts["held_out"] == result.raw.counts["queries"]


def test_the_history_has_an_entry_for_each_epoch(result: DigitsResult) -> None:
    assert {len(series) for series in result.history.values()} == {EPOCHS}
    loss = result.history["loss"]
    assert loss[-1] < loss[0]  # type: ignore[operator]
    assert result.history["map@r"][-1] == pytest.approx(result.learned["map@r"])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    torch.manual_seed(1)
    first = learn_digits(epochs=1, seed=3)
    torch.manual_seed(2)
    np.random.default_rng().random()
    second = learn_digits(epochs=1, seed=3)
    assert first.learned == second.learned
    assert first.history == second.history
    assert learn_digits(epochs=1, seed=4).raw != first.raw


def test_the_number_of_threads_comes_back() -> None:
    before = torch.get_num_threads()
    learn_digits(epochs=1)
    assert torch.get_num_threads() == before


def test_held_out_digits_never_reach_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the held-out digits look like and are called, the learned network is the same."""
    whole = digits.load("digits")
    expected = learn_digits(epochs=1)
    rows = digits.stratified_split(whole.all.y, test=digits.HELD_OUT, seed=0)[1]
    x = whole.all.x.copy()
    x[rows] = np.random.default_rng(0).random(x[rows].shape)
    spoilt = dataclasses.replace(whole, parts={"all": dataclasses.replace(whole.all, x=x)})
    monkeypatch.setattr(digits, "load", lambda name: spoilt)
    came = learn_digits(epochs=1)
    for mine, theirs in zip(expected.encoder.parameters(), came.encoder.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert came.learned["recall@1"] < 0.5


def test_only_the_given_labels_reach_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    spread = digits.class_shares

    def watch(neighbors: Any, labels: Any, **options: Any) -> Any:
        seen.append(np.array(labels))
        return spread(neighbors, labels, **options)

    monkeypatch.setattr(digits, "class_shares", watch)
    learn_digits(epochs=4, labels_per_class=2)
    assert len(seen) == 3
    for labels in seen:
        assert np.bincount(labels[labels >= 0]).tolist() == [2] * 10


def test_progress_is_told_every_epoch() -> None:
    calls: list[tuple[int, int, float]] = []
    learn_digits(epochs=2, progress=lambda *call: calls.append(call))
    assert [call[:2] for call in calls] == [(1, 2), (2, 2)]


def test_the_encoder_is_the_one_that_was_scored(result: DigitsResult) -> None:
    z = embed(result.encoder, result.held_out.matrix())
    nearest = nearest_others(z.numpy(), 1)[:, 0]
    y = result.held_out.y
    assert (y[nearest] == y).mean() == pytest.approx(result.learned["recall@1"], abs=0.01)


def test_nearest_others_leaves_out_the_item_itself_even_among_twins() -> None:
    found = nearest_others(np.ones((5, 2)), 2)
    assert found.shape == (5, 2)
    assert not (found == np.arange(5)[:, None]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "`seed` must be between 0"),
        ({"epochs": 0}, "`epochs` must be between 1"),
        ({"labels_per_class": 0}, "`labels_per_class` must be between 1"),
        ({"labels_per_class": 101}, "`labels_per_class` must be between 1 and 100"),
        ({"epochs": 2.5}, "`epochs` must be an integer"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(NearerError, match=message):
        learn_digits(**options)
