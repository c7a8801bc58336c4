"""k-NN, ML-kNN and AA-kNN against brute force, and the kernel forms against their linear ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from nearer import estimators as E
from nearer.estimators.linear._kernels import kernel_map
from nearer.exceptions import LabelError, NearerError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::nearer.exceptions.NearerWarning")


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=60)
    return rng.standard_normal((60, 4)) + y[:, None], y


def test_metric_knn_equals_scikit_learn_on_mapped_rows(data: Any) -> None:
    X, y = data
    names = np.array(["x", "y", "z"])[y]
    learner = E.RCA(random_state=0)
    ours = E.MetricKNN(learner, n_neighbors=5).fit(X[:40], names[:40])
    mapped = learner.fit(X[:40], names[:40])
    theirs = KNeighborsClassifier(5).fit(mapped.transform(X[:40]), names[:40])
    np.testing.assert_array_equal(ours.predict(X[40:]), theirs.predict(mapped.transform(X[40:])))
    np.testing.assert_allclose(ours.predict_proba(X[40:]), theirs.predict_proba(mapped.transform(X[40:])))
    fitted = E.MetricKNN(mapped, n_neighbors=5).fit(X[:40], names[:40])
    assert fitted.metric_ is mapped
    assert E.MetricKNN(n_neighbors=99).fit(X[:4], names[:4]).k_ == 4


def mlknn_by_loops(X: np.ndarray, Y: np.ndarray, query: np.ndarray, k: int, s: float) -> np.ndarray:
    n, q = Y.shape
    scores = np.zeros((len(query), q))
    for l in range(q):
        prior = (s + Y[:, l].sum()) / (2 * s + n)
        tables = [np.zeros(k + 1), np.zeros(k + 1)]
        for i in range(n):
            distance = np.linalg.norm(X - X[i], axis=1)
            distance[i] = np.inf
            tables[Y[i, l]][int(Y[np.argsort(distance)[:k], l].sum())] += 1
        no, yes = ((s + table) / (s * (k + 1) + table.sum()) for table in tables)
        for r, row in enumerate(query):
            c = int(Y[np.argsort(np.linalg.norm(X - row, axis=1))[:k], l].sum())
            scores[r, l] = prior * yes[c] / (prior * yes[c] + (1 - prior) * no[c])
    return scores


def test_mlknn_equals_the_definition(data: Any) -> None:
    X, y = data
    Y = np.column_stack([y == 0, y > 0, X[:, 0] > 1]).astype(int)
    learner = E.MLKNN(n_neighbors=4, smoothing=0.5).fit(X[:40], Y[:40])
    expected = mlknn_by_loops(X[:40], Y[:40], X[40:], 4, 0.5)
    np.testing.assert_allclose(learner.predict_scores(X[40:]), expected, rtol=1e-10)
    np.testing.assert_array_equal(learner.predict(X[40:]), (expected >= 0.5).astype(int))
    metric = E.Covariance().fit(X[:40])
    with_metric = E.MLKNN(metric, n_neighbors=4).fit(X[:40], Y[:40]).predict_scores(X[40:])
    mapped = mlknn_by_loops(metric.transform(X[:40]), Y[:40], metric.transform(X[40:]), 4, 1.0)
    np.testing.assert_allclose(with_metric, mapped, rtol=1e-10)


def test_mlknn_by_distance_is_the_mean_with_the_weighted_shares(data: Any) -> None:
    X, y = data
    Y = np.column_stack([y == 0, y > 0, X[:, 0] > 1]).astype(int)
    learner = E.MLKNN(n_neighbors=4, weights="distance").fit(X[:40], Y[:40])
    counted = mlknn_by_loops(X[:40], Y[:40], X[40:], 4, 1.0)
    for row, score, given in zip(X[40:], learner.predict_scores(X[40:]), counted, strict=True):
        far = np.linalg.norm(X[:40] - row, axis=1)
        near = np.argsort(far)[:4]
        share = np.average(Y[near], axis=0, weights=1 / far[near] ** 2)
        np.testing.assert_allclose(score, (given + share) / 2, rtol=1e-10)
    # A twin decides the share; all twins count the same.
    assert learner.predict_scores(X[:1])[0] == pytest.approx(
        (E.MLKNN(n_neighbors=4).fit(X[:40], Y[:40]).predict_scores(X[:1])[0] + Y[0]) / 2, abs=1e-4
    )
    same = E.MLKNN(n_neighbors=2, weights="distance").fit(np.zeros((4, 1)), [[1], [0], [1], [1]])
    assert np.isfinite(same.predict_scores([[0.0]])).all()
    with pytest.raises(NearerError, match="`weights` must be one of"):
        E.MLKNN(weights="near").fit(X, Y)


def test_mlknn_by_hand() -> None:
    # Neighbours: 0 and 1 meet each other, 2 meets 1. Label: 1, 1, 0. Counts: 1, 1, 1.
    learner = E.MLKNN(n_neighbors=1).fit([[0.0], [1.0], [3.0]], [[1], [1], [0]])
    prior, yes, no = 3 / 5, 3 / 4, 2 / 3
    expected = prior * yes / (prior * yes + (1 - prior) * no)
    assert learner.predict_scores([[0.1]])[0, 0] == pytest.approx(expected)
    assert E.MLKNN(n_neighbors=50).fit([[0.0], [1.0], [3.0]], [[1], [1], [0]]).k_ == 2
    with pytest.raises(LabelError, match="0/1 matrix"):
        E.MLKNN().fit([[0.0], [1.0]], [[1], [2]])


def test_aaknn_is_the_mean_of_the_neighbors(data: Any) -> None:
    X, _ = data
    D = np.random.RandomState(1).dirichlet(np.ones(5), size=60)
    expected = KNeighborsRegressor(4).fit(X[:40], D[:40]).predict(X[40:])
    found = E.AAKNN(n_neighbors=4).fit(X[:40], D[:40]).predict(X[40:])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    with pytest.raises(LabelError, match="must be distributions"):
        E.AAKNN().fit(X, 2 * D)
    with pytest.raises(ShapeError, match=r"shape \(n, q\)"):
        E.AAKNN().fit(X, D[:, 0])


# kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [E.LMNN(tol=1e-4, max_iter=500), E.NCA(max_iter=200), E.GMML(blend=0.0)],
    ids=["LMNN", "NCA", "GMML"],
)
def test_the_linear_kernel_with_all_rows_is_the_linear_learner(learner: Any, data: Any) -> None:
    X, y = data
    X = X - X.mean(axis=0)
    linear = learner.fit(X, y).pair_distance(X[:20], X[20:40])
    kernel = E.KernelLearner(learner, kernel="linear").fit(X, y).pair_distance(X[:20], X[20:40])
    # GMML is exact; the descents end near the same point from rotated coordinates.
    np.testing.assert_allclose(kernel, linear, rtol=1e-6 if isinstance(learner, E.GMML) else 0.15, atol=0.05)


@pytest.mark.parametrize("kind", [E.LMNN, E.NCA, E.GMML])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_rings_need_a_kernel(kind: Any, kernel: str) -> None:
    rng = np.random.RandomState(0)
    y = np.arange(120) % 2
    angle = rng.uniform(0, 2 * np.pi, 120)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + y + 0.2 * rng.standard_normal(120))[:, None]
    learner = E.KernelLearner(kind(random_state=0), kernel=kernel, gamma=1.0, n_landmarks=40, random_state=0)
    learner.fit(X[:80], y[:80])
    assert E.MetricKNN(learner, n_neighbors=5).fit(X[:80], y[:80]).score(X[80:], y[80:]) > 0.75


def test_a_precomputed_kernel_gives_the_same_distances(data: Any) -> None:
    from sklearn.metrics.pairwise import rbf_kernel

    X, y = data
    direct = E.KernelLearner(gamma=0.3).fit(X, y)
    given = E.KernelLearner(kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    new = X[:5] + 0.1
    np.testing.assert_allclose(
        given.pair_distance(rbf_kernel(new, X, gamma=0.3), rbf_kernel(X[5:10], X, gamma=0.3)),
        direct.pair_distance(new, X[5:10]),
        rtol=1e-5,
    )
    with pytest.raises(ShapeError, match="square matrix"):
        E.KernelLearner(kernel="precomputed").fit(X, y)


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_rows_of_float32_get_no_directions_from_their_rounding(kernel: str) -> None:
    X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
    gram = X @ X.T if kernel == "precomputed" else X
    assert E.KernelLearner(kernel=kernel).fit(gram, np.arange(60) % 3).map_.shape == (60, 5)


def test_a_kernel_learner_judges_pairs(data: Any) -> None:
    X, y = data
    learner = E.KernelLearner(E.NCA(max_iter=20), gamma=0.1).fit(X, y)
    left, right = X[:30], X[30:]
    np.testing.assert_allclose(learner.score_pairs(left, right), -learner.pair_distance(left, right))
    similar = y[:30] == y[30:]
    answers = learner.calibrate_threshold(left, right, similar).predict_pairs(left, right)
    assert (answers == np.where(similar, 1, -1)).mean() > 0.7
    assert not hasattr(learner.fit(X, y), "threshold_")


def test_the_kernel_map_reproduces_the_kernel() -> None:
    rng = np.random.RandomState(0)
    root = rng.standard_normal((6, 3))
    gram = root @ root.T
    coordinates = gram @ kernel_map(gram)
    assert coordinates.shape == (6, 3)
    np.testing.assert_allclose(coordinates @ coordinates.T, gram, atol=1e-10)
    with pytest.raises(ShapeError, match="kernel matrix of zeros"):
        kernel_map(np.zeros((2, 2)))


def test_equal_votes_go_to_the_nearest_and_the_shares_agree() -> None:
    learner = E.MetricKNN(n_neighbors=2).fit(np.array([[0.0], [1.0], [5.0]]), ["b", "a", "c"])
    asked = [[0.2], [0.8], [4.0]]
    assert learner.predict(asked).tolist() == ["b", "a", "c"]
    shares = learner.predict_proba(asked)
    assert learner.classes_[shares.argmax(axis=1)].tolist() == ["b", "a", "c"]
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-8)
