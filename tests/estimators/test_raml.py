"""RAML: three solvers that agree, planted metrics, the constrained optimum, every kind of labels, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.svm import SVR, NuSVR

from nearer.estimators import AAKNN, MLKNN, RAMLKRR, RAMLSVR, MetricKNN
from nearer.estimators._matrices import project_psd
from nearer.estimators.relation import _raml_pairs
from nearer.estimators.relation._raml import choose_graded_blend
from nearer.estimators.relation._raml_krr import krr_by_gradients, krr_by_kernel
from nearer.estimators.relation._raml_pairs import PairSums, choose_pairs, pair_targets
from nearer.estimators.relation._raml_svr import outer_features, svr_by_features, svr_by_kernel
from nearer.exceptions import LabelError, NearerWarning, ParameterError, ShapeError, StoppedEarlyWarning
from nearer.relations import ClassLabels, MultiLabels, Numbers
from nearer.relations._kinds import relation_of
from nearer_papers.systems import ConstrainedRAMLKRR
from nearer_papers.systems._constrained_raml import constrained_krr

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def problem(n: int = 40, p: int = 4, m: int = 60, seed: int = 0, noise: float = 0.3) -> Arrays:
    """Rows, pairs and targets from a planted metric with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    root = rng.normal(size=(2, p))
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    g = np.square(delta @ root.T).sum(axis=1) + 0.5 + noise * rng.normal(size=m)
    return X, pairs, g


def naive(X: np.ndarray, pairs: np.ndarray, g: np.ndarray, ridge: float, bias: bool) -> tuple[np.ndarray, float]:
    """Least squares on vec(ΔΔᵀ), the bias as one more column without a ridge."""
    p = X.shape[1]
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    F = np.stack([np.outer(d, d).ravel() for d in delta])
    A = np.column_stack([F, np.ones(len(g))]) if bias else F
    penalty = ridge * np.eye(A.shape[1])
    if bias:
        penalty[-1, -1] = 0
    w = np.linalg.solve(A.T @ A + penalty, A.T @ g)
    return w[: p * p].reshape(p, p), float(w[-1]) if bias else 0.0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("m", [8, 60])
def test_kernel_gradients_and_normal_equations_agree(bias: bool, m: int) -> None:
    X, pairs, g = problem(m=m)
    expected, b = naive(X, pairs, g, 0.3, bias)
    sums = PairSums(X, pairs)
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    by_kernel, b_kernel = krr_by_kernel(delta, g, ridge=0.3, bias=bias)
    by_cg, b_cg, _, converged = krr_by_gradients(sums, g, ridge=0.3, bias=bias, tol=1e-12)
    np.testing.assert_allclose(by_kernel, expected, atol=1e-9)
    np.testing.assert_allclose(by_cg, expected, atol=1e-8)
    assert converged
    assert b_kernel == pytest.approx(b, abs=1e-8)
    assert b_cg == pytest.approx(b, abs=1e-8)


def test_the_ridge_on_alpha_is_the_released_formula() -> None:
    X, pairs, g = problem(m=12)
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    K = np.array([[np.vdot(np.outer(a, a), np.outer(b, b)) for b in delta] for a in delta])
    np.testing.assert_allclose(K, np.square(delta @ delta.T), rtol=1e-9)
    alpha = g @ K.T @ np.linalg.pinv(K @ K.T + 0.2 * np.eye(12))
    expected = sum(a * np.outer(d, d) for a, d in zip(alpha, delta, strict=True))
    found, b = krr_by_kernel(delta, g, ridge=0.2, ridge_on="alpha", bias=False)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert b == 0


def test_a_planted_metric_is_recovered() -> None:
    X, pairs, _ = problem(n=60, p=3, m=200, noise=0)
    root = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -1.0]])
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    g = np.square(delta @ root.T).sum(axis=1)
    learner = RAMLKRR(blend=0.0, ridge=0.0, bias=False, tol=1e-12).fit_relations(X, pairs, g)
    np.testing.assert_allclose(learner.mahalanobis_matrix(), root.T @ root, atol=1e-6)
    svr, b = svr_by_kernel(delta, g + 0.7, C=1e4, epsilon=1e-6, tol=1e-6)
    np.testing.assert_allclose(svr, root.T @ root, atol=1e-2)
    assert b == pytest.approx(0.7, abs=1e-2)


