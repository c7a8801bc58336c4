"""The iterative learners: gradients, exact steps, optimality, collapse, and honest warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearer import estimators as E
from nearer.estimators.linear import _nca
from nearer.estimators.linear._itml import itml_matrix
from nearer.estimators.linear._ldml import ldml_loss_and_gradient
from nearer.estimators.linear._lmnn import Margins, find_impostors, lmnn_loss_and_gradient
from nearer.estimators.linear._lsml import lsml_loss_and_gradient
from nearer.estimators.linear._mlkr import mlkr_loss_and_gradient
from nearer.estimators.linear._mmc import mmc_matrix
from nearer.estimators.linear._nca import nca_loss_and_gradient
from nearer.estimators.linear._triplet_svm import triplet_svm
from nearer.estimators.neighbors._near import nearest_hits
from nearer.exceptions import LabelError, ParameterError, StoppedEarlyWarning
from nearer_papers.systems import DMLEig
from nearer_papers.systems._dml_eig import dml_eig_matrix
from nearer_papers.systems._doublet_svm import doublet_svm


def slope_error(function: Any, point: np.ndarray) -> float:
    """Largest difference between the gradient and central differences, relative to the gradient."""
    shape = point.shape
    gradient = function(point)[1]
    numeric = np.zeros(point.size)
    for i in range(point.size):
        step = np.zeros(point.size)
        step[i] = 1e-6
        high = function(point + step.reshape(shape))[0]
        low = function(point - step.reshape(shape))[0]
        numeric[i] = (high - low) / 2e-6
    return float(np.abs(numeric - gradient.ravel()).max() / np.abs(gradient).max())


@pytest.fixture
def toy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1, 2], [5, 7, 8])
    return rng.standard_normal((20, 4)) + 0.5 * y[:, None], y, rng.standard_normal((3, 4))


# ITML -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0, np.inf])
@pytest.mark.parametrize("similar", [True, False])
def test_itml_one_broken_promise_lands_on_its_bound(gamma: float, similar: bool) -> None:
    v = np.array([[1.0, 2.0, -0.5]])
    square = float((v**2).sum())
    # A promise that is broken at the start: similar but too far, or dissimilar but too near.
    bound = square / 3 if similar else square * 3
    answer = itml_matrix(v, np.array([similar]), bound, bound, gamma=gamma, tol=1e-13)
    M = answer.matrix
    # The projection in closed form: M moves along v only, until vᵀMv = ξ = γξ₀/(γ + sαξ₀).
    alpha = (1 if np.isinf(gamma) else gamma / (gamma + 1)) * (1 / square - 1 / bound)
    slack = bound if np.isinf(gamma) else gamma * bound / (gamma + alpha * bound)
    assert answer.converged
    assert answer.bounds[0] == pytest.approx(slack, rel=1e-6)
    assert float(v[0] @ M @ v[0]) == pytest.approx(slack, rel=1e-6)
    assert np.linalg.eigvalsh(M)[0] > 0


def test_itml_the_printed_step_is_wrong_unless_gamma_is_one() -> None:
    p, xi = 5.0, 2.0
    for gamma, right in ((0.1, False), (1.0, True), (10.0, False)):
        alpha = 0.5 * (1 / p - gamma / xi)
        beta = alpha / (1 - alpha * p)
        assert (abs(p + beta * p**2 - gamma * xi / (gamma + alpha * xi)) < 1e-12) is right


def test_itml_drops_equal_rows_and_checks_its_bounds() -> None:
    X = np.array([[0.0, 0], [0, 0], [1, 0], [3, 3]])
    learner = E.ITML().fit_pairs(X, [[0, 1], [0, 2], [0, 3]], [1, 1, -1])
    assert np.isfinite(learner.mahalanobis_matrix()).all()
    with pytest.raises(ParameterError, match="`bounds` must be"):
        E.ITML(bounds=(2.0, 1.0)).fit_pairs(X, [[0, 2], [0, 3]], [1, -1])
    with pytest.raises(ValueError, match="only pairs of equal rows"):
        E.ITML().fit_pairs(X, [[0, 1], [1, 0]], [1, -1])


# gradients ------------------------------------------------------------------------------------------------------


def test_ldml_gradient_in_the_map_the_bias_and_the_matrix() -> None:
    rng = np.random.RandomState(1)
    delta, similar = rng.standard_normal((12, 3)), rng.randint(2, size=12) > 0
    A = rng.standard_normal((2, 3))
    assert slope_error(lambda a: ldml_loss_and_gradient(a, 0.7, delta, similar, ridge=0.1)[:2], A) < 1e-7
    slope = ldml_loss_and_gradient(A, 0.7, delta, similar)[2]
    assert (
        check_grad(
            lambda b: ldml_loss_and_gradient(A, b[0], delta, similar)[0],
            lambda b: np.array([slope]),
            np.array([0.7]),
        )
        < 1e-6
    )
    # With respect to M the gradient is −Σ w (s − p) vvᵀ, and 2A times it with respect to A.
    p = 1 / (1 + np.exp(np.square(delta @ A.T).sum(axis=1) - 0.7))
    weights = np.where(similar, 0.5 / similar.sum(), 0.5 / (~similar).sum())
    in_M = -(delta * (weights * (similar - p))[:, None]).T @ delta
    np.testing.assert_allclose(ldml_loss_and_gradient(A, 0.7, delta, similar)[1], -2 * A @ in_M, rtol=1e-10)


def test_nca_equals_scikit_learn_and_the_definition(toy: Any) -> None:
    X, y, A = toy
    starts = np.array([0, 5, 12, 20])
    value, gradient = nca_loss_and_gradient(A, X, starts)
    reference = NeighborhoodComponentsAnalysis()
    reference.n_iter_ = 0
    same = y[:, None] == y[None]
    loss, slope = reference._loss_grad_lbfgs(A.ravel(), X, same, sign=-1.0)
    assert value == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradient.ravel(), slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize(("n", "classes", "scale"), [(23, 3, 1.0), (24, 9, 0.3), (17, 2, 12.0), (9, 1, 1.0)])
def test_nca_in_tiles_equals_the_definition(
    monkeypatch: Any, n: int, classes: int, scale: float, held: bool
) -> None:
    """Tiles that end inside classes, kept or formed again; at the largest scale all rows are far from others."""
    monkeypatch.setattr(_nca, "_SIDE", 8)
    monkeypatch.setattr(_nca, "_HELD_ENTRIES", 10**6 if held else 1)
    rng = np.random.default_rng(n)
    X, y = rng.standard_normal((n, 3)), np.sort(np.arange(n) % classes)
    A = scale * rng.standard_normal((2, 3))
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    value, gradient = nca_loss_and_gradient(A, X, starts)
    squares = np.square((X[:, None] - X[None]) @ A.T).sum(axis=2) + np.diag(np.full(n, np.inf))
    shares = np.exp(squares.min(axis=1, keepdims=True) - squares)
    shares /= shares.sum(axis=1, keepdims=True)
    assert value == pytest.approx(-(shares * (y[:, None] == y)).sum(), rel=1e-9)
    if classes == 1:
        np.testing.assert_allclose(gradient, 0, atol=1e-9)
    elif scale < 5:
        assert slope_error(lambda a: nca_loss_and_gradient(a, X, starts), A) < 1e-6


def test_mlkr_gradient_and_value(toy: Any) -> None:
    X, _, A = toy
    y = X[:, 0] ** 2
    A = A / 3
    squares = np.square((X[:, None] - X[None]) @ A.T).sum(axis=2)
    weights = np.exp(-squares) * (1 - np.eye(20))
    guess = weights @ y / weights.sum(axis=1)
    assert mlkr_loss_and_gradient(A, X, y)[0] == pytest.approx(np.square(guess - y).sum())
    assert slope_error(lambda a: mlkr_loss_and_gradient(a, X, y), A) < 1e-6


def test_lsml_gradient() -> None:
    rng = np.random.RandomState(2)
    near, far = rng.standard_normal((9, 3)), rng.standard_normal((9, 3))
    A = rng.standard_normal((3, 3)) + 2 * np.eye(3)
    assert slope_error(lambda a: lsml_loss_and_gradient(a, near, far, prior_weight=0.3), A) < 1e-6


# LMNN -----------------------------------------------------------------------------------------------------------


def lmnn_by_loops(A: np.ndarray, X: np.ndarray, y: np.ndarray, targets: np.ndarray, push: float) -> float:
    Z = X @ A.T
    total = 0.0
    for i in range(len(X)):
        for j in targets[i][targets[i] >= 0]:
            near = np.square(Z[i] - Z[j]).sum()
            total += (1 - push) * near
            for l in np.flatnonzero(y != y[i]):
                total += push * max(0.0, 1 + near - np.square(Z[i] - Z[l]).sum())
    return total


def test_lmnn_objective_equals_the_triple_loop_and_its_gradient_fits(toy: Any) -> None:
    X, y, A = toy
    targets = nearest_hits(X, y, 3)
    Z = X @ A.T
    radii = np.array([1 + np.square(Z[i] - Z[targets[i]]).sum(axis=1).max() for i in range(20)])
    pairs = find_impostors(Z, np.array([0, 5, 12, 20]), radii + 1e-3, None)
    assert (y[pairs[0]] != y[pairs[1]]).all()
    margins = Margins(targets, *pairs)
    value, _ = lmnn_loss_and_gradient(A, X, margins, push=0.4)
    assert value == pytest.approx(lmnn_by_loops(A, X, y, targets, 0.4), rel=1e-10)
    assert slope_error(lambda a: lmnn_loss_and_gradient(a, X, margins, push=0.4), A) < 1e-6


def test_lmnn_does_not_collapse_when_no_impostor_is_near() -> None:
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], 15)
    X = rng.standard_normal((30, 2)) * 0.1 + 1000 * y[:, None]
    learner = E.LMNN().fit(X, y)
    Z = learner.transform(X)
    # Pure pull would shrink everything to a point; the margin of 1 to the other class must still stand.
    between = np.square(Z[:15, None] - Z[None, 15:]).sum(axis=2).min()
    assert between > 0.9
    with pytest.raises(ParameterError, match="`push` must be greater than 0"):
        E.LMNN(push=0.0).fit(X, y)
    with pytest.raises(LabelError, match="at least two classes"):
        E.LMNN().fit(X, np.zeros(30))
    with pytest.raises(LabelError, match="at least two rows"):
        E.LMNN().fit(X[:4], [0, 1, 2, 3])


def test_lmnn_takes_fewer_targets_in_a_small_class() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((13, 2))
    y = np.repeat([0, 1, 2], [2, 1, 10])
    assert np.isfinite(E.LMNN(n_neighbors=3).fit(X, y).components_).all()


# MMC, DML-eig, the SVMs -----------------------------------------------------------------------------------------


def test_mmc_is_not_beaten_by_any_feasible_matrix() -> None:
    rng = np.random.RandomState(3)
    S = np.cov(rng.standard_normal((3, 30))) + np.eye(3)
    delta = rng.standard_normal((40, 3)) * [3, 1, 0.3]
    M, value, _, converged = mmc_matrix(S, delta, tol=1e-12, max_iter=1000)
    assert converged
    assert float(np.sum(S * M)) == pytest.approx(1)

    def mean_distance(matrix: np.ndarray) -> float:
        return float(np.sqrt(np.einsum("ij,jk,ik->i", delta, matrix, delta)).mean())

    assert mean_distance(M) == pytest.approx(value, rel=1e-5)
    for _ in range(200):
        root = rng.standard_normal((3, 3))
        other = root @ root.T
        assert mean_distance(other / np.sum(S * other)) <= value * (1 + 1e-6)
        near = M + 0.01 * other / np.trace(other)
        assert mean_distance(near / np.sum(S * near)) <= value * (1 + 1e-6)


def test_mmc_does_not_return_the_identity() -> None:
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], 30)
    X = rng.standard_normal((60, 3)) + 6 * y[:, None] * [1, 0, 0]
    M = E.MMC(blend=0.0, random_state=0).fit(X, y).mahalanobis_matrix()
    assert M[0, 0] > 5 * max(M[1, 1], M[2, 2])


def test_dml_eig_constraint_back_map_and_smoothing() -> None:
    rng = np.random.RandomState(4)
    root = rng.standard_normal((3, 3))
    S = root @ root.T + 0.1 * np.eye(3)
    delta = rng.standard_normal((25, 3))
    M, smallest, _, converged = dml_eig_matrix(S, delta, mu=0.01, max_iter=20_000, tol=1e-2)
    assert converged
    assert float(np.sum(S * M)) == pytest.approx(1, rel=1e-9)
    assert smallest == pytest.approx(np.einsum("ij,jk,ik->i", delta, M, delta).min())
    assert np.linalg.eigvalsh(M)[0] > -1e-12
    best = 0.0
    for _ in range(3000):
        root = rng.standard_normal((3, 3)) * rng.gamma(1.0, size=3)
        other = root @ root.T
        other /= np.sum(S * other)
        best = max(best, np.einsum("ij,jk,ik->i", delta, other, delta).min())
    # f_μ lies within μ log|D| of f (μ in the units of the mean), and the gap is one per cent.
    white = delta @ np.linalg.cholesky(np.linalg.inv(S))
    unit = np.square(white).sum(axis=1).mean() / 3
    assert smallest >= best - 0.01 * unit * np.log(25) - 0.02 * unit


def test_doublet_svm_decides_like_its_support_vector_machine() -> None:
    from sklearn.svm import SVC

    rng = np.random.RandomState(5)
    delta, similar = rng.standard_normal((30, 3)), rng.randint(2, size=30) > 0
    M, b = doublet_svm(delta, similar, C=2.0)
    kernel = np.square(delta @ delta.T)
    machine = SVC(C=2.0, kernel="precomputed").fit(kernel, np.where(similar, -1, 1))
    np.testing.assert_allclose(
        np.einsum("ij,jk,ik->i", delta, M, delta) + b, machine.decision_function(kernel), rtol=1e-6
    )


def test_triplet_svm_meets_its_optimality_conditions() -> None:
    rng = np.random.RandomState(6)
    near, far = rng.standard_normal((20, 3)), 1.5 * rng.standard_normal((20, 3))
    C = 0.05
    M, _, converged = triplet_svm(near, far, C=C, tol=1e-7, max_iter=2000)
    assert converged

    def primal(matrix: np.ndarray) -> float:
        gap = np.einsum("ij,jk,ik->i", far, matrix, far) - np.einsum("ij,jk,ik->i", near, matrix, near)
        return float((matrix**2).sum() / 2 + C * np.maximum(1 - gap, 0).sum())

    for _ in range(100):
        step = rng.standard_normal((3, 3)) * 10 ** rng.uniform(-5, -1)
        assert primal(M) * (1 - 1e-7) <= primal(M + step + step.T)


# stopping early -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        E.ITML(max_iter=1, tol=1e-9),
        E.LDML(max_iter=1, tol=1e-12),
        E.LMNN(max_iter=1, tol=1e-9),
        E.NCA(max_iter=1, tol=1e-12),
        E.MMC(max_iter=1, tol=1e-12),
        DMLEig(max_iter=1, tol=1e-9),
        E.TripletSVM(max_iter=1, tol=1e-12),
        E.MLKR(max_iter=1, tol=1e-12),
        E.LSML(max_iter=1, tol=1e-14),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_stopping_before_convergence_is_never_silent(learner: Any, capsys: Any) -> None:
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((60, 4)), np.arange(60) % 3
    name = type(learner).__name__
    words = f"{name} stopped before it converged, after 1 iterations. Raise `max_iter` or `tol`, or standardise"
    with pytest.warns(StoppedEarlyWarning, match=words):
        learner.set_params(verbose=1, random_state=0).fit(X, y)
    assert learner.n_iter_ == 1
    assert f"[{name}] iteration" in capsys.readouterr().out
