"""DeML's loss: the sum by hand, reversed gradients, edges, a held-out problem."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from held_out import learn, recall, rows
from nearer.exceptions import NearerError, ParameterError, ShapeError
from nearer.losses import BinomialDevianceLoss
from nearer_papers.systems import DecoupledEncoder, DeMLLoss
from nearer_papers.systems._deml import activation_product, branch_separation

WIDTHS = (3, 3, 2, 4)
LABELS = torch.tensor([0, 0, 1, 1, 2, 2, 2])
Z = torch.randn(7, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def make(**settings):
    return DeMLLoss(WIDTHS, branches=2, generator=torch.Generator().manual_seed(1), **settings).double()


def unit(x):
    return x / x.norm(dim=1, keepdim=True)


def test_the_sum_by_hand():
    loss = make()
    parts = Z.split(WIDTHS, 1)
    expected = 0.0
    for part in parts:
        s = unit(part) @ unit(part).T
        for i in range(7):
            same = [j for j in range(7) if j != i and LABELS[i] == LABELS[j]]
            other = [j for j in range(7) if LABELS[i] != LABELS[j]]
            pull = sum(torch.log1p(torch.exp(-2 * (s[i, j] - 0.5))) for j in same) / len(same)
            push = sum(torch.log1p(torch.exp(2 * 35 * (s[i, j] - 0.5))) for j in other) / len(other)
            expected = expected + (pull + push) / 7
    for a in (0, 2):
        first, second = parts[a], parts[a + 1]
        product = sum((first[i] @ first[i]) / WIDTHS[a] * (second[i] @ second[i]) / WIDTHS[a + 1] for i in range(7))
        expected = expected + 0.014 * product / 7 / 2
        p, q = (unit(loss.adversaries[a + k](unit(parts[a + k]))) for k in (0, 1))
        hinge = (2 - (p - q).square().sum(1)).clamp(min=0).mean()
        expected = expected - 0.2 * hinge / 2
    torch.testing.assert_close(loss(Z, LABELS), expected)


def test_adversaries_bring_together_and_branches_go_apart():
    loss = make(activation=0.0, separation=1.0)
    z = Z.clone().requires_grad_()
    plain = sum(BinomialDevianceLoss(alpha=2, beta=70)(part, LABELS) for part in z.split(WIDTHS, 1))
    mapped = [net(unit(part)) for net, part in zip(loss.adversaries, z.split(WIDTHS, 1), strict=True)]
    hinge = (branch_separation(mapped[:2]) + branch_separation(mapped[2:])) / 2
    own = list(loss.parameters())
    (pull,) = torch.autograd.grad(plain, z, retain_graph=True)
    gradients = torch.autograd.grad(hinge, [z, *own])
    found = torch.autograd.grad(loss(z, LABELS), [z, *own])
    torch.testing.assert_close(found[0], pull + gradients[0])  # branches make the hinge smaller
    for a, b in zip(found[1:], gradients[1:], strict=True):
        torch.testing.assert_close(a, -b)  # adversaries make it larger: nearer


def test_one_branch_and_no_separation_are_plain():
    plain = sum(BinomialDevianceLoss(alpha=2, beta=70)(part, LABELS) for part in Z.split(WIDTHS, 1))
    single = DeMLLoss(WIDTHS, branches=1)
    torch.testing.assert_close(single(Z, LABELS), plain)
    assert not list(single.parameters())
    torch.testing.assert_close(make(separation=0.0, activation=0.0)(Z, LABELS), plain)
    assert branch_separation([Z]).item() == 0


def test_gradcheck():
    parts = [part.clone().requires_grad_() for part in Z[:4, :6].split(3, 1)]
    assert torch.autograd.gradcheck(lambda a, b: branch_separation([a, b], margin=3.0), parts)
    assert torch.autograd.gradcheck(lambda a, b: activation_product([a, b]), parts)


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0, 1, 2]], ids=["one item", "one class", "singletons"])
def test_edges_are_finite_and_on_the_graph(labels):
    z = Z[: len(labels)].clone().requires_grad_()
    value = make()(z, torch.tensor(labels))
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()


def test_bad_input():
    with pytest.raises(ParameterError, match="`widths` must have 3 parts for each scale, got 4 in all"):
        DeMLLoss(WIDTHS)
    with pytest.raises(ShapeError, match=r"must have 12 columns, the sum of the widths \(3, 3, 2, 4\), got 11"):
        make()(Z[:, :11], LABELS)
    with pytest.raises(ParameterError, match="`margin` must be at most 4"):
        make(margin=5.0)
    with pytest.raises(NearerError, match="one entry for each of the 7 rows"):
        make()(Z, LABELS[:3])


def painted(rows, seed):
    """Vectors as the colours of a square somewhere on a quiet ground: (n, 16) -> (n, 16, 8, 8)."""
    g = torch.Generator().manual_seed(seed)
    x = 0.05 * torch.randn(len(rows), 16, 8, 8, generator=g)
    for image, row, (top, left) in zip(
        x, rows, torch.randint(5, (len(rows), 2), generator=g).tolist(), strict=True
    ):
        image[:, top : top + 4, left : left + 4] += row[:, None, None]
    return x


def test_unseen_classes_of_pictures():
    torch.manual_seed(0)
    x, y, unseen, other = rows()
    x, unseen = painted(x, 1), painted(unseen, 2)
    encoder = DecoupledEncoder(
        nn.Sequential(nn.Conv2d(16, 32, 1), nn.ReLU()),
        32,
        embedding_dim=36,
        scales=2,
        branches=2,
        hidden=16,
        generator=torch.Generator().manual_seed(1),
    )
    before = recall(encoder, unseen, other)
    loss = DeMLLoss(encoder.widths, branches=2, generator=torch.Generator().manual_seed(2))
    learn(encoder, loss, x, y, epochs=10)
    assert recall(encoder, unseen, other) > before + 0.1
