"""NCA and LMNN in mini-batches: gradients, the start, the draws, what is learned, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.neighbors import KNeighborsRegressor

from nearer import estimators as E
from nearer.estimators.linear._in_batches import _batches, steps_for, whitened_start
from nearer.estimators.linear._nca import batch_loss, nca_loss_and_gradient
from nearer.estimators.neighbors._near import nearest_misses
from nearer.exceptions import LabelError, ParameterError
from nearer.neighbors import search

LEARNERS = [E.NCA, E.LMNN]


def planted(n: int, classes: int = 4, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that differ in three of twelve columns; the other nine are noise, five times as wide."""
    chance = np.random.default_rng(seed)
    centers = 3 * np.random.default_rng(50).normal(size=(classes, 3))
    y = chance.integers(0, classes, n)
    x = np.concatenate([centers[y] + chance.normal(size=(n, 3)), 5 * chance.normal(size=(n, 9))], axis=1)
    return x.astype(np.float32), y


def accuracy(view: Any, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> float:
    near = search(view(test[0]), view(train[0]), k=1).indices[:, 0].numpy()
    return float(np.mean(train[1][near] == test[1]))


def by_hand(A: torch.Tensor, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """−(1/b)·Σ_i p_i, as the formula is written."""
    z = X @ A.T
    distance = (z[:, None] - z[None]).square().sum(dim=2)
    distance = distance.masked_fill(torch.eye(len(X), dtype=torch.bool), torch.inf)
    p = torch.softmax(-distance, dim=1)
    return -(p * (y[:, None] == y)).sum() / len(X)


@pytest.mark.parametrize("classes", [2, 5, 30])
def test_the_loss_of_a_batch_is_the_formula_and_so_is_its_gradient(classes: int) -> None:
    chance = np.random.default_rng(classes)
    X, y = chance.normal(size=(30, 6)), np.arange(30) % classes
    A = 0.7 * chance.normal(size=(4, 6))
    leaf = torch.from_numpy(A).requires_grad_()
    loss = by_hand(leaf, torch.from_numpy(X), torch.from_numpy(y))
    loss.backward()
    value, gradient = batch_loss(A, X, y)
    assert value == pytest.approx(float(loss.detach()), abs=1e-5)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), atol=1e-5)
    order = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    whole, slope = nca_loss_and_gradient(A, X[order], starts)
    assert value == pytest.approx(whole / 30, abs=1e-5)
    np.testing.assert_allclose(gradient, slope / 30, atol=1e-5)


def test_a_batch_whose_rows_are_far_apart_or_alone_gives_numbers() -> None:
    X = 1e4 * np.eye(5)
    value, gradient = batch_loss(np.eye(5), X, np.arange(5))
    assert value == 0
    assert not gradient.any()
    value, gradient = batch_loss(np.eye(5), X, np.zeros(5, dtype=int))
    assert value == pytest.approx(-1)
    assert np.isfinite(gradient).all()


def test_the_start_whitens_what_varies_inside_classes_and_has_a_scale() -> None:
    X, y = planted(3000)
    A = whitened_start(X, y, 12, np.random.RandomState(0))
    z = X @ A.T
    nearest = search(z[:1500], k=1).distances.numpy()[:, 0]
    assert 0.5 < np.median(nearest) ** 2 < 2
    # The wide columns are made smaller than those that tell classes apart.
    weight = np.square(A).sum(axis=0)
    assert weight[:3].min() > 2 * weight[3:].max()
    assert whitened_start(X, y, 2, np.random.RandomState(0)).shape == (2, 12)
    alike = np.zeros((50, 3), dtype=np.float32)
    assert np.isfinite(whitened_start(alike, np.arange(50) % 2, 3, np.random.RandomState(0))).all()


def test_every_row_comes_once_before_any_comes_twice() -> None:
    codes = np.arange(1000) % 5
    draws = _batches(codes, 100, np.random.RandomState(0))
    seen = Counter(int(row) for _ in range(10) for row in next(draws))
    assert len(seen) == 1000
    assert set(seen.values()) == {1}


