"""The map between two embedding spaces: ridge regression, a planted rotation, and the neighbors it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import ortho_group
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from nearer.estimators import Alignment
from nearer.exceptions import ParameterError, ShapeError
from nearer.neighbors import search


def spaces(n: int, *, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same items in a space of 12 dimensions and turned, with noise, in one of 8; rows of length one."""
    random = np.random.default_rng(seed)
    Y = random.normal(size=(n, 8))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    turn = ortho_group.rvs(12, random_state=1)[:8]
    return Y @ turn + noise * random.normal(size=(n, 12)), Y


def test_a_given_strength_is_the_ridge_regression_of_scikit_learn() -> None:
    X, Y = spaces(80, noise=0.1)
    Y = 3 * Y + 1  # of no common length, so that nothing is brought to length one
    ours = Alignment(0.5, width=0, random_state=0).fit(X, Y)
    unit = np.square(X - X.mean(axis=0)).sum() / X.shape[1]
    theirs = Ridge(alpha=0.5 * unit).fit(X, Y)
    np.testing.assert_allclose(ours.coefficients_.T, theirs.coef_, atol=1e-10)
    np.testing.assert_allclose(ours.transform(X), theirs.predict(X), atol=1e-10)


def test_a_given_width_is_the_kernel_ridge_of_scikit_learn() -> None:
    X, Y = spaces(80, noise=0.1)
    Y = 3 * Y + 1
    ours = Alignment(0.2, width=1.5, random_state=0).fit(X, Y)
    gamma = 1.5 / (2 * np.square(X - X.mean(axis=0)).sum() / len(X))
    theirs = KernelRidge(alpha=0.2, kernel="rbf", gamma=gamma).fit(X, Y - Y.mean(axis=0))
    np.testing.assert_allclose(ours.transform(X[:9] + 0.1), theirs.predict(X[:9] + 0.1) + Y.mean(axis=0), atol=1e-9)


def test_a_bent_space_takes_a_kernel_and_a_straight_one_does_not() -> None:
    random = np.random.default_rng(0)
    hidden = random.uniform(-2, 2, size=(300, 2))
    bent = np.c_[np.sin(2 * hidden), np.cos(2 * hidden), hidden.prod(axis=1)]
    alignment = Alignment(random_state=0).fit(hidden, bent)
    assert alignment.width_ > 0
    best_straight = min(error for (width, _), error in alignment.errors_.items() if width == 0)
    assert alignment.errors_[alignment.width_, alignment.strength_] < 0.5 * best_straight
    assert alignment.kept_ > Alignment(width=0, random_state=0).fit(hidden, bent).kept_ + 0.1
    assert Alignment(random_state=0).fit(*spaces(300, noise=0.02)).width_ == 0


def test_a_planted_rotation_keeps_the_neighbors_of_new_items() -> None:
    X, Y = spaces(400, noise=0.02)
    alignment = Alignment(random_state=0).fit(X[:200], Y[:200])
    rows = alignment.transform(X[200:])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    own = np.arange(200)
    wanted = search(Y[200:], None, 10).indices.numpy()
    found = search(Y[200:], rows, 10, own=own).indices.numpy()
    kept = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(wanted, found, strict=True)])
    # Folds of 40 are searched among themselves: fewer items, neighbors farther apart, easier to keep.
    assert kept > 0.75
    assert abs(alignment.kept_ - kept) < 0.15
    assert alignment.errors_[alignment.width_, alignment.strength_] == min(alignment.errors_.values())


def test_what_it_keeps_is_counted_on_items_that_did_not_teach_it() -> None:
    """Between spaces that have nothing in common a map fits what it saw and keeps what chance keeps."""
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(150, 60)), random.normal(size=(150, 60))
    alignment = Alignment(random_state=0).fit(X, Y)
    chance = 10 / 29  # ten of the other items of a fold
    assert abs(alignment.kept_ - chance) < 0.06
    assert abs(alignment.before_ - chance) < 0.06


def test_the_errors_are_those_of_rows_that_did_not_teach_the_map() -> None:
    """The folds by hand, with the ridge regression of scikit-learn."""
    X, Y = spaces(100, noise=0.1)
    Y = 3 * Y + 1
    alignment = Alignment(0.5, width=0, random_state=7).fit(X, Y)
    order = np.random.RandomState(7).permutation(100)
    missed = []
    for fold in np.array_split(order, 5):
        rest = np.setdiff1d(order, fold)
        unit = np.square(X[rest] - X[rest].mean(axis=0)).sum() / X.shape[1]
        rows = Ridge(alpha=0.5 * unit).fit(X[rest], Y[rest]).predict(X[fold])
        missed.append(np.square(rows - Y[fold]).sum(axis=1))
    assert alignment.errors_ == {(0.0, 0.5): pytest.approx(np.concatenate(missed).mean(), rel=1e-9)}


def test_the_whitened_space_is_the_printed_one() -> None:
    X, Y = spaces(150, noise=0.1)
    Y = Y * [9, 1, 1, 1, 1, 1, 1, 1] + 4
    alignment = Alignment(whiten=True, random_state=0).fit(X, Y)
    covariance = (Y - Y.mean(axis=0)).T @ (Y - Y.mean(axis=0)) / len(Y)
    root = linalg.inv(linalg.sqrtm(covariance + np.trace(covariance) / 8 * np.eye(8)))
    want = (Y - Y.mean(axis=0)) @ root
    want /= np.linalg.norm(want, axis=1, keepdims=True)
    np.testing.assert_allclose(alignment.transform_target(Y), want, atol=1e-9)
    plain = Alignment(alignment.strength_, width=alignment.width_, random_state=0).fit(X, want)
    np.testing.assert_allclose(alignment.transform(X), plain.transform(X), atol=1e-9)
    assert alignment.transform_target(Y[:3].astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(Alignment(random_state=0).fit(X, Y).transform_target(Y), Y)
    with pytest.raises(ShapeError, match="`Y` must have 8 columns, got 12"):
        alignment.transform_target(X)


def test_few_items_say_nothing_of_neighbors() -> None:
    X, Y = spaces(12, noise=0.0)
    few = Alignment(random_state=0).fit(X, Y)
    assert np.isnan([few.kept_, few.before_, few.kept_error_]).all()
    assert few.transform(X).shape == (12, 8)


def test_float32_stays_float32_and_a_constant_space_is_harmless() -> None:
    X, Y = spaces(60, noise=0.1)
    assert (
        Alignment(random_state=0).fit(X.astype(np.float32), Y).transform(X.astype(np.float32)).dtype == np.float32
    )
    flat = Alignment(random_state=0).fit(np.ones((60, 3)), Y)
    middle = Y.mean(axis=0) / np.linalg.norm(Y.mean(axis=0))
    np.testing.assert_allclose(flat.transform(np.ones((2, 3))), [middle, middle], atol=1e-12)


def test_the_strength_must_be_positive() -> None:
    X, Y = spaces(30, noise=0.1)
    with pytest.raises(ParameterError, match="`strength` must be greater than 0"):
        Alignment(0.0).fit(X, Y)
