"""Descent with orthonormal columns: known minima, the set is never left, and the settings are checked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nearer.exceptions import NearerError
from nearer.geometry import OrthogonalMap, normalize
from nearer.geometry._orthogonal import orthonormalize
from nearer.losses.pairs._angular import angular_factor_gradient, tangent_weight
from nearer.training import RiemannianAdam
from nearer.training._riemannian import riemannian_conjugate_gradient
from nearer_papers.systems import RiemannianSGD


def deviation(L: Tensor) -> float:
    return float((L.T @ L - torch.eye(L.shape[1], dtype=L.dtype)).abs().max())


def quadratic(d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(d, d, generator=generator, dtype=dtype)
    return root @ root.T / d


def test_conjugate_gradients_find_the_smallest_eigenvalues() -> None:
    K = quadratic(12)
    start = orthonormalize(torch.randn(12, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    found = riemannian_conjugate_gradient(lambda L: ((L * (K @ L)).sum(), 2 * K @ L), start, max_iter=400)
    assert found.value == pytest.approx(float(torch.linalg.eigvalsh(K)[:4].sum()), abs=1e-6)
    assert deviation(found.point) < 1e-12
    assert all(after <= before for before, after in zip(found.values, found.values[1:], strict=False))


def test_ten_iterations_on_a_hundred_triplets_beat_steepest_descent() -> None:
    generator = torch.Generator().manual_seed(0)
    z = normalize(torch.randn(300, 128, generator=generator, dtype=torch.float64))
    a, p, n = z.reshape(3, 100, 128)
    near, far, tau = a - p, n - (a + p) / 2, tangent_weight(40)
    start = orthonormalize(torch.randn(128, 64, generator=generator, dtype=torch.float64))
    found = riemannian_conjugate_gradient(lambda L: angular_factor_gradient(near, far, L, tau), start)
    assert len(found.values) == 11
    assert found.value < 0.4 * found.values[0]
    assert deviation(found.point) < 1e-14 * 128


def test_nothing_to_do_is_done_at_once() -> None:
    start = orthonormalize(torch.eye(3, 2))
    found = riemannian_conjugate_gradient(lambda L: (torch.zeros(()), torch.zeros_like(L)), start)
    assert found.values == (0.0,)
    assert torch.equal(found.point, start)
    assert riemannian_conjugate_gradient(lambda L: (L.sum(), torch.ones_like(L)), start, max_iter=0).value == 2.0


def test_a_gradient_that_lies_never_raises_the_cost() -> None:
    K = quadratic(6)
    start = orthonormalize(torch.randn(6, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    found = riemannian_conjugate_gradient(lambda L: ((L * (K @ L)).sum(), -2 * K @ L), start)
    assert len(found.values) == 1


@pytest.mark.parametrize("kind", [RiemannianSGD, RiemannianAdam])
def test_columns_stay_orthonormal_for_thousands_of_steps(kind: Any) -> None:
    """In float32, with noisy gradients."""
    generator = torch.Generator().manual_seed(0)
    L = torch.nn.Parameter(OrthogonalMap(8, 3, generator=generator).factor.detach().clone())
    optimizer = kind([L], lr=0.02)
    noise = torch.randn(3_000, 8, 3, generator=generator)
    for step in range(3_000):
        L.grad = noise[step]
        optimizer.step()
    assert deviation(L.detach()) < 1e-6


@pytest.mark.parametrize(
    ("kind", "options"), [(RiemannianSGD, {"momentum": 0.9, "lr": 0.02}), (RiemannianAdam, {})]
)
def test_stochastic_steps_find_the_smallest_eigenvalues(kind: Any, options: dict[str, Any]) -> None:
    K = quadratic(6)
    start = orthonormalize(torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    L = torch.nn.Parameter(start)
    optimizer = kind([L], **options)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = (L * (K @ L)).sum()
        value.backward()
        return value

    for _ in range(600):
        value = optimizer.step(closure)
    assert value.item() == pytest.approx(float(torch.linalg.eigvalsh(K)[:2].sum()), rel=0.02)


def test_the_state_can_be_saved_and_a_parameter_without_gradient_stays() -> None:
    L, other = (torch.nn.Parameter(torch.eye(4, 2)) for _ in range(2))
    first = RiemannianAdam([L, other])
    L.grad = torch.ones(4, 2)
    first.step()
    assert torch.equal(other.detach(), torch.eye(4, 2))
    again = torch.nn.Parameter(L.detach().clone())
    second = RiemannianAdam([again, other])
    second.load_state_dict(first.state_dict())
    L.grad = torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    again.grad = L.grad.clone()
    first.step()
    second.step()
    assert torch.equal(L, again)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RiemannianSGD([torch.nn.Parameter(torch.ones(3, 2))]), "must start with orthonormal columns"),
        (lambda: RiemannianSGD([torch.nn.Parameter(torch.eye(2, 3))]), "at least as many rows as columns"),
        (lambda: RiemannianSGD([torch.nn.Parameter(torch.eye(3, 2))], lr=0), "`lr` must be greater than 0"),
        (lambda: RiemannianSGD([torch.nn.Parameter(torch.eye(3, 2))], momentum=1.0), "`momentum` must be at most"),
        (
            lambda: RiemannianAdam([torch.nn.Parameter(torch.eye(3, 2))], betas=(0.9, 1.0)),
            "`betas` must",
        ),
    ],
)
def test_bad_settings(make: Any, message: str) -> None:
    with pytest.raises(NearerError, match=message):
        make()
