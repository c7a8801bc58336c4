"""The candidates of a strip against a plain sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.evaluation._engine._candidates import BestCandidates
from nearer.evaluation._engine._tiles import block_size, run

VALUES = [-np.float32(3.5), -1.0, -0.0, 0.0, 1e-30, -1e-30, 1.0, np.float32(1.0000001), 3.4e38, -3.4e38]


@given(
    rows=st.lists(
        st.lists(st.tuples(st.sampled_from(VALUES), st.integers(0, 99)), max_size=30), min_size=1, max_size=6
    ),
    depth=st.integers(0, 8),
    limit=st.integers(1, 20),
    dtype=st.sampled_from([np.float32, np.float64]),
    parts=st.integers(1, 4),
)
@settings(max_examples=80, deadline=None)
def test_the_first_places_are_those_of_a_sort(rows: Any, depth: int, limit: int, dtype: Any, parts: int) -> None:
    """Whatever is added in whatever portions, and however often the collection is thinned on the way."""
    unique = [list({tie: (value, tie) for value, tie in row}.values()) for row in rows]
    wanted = np.full(len(rows), depth)
    bound = np.full(len(rows), np.finfo(dtype).min, dtype=dtype)
    keep = BestCandidates(wanted, bound, 100, by_index=False, limit=limit)
    flat = [(row, dtype(value), tie) for row, items in enumerate(unique) for value, tie in items]
    for part in range(parts):
        chosen = flat[part::parts]
        if chosen:
            row, value, tie = zip(*chosen, strict=True)
            reach = keep.reach(0)
            passed = np.array(value, dtype=dtype) >= reach[list(row)]
            keep.add(np.array(row)[passed], np.array(value, dtype=dtype)[passed], np.array(tie)[passed])
    taken, ties = keep.ordered()
    expected = [[tie for _, tie in sorted(items, key=lambda v: (-dtype(v[0]), v[1]))[:depth]] for items in unique]
    assert taken.tolist() == [len(items) for items in expected]
    assert ties.tolist() == [tie for items in expected for tie in items]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_later_items_must_exceed_what_they_would_replace(dtype: Any) -> None:
    bound = np.full(1, -np.inf, dtype=dtype)
    keep = BestCandidates(np.array([2]), bound, 1000, by_index=True, limit=4)
    keep.add(np.zeros(6, dtype=np.int64), np.ones(6, dtype=dtype), np.arange(6))
    assert keep.size == 2
    assert keep.reach(0)[0] == 1
    assert keep.reach(2)[0] > 1
    assert keep.ordered()[1].tolist() == [0, 1]


def test_nothing_was_added() -> None:
    for dtype in (np.float32, np.float64):
        keep = BestCandidates(np.array([3, 0]), np.zeros(2, dtype=dtype), 10, by_index=True, limit=5)
        taken, ties = keep.ordered()
        assert taken.tolist() == [0, 0]
        assert ties.tolist() == []


@given(n=st.integers(1, 100_000))
@settings(max_examples=100, deadline=None)
def test_blocks_cover_all_rows_with_little_padding(n: int) -> None:
    size = block_size(n)
    assert size % 24 == 0
    assert size <= 960
    assert (-n % size) < max(24 * -(-n // size), 24)


def test_results_come_in_the_order_of_the_items_and_errors_come_through() -> None:
    assert run(range(50), lambda: lambda item: item * 2) == [item * 2 for item in range(50)]
    with pytest.raises(ZeroDivisionError):
        run([1, 0], lambda: lambda item: 1 // item)
