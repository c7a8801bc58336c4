"""What must hold for every relation: tiles agree with the whole, masks never overlap, bad input is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.relations import ClassLabels, LabelDistributions, MultiLabels, Pairs, PartialLabels, Relation, Triplets
from nearer.relations._relate import relate

_generator = torch.Generator().manual_seed(0)
_shares = torch.rand(7, 4, generator=_generator)
RELATIONS: dict[str, Relation] = {
    "classes": ClassLabels([0, 1, 0, 2, 5, 5, -3]),
    "partial": PartialLabels([0, -1, 0, 2, -1, 2, 2]),
    "sets": MultiLabels([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]),
    "distributions": LabelDistributions(_shares / _shares.sum(1, keepdim=True)),
    "pairs": Pairs(7, positive=[[0, 1], [2, 5]], negative=[[3, 4], [0, 6]]),
    "triplets": Triplets(7, [[0, 1, 2], [3, 4, 5]]),
    "two sets": ClassLabels([0, 1, 2, 2], [2, 2, 0]),
    "pairs of two sets": Pairs(4, 3, positive=[[0, 2]], negative=[[3, 1]]),
}


@pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS.keys())
def test_tiles_agree_with_the_whole(relation: Relation) -> None:
    q, n = relation.n_queries, relation.n_database
    degree, known = relation.degrees()
    positive, negative = relation.masks()
    assert degree.shape == known.shape == positive.shape == negative.shape == (q, n)
    assert ((degree >= 0) & (degree <= 1)).all()
    assert not (positive & negative).any()
    assert not ((positive | negative) & ~known).any()
    for rows in (slice(0, 2), slice(1, q), torch.tensor([2, 0])):
        for columns in (slice(1, 3), torch.tensor([2, 1])):
            for whole, part in zip(
                (degree, known, positive, negative),
                (*relation.degrees(rows, columns), *relation.masks(rows, columns)),
                strict=True,
            ):
                assert torch.equal(part, whole[rows][:, columns])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 3), min_size=1, max_size=9))
def test_partial_labels_know_exactly_the_labeled_pairs(labels: list[int]) -> None:
    positive, negative = PartialLabels(labels).masks()
    for i, a in enumerate(labels):
        for j, b in enumerate(labels):
            known = a != -1 and b != -1
            assert bool(positive[i, j]) == (known and a == b)
            assert bool(negative[i, j]) == (known and a != b)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.integers(0, 4))
def test_listed_pairs_are_found_again(pairs: list[tuple[int, int]], start: int) -> None:
    relation = Pairs(6, positive=[list(pair) for pair in pairs])
    positive, negative = relation.masks(slice(start, 6))
    expected = torch.zeros(6, 6, dtype=torch.bool)
    for i, j in pairs:
        expected[i, j] = expected[j, i] = True
    assert torch.equal(positive, expected[start:])
    assert not negative.any()


def test_jaccard_and_intersection_by_hand() -> None:
    assert MultiLabels([[1, 1, 0], [1, 0, 0]]).degrees()[0][0, 1] == 0.5
    assert MultiLabels([[0, 0], [0, 0]]).degrees()[0][0, 1] == 1
    torch.testing.assert_close(
        LabelDistributions([[0.2, 0.8], [0.5, 0.5]]).degrees()[0][0, 1], torch.tensor(0.7, dtype=torch.float64)
    )
    assert MultiLabels([[1, 1, 0], [1, 0, 0]], positive_from=0.6).masks()[1][0, 1]


def test_relate_makes_the_right_relation() -> None:
    assert type(relate(np.array([0, 1], dtype=np.uint8), n=2)) is ClassLabels
    two = relate(PartialLabels([0, -1]), PartialLabels([0, 1, -1]), n=2, n_database=3)
    assert isinstance(two, PartialLabels)
    assert two.masks()[0].int().tolist() == [[1, 0, 0], [0, 0, 0]]
    same = relate(MultiLabels([[1, 0]]), torch.tensor([[1.0, 1.0]]), n=1, n_database=1)
    assert same.degrees()[0].item() == 0.5


BAD: list[tuple[Any, str]] = [
    (lambda: ClassLabels(["a", "b"]), "encode_labels"),
    (lambda: ClassLabels([0.5, 1.0]), "whole numbers"),
    (lambda: MultiLabels([0, 1]), r"0/1 matrix of shape"),
    (lambda: MultiLabels([[0, 2]]), "only 0 and 1"),
    (lambda: MultiLabels([[0, 1]], [[0, 1, 1]]), "same number of labels"),
    (lambda: LabelDistributions([[0.5, 0.2]]), "sum to 1"),
    (lambda: LabelDistributions([[1.5, -0.5]]), "non-negative"),
    (lambda: Pairs(3, positive=[[0, 3]]), r"column 1 of `positive` must lie in 0..2, got 3..3"),
    (lambda: Pairs(3, positive=[[0, 1]], negative=[[1, 0]]), "as positive and as negative"),
    (lambda: Pairs(3, positive=[[0, 1, 2]]), r"shape \(m, 2\)"),
    (lambda: Pairs(3, 4, positive=[[0, 1]], both_ways=True), "different sets"),
    (lambda: Triplets(3, [[0, 1]]), r"shape \(m, 3\)"),
    (lambda: relate([0, 1], n=3), "one entry for each of the 3 rows, got 2"),
    (lambda: relate([0, 1], [0], n=2, n_database=2), "`database_labels` must have one entry"),
    (lambda: relate(Pairs(2), [0, 1], n=2, n_database=2), "already names its database"),
    (lambda: relate(PartialLabels([0]), MultiLabels([[1]]), n=1, n_database=1), "one kind of labels"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises((LabelError, ParameterError, ShapeError), match=message):
        make()
