"""Scores without labels: planted ranks, cones, hubs and twins, and what scipy and plain loops say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nearer.evaluation import evaluate_unlabeled
from nearer.exceptions import ParameterError, ShapeError

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(120, 6))


def test_the_scores_are_those_of_plain_loops() -> None:
    found = evaluate_unlabeled(ROWS, k=5)
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    cosines = unit @ unit.T
    times = np.zeros(120)
    for number, row in enumerate(cosines):
        others = [one for one in np.argsort(-row, kind="stable") if one != number]
        times[others[:5]] += 1
    values = np.linalg.svd(ROWS - ROWS.mean(axis=0), compute_uv=False)
    assert found["effective-rank"] == pytest.approx(np.exp(stats.entropy(values)))
    assert found["mean-cosine"] == pytest.approx(cosines[~np.eye(120, dtype=bool)].mean())
    assert found["hubness"] == pytest.approx(stats.skew(times))
    assert found["never-found"] == pytest.approx((times == 0).mean())


def test_planted_faults_are_seen() -> None:
    good = evaluate_unlabeled(ROWS)
    flat = evaluate_unlabeled(np.c_[ROWS[:, :2], 1e-6 * ROWS[:, 2:]])
    assert flat["effective-rank"] == pytest.approx(2, abs=0.01)
    assert good["effective-rank"] > 5.5
    cone = evaluate_unlabeled(ROWS + 100)
    assert cone["mean-cosine"] > 0.99 > 0.2 > abs(good["mean-cosine"])
    twins = evaluate_unlabeled(np.r_[ROWS, ROWS[:60]])
    assert twins["twins"] == pytest.approx(60 / 180)
    # In many dimensions the middle of the cloud is near everybody.
    many = evaluate_unlabeled(RANDOM.normal(size=(400, 200)), similarity="euclidean")
    few = evaluate_unlabeled(RANDOM.normal(size=(400, 3)), similarity="euclidean")
    assert many["hubness"] > 1.5 > few["hubness"]


def test_agreement_is_of_the_neighbors_not_of_the_numbers() -> None:
    turn = np.linalg.qr(RANDOM.normal(size=(6, 6)))[0]
    assert evaluate_unlabeled(ROWS, 3 * ROWS @ turn)["agreement"] == 1
    chance = evaluate_unlabeled(ROWS, RANDOM.normal(size=(120, 9)))["agreement"]
    assert chance == pytest.approx(10 / 119, abs=0.03)


def test_a_sample_is_drawn_of_many_rows() -> None:
    found = evaluate_unlabeled(ROWS, ROWS, sample=50, seed=1)
    assert found.counts == {"rows": 120, "asked": 50, "dimension": 6}
    assert found["agreement"] == 1
    assert found == evaluate_unlabeled(ROWS, ROWS, sample=50, seed=1)


def test_fewer_rows_than_columns_and_equal_rows() -> None:
    wide = RANDOM.normal(size=(5, 40))
    values = np.linalg.svd(wide - wide.mean(axis=0), compute_uv=False)
    assert evaluate_unlabeled(wide, k=2)["effective-rank"] == pytest.approx(
        np.exp(stats.entropy(values[:4])), rel=1e-6
    )
    same = evaluate_unlabeled(np.ones((5, 3)), k=2)
    assert (same["effective-rank"], same["twins"], same["mean-cosine"]) == (1, 0.8, pytest.approx(1))


def test_what_cannot_be_scored_is_said() -> None:
    with pytest.raises(ShapeError, match="`other` must hold the same 120 items, got 7 rows"):
        evaluate_unlabeled(ROWS, ROWS[:7])
    with pytest.raises(ParameterError, match="`k` must be"):
        evaluate_unlabeled(ROWS[:4], k=4)
    with pytest.raises(ShapeError, match="`embeddings`"):
        evaluate_unlabeled(ROWS[:2], k=1)


@pytest.mark.parametrize("factor", [1e-200, 1e160, 1e200])
def test_rows_of_any_size_have_the_scores_of_small_ones(factor: float) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    small = evaluate_unlabeled(rows, rows, k=3, similarity="euclidean")
    other = evaluate_unlabeled(rows * factor, rows * factor, k=3, similarity="euclidean")
    assert dict(other) == pytest.approx(dict(small), rel=1e-6)
