"""Retractions stay on the manifold, agree to first order, and minimise what has a known minimum."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.exceptions import NearerWarning, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import OrthogonalMap, euclidean_distance
from nearer.geometry._orthogonal import (
    orthonormalize,
    qr_retraction,
    tangent_projection,
)

Retraction = Callable[[Tensor, Tensor], Tensor]
RETRACTIONS = [qr_retraction]


def random(p: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(p, d, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def off(L: Tensor) -> float:
    return float((L.T @ L - torch.eye(L.shape[1], dtype=L.dtype)).abs().max())


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_the_tangent_space_is_where_the_constraint_does_not_change(p: int, d: int, seed: int) -> None:
    d = min(p, d)
    L = orthonormalize(random(p, d, seed))
    G = random(p, d, seed + 1)
    xi = tangent_projection(L, G)
    assert float((L.T @ xi + xi.T @ L).abs().max()) < 1e-12
    torch.testing.assert_close(tangent_projection(L, xi), xi)
    # What was removed is normal: orthogonal to every tangent vector.
    assert abs(float(((G - xi) * tangent_projection(L, random(p, d, seed + 2))).sum())) < 1e-10


@pytest.mark.parametrize("retraction", RETRACTIONS)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_a_retraction_stays_and_agrees_to_first_order(retraction: Retraction, p: int, d: int, seed: int) -> None:
    d = min(p, d)
    L = orthonormalize(random(p, d, seed))
    xi = tangent_projection(L, random(p, d, seed + 1))
    torch.testing.assert_close(retraction(L, torch.zeros_like(xi)), L, atol=1e-12, rtol=0)
    assert off(retraction(L, xi)) < 1e-10
    for size in (1e-3, 1e-4):
        away = retraction(L, size * xi) - (L + size * xi)
        assert float(away.norm()) <= 2 * size**2 * float(xi.norm()) ** 2 + 1e-12


def test_the_signs_of_the_qr_step_are_fixed() -> None:
    m = random(5, 3, 2)
    q = orthonormalize(m)
    r = q.T @ m
    assert bool((torch.diagonal(r) > 0).all())
    assert float(torch.tril(r, -1).abs().max()) < 1e-12
    assert off(orthonormalize(torch.zeros(3, 2))) < 1e-6


@pytest.mark.parametrize("retraction", RETRACTIONS)
def test_the_trace_is_minimized_by_the_smallest_eigenvectors(retraction: Retraction) -> None:
    """Planted: min Tr(LᵀKL) over LᵀL = I is the sum of the d smallest eigenvalues of K."""
    root = random(8, 8, 3)
    K = root @ root.T / 8
    L = orthonormalize(random(8, 3, 4))
    step = 0.9 / float(torch.linalg.eigvalsh(K)[-1])
    for _ in range(500):
        L = retraction(L, -step * tangent_projection(L, K @ L))
    expected = float(torch.linalg.eigvalsh(K)[:3].sum())
    assert math.isclose(float(torch.trace(L.T @ K @ L)), expected, rel_tol=1e-2)
    assert off(L) < 1e-9


def walk(retraction: Retraction, steps: int) -> Tensor:
    L = orthonormalize(random(16, 4, 5, torch.float32))
    generator = torch.Generator().manual_seed(6)
    for _ in range(steps):
        L = retraction(L, 0.05 * tangent_projection(L, torch.randn(16, 4, generator=generator)))
    return L


@pytest.mark.parametrize(("retraction", "bound"), [(qr_retraction, 1e-6)])
def test_single_precision_hardly_drifts(retraction: Retraction, bound: float) -> None:
    L = walk(retraction, 200)
    assert L.dtype == torch.float32
    assert off(L) < bound


@pytest.mark.slow
@pytest.mark.parametrize(("retraction", "bound"), [(qr_retraction, 1e-6)])
def test_ten_thousand_steps_in_single_precision(retraction: Retraction, bound: float) -> None:
    assert off(walk(retraction, 10_000)) < bound


@pytest.mark.parametrize("retraction", RETRACTIONS)
def test_retractions_are_differentiable(retraction: Retraction) -> None:
    L = orthonormalize(random(4, 2, 0))
    xi = tangent_projection(L, random(4, 2, 1)).requires_grad_()
    assert torch.autograd.gradcheck(lambda step: retraction(L, step), (xi,))


def test_the_map_starts_orthonormal_and_repeats_with_its_generator() -> None:
    one = OrthogonalMap(10, 4, generator=torch.Generator().manual_seed(7))
    two = OrthogonalMap(10, 4, generator=torch.Generator().manual_seed(7))
    assert torch.equal(one.factor, two.factor)
    assert one.deviation() < 1e-6
    x = torch.randn(5, 10, generator=torch.Generator().manual_seed(8))
    torch.testing.assert_close(one(x), x @ one.factor)
    torch.testing.assert_close(one.distance(x[:2], x), euclidean_distance(one(x[:2]), one(x)))
    torch.testing.assert_close(one.matrix() @ one.matrix(), one.matrix())
    assert str(one) == "OrthogonalMap(10 -> 4)"


def test_distances_do_not_see_a_rotation_behind_the_map() -> None:
    L = orthonormalize(random(6, 3, 0))
    turned = L @ orthonormalize(random(3, 3, 1))
    x = random(5, 6, 2)
    torch.testing.assert_close(
        OrthogonalMap.from_factor(L).distance(x), OrthogonalMap.from_factor(turned).distance(x)
    )


def test_a_square_map_has_no_effect_and_says_so() -> None:
    with pytest.warns(NearerWarning, match="a square orthogonal map changes no distance"):
        square = OrthogonalMap(3, 3)
    x = torch.rand(4, 3)
    torch.testing.assert_close(square.distance(x), euclidean_distance(x), atol=1e-6, rtol=1e-5)
    with pytest.warns(NearerWarning, match="got 2 for both"):
        OrthogonalMap.from_factor(torch.eye(2))


def test_a_given_factor_is_copied_and_draws_no_random_number() -> None:
    state = torch.random.get_rng_state()
    L = torch.eye(3, 2, dtype=torch.float64)
    built = OrthogonalMap.from_factor(L)
    assert built.factor.dtype == torch.float64
    with torch.no_grad():
        built.factor.zero_()
    assert torch.equal(L, torch.eye(3, 2, dtype=torch.float64))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: OrthogonalMap(3, 4), ParameterError, "`embedding_dim` must be between 1 and 3, got 4"),
        (
            lambda: OrthogonalMap.from_factor([[1, 1], [0, 1]]),
            ParameterError,
            r"orthonormal columns.*orthonormalise",
        ),
        (lambda: OrthogonalMap(3, 2).transform(torch.ones(2, 2)), ShapeError, "`x` must have 3 columns"),
        (lambda: orthonormalize(torch.ones(2, 3)), ShapeError, r"at least as many rows as columns, got \(2, 3\)"),
        (
            lambda: qr_retraction(torch.eye(3, 2), torch.ones(3, 1)),
            ShapeError,
            r"`step` must have the shape \(3, 2\)",
        ),
        (lambda: tangent_projection(torch.eye(2, 3), torch.ones(2, 3)), ShapeError, "`point` must have at least"),
        (
            lambda: qr_retraction(torch.eye(2), torch.full((2, 2), math.nan)),
            NotFiniteError,
            "`step` must be finite",
        ),
    ],
)
def test_bad_input_is_named(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
