"""The class tree against brute force over all pairs of items, its levels by hand, and its state."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.exceptions import LabelError, ParameterError
from nearer_papers.systems import ClassTree


def data(n: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.arange(classes), torch.randint(classes, (n - classes,), generator=generator)]) * 3 + 1
    centers = torch.randn(3 * classes + 1, 4, generator=generator, dtype=torch.float64)
    return centers[labels] + 0.4 * torch.randn(n, 4, generator=generator, dtype=torch.float64), labels


def naive(x: Tensor, y: Tensor, levels: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(class distances, s_c, thresholds, d_H) from the printed definitions, over all pairs of items."""
    z = torch.nn.functional.normalize(x, dim=1)
    squared = torch.cdist(z, z).square()
    names = sorted(set(y.tolist()))
    c = len(names)
    between, within = torch.zeros(c, c, dtype=torch.float64), torch.zeros(c, dtype=torch.float64)
    for (a, p), (b, q) in itertools.product(enumerate(names), repeat=2):
        block = squared[y == p][:, y == q]
        between[a, b] = block.mean()
        if a == b and len(block) > 1:
            within[a] = block.sum() / (len(block) * (len(block) - 1))
    sizes = torch.tensor([int((y == name).sum()) for name in names])
    lowest = within[sizes > 1].mean() if (sizes > 1).any() else torch.tensor(0.0, dtype=torch.float64)
    thresholds = torch.stack([lowest + level * (4 - lowest) / levels for level in range(levels + 1)])
    hierarchy = thresholds[-1].expand(c, c).clone()
    for threshold in thresholds.flip(0):
        near = between < threshold
        near.fill_diagonal_(True)
        for k in range(c):  # Warshall: chains of near classes
            near |= near[:, k, None] & near[None, k, :]
        hierarchy[near] = threshold
    return between, within, thresholds, hierarchy


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 9), st.integers(0, 30), st.integers(1, 20))
def test_against_all_pairs(seed: int, classes: int, more: int, levels: int) -> None:
    x, y = data(classes + more, classes, seed)
    between, within, thresholds, hierarchy = naive(x, y, levels)
    tree = ClassTree(levels=levels)
    tree.update(x, y)
    names = torch.tensor(sorted(set(y.tolist())))
    torch.testing.assert_close(tree.within, within)
    torch.testing.assert_close(tree.thresholds, thresholds)
    torch.testing.assert_close(tree.distances(names, names), hierarchy)
    expected = 0.1 + hierarchy - within[:, None]
    torch.testing.assert_close(tree.margins(names, names), expected)
    for one in range(classes):
        others = [place for place in between[one].argsort(stable=True).tolist() if place != one]
        assert tree.nearest(names[one, None], count=99)[0].tolist() == names[others].tolist()


def test_parts_give_the_whole_and_unlabeled_items_do_not_count() -> None:
    x, y = data(40, 6)
    whole, parts, extra = ClassTree(), ClassTree(), ClassTree()
    whole.update(x, y)
    parts.update_from((x[rows], y[rows]) for rows in torch.arange(40).split(7))
    extra.update(torch.cat([x, torch.ones(3, 4)]), torch.cat([y, torch.full((3,), -1)]))
    for other in (parts, extra):
        for name, buffer in whole.named_buffers():
            torch.testing.assert_close(dict(other.named_buffers())[name], buffer)


def test_nodes_are_nested_and_the_top_may_stay_apart() -> None:
    x, y = data(60, 12)
    tree = ClassTree()
    tree.update(x, y)
    for lower, upper in itertools.pairwise(tree.nodes):
        for node in lower.unique():
            assert len(upper[lower == node].unique()) == 1
    opposite = ClassTree(levels=3)
    opposite.update([[1.0, 0.0], [-1.0, 0.0]], [0, 1])  # distance 4 is not below the top threshold 4
    assert opposite.nodes[-1].tolist() == [0, 1]
    assert opposite.distances([0], [1]).item() == 4
    assert opposite.within.tolist() == [0, 0]


def test_blocks_change_nothing_and_neighbors_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data(90, 20)
    tree, small = ClassTree(), ClassTree()
    tree.update(x, y)
    monkeypatch.setattr("nearer_papers.systems._class_tree._block", lambda columns: 3)
    small.update(x, y)
    assert torch.equal(small.nodes, tree.nodes)
    some = tree.classes[::3]
    near = tree.nearest(tree.classes, among=some, count=4)
    assert near.shape == (20, 4)
    assert torch.isin(near, some).all()
    assert (near != tree.classes[:, None]).all()
    for label, row in zip(tree.classes.tolist(), near.tolist(), strict=True):
        everyone = tree.nearest([label], count=19)[0]
        assert row == [one for one in everyone.tolist() if one in some][:4]


def test_equal_distances_make_one_tree() -> None:
    """Four classes in the corners of a square: every edge has an equal one."""
    tree = ClassTree(levels=8)
    tree.update(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]), [0, 1, 2, 3])
    assert tree.nodes[4].tolist() == [0, 1, 2, 3]  # d = 2 is not below the threshold 2
    assert tree.nodes[5].tolist() == [0, 0, 0, 0]


def test_the_state_brings_its_own_size() -> None:
    x, y = data(30, 5)
    tree, fresh = ClassTree(), ClassTree()
    tree.update(x, y)
    assert not fresh.ready
    fresh.load_state_dict(tree.state_dict())
    assert fresh.ready
    assert torch.equal(fresh.distances(y, y), tree.distances(y, y))
    assert torch.equal(fresh.nearest(y, count=3), tree.nearest(y, count=3))


def test_bad_input() -> None:
    tree = ClassTree()
    with pytest.raises(ParameterError, match="class tree must be built first"):
        tree.distances([0], [1])
    with pytest.raises(LabelError, match="must name a class for some items"):
        tree.update(torch.eye(2), [-1, -1])
    tree.update(torch.eye(2), [4, 6])
    with pytest.raises(LabelError, match=r"among the 2 classes of the tree, got 5\. Build the tree from all"):
        tree.margins([4], [5])
    with pytest.raises(ParameterError, match="`levels` must be at least 1"):
        ClassTree(levels=0)
