"""A taxonomy as a relation: shared levels, a kernel, behind any pair loss and RAML, and what it refuses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from attainable import smallest_eigenvalue
from nearer.estimators import RAMLKRR
from nearer.exceptions import LabelError, NearerError, ShapeError
from nearer.losses import ContrastiveLoss, RAWLoss, RelationAlignmentLoss
from nearer.relations import ClassLabels, Soft, Tree, kind_of

PATHS = ["a/b/c", "a/b/d", "a/e/c", "f/b/c", "a/b/c", "f/g/h"]


def shared(one: str, other: str) -> int:
    """Levels from the root until the two paths part, counted by hand."""
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one.split("/"), other.split("/")))))  # noqa: B905


def test_the_degree_is_the_share_of_common_levels() -> None:
    """A name counts only under the same parents: a/b and f/b are different nodes."""
    degree, known = Tree(PATHS).degrees()
    want = [[shared(one, other) / 3 for other in PATHS] for one in PATHS]
    np.testing.assert_allclose(degree.numpy(), want, atol=1e-7)
    assert known.all()


def test_texts_columns_and_frames_say_the_same() -> None:
    columns = [path.split("/") for path in PATHS]
    for given in (columns, np.array(columns), np.array(PATHS), np.array(PATHS, dtype=object)):
        assert torch.equal(Tree(given).degrees()[0], Tree(PATHS).degrees()[0])
    numbers = np.array([[0, 1], [0, 2], [3, 1]])
    for given in (numbers, torch.tensor(numbers), numbers.astype(str)):
        assert Tree(given).degrees()[0][0].tolist() == [1.0, 0.5, 0.0]
        assert Tree(given).ancestors().shape == (3, 5)
    two = Tree(torch.tensor(numbers[:1]), torch.tensor(numbers[1:]))
    assert two.degrees()[0].tolist() == [[0.5, 0.0]]
    with pytest.raises(ShapeError, match="same number of levels, got 2 and 1"):
        Tree(torch.tensor(numbers), torch.tensor(numbers[:, :1]))


def test_queries_and_database_share_their_nodes() -> None:
    two = Tree(PATHS[:2], PATHS[2:])
    assert torch.equal(two.degrees()[0], Tree(PATHS).degrees()[0][:2, 2:])
    again = Tree(PATHS).between(Tree(PATHS).queries[:2], Tree(PATHS).queries[2:])
    assert torch.equal(again.degrees()[0], two.degrees()[0])


def test_unit_vectors_can_meet_every_degree() -> None:
    tree = Tree(PATHS)
    target = tree.farthest * (1 - tree.degrees()[0])
    assert tree.attainable
    assert smallest_eigenvalue(target) > -1e-9


def test_by_default_only_a_leaf_is_positive_and_one_level_is_class_labels() -> None:
    positive, negative = Tree(PATHS).masks()
    want = torch.tensor([[one == other for other in PATHS] for one in PATHS])
    assert torch.equal(positive, want)
    assert torch.equal(negative, ~want)
    assert Tree(PATHS, positive_from=1 / 3).masks()[0][0].tolist() == [True, True, True, False, True, False]
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    flat = [path[0] for path in PATHS]
    ours = RAWLoss()(x, Tree(flat))
    assert ours.item() == pytest.approx(RAWLoss()(x, ClassLabels([0, 0, 0, 1, 0, 1])).item(), abs=1e-6)


def test_soft_levels_are_the_mean_of_the_losses_of_the_levels() -> None:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    together = ContrastiveLoss(reduction="sum")(x, Soft(Tree(PATHS), levels=3)).item()
    prefixes = [["/".join(path.split("/")[:depth]) for path in PATHS] for depth in (1, 2, 3)]
    codes = [np.unique(level, return_inverse=True)[1] for level in prefixes]
    apart = [ContrastiveLoss(reduction="sum")(x, ClassLabels(level)).item() for level in codes]
    assert together == pytest.approx(np.mean(apart), rel=1e-5)
    alignment = RelationAlignmentLoss()(x.requires_grad_(), Tree(PATHS))
    alignment.backward()
    assert torch.isfinite(x.grad).all()


def test_the_ancestors_are_label_sets_for_raml() -> None:
    sets = Tree(PATHS).ancestors()
    gap = torch.cdist(sets, sets, p=1)
    np.testing.assert_allclose(gap.numpy(), 2 * 3 * (1 - Tree(PATHS).degrees()[0].numpy()), atol=1e-5)
    assert kind_of(Tree(PATHS)) == "sets"
    X = np.random.default_rng(0).normal(size=(60, 5))
    Y = Tree(PATHS * 10).ancestors().numpy()
    assert RAMLKRR().fit(X, Y).transform(X).shape[0] == 60


@pytest.mark.parametrize(
    ("paths", "error", "words"),
    [
        (["a/b", "a"], LabelError, r"a name at every one of 2 levels, row 1 is 'a'"),
        (["a//b"], LabelError, r"row 0 is 'a//b'. Repeat the last name"),
        (np.zeros((2, 2, 2)), ShapeError, r"must hold a path for each item"),
        (np.arange(3), ShapeError, r"must hold a path for each item"),
        ([["a", "b"], ["a"]], NearerError, "labels"),
        (["a/b"], ShapeError, r"same number of levels"),
    ],
)
def test_what_is_no_tree_is_refused(paths: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Tree(paths, ["a/b/c"] if words.startswith("same") else None)


@pytest.mark.parametrize("paths", [np.zeros((3, 0)), torch.zeros(3, 0)])
def test_a_tree_of_no_levels(paths: Any) -> None:
    with pytest.raises(LabelError, match="at least one level, got none"):
        Tree(paths)
