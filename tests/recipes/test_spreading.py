"""Label spreading: planted clusters, the printed fixed point, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import LabelError, NearerError
from nearer.recipes import spread_labels


def clusters(seed: int = 0, per_class: int = 30) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = np.repeat([4, 7, 9], per_class)
    return generator.normal(size=(len(y), 3)) * 0.3 + 5 * np.eye(3)[np.repeat([0, 1, 2], per_class)], y


def test_one_label_per_cluster_is_enough() -> None:
    x, y = clusters()
    labels = np.full(len(y), -1)
    labels[[0, 30, 60]] = y[[0, 30, 60]]
    found, sure = spread_labels(x, labels)
    assert (found == y).all()
    assert ((sure >= 0) & (sure <= 1)).all()


def test_the_fixed_point_is_that_of_the_paper() -> None:
    x, y = clusters(per_class=8)
    labels = np.where(np.arange(len(y)) % 4 == 0, y, -1)
    k, alpha, n = 3, 0.8, len(x)
    distance = np.linalg.norm(x[:, None] - x[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :k]
    sigma = np.mean([distance[i, near[i, -1]] for i in range(n)])
    w = np.zeros((n, n))
    for i in range(n):
        for j in near[i]:
            w[i, j] = w[j, i] = np.exp(-(distance[i, j] ** 2) / (2 * sigma**2))
    s = w / np.sqrt(np.outer(w.sum(1), w.sum(1)))
    start = np.stack([labels == one for one in (4, 7, 9)], axis=1).astype(float)
    f = start.copy()
    for _ in range(500):  # the iteration F ← αSF + (1 − α)Y, whose limit is proportional to (I − αS)⁻¹ Y
        f = alpha * s @ f + (1 - alpha) * start
    f /= f.sum(0)
    f /= f.sum(1, keepdims=True)
    lead = np.sort(f, axis=1)
    expected = np.where(labels >= 0, 1.0, lead[:, -1] - lead[:, -2])
    found, sure = spread_labels(x, labels, neighbors=k, alpha=alpha)
    np.testing.assert_allclose(sure, expected, atol=1e-9)
    assert (found == np.where(labels >= 0, labels, np.array([4, 7, 9])[f.argmax(1)])).all()


def test_an_item_that_no_label_reaches_stays_without_one() -> None:
    x = [[0.0], [0.1], [50.0], [50.1]]
    found, sure = spread_labels(x, [2, -1, -1, -1], neighbors=1)
    assert found.tolist() == [2, 2, -1, -1]
    assert sure.tolist()[2:] == [0.0, 0.0]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_given_labels_are_kept_and_order_does_not_matter(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(25, 4))
    labels = np.where(generator.random(25) < 0.4, generator.integers(0, 3, 25), -1)
    labels[0] = 1
    found, sure = spread_labels(x, labels, neighbors=4)
    assert (found[labels >= 0] == labels[labels >= 0]).all()
    order = generator.permutation(25)
    again, _ = spread_labels(x[order], labels[order], neighbors=4)
    certain = sure[order] > 1e-9
    assert (again == found[order])[certain].all()


@pytest.mark.parametrize("convert", [np.float16, np.float64, lambda a: torch.tensor(a), lambda a: a[:, ::-1]])
def test_other_containers_and_the_caller_keeps_its_data(convert: Any) -> None:
    x, y = clusters(per_class=10)
    x = convert(x) if not isinstance(convert, type) else x.astype(convert)
    labels = np.where(np.arange(len(y)) % 5 == 0, y, -1)
    labels.flags.writeable = False
    before = np.asarray(x).copy()
    found, _ = spread_labels(x, labels, neighbors=3)
    assert (found == y).all()
    assert np.array_equal(np.asarray(x), before)


def test_equal_items_do_not_divide_by_zero() -> None:
    found, sure = spread_labels(np.ones((6, 2)), [0, -1, -1, -1, -1, -1], neighbors=2)
    assert set(found.tolist()) <= {0, -1}
    assert np.isfinite(sure).all()


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        (np.zeros((0, 2)), [], {}, "at least 2 rows"),
        ([[0.0], [np.nan], [1.0]], [0, -1, 1], {"neighbors": 1}, "must be finite"),
        ([[0.0], [1.0], [2.0]], [0, -1], {"neighbors": 1}, "one entry for each of the 3 rows"),
        ([0.0, 1.0], [0, -1], {"neighbors": 1}, r"must have shape \(n, d\)"),
        ([[0.0], [1.0]], [0, -1], {"neighbors": 2}, "between 1 and 1"),
        ([[0.0], [1.0]], [0, -1], {"neighbors": 1, "alpha": 1.0}, "`alpha` must be below 1"),
        ([[0.0], [1.0]], [0, -1], {"neighbors": 1, "alpha": 0.0}, "greater than 0"),
    ],
)
def test_bad_input(features: Any, labels: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(NearerError, match=message):
        spread_labels(features, labels, **options)


def test_without_any_label_there_is_nothing_to_spread() -> None:
    with pytest.raises(LabelError, match="at least one item, got only -1"):
        spread_labels([[0.0], [1.0]], [-1, -1], neighbors=1)
