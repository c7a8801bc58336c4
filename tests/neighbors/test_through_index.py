"""Neighbors, propagation and hard negatives through an index are those of the rows themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearer.exceptions import ParameterError
from nearer.graph import nearest_neighbors, propagate
from nearer.index import HNSW, Index, open_index
from nearer.neighbors import search
from nearer_papers.systems._rank_range import mine_rank_range

X = np.random.default_rng(0).integers(0, 4, size=(60, 3)).astype(np.float32)
X[:, 0] += np.arange(60) % 7


@pytest.fixture(params=["memory", "folder"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = Index(3) if request.param == "memory" else open_index(tmp_path / "index", dimension=3)
    made.add(X, ids=[f"n{n}" for n in range(60)])
    return made


def test_the_same_lists(index: Any) -> None:
    expected, found = search(X, k=7), search(index, k=7)
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.distances.tolist() == expected.distances.tolist()
    assert found.recall == 1
    queries = X[:9] + 0.25
    expected, found = search(queries, X, 5), search(queries, index, 5)
    assert found.indices.tolist() == expected.indices.tolist()
    own = np.arange(9)
    assert search(X[:9], index, 5, own=own).indices.tolist() == search(X[:9], X, 5, own=own).indices.tolist()
    short = search(queries, index, 99)
    assert short.indices.shape == (9, 99)
    assert (short.indices[:, 60:] == -1).all()
    assert torch.isinf(short.distances[:, 60:]).all()


def test_propagation_over_an_index(index: Any) -> None:
    labels = np.full(60, -1)
    labels[:7] = np.arange(7) % 2
    expected = propagate(nearest_neighbors(X, k=5, normalized=False), labels)
    found = propagate(nearest_neighbors(index, k=5), labels)
    assert torch.equal(found.edges, expected.edges)
    assert torch.equal(found.reach, expected.reach)


def test_hard_negatives_from_an_index() -> None:
    index = Index(3)
    index.add(X)
    labels = np.arange(60) % 4
    found = mine_rank_range(lambda queries, k: index.search(queries, k).ids, X, labels, high=3)
    by_rows = mine_rank_range(lambda queries, k: search(queries, X, k).indices, X, labels, high=3)
    assert found.tolist() == by_rows.tolist()


def test_its_similarity_and_recall_are_its_own(index: Any) -> None:
    with pytest.raises(ParameterError, match="`similarity` must be 'euclidean', that of the index"):
        search(index, similarity="dot")
    with pytest.raises(ParameterError, match="rows, or an index alone"):
        search(index, X)
    large = Index(3, kind=HNSW())
    large.add(np.random.default_rng(0).normal(size=(1500, 3)))
    assert search(large, k=3).recall == large.recall.value  # type: ignore[union-attr]
