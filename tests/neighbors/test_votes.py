"""The one vote: most votes, then the nearest."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearer.neighbors import vote


@given(st.integers(1, 8), st.integers(1, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_it_is_the_loop(m: int, k: int, c: int, seed: int) -> None:
    classes = np.random.default_rng(seed).integers(0, c, (m, k))
    expected = [max(row, key=lambda one, row=row: (row.count(one), -row.index(one))) for row in classes.tolist()]
    assert vote(classes).tolist() == expected


def test_equal_votes_go_to_the_nearest() -> None:
    assert vote(np.array([[2, 0, 0, 2], [0, 2, 2, 0], [1, 0, 0, 1]])).tolist() == [2, 0, 1]


def test_missing_neighbors_have_no_vote() -> None:
    assert vote(np.array([[4, -1, -1], [-1, -1, -1]])).tolist() == [4, -1]
    assert vote(np.zeros((2, 0), dtype=np.int64)).tolist() == [-1, -1]
