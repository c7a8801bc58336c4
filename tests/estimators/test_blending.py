"""The step back towards the identity: one convention, one loop over mixtures, three judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nearer import estimators as E
from nearer.estimators import _blending as blending
from nearer.estimators._blending import mix_with_identity, mixture_neighbors
from nearer.estimators.neighbors._near import nearest_rows
from nearer.exceptions import NearerError
from nearer.geometry import MLP

pytestmark = pytest.mark.filterwarnings("ignore::nearer.exceptions.StoppedEarlyWarning")

LEARNERS: list[Any] = [
    E.LRML(),
    E.ISDML(),
    E.APLLR(),
    E.APIT(random_state=0),
    E.SERAPH(random_state=0),
    E.SemiSupervisedMetric(random_state=0),
]


def few_of(n: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes that two columns tell apart, six columns of noise, ten labels per class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = np.c_[np.array([[0.0, 0], [5, 0], [0, 5]])[y] + rng.normal(size=(n, 2)), 2 * rng.normal(size=(n, 6))]
    labels = np.where(np.arange(n) < 30, y, -1)
    return X, y, labels


def nearest_share(Z: np.ndarray, y: np.ndarray) -> float:
    return float((y[nearest_rows(Z, Z, 1, own=np.arange(len(Z)))[:, 0]] == y).mean())


def test_the_neighbors_are_those_of_the_mixed_matrix() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    half = rng.normal(size=(4, 4))
    matrix = half @ half.T
    amounts = (0.0, 0.3, 1.0)
    found = mixture_neighbors(X, matrix, amounts, k=3, queries=50)
    assert found is not None
    covariance = np.cov(X.T, bias=True)
    for amount, near in zip(amounts, found, strict=True):
        mapped = X @ np.linalg.cholesky(mix_with_identity(matrix, covariance, amount))
        np.testing.assert_array_equal(near, nearest_rows(mapped[:50], mapped, 3, own=np.arange(50)))
    assert mixture_neighbors(np.ones((5, 2)), np.eye(2), amounts, k=1, queries=5) is None


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_noise_is_not_learned(learner: Any) -> None:
    """Labels at random say nothing: what is learned from them must cost next to nothing."""
    X, y, labels = few_of(300)
    wrong = np.r_[np.random.default_rng(3).permutation(labels[:30]), labels[30:]]
    raw = nearest_share(X, y)
    assert nearest_share(learner.fit(X, wrong).transform(X), y) >= raw - 0.03
    assert 0 <= learner.blend_ <= 1


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_few_labels_do_no_harm_and_help(learner: Any) -> None:
    X, y, labels = few_of(300)
    assert nearest_share(learner.fit(X, labels).transform(X), y) >= nearest_share(X, y)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_one_is_the_rows_as_they_are_and_zero_the_published_method(learner: Any) -> None:
    X, _, labels = few_of(120)
    whole = type(learner)(**{**learner.get_params(), "blend": 1.0}).fit(X, labels)
    np.testing.assert_allclose(whole.mahalanobis_matrix(), np.eye(8), atol=1e-10)
    assert whole.blend_ == 1.0
    published = type(learner)(**{**learner.get_params(), "blend": 0.0}).fit(X, labels)
    assert published.blend_ == 0.0
    assert not np.allclose(published.mahalanobis_matrix(), np.eye(8), atol=1e-3)


def test_what_was_held_out_judges() -> None:
    X, _, labels = few_of(300)
    half = blending.halves(labels, rng())
    seen, hidden = np.where(half == 0, -1, labels), np.where(half == 0, labels, -1)
    # The two columns that tell the classes apart, and the six that do not.
    good, bad = np.diag([1.0] * 2 + [0.0] * 6), np.diag([0.0] * 2 + [1.0] * 6)
    right = blending.spread_agreement(X, seen, good, (0.0, 1.0), hidden=hidden)
    wrong = blending.spread_agreement(X, seen, bad, (0.0, 1.0), hidden=hidden)
    assert right[0] > right[1] == wrong[1] > wrong[0]


def test_ties_go_to_the_rows_as_they_are() -> None:
    X, _, labels = few_of(90)
    # One class: every neighbor agrees under every mixture.
    found = blending.choose_spread_blend(X, np.where(labels >= 0, 0, -1), np.diag([9.0] + [0.0] * 7), rng())
    assert found == 1.0


def rng() -> np.random.RandomState:
    return np.random.RandomState(0)


def test_many_rows_are_judged_by_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.where(np.arange(200) % 20 == 0, 1, -1)
    monkeypatch.setattr(blending, "_SPREAD_ROWS", 50)
    rows = blending.judged_rows(labels, rng())
    assert len(rows) == 50
    assert set(np.flatnonzero(labels >= 0)) <= set(rows)


def test_halves_divide_every_class() -> None:
    codes = np.array([0, 0, 0, 0, 1, 1, -1])
    found = blending.halves(codes, rng())
    assert np.bincount(found[:4]).tolist() == [2, 2]
    assert sorted(found[4:6]) == [0, 1]
    assert found[6] == -1


def test_a_label_that_cannot_be_held_out_leaves_the_rows_as_they_are() -> None:
    X, _, _ = few_of(60)
    labels = np.full(60, -1)
    labels[0] = 0
    assert E.SemiSupervisedMetric(random_state=0).fit(X, labels).blend_ == 1.0


@pytest.mark.parametrize("blend", [-0.1, 1.5, "most"])
def test_bad_blends_are_refused(blend: Any) -> None:
    X, _, labels = few_of(60)
    with pytest.raises(NearerError, match="`blend`"):
        E.LRML(blend=blend).fit(X, labels)


def test_there_is_nothing_to_blend_behind_an_encoder() -> None:
    X, _, labels = few_of(60)
    with pytest.raises(NearerError, match="`blend` must be 'auto' or 0 with an encoder"):
        E.SemiSupervisedMetric(2, encoder=MLP(8, 4), blend=0.5).fit(X.astype(np.float32), labels)
