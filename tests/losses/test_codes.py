"""Nested widths and soft signs around any loss, and the start of both."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry import itq
from nearer.losses import BinaryLoss, NestedLoss, ProxyAnchorLoss, RAWLoss, SupConLoss
from nearer.mining import VTHM
from nearer_papers.ours._codes import lines, recall_at_1

Y = torch.arange(24) % 4


def rows(columns: int = 16, seed: int = 0) -> torch.Tensor:
    return torch.randn(24, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_nested_is_the_weighted_mean_over_prefixes() -> None:
    z = rows().requires_grad_()
    loss = NestedLoss(SupConLoss(), widths=(4, 8, 16), weights=(1, 0, 3))
    expected = (SupConLoss()(z[:, :4], Y) + 3 * SupConLoss()(z, Y)) / 4
    torch.testing.assert_close(loss(z, Y), expected)
    mine, theirs = (torch.autograd.grad(one, z)[0] for one in (loss(z, Y), expected))
    torch.testing.assert_close(mine, theirs)


def test_nested_takes_miners_databases_and_saves_nothing_of_its_own() -> None:
    z, other = rows(), rows(seed=1)
    inner = RAWLoss(miner=VTHM())
    loss = NestedLoss(inner, widths=(8, 16))
    expected = (inner(z[:, :8], Y) + inner(z, Y)) / 2
    torch.testing.assert_close(loss(z, Y), expected)
    assert not loss.state_dict()
    assert "8" in repr(loss)
    with pytest.raises(ShapeError, match="16 columns"):
        loss(other[:, :8], Y)


def test_binary_is_the_loss_of_soft_signs_that_get_harder() -> None:
    z = rows().requires_grad_()
    loss = BinaryLoss(SupConLoss(), steps=4)
    for call in range(6):
        beta = 1 + 4 * min(1, call / 4)
        assert loss.beta == pytest.approx(beta)
        soft = torch.tanh(beta * z / z.detach().abs().mean())
        torch.testing.assert_close(loss(z, Y), SupConLoss()(soft, Y))
    again = BinaryLoss(SupConLoss(), steps=4)
    again.load_state_dict(loss.state_dict())
    assert again.beta == 5.0
    frozen = BinaryLoss(SupConLoss(), steps=4).eval()
    frozen(z, Y)
    assert frozen.beta == 1.0


def test_trained_bits_lose_less_than_the_signs_of_trained_floats() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 12
    centers = torch.randn(12, 20, generator=generator)
    x = centers[y] + 0.9 * torch.randn(240, 20, generator=generator)
    test = centers[y] + 0.9 * torch.randn(240, 20, generator=generator)

    def signs(wrap: bool) -> float:
        torch.manual_seed(0)
        head = itq(x, 10)
        loss: nn.Module = BinaryLoss(SupConLoss(), steps=150) if wrap else SupConLoss()
        adam = torch.optim.Adam(head.parameters(), lr=0.01)
        for _ in range(150):
            adam.zero_grad()
            loss(head(x), y).backward()
            adam.step()
        with torch.no_grad():
            codes = [torch.where(head(one) >= 0, 1.0, -1.0) for one in (test, x)]
        return recall_at_1(codes[0], codes[1], y, y)

    assert signs(True) > signs(False) + 0.02


def test_itq_turns_the_principal_directions_so_that_signs_fit() -> None:
    x = rows(12)
    code, plain = itq(x, 5)(x).detach(), itq(x, 5, iterations=0)(x).detach()

    def error(z: torch.Tensor) -> float:
        scaled = z / z.pow(2).mean().sqrt()
        return float((torch.where(z >= 0, 1.0, -1.0) - scaled).square().mean())

    assert error(code) < error(plain)
    # A rotation of the principal components keeps all distances among them.
    centered = (x - x.mean(0)).numpy()
    values = np.linalg.svd(centered, compute_uv=False)[:5]
    np.testing.assert_allclose(np.linalg.svd(code.numpy(), compute_uv=False), values, rtol=1e-4)


def test_equal_similarities_count_by_expectation() -> None:
    queries = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    database = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    found = recall_at_1(queries, database, torch.tensor([0, 1]), torch.tensor([0, 1, 1, 1]))
    assert found == pytest.approx((0.5 + 1) / 2)
    assert recall_at_1(queries, queries, torch.tensor([0, 0]), torch.tensor([0, 0]), itself=True) == 1.0


def test_the_table_is_a_mean_over_seeds() -> None:
    row = {"split": "seen", "method": "bits", "width": 64, "recall@1": 0.9}
    assert lines([{**row, "seed": 0}, {**row, "seed": 1, "recall@1": 0.8}]) == [("bits", 64, 8, "0.8500", "", 2)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NestedLoss(SupConLoss(), widths=(8, 4)), "rising"),
        (lambda: NestedLoss(SupConLoss(), widths=(4, 8), weights=(1,)), "each of 2 widths"),
        (lambda: NestedLoss(ProxyAnchorLoss(3, 8), widths=(4, 8)), "class vectors"),
        (lambda: BinaryLoss(SupConLoss(), steps=0), "steps"),
        (lambda: BinaryLoss(SupConLoss(), steps=5, start=2.0, end=1.0), "end"),
        (lambda: itq(torch.rand(5, 3), 4), "at most the 3 columns"),
    ],
)
def test_what_cannot_be_is_said(make, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()
