"""RCA, KISSME, GMML, LFDA and the covariance against what their papers print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg

from nearer.estimators import KISSME, LFDA, RCA, Covariance
from nearer.estimators._scatter import PairScatters, label_scatters
from nearer.estimators.linear._gmml import geodesic_point, gmml_matrix
from nearer.estimators.linear._kissme import kissme_matrix
from nearer.estimators.linear._lfda import local_scatters
from nearer.estimators.linear._rca import rca_matrix
from nearer.exceptions import LabelError, ParameterError


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1, 2], 20)
    return rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4)) + y[:, None], y


def test_gmml_solves_the_riccati_equation(data: Any) -> None:
    scatters = label_scatters(*data)
    S, D = scatters.similar / scatters.n_similar, scatters.dissimilar / scatters.n_dissimilar
    M = gmml_matrix(scatters)
    np.testing.assert_allclose(M @ S @ M, D, rtol=1e-9)
    np.testing.assert_allclose(geodesic_point(S, D, 0.0), np.linalg.inv(S), rtol=1e-8)
    np.testing.assert_allclose(geodesic_point(S, D, 1.0), D, rtol=1e-8)
    root = linalg.sqrtm(S)
    inverse = np.linalg.inv(root)
    textbook = inverse @ linalg.fractional_matrix_power(root @ D @ root, 0.3) @ inverse
    np.testing.assert_allclose(geodesic_point(S, D, 0.3), textbook, rtol=1e-7)


def test_gmml_is_the_minimum_of_its_objective(data: Any) -> None:
    scatters = label_scatters(*data)
    S, D = scatters.similar / scatters.n_similar, scatters.dissimilar / scatters.n_dissimilar

    def objective(M: np.ndarray) -> float:
        return float(np.trace(M @ S) + np.trace(np.linalg.inv(M) @ D))

    M = gmml_matrix(scatters)
    rng = np.random.RandomState(1)
    for _ in range(20):
        step = rng.standard_normal((4, 4)) * 1e-3
        assert objective(M) <= objective(M + step + step.T)


def test_gmml_refuses_a_singular_scatter_only_when_told_not_to_help() -> None:
    flat = PairScatters(np.diag([1.0, 0.0]), np.eye(2), 1, 1)
    assert np.isfinite(gmml_matrix(flat)).all()
    with pytest.raises(ParameterError, match="positive definite"):
        gmml_matrix(flat, ridge=0.0)


def test_kissme_by_hand_in_one_dimension() -> None:
    X = np.array([[0.0], [1.0], [4.0], [7.0]])
    # Similar pairs: 1 and 9, mean 5. Dissimilar: 16, 49, 9, 36, mean 27.5.
    M = KISSME(ridge=0.0, blend=0.0).fit(X, ["a", "a", "b", "b"]).mahalanobis_matrix()
    assert M[0, 0] == pytest.approx(1 / 5 - 1 / 27.5)


def test_kissme_with_fewer_rows_than_features_shrinks_or_refuses() -> None:
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((8, 20)), np.repeat([0, 1], 4)
    scatters = label_scatters(X, y)
    assert np.linalg.matrix_rank(scatters.similar) == 8 - 2
    with pytest.raises(ParameterError, match="got rank 6 of 20"):
        kissme_matrix(scatters, ridge=0.0)
    M = KISSME().fit(X, y).mahalanobis_matrix()
    assert np.isfinite(M).all()
    assert np.linalg.eigvalsh(M)[0] > -1e-9


def test_rca_whitens_the_spread_inside_classes(data: Any) -> None:
    X, y = data
    learner = RCA(ridge=0.0, blend=0.0).fit(X, y)
    Z = learner.transform(X)
    within = sum(np.cov(Z[y == c].T, bias=True) * 20 for c in range(3)) / 60
    np.testing.assert_allclose(within, np.eye(4), atol=1e-8)
    chunked = RCA(ridge=0.0).fit_chunks(X, np.where(np.arange(60) % 2, -1, y))
    np.testing.assert_allclose(chunked.mahalanobis_matrix(), rca_matrix(X[::2], y[::2], ridge=0.0), rtol=1e-6)
    with pytest.raises(LabelError, match="at least two rows"):
        RCA().fit(X[:3], [0, 1, 2])
    with pytest.raises(ValueError, match="`chunks` must be one integer"):
        RCA().fit_chunks(X, [0, 1])


def test_covariance_whitens(data: Any) -> None:
    Z = Covariance(ridge=0.0).fit(data[0]).transform(data[0])
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(4), atol=1e-8)
    with pytest.raises(ParameterError, match="the covariance must be invertible, got rank 1 of 2"):
        Covariance(ridge=0.0).fit([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])


def test_local_scatters_equal_the_double_sum() -> None:
    rng = np.random.RandomState(5)
    X, codes, k = rng.standard_normal((15, 3)), np.repeat([0, 1, 2], [3, 5, 7]), 4
    n = len(X)
    within, between = np.zeros((3, 3)), np.zeros((3, 3))
    for i in range(n):
        for j in range(n):
            T = np.outer(X[i] - X[j], X[i] - X[j])
            if codes[i] != codes[j]:
                between += T / n / 2
                continue
            mine = X[codes == codes[i]]
            size = len(mine)
            scale = [np.sort(np.linalg.norm(mine - X[r], axis=1))[min(k, size - 1)] for r in (i, j)]
            affinity = np.exp(-np.square(X[i] - X[j]).sum() / (scale[0] * scale[1]))
            within += affinity / size * T / 2
            between += affinity * (1 / n - 1 / size) * T / 2
    found = local_scatters(X, codes, k)
    np.testing.assert_allclose(found[0], within, atol=1e-10)
    np.testing.assert_allclose(found[1], between, atol=1e-10)


def test_lfda_does_not_depend_on_the_order_of_the_classes(data: Any) -> None:
    X, y = data
    rows = np.r_[0:5, 20:60]
    first = LFDA(blend=0.0).fit(X[rows], y[rows]).mahalanobis_matrix()
    second = LFDA(blend=0.0).fit(X[rows], 2 - y[rows]).mahalanobis_matrix()
    np.testing.assert_allclose(first, second, rtol=1e-7)
