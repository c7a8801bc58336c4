"""Exact search gives the ranking of a loop in double precision, in the order that the documentation promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.index._rows import exact_search
from nearer.neighbors import _exact
from nearer.neighbors._shared import Similarity, similarities

SIMILARITIES: list[Similarity] = ["cosine", "dot", "euclidean"]


def rows(n: int, d: int, seed: int, similarity: Similarity = "dot") -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d))
    if similarity == "cosine":
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x.astype(np.float32)


def naive(queries: np.ndarray, vectors: np.ndarray, k: int, similarity: Similarity) -> tuple[list, list]:
    values, positions = [], []
    for q in queries.astype(np.float64):
        ranked = []
        for j, x in enumerate(vectors.astype(np.float64)):
            if similarity == "euclidean":
                s = -np.sqrt(((q - x) ** 2).sum())
            elif similarity == "cosine":
                s = (q * x).sum() / np.sqrt((q * q).sum() * (x * x).sum())
            else:
                s = (q * x).sum()
            ranked.append((-float(np.float32(s)), j))
        best = sorted(ranked)[:k]
        values.append([-value for value, _ in best])
        positions.append([j for _, j in best])
    return values, positions


@pytest.mark.parametrize("similarity", SIMILARITIES)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 40), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_ranking_is_the_one_of_a_loop(similarity: Similarity, n: int, d: int, k: int, seed: int) -> None:
    vectors, queries = rows(n, d, seed, similarity), rows(3, d, seed + 1, similarity)
    values, positions = exact_search(queries, vectors, k, similarity=similarity)
    assert values.shape == positions.shape == (3, min(k, n))
    expected_values, expected_positions = naive(queries, vectors, k, similarity)
    np.testing.assert_allclose(values, expected_values, rtol=1e-6, atol=1e-7)
    assert positions.tolist() == expected_positions


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("n", "k"), [(500, 10), (3000, 250)])
def test_equal_rows_come_in_order_of_insertion(similarity: Similarity, n: int, k: int) -> None:
    """Twenty different rows, each many times: nearly everything is a tie, also at the border of the first k."""
    distinct = rows(20, 24, 0, similarity)
    which = np.random.default_rng(1).integers(0, 20, n)
    queries = rows(30, 24, 2, similarity)
    _, positions = exact_search(queries, distinct[which], k, similarity=similarity)
    for query, found in zip(queries, positions, strict=True):
        order = np.argsort(
            -similarities(query[None], distinct, np.arange(20)[None], similarity=similarity)[0], kind="stable"
        )
        expected = np.concatenate([np.flatnonzero(which == one) for one in order])[:k]
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_query_gets_the_same_answer_alone_and_in_a_batch(similarity: Similarity) -> None:
    vectors, queries = rows(2000, 33, 0, similarity), rows(70, 33, 1, similarity)
    values, positions = exact_search(queries, vectors, 15, similarity=similarity)
    for i in range(0, 70, 7):
        alone_values, alone = exact_search(queries[i : i + 1], vectors, 15, similarity=similarity)
        assert alone.tolist() == positions[i : i + 1].tolist()
        assert alone_values.tolist() == values[i : i + 1].tolist()


def test_small_euclidean_distances_far_from_the_origin_are_right() -> None:
    """The matrix product alone would lose them: (1000)² · 16 in single precision has steps of 1."""
    vectors = (1000 + 0.01 * np.random.default_rng(0).standard_normal((400, 16))).astype(np.float32)
    values, positions = exact_search(vectors[:30], vectors, 5, similarity="euclidean")
    expected_values, expected = naive(vectors[:30], vectors, 5, "euclidean")
    assert positions.tolist() == expected
    np.testing.assert_allclose(values, expected_values, rtol=1e-6)


def test_a_row_is_one_to_itself_and_nothing_to_its_distance() -> None:
    unit = rows(50, 77, 3, "cosine")
    values, positions = exact_search(unit, unit, 1, similarity="cosine")
    assert (values == 1).all()
    assert positions[:, 0].tolist() == list(range(50))
    values, _ = exact_search(unit, unit, 1, similarity="euclidean")
    assert (values == 0).all()


def test_all_rows_equal_is_only_slower() -> None:
    vectors = np.ones((5000, 8), dtype=np.float32)
    values, positions = exact_search(vectors[:3], vectors, 4, similarity="dot")
    assert positions.tolist() == [[0, 1, 2, 3]] * 3
    assert (values == 8).all()


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = rows(300, 5, 0), rows(20, 5, 1)
    whole = exact_search(queries, vectors, 50, similarity="dot")
    monkeypatch.setattr(_exact, "BLOCK", 7)
    monkeypatch.setattr(_exact, "LISTS", 100)
    parts = exact_search(queries, vectors, 50, similarity="dot")
    assert whole[0].tolist() == parts[0].tolist()
    assert whole[1].tolist() == parts[1].tolist()


def test_nothing_to_search_or_to_find() -> None:
    some, none = rows(4, 3, 0), np.empty((0, 3), dtype=np.float32)
    for queries, vectors, shape in [(none, some, (0, 2)), (some, none, (4, 0)), (none, none, (0, 0))]:
        values, positions = exact_search(queries, vectors, 2, similarity="euclidean")
        assert values.shape == positions.shape == shape
