"""A saved index answers the same after loading, and no damaged or forged folder gets through."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nearer._storage import read_folder, write_folder
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer.index import HNSW, IVF, IVFPQ, Exact, Index

Floats = NDArray[np.float32]
KINDS = [Exact(), HNSW(neighbors=8), IVF(probes=8), IVFPQ(probes=8, bytes=16, refine=50)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_a_loaded_index_answers_the_same(
    tmp_path: Path, easy: Floats, new: Floats, kind: Exact | HNSW | IVF, similarity: Any
) -> None:
    index = Index(16, similarity=similarity, kind=kind)
    index.add(easy[:2500] + 100, ids=[f"item {i} ä" for i in range(2500)], metadata={"n": range(2500)})
    again = Index.load(index.save(tmp_path / "index"))
    assert repr(again) == repr(index)
    assert again.recall == index.recall
    assert again.ids == index.ids
    for where in (None, {"n": 3}):
        a, b = index.search(new + 100, k=7, where=where), again.search(new + 100, k=7, where=where)
        assert a.ids.tolist() == b.ids.tolist()
        assert a.similarities.tolist() == b.similarities.tolist()
        assert a.metadata == b.metadata
    # It can be added to and removed from like the one that was saved.
    for one in (index, again):
        one.add(easy[2500:] + 100, ids=[f"late {i}" for i in range(500)])
        one.remove(["item 0 ä", "late 3"])
    found, expected = again.search(easy[2500:] + 100, k=1), index.search(easy[2500:] + 100, k=1)
    assert np.mean(found.ids == expected.ids) > 0.99


def test_removed_items_are_not_written(tmp_path: Path, easy: Floats) -> None:
    index = Index(16, kind=HNSW(neighbors=8), similarity="cosine")
    index.add(easy[:1500], metadata={"secret": [f"s{i}" for i in range(1500)]})
    index.remove([7])
    assert index._removed == 1
    place = index.save(tmp_path / "index")
    text = (place / "items.json").read_text()
    assert '"s7"' not in text
    assert '"s8"' in text
    again = Index.load(place)
    assert len(again) == 1499
    assert 7 not in again
    assert again.add(easy[:1]) == [1500]


def test_an_empty_index_is_saved(tmp_path: Path) -> None:
    index = Index(3, kind=IVF(), similarity="cosine")
    index.add(np.ones((1, 3)))
    index.remove([0])
    again = Index.load(index.save(tmp_path / "index"))
    assert len(again) == 0
    assert again.add(np.ones((1, 3))) == [1]


def test_saving_replaces_the_older_index_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(1, similarity="dot")
    index.add([[1.0]])
    place = index.save(tmp_path / "index")
    index.add([[2.0]])

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        index.save(place)
    monkeypatch.undo()
    assert len(Index.load(place)) == 1
    index.save(place)
    assert len(Index.load(place)) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("name", ["vectors.safetensors", "structure.safetensors", "items.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "delete"])
def test_damage_is_named(tmp_path: Path, easy: Floats, name: str, damage: str) -> None:
    index = Index(16, kind=IVF(probes=8), similarity="cosine")
    index.add(easy[:1200])
    file = index.save(tmp_path / "index") / name
    if damage == "delete":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(bytes(data) if damage == "flip" else bytes(data[: len(data) // 2]))
    with pytest.raises(CorruptFileError, match=name.split(".")[0]):
        Index.load(tmp_path / "index")


def test_absence_and_other_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no such folder"):
        Index.load(tmp_path / "nowhere")
    write_folder(tmp_path / "other", format="nearer.geometry", version=1, tensors={})
    with pytest.raises(CorruptFileError, match=r"must be a 'nearer\.index' folder"):
        Index.load(tmp_path / "other")


Change = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]
FORGERIES: dict[str, Change] = {
    "rows too few": lambda t, d, m: t["vectors"].update(vectors=t["vectors"]["vectors"][1:]),
    "rows too narrow": lambda t, d, m: t["vectors"].update(vectors=t["vectors"]["vectors"][:, 1:]),
    "rows of another type": lambda t, d, m: t["vectors"].update(vectors=t["vectors"]["vectors"].double()),
    "rows not finite": lambda t, d, m: t["vectors"]["vectors"].fill_(float("nan")),
    "offset too short": lambda t, d, m: t["vectors"].update(offset=torch.zeros(1)),
    "no vectors": lambda t, d, m: t.pop("vectors"),
    "ids twice": lambda t, d, m: d["items"].update(ids=[1] * 1200),
    "ids missing": lambda t, d, m: d["items"].pop("ids"),
    "metadata short": lambda t, d, m: d["items"].update(metadata=[]),
    "unknown kind": lambda t, d, m: m.update(kind="Magic"),
    "unknown setting": lambda t, d, m: m["settings"].update(magic=1),
    "unknown similarity": lambda t, d, m: m.update(similarity="magic"),
    "no next id": lambda t, d, m: m.pop("next_id"),
    "positions twice": lambda t, d, m: t["structure"]["positions"].fill_(1),
    "positions of another type": lambda t, d, m: t["structure"].update(positions=torch.rand(1200)),
    "no levels": lambda t, d, m: t["structure"].pop("levels"),
    "levels too high": lambda t, d, m: t["structure"]["levels"].fill_(60),
    "levels zero": lambda t, d, m: t["structure"]["levels"].fill_(0),
    "offsets wrong": lambda t, d, m: t["structure"]["offsets"].add_(1),
    "edges outside": lambda t, d, m: t["structure"]["neighbors"].fill_(10**6),
    "edges below": lambda t, d, m: t["structure"]["neighbors"].fill_(-2),
    "edges too many": lambda t, d, m: t["structure"].update(neighbors=t["structure"]["neighbors"].repeat(2)),
    "edges too high": lambda t, d, m: t["structure"]["neighbors"].fill_(int(t["structure"]["levels"].argmin())),
    "entry outside": lambda t, d, m: t["structure"].update(entry=torch.tensor([10**6, 1])),
    "entry too high": lambda t, d, m: t["structure"].update(entry=torch.tensor([0, 40])),
    "entry of another shape": lambda t, d, m: t["structure"].update(entry=torch.tensor([[1, 2], [3, 4]])),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, easy: Floats) -> Path:
    index = Index(16, kind=HNSW(neighbors=8), similarity="cosine")
    index.add(easy[:1200])
    return index.save(tmp_path_factory.mktemp("stored") / "index")


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda name: name.replace(" ", "-"))
def test_a_forged_folder_with_right_checksums_is_refused(stored: Path, tmp_path: Path, forgery: str) -> None:
    content = read_folder(stored, format="nearer.index", version=1)
    tensors, documents, metadata = content.tensors, content.documents, content.metadata
    FORGERIES[forgery](tensors, documents, metadata)
    place = write_folder(
        tmp_path / "index",
        format="nearer.index",
        version=1,
        tensors=tensors,
        documents=documents,
        metadata=metadata,
    )
    with pytest.raises(CorruptFileError, match="must hold an index whose parts fit together"):
        Index.load(place)


@pytest.mark.parametrize("centers", [torch.rand(3), torch.rand(3, 5), torch.full((3, 16), float("inf"))])
def test_forged_centers_are_refused(tmp_path: Path, easy: Floats, centers: torch.Tensor) -> None:
    index = Index(16, kind=IVF(probes=8), similarity="cosine")
    index.add(easy[:1200])
    content = read_folder(index.save(tmp_path / "index"), format="nearer.index", version=1)
    content.tensors["structure"]["centers"] = centers
    place = write_folder(
        tmp_path / "forged",
        format="nearer.index",
        version=1,
        tensors=content.tensors,
        documents=content.documents,
        metadata=content.metadata,
    )
    with pytest.raises(CorruptFileError, match="`centers` must be finite rows of 16"):
        Index.load(place)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cells", torch.zeros(3, dtype=torch.int32)),
        ("cells", torch.full((1200,), 99, dtype=torch.int32)),
        ("codes", torch.zeros(1200, 3, dtype=torch.uint8)),
        ("books", torch.zeros(5)),
    ],
)
def test_forged_cells_and_codes_are_refused(tmp_path: Path, easy: Floats, name: str, value: torch.Tensor) -> None:
    index = Index(16, kind=IVFPQ(probes=8, bytes=8), similarity="cosine")
    index.add(easy[:1200])
    content = read_folder(index.save(tmp_path / "index"), format="nearer.index", version=1)
    content.tensors["structure"][name] = value
    place = write_folder(
        tmp_path / "forged",
        format="nearer.index",
        version=1,
        tensors=content.tensors,
        documents=content.documents,
        metadata=content.metadata,
    )
    with pytest.raises(CorruptFileError, match=f"`{name}` must"):
        Index.load(place)


def test_cells_of_an_older_folder_are_found_again(tmp_path: Path, easy: Floats, new: Floats) -> None:
    index = Index(16, kind=IVF(probes=8))
    index.add(easy[:1200])
    content = read_folder(index.save(tmp_path / "index"), format="nearer.index", version=1)
    del content.tensors["structure"]["cells"]
    place = write_folder(
        tmp_path / "older",
        format="nearer.index",
        version=1,
        tensors=content.tensors,
        documents=content.documents,
        metadata=content.metadata,
    )
    assert Index.load(place).search(new, k=5).ids.tolist() == index.search(new, k=5).ids.tolist()


def test_the_folder_is_open_to_other_tools(stored: Path) -> None:
    from safetensors.torch import load_file

    manifest = json.loads((stored / "manifest.json").read_text())
    assert (manifest["format"], manifest["version"]) == ("nearer.index", 1)
    assert manifest["metadata"]["kind"] == "HNSW"
    assert load_file(stored / "vectors.safetensors")["vectors"].shape == (1200, 16)
    assert json.loads((stored / "items.json").read_text())["ids"][:2] == [0, 1]
