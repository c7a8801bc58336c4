"""Scatters and sampling against loops over the pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearer.estimators import _sampling as sampling
from nearer.estimators._scatter import label_scatters, pair_scatters
from nearer.estimators.neighbors._near import nearest_hits, nearest_misses, nearest_rows
from nearer.exceptions import LabelError


def by_loop(X: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    sums = [np.zeros((X.shape[1],) * 2), np.zeros((X.shape[1],) * 2)]
    counts = [0, 0]
    for i in range(len(X)):
        for j in range(i):
            kind = int(codes[i] != codes[j])
            sums[kind] += np.outer(X[i] - X[j], X[i] - X[j])
            counts[kind] += 1
    return sums[0], sums[1], counts[0], counts[1]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 20), st.integers(1, 4), st.integers(1, 4))
def test_label_scatters_equal_the_loop_over_pairs(seed: int, n: int, p: int, c: int) -> None:
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, p)) + 100
    _, codes = np.unique(rng.randint(c, size=n), return_inverse=True)
    expected = by_loop(X, codes)
    for rows in (X, sparse.csr_matrix(X)):
        found = label_scatters(rows, codes)
        np.testing.assert_allclose(found.similar, expected[0], atol=1e-6)
        np.testing.assert_allclose(found.dissimilar, expected[1], atol=1e-6)
        assert found[2:] == expected[2:]
    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    listed = pair_scatters(X, pairs, codes[pairs[:, 0]] == codes[pairs[:, 1]])
    np.testing.assert_allclose(listed.similar, expected[0], atol=1e-8)
    np.testing.assert_allclose(listed.dissimilar, expected[1], atol=1e-8)


def test_every_class_is_drawn_and_no_row_meets_itself() -> None:
    codes = np.repeat([0, 1, 2], [2, 5, 9])
    rng = np.random.RandomState(0)
    pairs, similar = sampling.random_pairs(codes, 4000, rng)
    assert similar.sum() == 2000
    assert (pairs[:, 0] != pairs[:, 1]).all()
    np.testing.assert_array_equal(codes[pairs[:, 0]] == codes[pairs[:, 1]], similar)
    assert set(pairs[similar].ravel()) == set(range(16))
    assert set(pairs[~similar].ravel()) == set(range(16))
    # Row 2 is one of five rows of class 1 and meets the four others.
    assert set(pairs[similar & (pairs[:, 0] == 2), 1]) == {3, 4, 5, 6}


@pytest.mark.parametrize("codes", [np.zeros(4, dtype=int), np.arange(4)], ids=["one class", "all alone"])
def test_labels_without_both_kinds_of_pairs_are_refused(codes: np.ndarray) -> None:
    with pytest.raises(LabelError, match="`y` must hold"):
        sampling.random_pairs(codes, 5, np.random.RandomState(0))


def test_nearest_rows_equal_a_full_sort_with_duplicates() -> None:
    rng = np.random.RandomState(3)
    X = rng.randint(3, size=(40, 2)).astype(float)
    codes = rng.randint(3, size=40)
    full = np.square(X[:, None] - X[None]).sum(axis=2)
    np.fill_diagonal(full, np.inf)
    near = nearest_rows(X, X, 4, own=np.arange(40))
    assert (near != np.arange(40)[:, None]).all()
    np.testing.assert_allclose(np.take_along_axis(full, near, 1), np.sort(full, axis=1)[:, :4])
    hits, misses = nearest_hits(X, codes, 2), nearest_misses(X, codes, 2)
    for i in range(40):
        same = np.where((codes == codes[i]) & (np.arange(40) != i), full[i], np.inf)
        other = np.where(codes != codes[i], full[i], np.inf)
        np.testing.assert_allclose(full[i, hits[i]], np.sort(same)[:2])
        np.testing.assert_allclose(full[i, misses[i]], np.sort(other)[:2])
    assert nearest_rows(X[:1], X[:2], 3).tolist()[0][2] == -1
