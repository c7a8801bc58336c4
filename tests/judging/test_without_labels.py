"""Thresholds where nothing is labelled: pairs drawn at random are different, near-copies are the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.judging import SamePair
from nearer.reports._curves import error_curves


def items(n: int, seed: int = 0) -> np.ndarray:
    """Rows in clumps of different widths: no distribution with a formula for its pairs."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(40, 5))
    return centers[rng.integers(0, 40, n)] + rng.normal(size=(n, 5)) * rng.exponential(1.0, size=(n, 1))


@pytest.mark.parametrize(("error", "n"), [(1e-2, 800), (1e-3, 1_500), (1e-4, 3_000)])
def test_as_many_random_pairs_of_new_items_match_as_was_asked(error: float, n: int) -> None:
    rates = []
    for seed in range(4):
        same = SamePair(error, seed=seed).calibrate(items(n, seed))
        rates.append(float((pdist(items(2_500, 100 + seed)) <= same.same_within_).mean()))
    assert error / 2 < np.mean(rates) < 2 * error
    assert min(rates) > error / 3
    assert max(rates) < 3 * error


def test_the_bound_is_that_of_pairs_of_classes_of_one_item() -> None:
    X = items(200)
    same = SamePair(0.05).calibrate(X)
    pairs = pdist(X.astype(np.float32).astype(np.float64))
    share = float((pairs <= same.same_within_).mean())
    assert same.false_matches_ == pytest.approx(share, abs=1e-6)
    # The margin keeps the share below the level, but not far below it.
    assert 0.03 < share < 0.05
    assert same.n_classes_ == same.n_items_ == 200


def test_copies_say_how_many_are_found() -> None:
    X = items(1_000)
    rng = np.random.default_rng(5)
    near = X + 1e-3 * rng.normal(size=X.shape)
    far = np.where(rng.random(len(X))[:, None] < 0.4, X + 30, near)  # four of ten copies are nothing like the item
    good, bad = (SamePair(1e-3).calibrate(X, copies=copies) for copies in (near, far))
    assert good.true_matches_ > 0.95
    assert 0.5 < bad.true_matches_ < 0.7
    assert good.different_beyond_ < np.inf
    assert f"near-copies called same: {bad.true_matches_:.3f}" in str(bad)
    assert good.decide(X[:3], near[:3]).tolist() == ["same"] * 3


def test_equal_rows_are_one_item() -> None:
    """Copies that are in the data are no false matches."""
    X = items(400)
    assert SamePair(0.01).calibrate(np.repeat(X, 3, axis=0)).same_within_ == pytest.approx(
        SamePair(0.01).calibrate(X).same_within_, rel=0.1
    )


def test_what_is_not_known_is_said_kept_and_drawn() -> None:
    same = SamePair(0.01).calibrate(items(500))
    assert same.different_beyond_ == np.inf
    assert np.isnan(same.true_matches_)
    assert set(same.answers([0.0, 1e9]).tolist()) == {"same", "cannot say"}
    assert "near-copies called same: not known, none were given" in str(same)
    assert "items that differ and mean the same were counted as different" in str(same)
    again = SamePair.from_dict(json.loads(json.dumps(same.to_dict(), allow_nan=False)))
    assert str(again) == str(same)
    assert again.answers([0.0, same.same_within_, 1e9]).tolist() == ["same", "same", "cannot say"]
    assert len(error_curves(same).axes) == 2


def test_too_few_rows_and_copies_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LabelError, match=r"at least 143 different rows for error=0\.001 .*got 100"):
        SamePair(1e-3).calibrate(items(100))
    with pytest.raises(ShapeError, match="`copies` must have one row for each of the 300"):
        SamePair(0.01).calibrate(items(300), copies=items(20))
    with pytest.raises(ParameterError, match="`copies` must be left out where there are classes"):
        SamePair(0.05).calibrate(items(60), np.repeat(np.arange(20), 3), copies=items(60))


def test_a_model_and_the_command(tmp_path: Path) -> None:
    X = items(600)
    y = np.where(X[:, 0] > 0, "left", "right")
    names = [f"c{column}" for column in range(5)]
    taught = pd.DataFrame(X[:200], columns=names).assign(side=y[:200])
    model = nearer.fit(taught, "side", method="lda", n_components=1)
    fresh, copies = X[200:], X[200:] + 1e-6
    kept = model.calibrate(
        pd.DataFrame(fresh, columns=names), error=0.01, copies=pd.DataFrame(copies, columns=names)
    )
    assert not kept.labeled_
    assert kept.true_matches_ > 0.99
    model.save(tmp_path / "model")
    for name, rows in (("fresh", fresh), ("copies", copies)):
        pd.DataFrame(rows, columns=names).to_csv(tmp_path / f"{name}.csv", index=False)
    words = ["calibrate", str(tmp_path / "fresh.csv"), "-m", str(tmp_path / "model"), "--error", "0.01"]
    done = CliRunner().invoke(app, [*words, "--copies", str(tmp_path / "copies.csv"), "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["labeled_"] is False
    assert record["same_within_"] == pytest.approx(kept.same_within_, rel=1e-4)
    loaded = nearer.load(tmp_path / "model")
    assert loaded.same(pd.DataFrame(fresh[:1], columns=names), pd.DataFrame(copies[:1], columns=names))[0] == "same"
    plain = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(plain.stdout)["true_matches_"] is None


def test_copies_do_not_move_the_threshold_for_false_matches() -> None:
    rows = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    copies = rows + 0.5 * np.random.default_rng(1).normal(size=rows.shape).astype(np.float32)
    alone, beside = SamePair(error=1e-3).calibrate(rows), SamePair(error=1e-3).calibrate(rows, copies=copies)
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)[np.triu_indices(600, 1)]
    for same in (alone, beside):
        assert (apart <= same.same_within_).mean() <= 1e-3
    assert beside.same_within_ == pytest.approx(alone.same_within_, rel=0.1)
    assert "nothing is called different" in str(alone)
