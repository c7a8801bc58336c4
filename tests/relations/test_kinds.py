"""One word for what labels are: found once, kept with the data, and the same for plain labels and relations."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch

from nearer.datasets import Dataset, Split
from nearer.datasets._dataset import Source
from nearer.estimators import RAMLKRR
from nearer.exceptions import NearerError
from nearer.relations import (
    ClassLabels,
    LabelDistributions,
    MultiLabels,
    Numbers,
    Pairs,
    PartialLabels,
    Relation,
    Soft,
    Triplets,
    kind_of,
)
from nearer.relations._kinds import relation_of
from nearer.relations._shared import Kind


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([0, 1, 1], "classes"),
        (["cat", "dog"], "classes"),
        ([1.0, 2.0], "classes"),
        ([-1, 1, 1, -1], "classes"),
        ([], "classes"),
        ([0, -1, 1], "partial"),
        (torch.tensor([3, -1]), "partial"),
        ([-1, -1], "classes"),
        ([0.5, -1.0], "numbers"),
        ([[1, 0], [0, 0]], "sets"),
        (np.array([[True, False]]), "sets"),
        ([[0.25, 0.75]], "distributions"),
        (ClassLabels([0, 1]), "classes"),
        (PartialLabels([0, -1]), "partial"),
        (MultiLabels([[0, 1]]), "sets"),
        (Soft(MultiLabels([[0, 1]])), "sets"),
        (LabelDistributions([[0.5, 0.5]]), "distributions"),
        (Numbers([0.5, 2.0]), "numbers"),
    ],
)
def test_the_word_for_labels(labels: Any, kind: Kind) -> None:
    assert kind_of(labels) == kind
    assert kind in get_args(Kind)


def test_every_relation_has_a_kind() -> None:
    pairs: list[Relation] = [Pairs(3, positive=[[0, 1]], negative=[[0, 2]]), Triplets(3, [[0, 1, 2]])]
    assert [kind_of(each) for each in pairs] == ["pairs", "pairs"]


def test_partial_labels_become_their_relation_and_are_no_table_for_alignment() -> None:
    assert isinstance(relation_of([0, -1, 1]), PartialLabels)
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(NearerError, match="2 rows with -1"):
        RAMLKRR().fit(X, [0, 0, 1, 1, -1, -1])
    assert RAMLKRR(kind="classes").fit(X, [0, 0, 1, 1, -1, -1]).classes_.tolist() == [-1, 0, 1]


def test_data_keeps_its_kind() -> None:
    part = Split(np.eye(4), np.array([0, 1, -1, 0]))
    assert part.kind == "partial"
    # Rows that happen to be labelled are still part of data that is not.
    assert part.take([0, 1]).kind == "partial"
    data = Dataset(Source("a", "A", "-", "-", "-"), {"train": part.take([0, 2]), "test": part.take([1, 3])})
    assert data.kind == data.all.kind == "partial"
    assert "not all labelled" in repr(data)
    assert Split(np.eye(2), np.array([[0, 1], [1, 1]], dtype=np.uint8)).kind == "sets"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([[0.5, 0.2]]), "`y` must hold 0 and 1 only .*row 0 has the sum 0.7"),
        (np.array([["a", "b"]]), "`y` must hold numbers"),
        (np.array([np.nan]), "`y` must not hold NaN"),
        (np.zeros((1, 1, 1)), "shape"),
    ],
)
def test_labels_that_are_nothing_are_refused_with_the_data(labels: Any, message: str) -> None:
    with pytest.raises(NearerError, match=message):
        Split(np.zeros((1, 2)), labels)
    with pytest.raises(NearerError, match="got 'pairs'"):
        relation_of([0, 1], kind="pairs")
    with pytest.raises(NearerError, match="at least one row"):
        relation_of([])
