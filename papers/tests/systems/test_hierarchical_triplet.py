"""HTL: all triplets with their own margins by brute force, the tree in the state, labels outside of the tree."""

from __future__ import annotations

import itertools

import pytest
import torch

from every_loss import batch, value_and_gradient
from nearer.exceptions import LabelError, ParameterError
from nearer.losses import TripletLoss
from nearer.relations import PartialLabels
from nearer_papers.systems import ClassTree, HierarchicalTripletLoss


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_over_triplets_with_duplicates(seed: int) -> None:
    x, y = batch(14, 4, seed=seed)
    x[3], x[7] = x[2], x[1]
    every, labels = batch(80, 4, seed=seed + 100)
    loss = HierarchicalTripletLoss()
    loss.tree.update(every, labels)
    leaf = x.clone().requires_grad_()
    z = torch.nn.functional.normalize(leaf, dim=1)
    total, triplets = z.new_zeros(()), 0
    for a, p, n in itertools.product(range(14), repeat=3):
        if a != p and y[a] == y[p] and y[a] != y[n]:
            margin = loss.tree.margins(y[a, None], y[n, None]).item()
            gap = (z[a] - z[p]).square().sum() - (z[a] - z[n]).square().sum() + margin
            total, triplets = total + 0.5 * gap.clamp(min=0), triplets + 1
    (expected,) = torch.autograd.grad(total / triplets, leaf)
    value, gradient = value_and_gradient(loss, x, y)
    torch.testing.assert_close(value, total.detach() / triplets)
    torch.testing.assert_close(gradient, expected)


def test_margins_grow_with_the_tree() -> None:
    """Two near classes and a far one: pushing the far one away asks for more."""
    angle = torch.tensor([0.0, 0.1, 0.3, 0.4, 2.5, 2.6])
    x, y = torch.stack([angle.cos(), angle.sin()], 1), torch.tensor([0, 0, 1, 1, 2, 2])
    tree = ClassTree()
    tree.update(x, y)
    near, far = tree.margins([0], [1, 2])[0]
    assert near < far
    assert near > 0.1


def test_without_a_tree_it_is_the_triplet_loss_of_half_the_margin() -> None:
    x, y = batch(30, 6)
    ours, plain = HierarchicalTripletLoss(beta=0.3), TripletLoss(margin=0.15, reduction="tuples")
    torch.testing.assert_close(ours(x, y), plain(x, y))


def test_the_tree_is_part_of_the_state() -> None:
    x, y = batch(30, 6)
    loss, other = HierarchicalTripletLoss(), HierarchicalTripletLoss()
    loss.tree.update(x, y)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(x, y), loss(x, y))


def test_bad_input() -> None:
    x, y = batch(12, 3)
    loss = HierarchicalTripletLoss()
    loss.tree.update(x, y)
    with pytest.raises(LabelError, match="must be among the 3 classes of the tree, got 7"):
        loss(x, torch.where(y == 1, 7, y))
    with pytest.raises(LabelError, match="with a tree needs class labels, got PartialLabels"):
        loss(x, PartialLabels(y))
    with pytest.raises(ParameterError, match=r"`tree` must be a nearer_papers\.systems\.ClassTree, got str"):
        HierarchicalTripletLoss(tree="tree")  # type: ignore[arg-type]
