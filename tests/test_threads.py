"""Two threads that use one index or one model get the numbers that one gets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nearer
from nearer._storage import _disk
from nearer.geometry import MLP
from nearer.index import HNSW, IVF, Exact, Index
from nearer.models import Model
from nearer.models._inputs import Inputs
from saved_versions import load, names, save

QUERIES = np.random.default_rng(1).standard_normal((40, 8))
THREADS = 4


def together(work: Callable[[int], Any], times: int = 24) -> list[Any]:
    """The answers of several threads that all work at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(times)))


@pytest.mark.parametrize("kind", [Exact(), HNSW(neighbors=8), IVF(probes=8)], ids=str)
def test_one_index(kind: Exact | HNSW | IVF) -> None:
    index = Index(8, kind=kind, similarity="cosine")
    index.add(
        np.random.default_rng(0).standard_normal((1500, 8)), metadata={"even": [n % 2 == 0 for n in range(1500)]}
    )
    for where in (None, {"even": True}):
        expected = index.search(QUERIES, k=5, where=where)
        for found in together(lambda _, where=where: index.search(QUERIES, k=5, where=where)):
            np.testing.assert_array_equal(found.ids, expected.ids)
            np.testing.assert_array_equal(found.similarities, expected.similarities)


def test_one_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model(MLP(8, 4, hidden=[16]).eval(), Inputs("features", size=(8,)), method="by hand")
    expected = model.transform(QUERIES)
    for found in together(lambda _: model.transform(QUERIES, batch_size=7)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    for found in together(lambda _: model.transform(QUERIES)):
        np.testing.assert_array_equal(found, expected)
    place = model.save(tmp_path / "model")
    for again in together(lambda _: nearer.load(place).transform(QUERIES)):
        np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_one_folder_written_and_read_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    """The lock is between open files, so it keeps threads apart as it does processes."""
    if not exchange:
        monkeypatch.setattr(_disk, "_renameat2", lambda: None)
    save(tmp_path / "folder", 0)
    seen = together(
        lambda number: save(tmp_path / "folder", number) if number % 3 == 0 else load(tmp_path / "folder")
    )
    assert {number for number in seen if number is not None} <= set(range(24))
    assert load(tmp_path / "folder") % 3 == 0
    assert names(tmp_path) == ["folder"]
