"""A model in front of an index, and a new metric in the place of an old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearer.exceptions import LockedError, MissingDataError, ParameterError
from nearer.geometry import AsymmetricMap, Mahalanobis
from nearer.index import open_index, switch_index
from nearer.index._mapped import fingerprint_of

X = np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32)


def test_each_side_has_its_map(tmp_path: Path) -> None:
    torch.manual_seed(0)
    maps = AsymmetricMap.from_factors(torch.randn(5, 3), torch.randn(5, 3))
    with open_index(tmp_path / "index", dimension=3, model=maps) as index:
        index.add(X[:60])
        index.upsert(X[60:], range(60, 80))
        assert index.remove([7]) == 1
        found = index.search(X[:9], k=4)
        apart = maps(torch.from_numpy(X[:9]), torch.from_numpy(X)).detach().numpy()
        apart[:, 7] = np.inf
        assert found.ids.tolist() == np.argsort(apart, axis=1)[:, :4].tolist()
        np.testing.assert_allclose(found.distances**2, np.sort(apart, axis=1)[:, :4], rtol=1e-4, atol=1e-5)
        assert len(index) == index.count() == 79
        assert 8 in index
        assert index.ids[:2] == [0, 1]
        np.testing.assert_allclose(
            index.embeddings([8]), maps.transform_database(torch.from_numpy(X[8:9])).detach(), rtol=1e-6
        )
        assert "AsymmetricMap in front of" in repr(index)


def test_a_new_query_map_needs_no_new_index(tmp_path: Path) -> None:
    database = torch.randn(5, 3)
    first = AsymmetricMap.from_factors(torch.randn(5, 3), database)
    with open_index(tmp_path / "index", dimension=3, model=first) as index:
        index.add(X)
    second = AsymmetricMap.from_factors(torch.randn(5, 3), database)
    with open_index(tmp_path / "index", model=second) as index:
        assert len(index) == 80
    third = AsymmetricMap.from_factors(torch.randn(5, 3), torch.randn(5, 3))
    with pytest.raises(ParameterError, match="embeddings of another model"):
        open_index(tmp_path / "index", model=third)


def test_models_without_maps_are_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="`model` must have `transform`"):
        open_index(tmp_path / "index", dimension=3, model=object())

    class Plain:
        def transform(self, x: Any) -> Any:
            return x

    assert fingerprint_of(Plain()) is None
    with open_index(tmp_path / "index", dimension=5, model=Plain()) as index:
        index.add(X)
        assert index.search(X[:3], k=1).ids[:, 0].tolist() == [0, 1, 2]
    one, same = (Mahalanobis.from_factor([[2.0]]) for _ in range(2))
    assert fingerprint_of(one) == fingerprint_of(same) != fingerprint_of(Mahalanobis.from_factor([[3.0]]))


@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_switching_folders(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "two renames":
        from nearer.index import _copy

        monkeypatch.setattr(_copy, "exchange", lambda one, other: False)
    for name, factor in {"old": 1, "new": -1}.items():
        with open_index(tmp_path / name, dimension=5, fingerprint=name) as index:
            index.add(factor * X)
    reader = open_index(tmp_path / "old", read_only=True)
    switch_index(tmp_path / "old", tmp_path / "new")
    assert reader.search(X[:1], k=1).distances.tolist() == [[0.0]], "who had it open goes on with it"
    with open_index(tmp_path / "old", fingerprint="new") as index:
        assert index.search(-X[:1], k=1).distances.tolist() == [[0.0]]
        with pytest.raises(LockedError, match="must be open for writing once"):
            switch_index(tmp_path / "old", tmp_path / "new")
        index.add(X[:1])
    switch_index(tmp_path / "old", tmp_path / "new")
    with open_index(tmp_path / "old", fingerprint="old") as index:
        assert len(index) == 80
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new", "old"]
    with pytest.raises(ParameterError, match="must be another folder"):
        switch_index(tmp_path / "old", tmp_path / "old")
    with pytest.raises(MissingDataError, match="must be the folder of an index"):
        switch_index(tmp_path / "old", tmp_path / "nowhere")
    with pytest.raises(ParameterError, match="must both be folders or both tables"):
        switch_index(tmp_path / "old", "milvus://host/name")


def test_switching_tables(postgres: str) -> None:
    addresses = {name: f"{postgres}&table=switch_{name}" for name in ("old", "new")}
    for name, address in addresses.items():
        with open_index(address, dimension=5, fingerprint=name) as index:
            index.add(X if name == "old" else -X)
    reader = open_index(addresses["old"])
    assert reader.search(X[:1], k=1).distances.tolist() == [[0.0]]
    switch_index(addresses["old"], addresses["new"])
    with pytest.raises(MissingDataError, match="another has its name now"):
        reader.search(-X[:1], k=1)
    reader.close()
    with open_index(addresses["old"], fingerprint="new") as index:
        assert index.add(X[:1]) == [80]
    with pytest.raises(ParameterError, match="must be another table"):
        switch_index(addresses["old"], addresses["old"])
    with pytest.raises(MissingDataError, match="'nowhere' must hold an index"):
        switch_index(addresses["old"], f"{postgres}&table=nowhere")