@pytest.mark.parametrize("bias", [True, False])
def test_the_constrained_optimum_beats_the_projected_one(bias: bool) -> None:
    X, pairs, _ = problem(p=5, m=80)
    g = np.random.default_rng(4).uniform(0, 2, size=80)
    sums = PairSums(X, pairs)
    free, *_ = krr_by_gradients(sums, g, ridge=1.0, bias=bias, tol=1e-10)
    assert np.linalg.eigvalsh(free)[0] < 0
    best, _, _, converged = constrained_krr(sums, g, free, ridge=1.0, bias=bias, max_iter=5000, tol=1e-9)
    assert converged

    def value(matrix: np.ndarray) -> float:
        """`Σ(g − ⟨M, T⟩ − b)² + ‖M‖²` with the best b."""
        error = g - sums.distances(matrix)
        error = error - error.mean() if bias else error
        return float(np.square(error).sum() + np.square(matrix).sum())

    assert np.linalg.eigvalsh(best)[0] > -1e-9
    assert value(free) < value(best) < value(project_psd(free)) - 1e-3
    rng = np.random.default_rng(0)
    for _ in range(20):  # no feasible neighbour is lower
        step = rng.normal(size=best.shape) * 1e-3
        assert value(project_psd(best + step)) >= value(best) - 1e-7


@pytest.mark.parametrize("nu", [None, 0.5])
def test_the_machine_and_the_matrix_say_the_same(nu: float | None) -> None:
    X, pairs, g = problem()
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    K = np.square(delta @ delta.T)
    machine = SVR(kernel="precomputed", epsilon=0.1) if nu is None else NuSVR(kernel="precomputed", nu=nu)
    expected = machine.fit(K, g).predict(K)
    M, b = svr_by_kernel(delta, g, epsilon=0.1, nu=nu)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", delta, M, delta) + b, expected, atol=1e-6)
    np.testing.assert_allclose(M, M.T)


def test_features_are_the_kernel_and_solve_the_same_problem() -> None:
    X, pairs, g = problem(p=3, m=50)
    delta = X[pairs[:, 0]] - X[pairs[:, 1]]
    F = outer_features(delta)
    np.testing.assert_allclose(F @ F.T, np.square(delta @ delta.T), rtol=1e-9)
    by_kernel, b = svr_by_kernel(delta, g, C=0.5, epsilon=0.05, tol=1e-6)
    by_features, c, converged = svr_by_features(delta, g, C=0.5, epsilon=0.05, tol=1e-8, max_iter=200_000)
    assert converged
    fit = [np.einsum("ij,jk,ik->i", delta, M, delta) + offset for M, offset in ((by_kernel, b), (by_features, c))]
    np.testing.assert_allclose(fit[1], fit[0], atol=0.1)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 9), st.integers(1, 4), st.integers(2, 30), st.integers(0, 99))