def test_of_many_classes_some_are_drawn_and_several_rows_of_each() -> None:
    codes = np.concatenate([np.repeat(np.arange(300), 6), np.arange(300, 320)])
    draws = _batches(codes, 64, np.random.RandomState(0))
    chosen: set[int] = set()
    for _ in range(300 // 16 + 1):
        rows = next(draws)
        assert len(rows) <= 64
        assert len(set(rows.tolist())) == len(rows)
        counts = Counter(codes[rows].tolist())
        # Nobody is alone in a batch, so every row has a friend to be pulled to.
        assert min(counts.values()) >= 2
        assert len(counts) >= 2
        chosen |= set(counts)
    # Every class before any comes again, but for the end of a round; classes of one row are left out.
    assert len(chosen) >= 288
    assert max(chosen) < 300


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_is_planted_is_found(learner: Any) -> None:
    train, test = planted(1500), planted(400, seed=1)
    model = learner(batch_size=128, random_state=0).fit(*train)
    raw = accuracy(lambda rows: rows, train, test)
    assert accuracy(model.transform, train, test) > max(0.9, raw + 0.2)
    M = np.abs(model.mahalanobis_matrix())
    assert M[:3, :3].diagonal().min() > 3 * M[3:, 3:].diagonal().max()
    assert model.n_iter_ == steps_for(1500, 128) == 300
    assert model.converged_
    assert model.components_.dtype == np.float32


@pytest.mark.parametrize("learner", LEARNERS)
def test_many_classes_are_learned_class_by_class(learner: Any) -> None:
    train, test = planted(1600, classes=80), planted(400, classes=80, seed=1)
    model = learner(batch_size=128, random_state=0).fit(*train)
    assert accuracy(model.transform, train, test) > accuracy(lambda rows: rows, train, test) + 0.15


def test_a_batch_form_is_about_as_good_as_all_rows() -> None:
    train, test = planted(1000), planted(600, seed=1)
    for learner in LEARNERS:
        whole = accuracy(learner(random_state=0, max_iter=200).fit(*train).transform, train, test)
        parts = accuracy(learner(batch_size=128, random_state=0).fit(*train).transform, train, test)
        assert parts > whole - 0.03


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_batch_that_holds_all_rows_is_the_full_fit(learner: Any) -> None:
    X, y = planted(120)
    full = learner(random_state=0).fit(X, y)
    for size in (120, 5000):
        again = learner(batch_size=size, random_state=0).fit(X, y)
        np.testing.assert_array_equal(again.components_, full.components_)
    assert learner(batch_size=64, random_state=0).fit(X, y).n_iter_ == 300


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_seed_settles_everything_and_the_input_stays(learner: Any) -> None:
    X, y = planted(300)
    kept = X.copy()
    first, again, other = (learner(batch_size=64, random_state=s).fit(X, y).components_ for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_shift_changes_nothing_and_few_dimensions_can_be_asked_for(learner: Any) -> None:
    X, y = planted(300)
    model = learner(2, batch_size=64, random_state=0)
    near = model.fit(X, y).components_
    assert near.shape == (2, 12)
    far = model.fit(X.astype(np.float64) + 100, y).components_
    np.testing.assert_allclose(far, near, rtol=0.05, atol=0.02 * np.abs(near).max())


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_a_batch_cannot_be(learner: Any) -> None:
    X, y = planted(200)
    with pytest.raises(ParameterError, match="batch_size"):
        learner(batch_size=64).fit(sparse.csr_matrix(X), y)
    for size in (0, 8, -1, 1.5):
        with pytest.raises(ParameterError, match="batch_size"):
            learner(batch_size=size).fit(X, y)
    with pytest.raises(LabelError, match="two classes"):
        learner(batch_size=64).fit(X, np.zeros(200, dtype=int))


@pytest.mark.parametrize("classes", [2, 7, 60])
def test_misses_of_many_classes_sought_at_once_are_the_same(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # LDML and others draw pairs for every class: copies of all other rows took over a minute at 1,000.
    chance = np.random.default_rng(classes)
    X = np.concatenate([chance.normal(size=(150, 4)), chance.integers(0, 2, size=(50, 4))])  # the end has twins
    codes, rows = chance.integers(0, classes, 200), np.sort(chance.permutation(200)[:90])
    expected = nearest_misses(X, codes, 3, rows)
    monkeypatch.setattr("nearer.estimators.neighbors._near.AT_ONCE_FROM", 0)
    monkeypatch.setattr("nearer.estimators.neighbors._near._WIDE", 64)
    monkeypatch.setattr("nearer.estimators.neighbors._near._TALL", 32)
    found = nearest_misses(X, codes, 3, rows)
    assert found.shape == expected.shape

    def distances(places: np.ndarray) -> np.ndarray:
        return np.square(X[rows][:, None] - X[places]).sum(axis=2)

    np.testing.assert_allclose(distances(found), distances(expected), atol=1e-12)
    assert (codes[found] != codes[rows][:, None]).all()
    alike = np.all(np.diff(distances(expected), axis=1) > 1e-9, axis=1) & (rows < 150)
    np.testing.assert_array_equal(found[alike][:, :2], expected[alike][:, :2])
    few = nearest_misses(X[:6], np.array([0, 0, 0, 0, 0, 1]), 3)
    assert few[0].tolist() == [5, -1, -1]


def test_numbers_are_learned_in_batches_as_well_as_from_all_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 12)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=2500)

    def explained(model: E.MLKR | None) -> float:
        z = X if model is None else model.transform(X)
        return float(KNeighborsRegressor(5).fit(z[:2000], y[:2000]).score(z[2000:], y[2000:]))

    batches = E.MLKR(batch_size=512, random_state=0).fit(X[:2000], y[:2000])
    whole = E.MLKR(random_state=0, max_iter=200).fit(X[:2000], y[:2000])
    assert explained(batches) > explained(whole) - 0.02 > explained(None) + 0.3
    assert batches.n_iter_ == 300
    assert batches.converged_
    again = E.MLKR(batch_size=512, random_state=0).fit(X[:2000], y[:2000])
    assert np.array_equal(batches.components_, again.components_)
    with pytest.raises(ParameterError, match="batch_size"):
        E.MLKR(batch_size=64).fit(sparse.csr_matrix(X), y)
