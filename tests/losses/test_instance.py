"""Instance loss: the printed formula, the peer where it means the same, many items."""

from __future__ import annotations

import warnings

import pytest
import torch

from every_loss import batch, value_and_gradient
from nearer.losses import InstanceLoss


def test_the_printed_formula():
    x, _ = batch(12, 4)
    y = torch.tensor([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9])
    z = torch.nn.functional.normalize(x, dim=1)
    total = 0.0
    for i in range(12):
        others = sum(float(torch.exp(8 * z[i] @ z[j])) for j in range(12) if y[j] != y[i])
        own = float(torch.exp(torch.tensor(8.0, dtype=torch.float64)))
        total -= torch.log(torch.tensor(own / (own + others), dtype=torch.float64)).item()
    assert InstanceLoss(gamma=8.0)(x, y).item() == pytest.approx(total / 12, rel=1e-10)


def test_the_peer_when_every_item_is_its_own_class():
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    warnings.simplefilter("ignore")
    x, _ = batch(20, 4, dimension=3)
    y = torch.arange(20)
    for gamma in (4.0, 64.0):
        expected = value_and_gradient(peers.InstanceLoss(gamma=gamma), x, y)
        found = value_and_gradient(InstanceLoss(gamma=gamma), x, y)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], expected[1], rtol=1e-6, atol=1e-9)


def test_tiles_of_a_large_batch():
    x, y = torch.randn(700, 4, generator=torch.Generator().manual_seed(0)), torch.arange(700)
    for gamma in (8.0, 64.0):
        loss = InstanceLoss(gamma=gamma)
        torch.testing.assert_close(loss(x, y), loss.dense(x, y), rtol=1e-5, atol=1e-6)
