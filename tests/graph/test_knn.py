"""Graphs of neighbours: against a sort of all distances, twins, ties, and the approximate search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.exceptions import NearerError
from nearer.graph import nearest_neighbors
from nearer.neighbors import _exact


def naive(x: np.ndarray, k: int) -> np.ndarray:
    found = []
    for i in range(len(x)):
        distance = np.sqrt(((x - x[i]) ** 2).sum(1))
        order = sorted((j for j in range(len(x)) if j != i), key=lambda j: (distance[j], j))
        found.append(order[:k])
    return np.array(found)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_it_is_the_sort_of_all_distances(normalized: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exact, "LISTS", block)
    x = np.random.default_rng(0).normal(size=(60, 5))
    found = nearest_neighbors(x, k=4, normalized=normalized)
    rows = x / np.linalg.norm(x, axis=1, keepdims=True) if normalized else x
    assert found.indices.tolist() == naive(rows, 4).tolist()
    expected = np.linalg.norm(rows[:, None] - rows[found.indices.numpy()], axis=2)
    np.testing.assert_allclose(found.distances.numpy(), expected, atol=1e-12)
    assert found.recall == 1.0


def test_twins_count_and_ties_go_by_index() -> None:
    x = torch.ones(6, 3)
    found = nearest_neighbors(x, k=2)
    assert found.indices.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert (found.distances == 0).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=3, max_size=30), st.integers(1, 40))
def test_points_of_a_grid_with_many_ties(points: list[tuple[int, int]], k: int) -> None:
    x = np.array(points, dtype=np.float64)
    found = nearest_neighbors(x, k=k, normalized=False).indices
    assert found.shape == (len(x), min(k, len(x) - 1))
    assert found.tolist() == naive(x, min(k, len(x) - 1)).tolist()


def test_the_approximate_search_measures_its_recall() -> None:
    x = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    exact = nearest_neighbors(x, k=6)
    found = nearest_neighbors(x, k=6, method="approximate")
    share = (exact.indices[:, :, None] == found.indices[:, None]).any(2).double().mean()
    assert 0.8 < float(share) <= 1
    assert found.recall == pytest.approx(float(share), abs=0.05)
    assert not (found.indices == torch.arange(3000)[:, None]).any()
    assert (found.distances.diff(dim=1) >= 0).all()
    same = found.indices == exact.indices
    torch.testing.assert_close(found.distances[same], exact.distances[same], atol=1e-3, rtol=1e-3)


def test_rows_whose_cells_hold_too_few_are_done_exactly() -> None:
    # Cells of forty items and a k beyond sixteen of them.
    x = np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32)
    found = nearest_neighbors(x, k=880, method="approximate")
    assert (found.indices >= 0).all()
    assert all(len(set(row)) == 880 for row in found.indices[:20].tolist())


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        ([[0.0, 0.0], [1.0, 0.0]], {}, "a direction in every row, got 1 rows of zeros, the first at 0"),
        ([[np.nan, 0.0], [1.0, 0.0]], {}, "must be finite"),
        ([[1.0, 0.0]], {}, "at least 2 rows"),
        ([[1.0], [2.0]], {"k": 0}, "`k` must be at least 1"),
        ([[1.0], [2.0]], {"method": "exakt"}, "Did you mean 'exact'"),
    ],
)
def test_bad_input(x: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(NearerError, match=message):
        nearest_neighbors(x, **options)
