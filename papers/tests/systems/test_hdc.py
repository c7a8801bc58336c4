"""HDC: the printed sums by loops, the cascade and the independent ranking, tiles, heads, a held-out problem."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from held_out import images, learn, recall, rows
from nearer.exceptions import NearerError, ParameterError, ShapeError
from nearer.geometry import MLP
from nearer.losses import SquaredContrastiveLoss
from nearer.mining import HardestFraction
from nearer.pairwise._panels import tile_size
from nearer_papers.systems import HDCLoss
from nearer_papers.systems._hdc import CascadeHeads

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
Z = torch.randn(10, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def kept(pairs, cost, fraction):
    return sorted(pairs, key=lambda pair: -cost[pair].item())[: max(1, math.ceil(fraction * len(pairs)))]


def by_loops(z, labels, fractions, cascade):
    """Unordered pairs, sorted by hardness at each head."""
    every = [(i, j) for i in range(len(z)) for j in range(i)]
    positive = [pair for pair in every if labels[pair[0]] == labels[pair[1]]]
    negative = [pair for pair in every if labels[pair[0]] != labels[pair[1]]]
    p, n, total = positive, negative, 0.0
    for part, fraction in zip(z.chunk(len(fractions), 1), fractions, strict=True):
        u = part / part.norm(dim=1, keepdim=True)
        d = (u[:, None] - u[None]).square().sum(2)
        p = kept(p if cascade else positive, d, fraction)
        n = kept(n if cascade else negative, -d, fraction)
        pull = [d[pair] for pair in p if d[pair] > 0]
        push = [10 * (1 - d[pair]) for pair in n if d[pair] < 1]
        total = total + (sum(pull) / len(pull) if pull else 0) + (sum(push) / len(push) if push else 0)
    return total


@pytest.mark.parametrize("selection", ["cascade", "independent"])
@pytest.mark.parametrize("fractions", [(1.0, 0.5, 0.2), (0.7, 0.3), (0.01, 1.0, 0.6)])
@pytest.mark.parametrize("tile", [None, 1, 3])
def test_loops_from_the_printed_formula(selection, fractions, tile):
    z = Z.clone().requires_grad_()
    expected = by_loops(z, LABELS, fractions, selection == "cascade")
    (wanted,) = torch.autograd.grad(expected, z)
    with tile_size(tile):
        found = HDCLoss(fractions=fractions, selection=selection)(z, LABELS)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, z)[0], wanted, rtol=1e-9, atol=1e-12)


def test_the_two_selections_differ_and_one_head_is_plain():
    cascade, independent = (HDCLoss(selection=name)(Z, LABELS) for name in ("cascade", "independent"))
    assert not torch.isclose(cascade, independent)
    one = HDCLoss(fractions=(0.4,))(Z, LABELS)
    torch.testing.assert_close(one, SquaredContrastiveLoss(miner=HardestFraction(0.4))(Z, LABELS))


def test_gradcheck():
    x = Z[:7, :6].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda e: HDCLoss(fractions=(1.0, 0.4))(e, LABELS[:7]), x, eps=1e-7, atol=1e-5)


@given(st.permutations(range(10)), st.sampled_from(["cascade", "independent"]))
@settings(max_examples=20, deadline=None)
def test_order_and_length_do_not_matter(order, selection):
    loss = HDCLoss(selection=selection)
    shuffled = 3 * Z[list(order)]
    torch.testing.assert_close(loss(shuffled, LABELS[list(order)]), loss(Z, LABELS))


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0, 1, 2]], ids=["one item", "one class", "singletons"])
def test_edges_are_finite_and_on_the_graph(labels):
    z = Z[: len(labels)].clone().requires_grad_()
    value = HDCLoss()(z, torch.tensor(labels))
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()
    assert (value == 0) == (len(labels) == 1)


def test_heads_tap_and_leave_the_network_alone():
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 5, 3), nn.Flatten())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    heads = CascadeHeads(network, ["2", "3"], torch.rand(4, 1, 8, 8), embedding_dim=7)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert network.training
    z = heads(torch.rand(6, 1, 8, 8))
    assert z.shape == (6, 14)
    torch.testing.assert_close(z[:, :7].norm(dim=1), torch.ones(6))
    torch.testing.assert_close(z[:, 7:].norm(dim=1), torch.ones(6))
    HDCLoss(fractions=(1.0, 0.5))(z, torch.arange(6) % 2).backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in heads.heads.parameters())
    assert network[0].weight.grad.abs().sum() > 0
    assert not any(module._forward_hooks for module in network.modules())


def test_bad_input():
    with pytest.raises(ShapeError, match="a multiple of 3 columns, one part for each of the fractions, got 4"):
        HDCLoss()(Z[:, :4], LABELS)
    with pytest.raises(ParameterError, match="`fractions` must have one number for each head, got none"):
        HDCLoss(fractions=())
    with pytest.raises(ParameterError, match="`fractions` must be at most 1"):
        HDCLoss(fractions=(1.5,))
    with pytest.raises(ParameterError, match=r"`selection` must be one of .* Did you mean 'cascade'"):
        HDCLoss(selection="cascades")
    with pytest.raises(NearerError, match="one entry for each of the 10 rows"):
        HDCLoss()(Z, LABELS[:4])
    with pytest.raises(ParameterError, match="must be sub-modules"):
        CascadeHeads(nn.Sequential(nn.Linear(2, 2)), ["7"], torch.zeros(1, 2))

    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ParameterError, match=r"must take part in the forward pass of the network, got \['idle'\]"):
        CascadeHeads(Lazy(), ["used", "idle"], torch.zeros(1, 2))


@pytest.mark.parametrize("selection", ["cascade", "independent"])
def test_unseen_classes_of_rows(selection):
    x, y, unseen, other = rows()
    network = MLP(16, 16, hidden=(32, 32), normalized=False, generator=torch.Generator().manual_seed(0))
    names = [f"layers.{place}" for place in range(3)]
    encoder = CascadeHeads(network, names, x[:1], embedding_dim=8, generator=torch.Generator().manual_seed(1))
    before = recall(encoder, unseen, other)
    losses = learn(encoder, HDCLoss(selection=selection), x, y, epochs=25)
    after = recall(encoder, unseen, other)
    assert losses[-1] < losses[0]
    assert after > before + 0.15


def test_unseen_classes_of_pictures():
    torch.manual_seed(0)
    x, y, unseen, other = images()
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()
    )
    encoder = CascadeHeads(
        network, ["1", "3", "5"], x[:1], embedding_dim=16, generator=torch.Generator().manual_seed(1)
    )
    before = recall(encoder, unseen, other)
    learn(encoder, HDCLoss(), x, y, epochs=25)
    assert recall(encoder, unseen, other) > before + 0.1
