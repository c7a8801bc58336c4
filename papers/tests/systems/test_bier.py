"""BIER and ABIER: loops from the printed formulas, boosting weights, reversed gradients, a held-out problem."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from held_out import learn, recall, rows
from nearer.exceptions import NearerError, ParameterError, ShapeError
from nearer.geometry import MLP
from nearer.pairwise._panels import tile_size
from nearer_papers.systems import ABIERLoss, BIERLoss, BoostedHeads
from nearer_papers.systems._bier import HeadDiversity, decorrelate
from nearer_papers.systems._reversal import reverse_gradient

WIDTHS = (2, 3, 4)
LABELS = torch.tensor([0, 0, 1, 1, 1, 2, 3])
Z = torch.randn(7, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def by_loops(z, labels, boosting, alpha=2.0, beta=0.5, cost=25.0, shrinkage=0.06):
    pairs = [(i, j) for i in range(len(z)) for j in range(len(z)) if i != j]
    same = {pair: bool(labels[pair[0]] == labels[pair[1]]) for pair in pairs}
    n_p = sum(same.values())
    n_n = len(pairs) - n_p
    total = 0.0
    for i, j in pairs:
        side = 1.0 if same[i, j] else -cost
        w = 1 / n_p if same[i, j] else 1 / n_n
        a, b = 0.5, 1.0
        for m, part in enumerate(z.split(WIDTHS, 1), start=1):
            d = part[i] @ part[j] / (part[i].norm() * part[j].norm())
            total = total + w * b * torch.log1p(torch.exp(-alpha * (d - beta) * side)) / len(WIDTHS)
            known = d.item()
            if boosting == "shrinkage":
                a += shrinkage * alpha * (known - beta) * side
                b = 1 / (1 + math.exp(a)) * (1 if same[i, j] else 2)
            else:
                a = (1 - 2 / (m + 1)) * a + 2 / (m + 1) * known
                b = 1 / (1 + math.exp(alpha * (a - beta) * side))
    return total


@pytest.mark.parametrize("boosting", ["shrinkage", "running"])
@pytest.mark.parametrize("tile", [None, 1, 3])
def test_loops_from_the_printed_formula(boosting, tile):
    z = Z.clone().requires_grad_()
    expected = by_loops(z, LABELS, boosting)
    with tile_size(tile):
        found = BIERLoss(WIDTHS, boosting=boosting)(z, LABELS)
        gradient = torch.autograd.grad(found, z)[0]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, z)[0], rtol=1e-9, atol=1e-12)


def test_gradcheck_of_one_part_and_boosting_weights_without_gradient():
    one = BIERLoss((9,))
    assert torch.autograd.gradcheck(lambda e: one(e, LABELS), Z.clone().requires_grad_(), atol=1e-6)
    # The first part is not changed by what the others do with its mistakes.
    alone, all_three = Z[:, :2].clone().requires_grad_(), Z.clone().requires_grad_()
    (a,) = torch.autograd.grad(BIERLoss((2,))(alone, LABELS), alone)
    (b,) = torch.autograd.grad(BIERLoss(WIDTHS)(all_three, LABELS), all_three)
    torch.testing.assert_close(a / 3, b[:, :2])


def test_hard_pairs_weigh_more_in_later_parts():
    """One negative pair that part 1 has right and one that it has wrong; part 2 sees both alike."""
    angle = torch.tensor([0.0, 0.1, math.pi / 2], dtype=torch.float64)
    first = torch.stack([angle.cos(), angle.sin()], 1)
    second = torch.eye(3, dtype=torch.float64)
    z = torch.cat([first, second], 1).requires_grad_()
    (gradient,) = torch.autograd.grad(BIERLoss((2, 3), negative_cost=1.0)(z, torch.arange(3)), z)
    pull = gradient[0, 2:]  # what items 1 and 2 do to item 0 in part 2
    assert pull[1] > 1.01 * pull[2] > 0


@given(st.permutations(range(7)), st.lists(st.floats(0.1, 9.0), min_size=3, max_size=3))
@settings(max_examples=20, deadline=None)
def test_order_and_lengths_of_parts_do_not_matter(order, lengths):
    scaled = torch.cat([part * size for part, size in zip(Z.split(WIDTHS, 1), lengths, strict=True)], 1)
    loss = BIERLoss(WIDTHS)
    torch.testing.assert_close(loss(scaled[list(order)], LABELS[list(order)]), loss(Z, LABELS))


@pytest.mark.parametrize("labels", [[0], [0, 0, 0], [0, 1, 2]], ids=["one item", "one class", "singletons"])
def test_edges_are_finite_and_on_the_graph(labels):
    z = Z[: len(labels)].clone().requires_grad_()
    value = BIERLoss(WIDTHS)(z, torch.tensor(labels))
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()
    assert (value == 0) == (len(labels) == 1)


def make(kind, weight_penalty=0.5):
    heads = BoostedHeads(5, WIDTHS, generator=torch.Generator().manual_seed(0)).double()
    chosen = {"kind": kind, "weight_penalty": weight_penalty, "hidden": 6}
    return heads, HeadDiversity(heads, **chosen, generator=torch.Generator().manual_seed(1)).double()


def test_activation_diversity_by_loops():
    heads, alike = make("activation")
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    parts = heads.raw(x)
    expected = 0.0
    for i in range(3):
        for j in range(i + 1, 3):
            products = [(parts[i][k][:, None] * parts[j][k][None]).square().mean() for k in range(4)]
            expected = expected + sum(products) / 4
    for part in heads.parts:
        expected = expected + 0.5 * sum((w @ w - 1) ** 2 for w in part.weight) / len(part.weight)
    found = alike(x)
    torch.testing.assert_close(found, expected)
    found.backward()
    assert x.grad is None  # only the heads move
    assert all(part.weight.grad.abs().sum() > 0 for part in heads.parts)


def test_adversaries_climb_and_heads_descend():
    heads, alike = make("adversarial", weight_penalty=0.0)
    x = torch.randn(4, 5, dtype=torch.float64)
    assert [(r[0].in_features, r[2].out_features) for r in alike.regressors] == [(3, 2), (4, 2), (4, 3)]
    parts = heads.raw(x)
    likeness = 0.0
    for r, (i, j) in zip(alike.regressors, ((0, 1), (0, 2), (1, 2)), strict=True):
        likeness = likeness + (parts[i] * r(parts[j])).square().mean()
    value = alike(x)
    torch.testing.assert_close(value, -likeness)
    own, other = list(alike.parameters()), list(heads.parameters())
    for found, wanted in zip(
        torch.autograd.grad(value, own, retain_graph=True),
        torch.autograd.grad(likeness, own, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(found, -wanted)  # descending on the value makes the likeness larger
    for found, wanted in zip(torch.autograd.grad(value, other), torch.autograd.grad(likeness, other), strict=True):
        torch.testing.assert_close(found, wanted)  # reversed: descending makes it smaller


def test_price_of_weights_and_biases():
    heads, alike = make("adversarial", weight_penalty=2.0)
    with torch.no_grad():
        alike.regressors[0][0].bias.fill_(1.0)  # ‖b‖² = 6
    free = make("adversarial", weight_penalty=0.0)[1]
    free._heads = (heads,)
    free.load_state_dict(alike.state_dict())
    x = torch.randn(4, 5, dtype=torch.float64)
    matrices = [part.weight for part in heads.parts] + [r[k].weight for r in alike.regressors for k in (0, 2)]
    expected = 5.0 + sum((m.square().sum(1) - 1).square().mean() for m in matrices)
    torch.testing.assert_close(alike(x) - free(x), 2 * expected)


def test_abier_is_the_sum_and_lists_only_its_own_parameters():
    heads, alike = make("adversarial")
    loss = ABIERLoss(heads, regularizer=alike, diversity=0.3)
    assert {id(one) for one in loss.parameters()} == {id(one) for one in alike.regressors.parameters()}
    assert not any("heads" in name for name in loss.state_dict())
    x = torch.randn(7, 5, dtype=torch.float64)
    z = heads(x)
    torch.testing.assert_close(loss(z, LABELS), BIERLoss(WIDTHS)(z, LABELS) + 0.3 * alike(x))
    with pytest.raises(ParameterError, match="must run before each call"):
        loss(z, LABELS)
    heads(x[:3])
    with pytest.raises(ShapeError, match=r"the 7 items of the embeddings in its last pass, got 3"):
        loss(z, LABELS)


def test_decorrelate_lowers_the_likeness_and_keeps_lengths():
    heads = BoostedHeads(12, (3, 4), generator=torch.Generator().manual_seed(0))
    x = torch.relu(torch.randn(200, 12, generator=torch.Generator().manual_seed(2)))
    course = decorrelate(heads, x, steps=150)
    assert course[-1] < 0.5 * course[0]
    assert all((part.weight.norm(dim=1) - 1).abs().max() < 0.1 for part in heads.parts)


def test_reversed_gradient():
    x = torch.randn(3, requires_grad=True)
    y = reverse_gradient(x)
    assert torch.equal(x, y)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], -torch.ones(3))


def test_bad_input():
    with pytest.raises(ShapeError, match=r"must have 9 columns, the sum of the widths \(2, 3, 4\), got 8"):
        BIERLoss(WIDTHS)(Z[:, :8], LABELS)
    with pytest.raises(ParameterError, match="`widths` must have one number or more"):
        BIERLoss(())
    with pytest.raises(ParameterError, match="`boosting` must be one of"):
        BIERLoss(boosting="steps")
    with pytest.raises(ParameterError, match="`kind` must be one of"):
        HeadDiversity(BoostedHeads(2, (1, 1)), kind="none")
    with pytest.raises(NearerError, match="one entry for each of the 7 rows"):
        BIERLoss(WIDTHS)(Z, LABELS[:3])


@pytest.mark.parametrize("kind", ["adversarial", "activation"])
def test_unseen_classes(kind):
    x, y, unseen, other = rows()
    heads = BoostedHeads(32, (4, 6, 8), generator=torch.Generator().manual_seed(1))
    trunk = MLP(16, 32, hidden=(), normalized=False, generator=torch.Generator().manual_seed(0))
    encoder = nn.Sequential(trunk, nn.ReLU(), heads)
    regularizer = HeadDiversity(heads, kind=kind, hidden=16, generator=torch.Generator().manual_seed(2))
    before = recall(encoder, unseen, other)
    learn(encoder, ABIERLoss(heads, regularizer=regularizer), x, y, epochs=20)
    assert recall(encoder, unseen, other) > before + 0.15
    lengths = torch.cat([part.weight.norm(dim=1) for part in heads.parts])
    assert (lengths - 1).abs().mean() < 0.3
