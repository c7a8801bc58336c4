"""ECAML: the energy by loops, the draw, which parameters move, a held-out problem."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from held_out import learn, recall, rows
from nearer.exceptions import NearerError, ParameterError
from nearer.geometry import MLP, UnitLength
from nearer.losses import ContrastiveLoss
from nearer_papers.systems import EnergyConfusionLoss
from nearer_papers.systems._energy_confusion import _draw, energy_confusion

LABELS = torch.tensor([0, 0, 0, 1, 1, 2])
X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_all_pairs_by_loops():
    x = X.clone().requires_grad_()
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    same = [bool(LABELS[i] == LABELS[j]) for i, j in pairs]
    energy = 0.0
    for (i, j), alike in zip(pairs, same, strict=True):
        energy = energy + 0.5 * (x[i] - x[j]).square().sum() / (sum(same) if alike else len(pairs) - sum(same))
    found = energy_confusion(x, LABELS, pairs=5)
    torch.testing.assert_close(found, energy.log())
    torch.testing.assert_close(*(torch.autograd.grad(v, x)[0] for v in (found, energy.log())))
    assert torch.autograd.gradcheck(lambda e: energy_confusion(e, LABELS, pairs=5), x)


def test_drawn_pairs_count_with_the_weights_of_the_batch():
    i, j = _draw(6, 2, torch.Generator().manual_seed(4))
    energy = 0.0
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        energy += 0.5 * float((X[a] - X[b]) @ (X[a] - X[b])) / (4 if LABELS[a] == LABELS[b] else 11)
    found = energy_confusion(X, LABELS, pairs=2, generator=torch.Generator().manual_seed(4))
    assert found.item() == pytest.approx(math.log(energy))


@pytest.mark.parametrize(("n", "pairs"), [(2, 1), (9, 3), (40, 10), (40, 100)])
def test_the_draw_gives_later_items_once_each(n, pairs):
    i, j = _draw(n, pairs, torch.Generator().manual_seed(1))
    assert (j > i).all()
    assert j.max() < n
    assert len({*zip(i.tolist(), j.tolist(), strict=True)}) == len(i)
    assert torch.equal(torch.bincount(i, minlength=n), (n - 1 - torch.arange(n)).clamp(max=pairs))


def test_the_draw_is_even():
    g = torch.Generator().manual_seed(2)
    counts = sum(torch.bincount(j[i == 0], minlength=12) for i, j in (_draw(12, 3, g) for _ in range(2000)))
    assert counts[0] == 0
    assert counts[1:].float().div(2000 * 3 / 11).sub(1).abs().max() < 0.15


def test_only_the_layer_is_moved_by_the_confusion():
    torch.manual_seed(0)
    trunk, layer = nn.Linear(5, 4), nn.Linear(4, 3)
    plain = ContrastiveLoss()
    x = torch.randn(6, 5)
    gradients = {}
    for name, loss in {"plain": plain, "confused": EnergyConfusionLoss(plain, layer, weight=2.0)}.items():
        trunk.zero_grad(), layer.zero_grad()
        loss(layer(trunk(x)), LABELS).backward()
        gradients[name] = (trunk.weight.grad.clone(), layer.weight.grad.clone())
    torch.testing.assert_close(gradients["plain"][0], gradients["confused"][0])
    z = layer(trunk(x).detach())
    (extra,) = torch.autograd.grad(2.0 * energy_confusion(z, LABELS), layer.weight)
    torch.testing.assert_close(gradients["confused"][1], gradients["plain"][1] + extra)


def test_the_loss_lists_no_parameter_of_the_layer():
    layer = nn.Linear(4, 3)
    loss = EnergyConfusionLoss(ContrastiveLoss(), layer)
    assert not list(loss.parameters())
    with pytest.raises(ParameterError, match="must run before each call"):
        loss(torch.rand(6, 3), LABELS)


@pytest.mark.parametrize("n", [1, 3])
def test_nothing_to_confuse(n):
    x = torch.zeros(n, 2, requires_grad=True)
    value = energy_confusion(x, torch.zeros(n, dtype=torch.int64))
    value.backward()
    assert value.item() == pytest.approx(math.log(1e-12), rel=1e-4)
    assert not x.grad.any()


def test_bad_input():
    with pytest.raises(ParameterError, match="`pairs` must be at least 1, got 0"):
        energy_confusion(X, LABELS, pairs=0)
    with pytest.raises(ParameterError, match="`weight` must be at least 0"):
        EnergyConfusionLoss(ContrastiveLoss(), nn.Linear(2, 2), weight=-1.0)
    with pytest.raises(NearerError, match="one entry for each of the 6 rows"):
        energy_confusion(X, LABELS[:2])


def test_unseen_classes_and_lower_energy():
    x, y, unseen, other = rows()
    energies = {}
    for weight in (0.0, 0.13):
        trunk = MLP(16, 32, hidden=(), normalized=False, generator=torch.Generator().manual_seed(0))
        layer = nn.Sequential(
            MLP(32, 16, hidden=(), normalized=False, generator=torch.Generator().manual_seed(1)), UnitLength()
        )
        encoder = nn.Sequential(trunk, nn.ReLU(), layer)
        before = recall(encoder, unseen, other)
        loss = EnergyConfusionLoss(
            ContrastiveLoss(), layer, weight=weight, generator=torch.Generator().manual_seed(2)
        )
        learn(encoder, loss, x, y, epochs=12)
        assert recall(encoder, unseen, other) > before + 0.3
        with torch.no_grad():
            energies[weight] = energy_confusion(encoder(x), y, pairs=len(x)).item()
    assert energies[0.13] < energies[0.0]
