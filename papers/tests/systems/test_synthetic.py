"""SUML's loss: the five hypotheses by hand, beliefs, and the penalty."""

from __future__ import annotations

import math

import pytest
import torch

from nearer.exceptions import NearerError
from nearer.geometry._shared import orthonormalize
from nearer_papers.systems._synthetic import SyntheticLoss, orthogonality_penalty


def make(belief: str = "softmax") -> tuple[SyntheticLoss, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    loss = SyntheticLoss(4, 2, belief=belief, generator=generator).double()
    return loss, torch.randn(6, 4, generator=generator).double(), torch.tensor([[0, 1, 2], [3, 4, 5]])


def test_the_five_costs_by_hand() -> None:
    loss, z, triplets = make()
    S, L, tau = loss.synthesis.detach(), loss.factor.detach(), 4 * math.tan(math.radians(40)) ** 2
    a, p, n = z[:3]

    def made(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return S.T @ torch.cat([x, y])

    def margin(s: torch.Tensor, near: torch.Tensor, far: torch.Tensor) -> float:
        return float(((s - near) ** 2).sum() - tau * ((far - (s + near) / 2) ** 2).sum())

    expected = []
    for x, y, w in ((a, p, n), (a, n, p), (p, n, a)):
        s, near, far = made(x, x), made(x, y), made(x, w)
        pair = (-margin(s, near, far), margin(L.T @ s, L.T @ near, L.T @ far))
        expected.append(sum(math.log1p(math.exp(one)) for one in pair))
    one, two = made(a, p), made(a, n)
    fourth = -float(((one - two) ** 2).sum()) + float(((L.T @ (one - two)) ** 2).sum())
    expected += [fourth, -fourth]
    torch.testing.assert_close(loss.costs(z, triplets)[0], torch.tensor(expected).double())


def test_beliefs_of_the_softmax_sum_to_one_and_the_printed_ones_do_not() -> None:
    loss, z, triplets = make()
    costs = loss.costs(z, triplets).detach()
    assert float((torch.softmax(-costs, 1).sum(1) - 1).abs().max()) < 1e-12
    assert float((torch.sigmoid(-costs).sum(1) - 1).abs().min()) > 1e-3
    printed, _, _ = make("as_printed")
    p = torch.sigmoid(-costs)
    assert printed(z, triplets).item() == pytest.approx(float(-(p * p.log()).sum(1).mean()), rel=1e-9)


def test_gradients_and_the_penalty() -> None:
    loss, z, triplets = make()
    assert torch.autograd.gradcheck(lambda x: loss(x, triplets), z.requires_grad_())
    with torch.no_grad():
        before = loss(z, triplets).item()
        entropy = before  # L starts orthonormal
        loss.factor.mul_(0)
        assert loss(z, triplets).item() > 0.5 * 2 - 1e-9
    assert entropy <= math.log(5)


def test_bad_settings() -> None:
    with pytest.raises(NearerError, match="`penalty` must be greater than 0"):
        SyntheticLoss(4, 2, penalty=0.0)
    with pytest.raises(NearerError, match="`belief` must be one of"):
        SyntheticLoss(4, 2, belief="hard")


def test_the_penalty_is_zero_on_the_set_and_has_the_printed_gradient() -> None:
    L = orthonormalize(torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    assert orthogonality_penalty(L).item() < 1e-28
    free = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(orthogonality_penalty(free), free)
    expected = 4 * free @ (free.T @ free - torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(found, expected.detach())
