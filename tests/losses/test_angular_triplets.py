"""The angular loss with L: the printed formula, closed gradients, ranges, collapse, and the twin without L."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from nearer.exceptions import NearerError
from nearer.geometry import normalize
from nearer.geometry._orthogonal import orthonormalize
from nearer.losses import AngularTripletLoss
from nearer.losses.pairs._angular import angular_factor_gradient, angular_margins, tangent_weight
from nearer.relations import Triplets


def problem(seed: int = 0, n: int = 12, d: int = 6, l: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = normalize(torch.randn(n, d, generator=generator, dtype=torch.float64))
    triplets = torch.stack([torch.randperm(n, generator=generator)[:3] for _ in range(20)])
    return z, triplets, orthonormalize(torch.randn(d, l, generator=generator, dtype=torch.float64))


def projected_angular(z: Tensor, triplets: Any, factor: Tensor | None = None, *, angle: float = 40.0) -> Tensor:
    """`Σ softplus(m)` over the triplets."""
    margins = angular_margins(z, torch.as_tensor(triplets), factor, tangent_weight(angle))
    return torch.nn.functional.softplus(margins).sum()


def naive(z: Tensor, triplets: Tensor, L: Tensor, alpha: float) -> Tensor:
    M, total = L @ L.T, torch.zeros((), dtype=torch.float64)
    for a, p, n in triplets.tolist():
        first, second = z[a] - z[p], z[n] - (z[a] + z[p]) / 2
        m = first @ M @ first - 4 * math.tan(math.radians(alpha)) ** 2 * (second @ M @ second)
        total = total + torch.log1p(torch.exp(m))
    return total


@pytest.mark.parametrize("alpha", [30.0, 40.0, 55.0])
def test_value_and_gradients_are_those_of_the_formula(alpha: float) -> None:
    z, triplets, L = problem()
    z, L = z.requires_grad_(), L.requires_grad_()
    expected = naive(z, triplets, L, alpha)
    found = projected_angular(z, triplets, L, angle=alpha)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    for mine, theirs in zip(torch.autograd.grad(found, (z, L)), torch.autograd.grad(expected, (z, L)), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-12)
    a, p, n = (z.detach()[column] for column in triplets.T)
    value, gradient = angular_factor_gradient(a - p, n - (a + p) / 2, L.detach(), tangent_weight(alpha))
    torch.testing.assert_close(value, expected.detach(), atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(naive(z, triplets, L, alpha), L)[0], atol=1e-12, rtol=0
    )


def test_the_printed_gradients_of_the_embeddings() -> None:
    z, triplets, L = problem()
    triplets, tau = torch.tensor([[0, 1, 2]]), tangent_weight(40)
    z.requires_grad_()
    (found,) = torch.autograd.grad(projected_angular(z, triplets, L), z)
    a, p, n = z.detach()[:3]
    sigma = torch.sigmoid(angular_margins(z.detach(), triplets, L, tau))
    u = 2 * sigma * (a - p) @ L @ L.T
    v = 2 * tau * sigma * (n - (a + p) / 2) @ L @ L.T
    torch.testing.assert_close(found[:3], torch.stack([u + v / 2, -u + v / 2, -v]), atol=1e-12, rtol=0)


def test_margins_stay_in_their_range() -> None:
    t2 = math.tan(math.radians(40)) ** 2
    z, _, L = problem(n=40)
    triplets = torch.randint(0, 40, (4000, 3), generator=torch.Generator().manual_seed(1))
    whole = angular_margins(z, triplets, None, 4 * t2)
    assert whole.min() >= -16 * t2
    assert whole.max() <= 4 * math.cos(math.radians(40)) ** 2 + 1e-12
    part = angular_margins(z, triplets, L, 4 * t2)
    assert part.min() >= -16 * t2
    assert part.max() <= 4


def test_collapsed_embeddings_cost_log_two_and_do_not_move() -> None:
    z = torch.ones(5, 4, dtype=torch.float64).requires_grad_()
    _, _, L = problem(d=4)
    loss = projected_angular(z, [[0, 1, 2], [3, 4, 0]], L) / 2
    assert loss.item() == pytest.approx(math.log(2))
    assert (torch.autograd.grad(loss, z)[0] == 0).all()


def test_without_a_factor_it_is_the_triplet_form_of_the_other_file() -> None:
    z, _, _ = problem()
    triplets = torch.tensor([[0, 1, 2], [3, 4, 5], [1, 2, 7]])
    expected = AngularTripletLoss(angle=40)(z, Triplets(len(z), triplets))
    torch.testing.assert_close(projected_angular(z, triplets, angle=40) / 3, expected)


@pytest.mark.parametrize(
    ("angle", "message"), [(0, "`angle` must be greater than 0"), (90, "`angle` must be at most 89")]
)
def test_angles_outside_their_range_are_refused(angle: float, message: str) -> None:
    with pytest.raises(NearerError, match=message):
        tangent_weight(angle)
