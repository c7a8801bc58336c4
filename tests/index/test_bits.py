"""An index of signs: what it finds beside comparing everything, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearer.exceptions import CorruptFileError, NearerError, ParameterError, ShapeError
from nearer.index import BitIndex


def rows(n: int, d: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def every(queries: np.ndarray, items: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    signs = np.where(items >= 0, 1.0, -1.0)
    scores = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ signs.T / np.sqrt(items.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


def test_the_exact_search_is_the_inner_product_with_signs() -> None:
    items, queries = rows(500), rows(20, seed=1)
    index = BitIndex(64)
    index.add(items)
    found = index.search(queries, k=7, exact=True)
    order, scores = every(queries, items, 7)
    np.testing.assert_array_equal(found.ids, order)
    np.testing.assert_allclose(found.similarities, scores, atol=1e-5)
    np.testing.assert_allclose(found.distances, 1 - scores, atol=1e-5)


def test_candidates_by_hamming_distance_find_nearly_all_of_it() -> None:
    items = rows(3_000)
    queries = items[:100] + 0.8 * rows(100, seed=2)
    index = BitIndex(64)
    index.add(items)
    near, all_of_it = index.search(queries, k=10), index.search(queries, k=10, exact=True)
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(near.ids.tolist(), all_of_it.ids.tolist(), strict=True)]
    assert np.mean(shares) > 0.8
    assert (near.ids[:, 0] == all_of_it.ids[:, 0]).mean() > 0.97


def test_it_is_thirty_two_times_smaller(tmp_path: Path) -> None:
    index = BitIndex(128)
    index.add(rows(1_000, 128))
    assert index._bits.nbytes * 32 == 1_000 * 128 * 4


def test_ids_metadata_conditions_changes_and_the_disk(tmp_path: Path) -> None:
    items = rows(200)
    index = BitIndex(64)
    names = [f"i{number}" for number in range(200)]
    index.add(items, ids=names, metadata={"even": [number % 2 == 0 for number in range(200)]})
    hits = index.search(items[3:4], k=5, where={"even": True})
    assert all(hit.metadata["even"] for hit in hits[0])
    assert index.count({"even": True}) == 100
    assert index.remove(["i3", "i4"]) == 2
    assert "i3" not in index
    index.upsert(np.stack([items[3], -items[0]]), ["i3", "i0"])
    assert index.search(items[3:4], k=1).ids.tolist() == [["i3"]]
    assert index.search(-items[0:1], k=1).ids.tolist() == [["i0"]]
    again = BitIndex.load(index.save(tmp_path / "bits"))
    assert again.ids == index.ids
    np.testing.assert_array_equal(again.search(items[:9], k=4).ids, index.search(items[:9], k=4).ids)
    assert torch.equal(again.embeddings(["i7"]), index.embeddings(["i7"]))
    assert repr(again) == "BitIndex(199 × 64 bits)"


def test_nothing_in_it_or_nothing_asked() -> None:
    index = BitIndex(8)
    assert index.search(rows(2, 8), k=3).ids.shape == (2, 0)
    index.add(rows(5, 8))
    assert index.search(np.zeros((0, 8)), k=3).ids.shape == (0, 3)
    assert index.search(rows(1, 8), k=99).ids.shape == (1, 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda index: BitIndex(12), ParameterError, "multiple of 8"),
        (lambda index: index.add(rows(2, 8)), ShapeError, "64"),
        (lambda index: index.add(np.full((1, 64), np.nan)), NearerError, "finite|NaN"),
        (lambda index: index.add(rows(2), ids=[0, 1]), ParameterError, "already in the index"),
        (lambda index: index.remove([77]), ParameterError, "is not"),
        (lambda index: index.search(np.zeros((1, 64))), ParameterError, "direction"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(call: Any, error: type[Exception], message: str) -> None:
    index = BitIndex(64)
    index.add(rows(3))
    with pytest.raises(error, match=message):
        call(index)
    assert len(index) == 3


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    from nearer._storage import write_folder

    place = write_folder(
        tmp_path / "x",
        format="nearer.index.bits",
        version=1,
        tensors={"bits": {"bits": torch.zeros(2, 3, dtype=torch.uint8)}},
        documents={"items": {"ids": [0], "metadata": [{}]}},
        metadata={"dimension": 64, "next_id": 1},
    )
    with pytest.raises(CorruptFileError, match="index of bits"):
        BitIndex.load(place)