def test_sums_over_pairs_by_loops(n: int, p: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, pairs = rng.normal(size=(n, p)), rng.integers(n, size=(m, 2))
    M = rng.normal(size=(p, p))
    M = M + M.T
    sums, w = PairSums(X, pairs), rng.normal(size=m)
    T = [np.outer(X[i] - X[j], X[i] - X[j]) for i, j in pairs]
    q = np.array([np.vdot(M, t) for t in T])
    np.testing.assert_allclose(sums.distances(M), q, atol=1e-9)
    np.testing.assert_allclose(sums.scatter(w), sum(a * t for a, t in zip(w, T, strict=True)), atol=1e-9)
    expected = sum((a - q.mean()) * t for a, t in zip(q, T, strict=True))
    np.testing.assert_allclose(sums.apply(M, centered=True), expected, atol=1e-8)
    np.testing.assert_allclose(sums.mean_scatter(), sum(T) / m, atol=1e-9)


def test_pairs_are_the_nearest_and_listed_once() -> None:
    rng = np.random.RandomState(0)
    X = rng.normal(size=(30, 3))
    sets = MultiLabels((rng.rand(30, 4) > 0.5).astype(int), function="l1")
    pairs = choose_pairs(X, sets, k=3, random=0, max_pairs=1000, rng=rng)
    distance = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    expected = {tuple(sorted((i, int(j)))) for i in range(30) for j in np.argsort(distance[i])[:3]}
    assert {tuple(pair) for pair in pairs.tolist()} == expected
    assert len(pairs) == len(expected)
    more = choose_pairs(X, sets, k=3, random=4, max_pairs=1000, rng=rng)
    assert len(more) > len(pairs)
    assert (more[:, 0] != more[:, 1]).all()
    assert len(choose_pairs(X, sets, k=3, random=4, max_pairs=17, rng=rng)) == 17
    np.testing.assert_allclose(
        pair_targets(sets, pairs),
        np.abs(sets.queries.numpy()[pairs[:, 0]] - sets.queries.numpy()[pairs[:, 1]]).sum(axis=1),
    )
    classes = ClassLabels(np.arange(30) % 3)
    both = choose_pairs(X, classes, k=2, random=0, max_pairs=1000, rng=rng)
    assert set(pair_targets(classes, both)) == {0.0, 2.0}


def test_pairs_of_a_large_table_come_from_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_raml_pairs, "_ROWS_AT_LEAST", 40)
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1000, 3))
    few = ClassLabels(np.arange(1000) % 2)
    pairs = choose_pairs(X, few, k=2, random=1, max_pairs=300, rng=rng)
    # Five pairs of a row: sixty rows suffice, and all of them are from both halves of the table.
    assert len(np.unique(pairs)) == 60
    assert len(pairs) <= 300
    assert np.ptp(pairs) > 800
    # Two rows of a class: drawn alone they would have no hit, so whole classes are drawn.
    couples = ClassLabels(np.arange(1000) // 2)
    pairs = choose_pairs(X, couples, k=2, random=0, max_pairs=240, rng=rng)
    assert len(np.unique(pairs)) == 60
    assert (pairs[:, 0] // 2 == pairs[:, 1] // 2).sum() == 30
    # Rows beyond a hundred thousand that no pair names change nothing.
    many = np.concatenate([X, np.zeros((100_000, 3))])
    targets = np.linspace(0, 2, len(pairs))
    small = RAMLKRR(blend=0.0).fit_relations(X, pairs, targets).mahalanobis_matrix()
    assert_allclose(RAMLKRR(blend=0.0).fit_relations(many, pairs, targets).mahalanobis_matrix(), small, rtol=1e-6)


def planted(kind: str, n: int = 240, p: int = 12, seed: int = 0) -> tuple[np.ndarray, Any]:
    """Labels that depend on the first two columns; the others are noise, and louder."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.r_[1, 1, np.full(p - 2, 2.0)]
    if kind == "classes":
        return X, (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0)
    if kind == "numbers":
        return X, X[:, 0] + 0.5 * X[:, 1]
    if kind == "sets":
        return X, np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] + X[:, 1] > 0]).astype(int)
    logits = np.column_stack([X[:, 0], X[:, 1], -X[:, 0]])
    shares = np.exp(1.5 * logits)
    return X, shares / shares.sum(axis=1, keepdims=True)


KINDS = ["classes", "numbers", "sets", "distributions"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "learner",
    [
        RAMLKRR(random_state=0),
        ConstrainedRAMLKRR(random_state=0),
        RAMLKRR(ridge_on="alpha", random_state=0),
        RAMLSVR(random_state=0),
        RAMLSVR(nu=0.3, random_state=0),
    ],
    ids=["krr", "constrained", "alpha", "svr", "nu"],
)
def test_every_kind_of_labels_beats_the_raw_features(kind: str, learner: Any) -> None:
    X, y = planted(kind)
    train, test = slice(0, 180), slice(180, None)
    table = np.asarray(y, dtype=float).reshape(len(X), -1)
    if kind == "classes":
        table = np.eye(4)[y]

    def error(Z: np.ndarray) -> float:
        order = np.linalg.norm(Z[test][:, None] - Z[train][None], axis=2).argsort(axis=1)[:, :8]
        return float(np.square(table[train][order].mean(axis=1) - table[test]).sum(axis=1).mean())

    fitted = clone(learner).fit(X[train], y[train])
    # The ridge on α cuts quiet directions off, where the planted ones are.
    assert error(fitted.transform(X)) < (0.95 if fitted.get_params().get("ridge_on") == "alpha" else 0.8) * error(X)
    assert np.linalg.eigvalsh(fitted.mahalanobis_matrix())[0] > -1e-9
    assert hasattr(fitted, "bias_")
    assert hasattr(fitted, "classes_") == (kind == "classes")


def test_as_easy_as_with_classes() -> None:
    X, y = planted("sets")
    MLKNN(RAMLKRR()).fit(X, y).predict(X[:3])
    X, y = planted("distributions")
    assert AAKNN(RAMLKRR()).fit(X, y).predict(X[:3]).shape == (3, 3)
    X, y = planted("classes")
    assert MetricKNN(RAMLKRR()).fit(X, y).predict(X[:3]).shape == (3,)


def test_listed_pairs_and_relation_functions() -> None:
    X, y = planted("distributions")
    rng = np.random.RandomState(0)
    relation = relation_of(y, function="hellinger")
    pairs = choose_pairs(X, relation, k=5, random=5, max_pairs=10**6, rng=rng)
    listed = RAMLKRR(blend=0.0).fit_relations(X, pairs, pair_targets(relation, pairs))
    by_labels = RAMLKRR(blend=0.0, relation="hellinger", random_state=0).fit(X, y)
    np.testing.assert_allclose(listed.mahalanobis_matrix(), by_labels.mahalanobis_matrix(), atol=1e-6)
    own = RAMLKRR(blend=0.0, random_state=0, relation=lambda a, b: (a.sqrt() - b.sqrt()).square().sum(-1))
    fitted = own.fit(X, y).mahalanobis_matrix()
    scale = np.trace(by_labels.mahalanobis_matrix()) / np.trace(fitted)
    np.testing.assert_allclose(fitted * scale, by_labels.mahalanobis_matrix(), atol=1e-4)
    similar = pair_targets(ClassLabels(planted("classes")[1]), pairs) == 0
    judged = RAMLKRR().fit_pairs(X, pairs, similar)
    distance = judged.pair_distance(X[pairs[:, 0]], X[pairs[:, 1]])
    assert distance[similar].mean() < 0.75 * distance[~similar].mean()
    assert judged.threshold_ > 0


def test_noise_is_blended_away() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.dirichlet(np.ones(3), size=200)
    assert RAMLKRR(random_state=0).fit(X, y).blend_ > 0.5
    useless = np.diag([0.0, 0, 0, 0, 1.0])
    X, y = planted("numbers", p=5)
    assert choose_graded_blend(X, y[:, None], useless, np.random.RandomState(0)) == 1.0
    assert RAMLKRR(blend=0.5).fit(X, y).blend_ == 0.5


def test_equal_targets_fall_back_to_euclid() -> None:
    X = np.random.default_rng(0).normal(size=(12, 3))
    with (
        pytest.warns(NearerWarning, match="falls back to the Euclidean distance"),
        pytest.warns(NearerWarning, match="got one target for all"),
    ):
        learner = RAMLKRR().fit(X, np.tile([0.25, 0.75], (12, 1)))
    np.testing.assert_allclose(learner.mahalanobis_matrix(), np.eye(3))
    assert learner.bias_ == 0


def test_zero_label_rows_and_one_column() -> None:
    X, y = planted("sets")
    y = y.copy()
    y[::5] = 0
    for function in ("l1", "cosine", "jaccard"):
        assert RAMLKRR(relation=function).fit(X, y).transform(X).shape == X.shape
    one = y[:, :1]
    np.testing.assert_allclose(
        RAMLKRR(random_state=0).fit(X, one).mahalanobis_matrix(),
        RAMLKRR(random_state=0).fit(X, one[:, 0]).mahalanobis_matrix(),
    )


def test_stops_early_aloud() -> None:
    X, y = planted("numbers")
    with pytest.warns(StoppedEarlyWarning, match="RAMLKRR stopped before it converged, after 1 iterations"):
        RAMLKRR(max_iter=1, ridge=1e-6).fit(X, y)
    with pytest.warns(StoppedEarlyWarning, match="RAMLSVR stopped before"):
        RAMLSVR(solver="features", max_iter=1).fit(X, y)


X0 = np.random.default_rng(0).normal(size=(10, 2))
BAD: list[tuple[Any, str]] = [
    (lambda: RAMLKRR().fit(X0, np.full((10, 2), 0.3)), "row 0 has the sum 0.6"),
    (lambda: RAMLKRR().fit(X0, np.tile([1.5, -0.5], (10, 1))), "smallest entry -0.5"),
    (lambda: RAMLKRR(relation="l2").fit(X0, np.eye(10)), "`function` must be one of"),
    (lambda: RAMLKRR(relation="l1").fit(X0, np.arange(10) % 2), "compares rows of labels"),
    (lambda: RAMLKRR(n_neighbors=0, n_random=0).fit(X0, np.linspace(0, 1.5, 10)), "must not both be 0"),
    (lambda: RAMLKRR(ridge=-1.0).fit(X0, np.linspace(0, 1.5, 10)), "`ridge` must be at least 0"),
    (lambda: RAMLKRR(ridge_on="beta").fit(X0, np.linspace(0, 1.5, 10)), "`ridge_on` must be one of"),
    (lambda: RAMLKRR(solver="lu").fit(X0, np.linspace(0, 1.5, 10)), "`solver` must be one of"),
    (lambda: RAMLKRR().fit(np.ones((9, 2)), np.linspace(0, 1.5, 9)), "two pairs of different rows, got 0"),
    (lambda: RAMLKRR().fit(X0[:2], [0.1, 0.9]), "two pairs of different rows, got 1"),
    (lambda: RAMLKRR().fit_relations(X0, [[0, 1], [1, 2]], [1.0]), "one number for each of the 2 pairs"),
    (lambda: RAMLKRR().fit_relations(X0, [[0, 1], [1, 2]], [1.0, -1.0]), "finite and not negative"),
    (lambda: RAMLSVR(nu=1.5).fit(X0, np.linspace(0, 1.5, 10)), "`nu` must be at most 1"),
    (lambda: RAMLSVR(C=0.0).fit(X0, np.linspace(0, 1.5, 10)), "`C` must be greater than 0"),
    (lambda: PairSums(X0, np.zeros((1, 2), dtype=int)), "at least two pairs"),
    (lambda: pair_targets(Numbers([0.0, 1.0]), np.array([[0, 5]])), "out of (range|bounds)"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises((LabelError, ParameterError, ShapeError, IndexError), match=message):
        make()
