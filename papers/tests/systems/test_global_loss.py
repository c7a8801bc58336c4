"""The global loss: printed moments, weights that change sign, and Smart Mining's sum."""

from __future__ import annotations

import pytest
import torch

from every_loss import batch, value_and_gradient
from nearer.exceptions import ParameterError
from nearer.pairwise._panels import tile_size
from nearer_papers.systems import GlobalLoss, RandomPairs, SmartMiningLoss


def printed(x: torch.Tensor, y: torch.Tensor, weight: float, margin: float) -> torch.Tensor:
    z = torch.nn.functional.normalize(x, dim=1)
    near = [(z[i] - z[j]).square().sum() for i in range(len(z)) for j in range(i) if y[i] == y[j]]
    far = [(z[i] - z[j]).square().sum() for i in range(len(z)) for j in range(i) if y[i] != y[j]]
    p, n = torch.stack(near), torch.stack(far)
    spread = sum((side - side.mean()).square().mean() for side in (p, n))
    return spread + weight * torch.relu(p.mean() - n.mean() + margin)


@pytest.mark.parametrize("margin", [0.4, 3.0, -3.0])
def test_printed_formula_over_unordered_pairs(margin: float) -> None:
    x, y = batch(17, 5)
    expected = value_and_gradient(lambda e: printed(e, y, 0.8, margin), x)
    with tile_size(4):
        found = value_and_gradient(GlobalLoss(margin=margin), x, y)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])


def test_weights_change_sign_on_both_sides() -> None:
    x, y = batch(16, 4, seed=2)
    z = torch.nn.functional.normalize(x, dim=1)
    weights = GlobalLoss().weights(z @ z.T, y)
    same = y[:, None] == y[None, :]
    for side in (weights[same & (weights != 0)], weights[~same]):
        assert (side > 0).any()
        assert (side < 0).any()


def test_a_random_choice_is_the_same_in_both_passes() -> None:
    x, y = batch(30, 6)

    def loss() -> GlobalLoss:
        return GlobalLoss(miner=RandomPairs(positives=1, negatives=2, generator=torch.Generator().manual_seed(1)))

    expected = value_and_gradient(loss().dense, x, y)
    with tile_size(7):
        found = value_and_gradient(loss(), x, y)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])


def test_one_side_only() -> None:
    x, _ = batch(6, 3)
    value, gradient = value_and_gradient(GlobalLoss(margin=9.0), x, torch.zeros(6, dtype=torch.int64))
    z = torch.nn.functional.normalize(x, dim=1)
    assert value == pytest.approx(torch.pdist(z).square().var(correction=0).item())
    assert gradient.abs().max() > 0


def test_smart_mining_is_triplets_of_squared_distances_plus_the_spread() -> None:
    x, y = batch(12, 3)
    z = torch.nn.functional.normalize(x, dim=1)
    d = torch.cdist(z, z).square()
    same = y[:, None] == y[None, :]
    gaps = [
        d[a, p] - d[a, n] + 0.3
        for a in range(12)
        for p in range(12)
        for n in range(12)
        if a != p and same[a, p] and not same[a, n]
    ]
    hinge = torch.stack(gaps).clamp(min=0)
    expected = hinge.sum() / (hinge > 0).sum() + GlobalLoss(margin=0.2)(x, y)
    torch.testing.assert_close(SmartMiningLoss(triplet_margin=0.3, margin=0.2)(x, y), expected)


def test_bad_settings() -> None:
    with pytest.raises(ParameterError, match="`weight` must be at least 0"):
        GlobalLoss(weight=-1.0)
    with pytest.raises(ParameterError, match="`triplet_margin` must be at least 0"):
        SmartMiningLoss(triplet_margin=-1.0)
