"""Splits: nothing lost, nothing twice, classes apart or in proportion, the same seed the same answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearer.datasets import class_disjoint_split, few_labels, stratified_split
from nearer.exceptions import LabelError, NearerError, ParameterError, ShapeError

LABELS = st.lists(st.integers(0, 6), min_size=4, max_size=60).filter(lambda y: len(set(y)) > 1)


@given(LABELS, st.none() | st.integers(0, 5))
def test_class_disjoint(labels: list[int], seed: int | None) -> None:
    y = np.array(labels)
    train, test = class_disjoint_split(y, seed=seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert not set(y[train]) & set(y[test])
    assert len(set(y[train])) == len(set(y)) // 2
    if seed is None:
        assert y[train].max() < y[test].min()
    again = class_disjoint_split(y, seed=seed)
    assert np.array_equal(train, again[0])


def test_class_disjoint_by_name_number_and_seed() -> None:
    y = [0, 1, 2, 3] * 2
    assert class_disjoint_split(y, train_classes=3)[1].tolist() == [3, 7]
    assert class_disjoint_split(y, train_classes=[3, 1])[0].tolist() == [1, 3, 5, 7]
    picked = {tuple(class_disjoint_split(y, seed=seed)[0]) for seed in range(20)}
    assert len(picked) > 1


@given(LABELS, st.floats(0.05, 0.95), st.integers(0, 3))
def test_stratified(labels: list[int], share: float, seed: int) -> None:
    y = np.array(labels)
    sizes = np.bincount(y)
    total = round(share * len(y))
    room = int(np.maximum(sizes - 1, 0).sum())
    if not 1 <= total <= room:
        with pytest.raises(ParameterError, match="must leave a row of each class"):
            stratified_split(y, test=share, seed=seed)
        return
    train, test = stratified_split(y, test=share, seed=seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert len(test) == total
    assert set(y[train]) == set(y)
    held_out = np.bincount(y[test], minlength=len(sizes))
    if total >= (sizes > 1).sum():
        assert (held_out[sizes > 1] >= 1).all()
    assert np.array_equal(test, stratified_split(y, test=share, seed=seed)[1])


def test_a_small_class_keeps_its_row_where_a_large_one_can_give() -> None:
    y = np.repeat([0, 1, 2, 3], [2, 2, 6, 2])
    assert np.bincount(y[stratified_split(y, test=4)[1]]).tolist() == [1, 1, 1, 1]


def test_stratified_keeps_proportions() -> None:
    y = np.repeat([0, 1, 2], [600, 300, 100])
    _, test = stratified_split(y, test=0.25)
    assert np.bincount(y[test]).tolist() == [150, 75, 25]
    _, test = stratified_split(y, test=10)
    assert np.bincount(y[test]).tolist() == [6, 3, 1]
    picks = {tuple(stratified_split(y, test=10, seed=seed)[1]) for seed in range(5)}
    assert len(picks) == 5


def test_stratified_leaves_unlabeled_rows_in_training() -> None:
    y = np.array([-1, 0, 0, -1, 1, 1])
    train, test = stratified_split(y, test=2)
    assert {0, 3} <= set(train)
    assert set(y[test]) == {0, 1}


@given(LABELS, st.integers(1, 3), st.integers(0, 3))
def test_few_labels(labels: list[int], per_class: int, seed: int) -> None:
    y = np.array(labels)
    if np.unique(y, return_counts=True)[1].min() < per_class:
        with pytest.raises(LabelError, match="`per_class` must be at most the size of every class"):
            few_labels(y, per_class=per_class, seed=seed)
        return
    kept = few_labels(y, per_class=per_class, seed=seed)
    known = kept >= 0
    assert np.array_equal(kept[known], y[known])
    assert np.unique(kept[known], return_counts=True)[1].tolist() == [per_class] * len(set(labels))
    assert y.tolist() == labels
    assert np.array_equal(kept, few_labels(y, per_class=per_class, seed=seed))


def test_few_labels_every_row_is_as_likely() -> None:
    y = np.zeros(10, dtype=int)
    times = sum((few_labels(y, per_class=2, seed=seed) >= 0).astype(int) for seed in range(500))
    assert times.min() > 70
    assert times.max() < 130


def test_few_labels_of_labels_that_are_already_few() -> None:
    kept = few_labels([-1, 4, 4, -1, 9], per_class=1)
    assert kept[0] == kept[3] == -1
    assert kept[4] == 9


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float16, np.float64])
def test_label_types(kind: type) -> None:
    y = np.array([0, 1, 0, 1], dtype=kind)
    y.flags.writeable = False
    for view in (y, y[::-1][::-1], y.reshape(4, 1), torch.tensor([0, 1, 0, 1]), [0, 1, 0, 1]):
        assert class_disjoint_split(view)[0].tolist() == [0, 2]
        assert len(stratified_split(view, test=2)[1]) == 2
        assert few_labels(view, per_class=1).dtype == np.int64


BAD_LABELS = [
    ([], ShapeError, "must not be empty"),
    ([[0, 1], [1, 0]], ShapeError, r"must have shape \(n,\)"),
    (["a", "b"], LabelError, "must be integers"),
    ([0.5, 1], LabelError, "whole numbers"),
    ([np.nan, 1], LabelError, "whole numbers"),
    ([-2, 0, 1], LabelError, "at least 0, or -1"),
]


@pytest.mark.parametrize(("labels", "error", "message"), BAD_LABELS)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_bad_labels(labels: object, error: type[NearerError], message: str) -> None:
    for call in (class_disjoint_split, stratified_split, lambda y: few_labels(y, per_class=1)):
        with pytest.raises(error, match=message):
            call(labels)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"train_classes": 3}, ParameterError, "`train_classes` must be between 1 and 2, got 3"),
        ({"train_classes": 0}, ParameterError, "`train_classes` must be between 1 and 2"),
        ({"train_classes": [5]}, LabelError, r"must occur in `labels`, and \[5\] do not"),
        ({"train_classes": []}, LabelError, "leave classes on both sides, got 0 of 3"),
        ({"train_classes": [0, 1, 2]}, LabelError, "leave classes on both sides, got 3 of 3"),
        ({"train_classes": [0], "seed": 1}, ParameterError, "`seed` must be left out"),
        ({"seed": -1}, ParameterError, "`seed` must be at least 0"),
        ({"train_classes": True}, ParameterError, "`train_classes` must be an integer"),
    ],
)
def test_class_disjoint_refuses(settings: dict[str, object], error: type[NearerError], message: str) -> None:
    with pytest.raises(error, match=message):
        class_disjoint_split([0, 1, 2, 0], **settings)  # type: ignore[arg-type]


def test_class_disjoint_needs_classes_and_labels() -> None:
    with pytest.raises(LabelError, match="at least two classes"):
        class_disjoint_split([1, 1, 1])
    with pytest.raises(LabelError, match=r"every row a class, got 1 rows without \(-1\)"):
        class_disjoint_split([-1, 0, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": 0.0}, "`test` must be greater than 0"),
        ({"test": 1.0}, "`test` as a share must be below 1"),
        ({"test": float("nan")}, "`test` must be finite"),
        ({"test": 0}, "`test` must be at least 1"),
        ({"test": 5}, "between 1 and 4 of the 6 labelled rows, got 5"),
        ({"test": "a"}, "`test` must be an integer"),
        ({"test": 0.01}, "between 1 and 4 of the 6 labelled rows, got 0"),
        ({"seed": 1.5}, "`seed` must be an integer"),
    ],
)
def test_stratified_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        stratified_split([0, 0, 0, 1, 1, 1], **settings)  # type: ignore[arg-type]


def test_one_class_and_no_class() -> None:
    assert len(stratified_split([3, 3, 3], test=1)[1]) == 1
    with pytest.raises(ParameterError, match="between 1 and 0 of the 0 labelled rows"):
        stratified_split([-1, -1], test=1)
    with pytest.raises(LabelError, match="only rows without a label"):
        few_labels([-1, -1], per_class=1)
    with pytest.raises(ParameterError, match="`per_class` must be at least 1"):
        few_labels([0, 1], per_class=0)


def test_many_classes_are_quick() -> None:
    y = np.random.default_rng(0).integers(0, 20_000, 100_000)
    train, test = stratified_split(y, test=0.2)
    assert len(test) == round(0.2 * len(y))
    assert len(train) + len(test) == len(y)
