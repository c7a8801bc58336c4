"""Supervision weaker than labels: pairs, triplets, quadruplets, thresholds, distances."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearer import estimators as E
from nearer.estimators._learner import as_similar, best_threshold
from nearer.estimators._sampling import random_pairs
from nearer.estimators._supervision import reduce_components
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer_papers.systems import DMLEig, DoubletSVM

pytestmark = pytest.mark.filterwarnings("ignore::nearer.exceptions.NearerWarning")

PAIR_LEARNERS = [
    E.KISSME(),
    E.GMML(),
    E.ITML(max_iter=20),
    E.LDML(max_iter=50),
    E.MMC(max_iter=50),
    DMLEig(max_iter=50),
    DoubletSVM(),
]


@pytest.fixture
def planted() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Only the first feature says who is similar; the second is loud noise."""
    rng = np.random.RandomState(0)
    y = rng.randint(2, size=80)
    X = np.column_stack([2 * y + 0.1 * rng.standard_normal(80), 5 * rng.standard_normal(80)])
    pairs = rng.randint(80, size=(300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return X, pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


@pytest.mark.parametrize("learner", PAIR_LEARNERS, ids=lambda learner: type(learner).__name__)
def test_pairs_recover_the_planted_feature(learner: Any, planted: Any) -> None:
    X, pairs, similar = planted
    fitted = learner.fit_pairs(X, pairs, similar)
    M = fitted.mahalanobis_matrix()
    assert M[0, 0] > 4 * M[1, 1]
    left, right = X[pairs[:, 0]], X[pairs[:, 1]]
    assert (fitted.predict_pairs(left, right) == similar).mean() > 0.8
    thin = fitted.predict_pairs(sparse.csr_matrix(left), sparse.csr_matrix(right))
    np.testing.assert_array_equal(thin, fitted.predict_pairs(left, right))
    np.testing.assert_array_equal(
        type(fitted)(**fitted.get_params()).fit_pairs(X, pairs, similar > 0).threshold_, fitted.threshold_
    )


def test_triplets_and_quadruplets_recover_the_planted_feature(planted: Any) -> None:
    X, pairs, similar = planted
    near, far = pairs[similar > 0][:60], pairs[similar < 0][:60]
    M = E.LSML().fit_quadruplets(X, np.column_stack([near, far])).mahalanobis_matrix()
    assert M[0, 0] > 4 * M[1, 1]
    label = X[:, 0] > 1
    rng = np.random.RandomState(1)
    triplets = rng.randint(80, size=(2000, 3))
    good = (label[triplets[:, 0]] == label[triplets[:, 1]]) & (label[triplets[:, 0]] != label[triplets[:, 2]])
    M = E.TripletSVM().fit_triplets(X, triplets[good]).mahalanobis_matrix()
    assert M[0, 0] > 4 * M[1, 1]


def test_distances_scores_and_the_metric_function_agree(planted: Any) -> None:
    X = planted[0]
    learner = E.GMML().fit(X, X[:, 0] > 1)
    M = learner.mahalanobis_matrix()
    delta = X[:5] - X[5:10]
    expected = np.sqrt(np.einsum("ij,jk,ik->i", delta, M, delta))
    np.testing.assert_allclose(learner.pair_distance(X[:5], X[5:10]), expected)
    np.testing.assert_allclose(learner.score_pairs(X[:5], X[5:10]), -expected)
    distance = learner.get_metric()
    np.testing.assert_allclose([distance(a, b) for a, b in zip(X[:5], X[5:10], strict=True)], expected)
    mapped = learner.transform(X)
    np.testing.assert_allclose(np.linalg.norm(mapped[:5] - mapped[5:10], axis=1), expected)
    with pytest.raises(ShapeError, match="both vectors must have 2 entries"):
        distance([1.0], [2.0])
    with pytest.raises(ShapeError, match="same shape"):
        learner.pair_distance(X[:2], X[:3])


def test_a_learner_fitted_on_labels_can_be_calibrated(planted: Any) -> None:
    X, pairs, similar = planted
    learner = E.LMNN().fit(X, X[:, 0] > 1)
    left, right = X[pairs[:, 0]], X[pairs[:, 1]]
    with pytest.raises(ParameterError, match="a threshold must be set"):
        learner.predict_pairs(left, right)
    learner.calibrate_threshold(left, right, similar, strategy="balanced")
    assert (learner.predict_pairs(left, right) == similar).mean() > 0.9


@pytest.mark.parametrize(
    ("pairs", "similar", "message"),
    [
        ([[0, 1]], [1], "got 1 pairs, all similar"),
        ([[0, 1], [1, 2]], [-1, -1], "all dissimilar"),
        ([[0, 1], [1, 99]], [1, -1], "`pairs` must point into the 80 rows"),
        ([[0, -1], [1, 2]], [1, -1], "`pairs` must point into"),
        ([[0, 1, 2]], [1], r"`pairs` must be integer row numbers of shape \(m, 2\)"),
        ([[0.5, 1.0]], [1], "`pairs` must be integer"),
        ([[0, 1], [1, 2]], [1], "one entry for each of the 2 pairs"),
        ([[0, 1], [1, 2]], [1, 5], "`similar` must hold True/False"),
    ],
)
def test_bad_pairs_are_refused(planted: Any, pairs: Any, similar: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        E.GMML().fit_pairs(planted[0], pairs, similar)


def test_a_refit_forgets_the_threshold(planted: Any) -> None:
    X, pairs, similar = planted
    learner = E.GMML().fit_pairs(X, pairs, similar)
    assert not hasattr(learner.fit(X, X[:, 0] > 1), "threshold_")
    for other in (E.LMNN(), E.NCA(), E.MLKR(), E.RCA()):
        other.fit(X, (X[:, 0] > 1).astype(int)).calibrate_threshold(X[:40], X[40:], similar[:40])
        assert not hasattr(other.fit(X, (X[:, 0] > 1).astype(int)), "threshold_")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=15).filter(
        lambda rows: len({row[1] for row in rows}) == 2
    ),
    st.sampled_from(["accuracy", "balanced", "f1"]),
)
def test_no_other_threshold_scores_higher(rows: list[tuple[int, bool]], strategy: Any) -> None:
    distances = np.array([row[0] for row in rows], dtype=float)
    similar = np.array([row[1] for row in rows])

    def score(threshold: float) -> float:
        called = distances <= threshold
        right = called == similar
        if strategy == "accuracy":
            return float(right.mean())
        if strategy == "balanced":
            return float(right[similar].mean() + right[~similar].mean())
        return float(2 * (called & similar).sum() / (called.sum() + similar.sum()))

    chosen = score(best_threshold(distances, similar, strategy=strategy))
    assert chosen >= max(score(value) for value in [-1, *distances, *(distances + 0.5)]) - 1e-12


def test_threshold_and_answers_are_checked() -> None:
    with pytest.raises(LabelError, match="both kinds of pairs"):
        best_threshold(np.ones(2), np.array([True, True]))
    with pytest.raises(ParameterError, match="`strategy` must be one of"):
        best_threshold(np.ones(2), np.array([True, False]), strategy="luck")  # type: ignore[arg-type]
    with pytest.raises(LabelError, match="must hold True/False"):
        as_similar(["yes"], 1)


def test_reduction_is_the_best_of_its_rank() -> None:
    rng = np.random.RandomState(0)
    X, A = rng.standard_normal((50, 4)), rng.standard_normal((4, 4))
    X -= X.mean(axis=0)
    Z = X @ A.T
    reduced = X @ reduce_components(A, X.T @ X / 50, 2).T
    kept = np.linalg.svd(Z, compute_uv=False)[:2]
    assert np.square(reduced).sum() == pytest.approx(np.square(kept).sum())


@pytest.mark.parametrize("learner", [E.ITML(max_iter=2), E.MMC(max_iter=2), E.APIT(max_iter=2), DMLEig(max_iter=2)])
def test_no_more_similar_pairs_are_drawn_than_there_are(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """40·c·(c − 1) pairs of 60 classes of three rows would be 141,600, of 180 distinct similar ones."""
    drawn: list[int] = []

    def counted(codes: Any, m: int, rng: Any) -> Any:
        pairs, similar = random_pairs(codes, m, rng)
        drawn.append(int(similar.sum()))
        return pairs, similar

    for kind in (E.ITML, E.MMC, DMLEig):
        monkeypatch.setattr(sys.modules[kind.__module__], "random_pairs", counted)
    rows = np.random.RandomState(0).standard_normal((180, 4))
    learner.fit(rows, np.repeat(np.arange(60), 3))
    assert drawn
    assert set(drawn) == {180}
