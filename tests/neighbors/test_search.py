"""The one search: against a stable sort of all distances, on tables full of ties, in every precision and method."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearer.exceptions import NearerError
from nearer.neighbors import _exact, _search, search

SIMILARITIES = ["euclidean", "cosine", "dot"]


def sorted_rows(queries: np.ndarray, database: np.ndarray, k: int, similarity: str, own: Any = None) -> list:
    """Double precision, rounded to the type of the data, then a stable sort."""
    a, b = queries.astype(np.float64), database.astype(np.float64)
    if similarity == "euclidean":
        distance = np.sqrt(np.square(a[:, None] - b[None]).sum(axis=2))
    else:
        distance = -(a @ b.T)
        if similarity == "cosine":
            distance /= np.sqrt(np.square(a).sum(axis=1)[:, None] * np.square(b).sum(axis=1))
    distance = distance.astype(queries.dtype)
    if own is not None:
        distance[np.arange(len(own)), own] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    order[np.isinf(np.take_along_axis(distance, order, axis=1))] = -1
    return np.pad(order, [(0, 0), (0, k - order.shape[1])], constant_values=-1).tolist()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_few_pairs_are_compared_without_faiss_to_the_same_answer(monkeypatch: Any, similarity: Any) -> None:
    rng = np.random.default_rng(1)
    # Few different numbers: most distances come more than once.
    database = rng.integers(1, 4, (300, 3)).astype(np.float32)
    queries = database[:40] if similarity == "euclidean" else rng.standard_normal((40, 3)).astype(np.float32)
    if similarity == "cosine":
        queries, database = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, database))
    expected = _exact.exact_neighbors(queries, database, 7, similarity=similarity)
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(_exact, "_compared", 0)
    monkeypatch.setattr(_exact, "load_faiss", lambda: pytest.fail("faiss was imported for 12,000 pairs"))
    found = _exact.exact_neighbors(queries, database, 7, similarity=similarity)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    # A process that goes on searching imports it after all.
    monkeypatch.setattr(_exact, "_compared", _exact.WITHOUT_FAISS)
    with pytest.raises(pytest.fail.Exception, match="was imported"):
        _exact.exact_neighbors(queries, database, 7, similarity=similarity)


def test_equal_distances_go_by_row() -> None:
    assert search([[0.0]], np.ones((1000, 1)), 3).indices.tolist() == [[0, 1, 2]]
    assert search(np.ones((50, 4)), k=2).indices[:3].tolist() == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("similarity", ["euclidean", "dot"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    st.integers(1, 300),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_tables_full_of_ties(
    similarity: Any, dtype: Any, n: int, q: int, d: int, k: int, values: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    database = rng.integers(0, values + 1, (n, d)).astype(dtype)
    queries = rng.integers(0, values + 1, (q, d)).astype(dtype)
    found = search(queries, database, k, similarity=similarity)
    assert found.indices.tolist() == sorted_rows(queries, database, k, similarity)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.integers(2, 200), st.integers(1, 3), st.integers(1, 12), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_table_in_itself(dtype: Any, n: int, d: int, k: int, seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 3, (n, d)).astype(dtype)
    found = search(table, k=k)
    assert found.indices.tolist() == sorted_rows(table, table, k, "euclidean", np.arange(n))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("q", "n", "d", "k"), [(3, 700, 5, 4), (70, 900, 33, 9), (5, 6, 2, 9), (200, 200, 8, 200)])
def test_it_is_the_stable_sort(similarity: Any, dtype: Any, q: int, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(q)
    queries, database = rng.normal(size=(q, d)), rng.normal(size=(n, d))
    if similarity == "cosine":
        queries, database = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, database))
    queries, database = queries.astype(dtype), database.astype(dtype)
    found = search(queries, database, k, similarity=similarity)
    assert found.indices.tolist() == sorted_rows(queries, database, k, similarity)
    assert found.distances.dtype == torch.from_numpy(queries).dtype
    assert (found.distances.diff(dim=1).nan_to_num(0) >= 0).all()


@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e6, 1e150])
def test_any_scale_and_any_origin(factor: float) -> None:
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(300, 6)) + 1000) * factor
    assert search(table, k=5).indices.tolist() == sorted_rows(
        table / factor, table / factor, 5, "euclidean", np.arange(300)
    )
    assert search(table[:4], table, k=5).indices.tolist() == sorted_rows(
        table[:4] / factor, table / factor, 5, "euclidean"
    )


def test_an_outlier_does_not_hide_the_others() -> None:
    table = np.random.default_rng(0).normal(size=(400, 3))
    table[7] = 1e9
    assert search(table, k=6).indices.tolist() == sorted_rows(table, table, 6, "euclidean", np.arange(400))


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).integers(0, 3, (300, 4)).astype(np.float64)
    whole = search(table, k=20)
    monkeypatch.setattr(_exact, "BLOCK", 7)
    monkeypatch.setattr(_exact, "LISTS", 100)
    parts = search(table, k=20)
    assert torch.equal(whole.indices, parts.indices)
    assert torch.equal(whole.distances, parts.distances)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_sparse_rows(similarity: Any) -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 3, (80, 5)).astype(np.float64)
    table[:, 0] += 1
    dense = search(table, k=7, similarity=similarity)
    found = search(sparse.csr_array(table), k=7, similarity=similarity)
    if similarity != "cosine":
        assert torch.equal(found.indices, dense.indices)
    torch.testing.assert_close(found.distances, dense.distances, atol=1e-12, rtol=1e-12)


def test_own_rows_are_left_out_by_number_and_twins_count() -> None:
    database = np.array([[0.0], [0.0], [1.0]])
    assert search([[0.0], [0.0]], database, 2, own=[1, -1]).indices.tolist() == [[0, 2], [0, 1]]
    few = search([[0.0]], database[:1], 2, own=[0])
    assert few.indices.tolist() == [[-1, -1]]
    assert few.distances.isinf().all()


@pytest.mark.parametrize("target", [0.8, 0.99])
def test_the_approximate_search_reaches_its_recall(target: float) -> None:
    table = np.random.default_rng(0).normal(size=(4000, 12)).astype(np.float32)
    exact, found = search(table, k=8), search(table, k=8, method="approximate", recall=target)
    share = float((exact.indices[:, :, None] == found.indices[:, None]).any(2).double().mean())
    assert found.recall >= target
    assert share == pytest.approx(found.recall, abs=0.05)
    assert not (found.indices == torch.arange(4000)[:, None]).any()
    same = found.indices == exact.indices
    assert torch.equal(found.distances[same], exact.distances[same])


def test_the_approximate_search_with_ties_and_other_queries() -> None:
    rng = np.random.default_rng(0)
    database, queries = (
        rng.integers(0, 4, (3000, 4)).astype(np.float64),
        rng.integers(0, 4, (90, 4)).astype(np.float64),
    )
    found = search(queries, database, 5, method="approximate", recall=1.0)
    # Where it looked, equal distances are in the order of the rows.
    assert ((found.distances.diff(dim=1) > 0) | (found.indices.diff(dim=1) > 0)).all()


def test_cells_that_hold_too_few_are_searched_exactly() -> None:
    table = np.random.default_rng(0).normal(size=(900, 4))
    found = search(table, k=880, method="approximate", recall=0.1)
    assert (found.indices >= 0).all()
    assert all(len(set(row)) == 880 for row in found.indices[:20].tolist())


def test_auto_is_exact_until_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).normal(size=(2000, 20))
    assert search(table, method="auto").recall == 1.0
    monkeypatch.setattr(_search, "EXACT_UP_TO", 1000)
    assert 0.05 <= search(table, method="auto", recall=0.05).recall < 1.0


def test_rows_without_clusters_are_searched_exactly() -> None:
    table = np.random.default_rng(0).normal(size=(1500, 60))
    found = search(table, k=5, method="approximate", recall=0.999)
    assert found.recall == 1.0
    assert torch.equal(found.indices, search(table, k=5).indices)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1.0]], [[1.0, 2.0]]), {}, "must have the 1 columns"),
        (([[1.0]], [[1.0]], 0), {}, "`k` must be at least 1"),
        (([[np.nan]], [[1.0]]), {}, "must be finite"),
        (([[1.0]], [[1.0]]), {"own": [3]}, "row numbers below 1"),
        (([[1.0]], [[1.0]]), {"own": [0, 0]}, "one row number for each of the 1 queries"),
        (([[0.0]], [[1.0]]), {"similarity": "cosine"}, "a direction in every row"),
        (([[1.0]], [[1.0]]), {"similarity": "cosin"}, "Did you mean 'cosine'"),
        (([[1.0]], [[1.0]]), {"method": "exakt"}, "Did you mean 'exact'"),
        (([[1.0]], [[1.0]]), {"method": "approximate", "similarity": "dot"}, "must have dense rows"),
        (([[1.0]], [[1.0]]), {"method": "approximate", "recall": 1.5}, "`recall`"),
    ],
)
def test_bad_input(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(NearerError, match=message):
        search(*arguments, **options)
