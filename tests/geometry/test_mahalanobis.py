"""The Mahalanobis distance is the printed quadratic form, and only matrices that have one are taken."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import NotFiniteError, ParameterError, ShapeError
from nearer.geometry import Mahalanobis, euclidean_distance
from nearer.geometry._mahalanobis import factor_of, project_psd


def random_psd(p: int, rank: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    root = torch.randn(p, rank, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return root @ root.T


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_the_distance_is_the_quadratic_form(p: int, rank: int, seed: int) -> None:
    M = random_psd(p, min(p, rank), seed)
    metric = Mahalanobis.from_matrix(M)
    assert metric.factor.shape == (p, max(1, min(p, rank)))
    torch.testing.assert_close(metric.matrix(), M, atol=1e-9, rtol=1e-9)
    x = torch.randn(5, p, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1))
    got = metric.distance(x[:2], x).detach()
    for i in range(2):
        for j in range(5):
            delta = x[i] - x[j]
            assert math.isclose(float(got[i, j]) ** 2, float(delta @ M @ delta), rel_tol=1e-6, abs_tol=1e-9)


def test_it_starts_as_the_euclidean_distance() -> None:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Mahalanobis(4).distance(x), euclidean_distance(x))
    torch.testing.assert_close(Mahalanobis(4, 2).transform(x), x[:, :2])
    assert torch.equal(Mahalanobis(4)(x), x)
    assert str(Mahalanobis(4, 2)) == "Mahalanobis(4 -> 2)"


def test_the_factor_can_be_learnt() -> None:
    """Planted: only the first feature separates the classes, so its weight must grow against the second."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    x = torch.stack([labels + 0.1 * torch.randn(40, generator=generator), torch.randn(40, generator=generator)], 1)
    metric = Mahalanobis(2)
    optimizer = torch.optim.Adam(metric.parameters(), lr=0.05)
    same = labels[:, None] == labels
    for _ in range(60):
        d = metric.distance(x)
        loss = d[same].square().mean() + torch.relu(1 - d[~same]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    M = metric.matrix().detach()
    assert float(M[0, 0]) > 20 * float(M[1, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_kept_and_the_input_left_alone(dtype: torch.dtype) -> None:
    M = random_psd(3, 3, 0, dtype)
    before = M.clone()
    metric = Mahalanobis.from_matrix(M)
    assert metric.factor.dtype == dtype
    assert metric.transform(torch.ones(2, 3, dtype=torch.float16)).dtype == dtype
    L = torch.ones(3, 1, dtype=dtype)
    built = Mahalanobis.from_factor(L)
    with torch.no_grad():
        built.factor.zero_()
    assert torch.equal(L, torch.ones(3, 1, dtype=dtype))
    assert torch.equal(M, before)


def test_a_rank_deficient_single_precision_matrix_is_taken() -> None:
    """Rounding makes its zero eigenvalues slightly negative; that is not what indefinite means."""
    M = random_psd(50, 3, 1, torch.float32)
    assert float(torch.linalg.eigvalsh(M)[0]) < 0
    assert factor_of(M).shape == (50, 3)


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        ([[1, 2], [0, 1]], ParameterError, r"must be symmetric, got entries that differ by 2 .*\(M \+ M\.T\) / 2"),
        ([[1, 2], [2, 1]], ParameterError, r"positive semi-definite, got an eigenvalue of -1.*project_psd"),
        ([[1, 2, 3], [1, 2, 3]], ShapeError, r"must have shape \(p, p\), got \(2, 3\)"),
        ([[math.nan]], NotFiniteError, "`matrix` must be finite"),
        (np.zeros((0, 0)), ShapeError, "at least 1 row"),
    ],
)
def test_what_is_no_metric_is_refused(matrix: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Mahalanobis.from_matrix(matrix)


@given(st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_projection_is_psd_and_no_psd_matrix_is_nearer(p: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    M = torch.randn(p, p, dtype=torch.float64, generator=generator)
    nearest = project_psd(M)
    assert float(torch.linalg.eigvalsh(nearest)[0]) > -1e-9
    torch.testing.assert_close(project_psd(nearest), nearest)
    other = random_psd(p, p, seed + 1)
    assert float((M - nearest).norm()) <= float((M - other).norm()) + 1e-9
    Mahalanobis.from_matrix(nearest)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Mahalanobis(0), ParameterError, "`in_features` must be at least 1, got 0"),
        (lambda: Mahalanobis(2, 0), ParameterError, "`embedding_dim` must be at least 1"),
        (lambda: Mahalanobis.from_factor([1.0, 2.0]), ShapeError, r"`factor` must have shape"),
        (lambda: Mahalanobis(3).transform(torch.ones(2, 4)), ShapeError, "`x` must have 3 columns, got 4"),
        (lambda: Mahalanobis(1).distance([[math.inf]]), NotFiniteError, "`x` must be finite"),
    ],
)
def test_bad_input_is_named(build: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()  # type: ignore[operator]
