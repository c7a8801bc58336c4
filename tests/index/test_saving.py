"""A saved index answers the same after loading, and no damaged or forged database gets through."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nearer._storage import write_folder
from nearer._storage._tensors import tensor_bytes, tensors_of
from nearer.exceptions import CorruptFileError, MissingDataError, NearerError, ParameterError, WriteError
from nearer.index import HNSW, IVF, IVFPQ, Exact, Index, open_index
from nearer.index._database import SUPER_JOURNAL
from nearer.index._rows import checksums

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
    index.add(easy[:1500], metadata={"secret": [f"s{i}!" for i in range(1500)]})
    index.remove([7])
    assert index._removed == 1
    place = index.save(tmp_path / "index")
    data = (place / "index.sqlite").read_bytes()
    assert b"s7!" not in data
    assert b"s8!" in data
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
    from nearer.index import _database

    def full_disk(self: Any) -> None:
        raise WriteError("No space left on device")

    monkeypatch.setattr(_database.Database, "commit", full_disk)
    with pytest.raises(WriteError, match="No space left"):
        index.save(place)
    with pytest.raises(WriteError, match="No space left"):
        index.save(tmp_path / "other")
    monkeypatch.undo()
    assert len(Index.load(place)) == 1
    index.save(place)
    assert len(Index.load(place)) == 2
    wider = Index(3, kind=HNSW())
    wider.add(np.eye(3), ids=list("abc"))
    wider.save(place)
    assert Index.load(place).ids == ["a", "b", "c"]
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("damage", ["cut", "delete", "empty", "text"])
def test_damage_is_named(tmp_path: Path, easy: Floats, damage: str) -> None:
    index = Index(16, kind=IVF(probes=8), similarity="cosine")
    index.add(easy[:1200])
    file = index.save(tmp_path / "index") / "index.sqlite"
    data = file.read_bytes()
    file.unlink()
    kind: type[NearerError] = CorruptFileError
    if damage in ("delete", "empty"):
        kind = MissingDataError
    if damage != "delete":
        file.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"no database\n" * 100}[damage])
    for call in (Index.load, open_index):
        with pytest.raises(kind, match=r"index"):
            call(tmp_path / "index")


def test_absence_and_other_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no such folder"):
        Index.load(tmp_path / "nowhere")
    write_folder(tmp_path / "other", format="nearer.geometry", version=1, tensors={})
    with pytest.raises(CorruptFileError, match="must be the folder of an index, it holds a model"):
        Index.load(tmp_path / "other")
    index = Index(2)
    with pytest.raises(CorruptFileError, match="must be the folder of an index or free"):
        index.save(tmp_path / "other")
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="must be a folder, it is a file"):
        index.save(tmp_path / "file")


def sql(*commands: str) -> Callable[[sqlite3.Connection], None]:
    def work(connection: sqlite3.Connection) -> None:
        for command in commands:
            connection.execute(command)

    return work


def resealed(change: str) -> Callable[[sqlite3.Connection], None]:
    """Change a row and give it the right checksum."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(f"UPDATE items SET {change} WHERE position = 3")
        one, text, blob = connection.execute(
            "SELECT id, metadata, embedding FROM items WHERE position = 3"
        ).fetchone()
        row = np.frombuffer(blob, dtype="<f4")[None] if len(blob) % 4 == 0 else np.zeros((1, 16), "<f4")
        connection.execute("UPDATE items SET checksum = ? WHERE position = 3", checksums([one], [text], row))

    return work


def about(name: str, value: str) -> Callable[[sqlite3.Connection], None]:
    return lambda connection: connection.execute("UPDATE about SET value = ? WHERE name = ?", [value, name])  # type: ignore[return-value]


FORGERIES: dict[str, Callable[[sqlite3.Connection], None]] = {
    "a row too short": resealed("embedding = x'0000'"),
    "a row of text": resealed("embedding = 'abc'"),
    "a row that is not finite": resealed(f"embedding = x'{np.full(16, np.nan, '<f4').tobytes().hex()}'"),
    "a row too long for squares": resealed(f"embedding = x'{np.full(16, 3e38, '<f4').tobytes().hex()}'"),
    "an id of another kind": resealed("id = 'text'"),
    "an id that is a float": resealed("id = 1.5"),
    "an id that is bytes": resealed("id = x'00'"),
    "metadata that are numbers": resealed("metadata = x'00'"),
    "no checksum": sql("UPDATE items SET checksum = 'x' WHERE position = 3"),
    "text that is none": sql("UPDATE items SET metadata = CAST(x'ff' AS TEXT) WHERE position = 3"),
    "unknown kind": about("kind", '{"kind": "Magic", "settings": {}}'),
    "unknown setting": about("kind", '{"kind": "HNSW", "settings": {"magic": 1}}'),
    "unknown similarity": about("similarity", '"magic"'),
    "a giant dimension": about("dimension", str(10**9)),
    "another dimension": about("dimension", "8"),
    "no dimension": sql("DELETE FROM about WHERE name = 'dimension'"),
    "no next id": sql("UPDATE about SET value = '[0]' WHERE name = 'state'"),
    "an offset too short": about("offset", '"AACAPw=="'),
    "an offset that is none": about("offset", '"?"'),
    "fields that are none": about("fields", "[1]"),
    "deep settings": about("model", "[" * 5000 + "]" * 5000),
    "settings that are none": about("fields", "{"),
    "a negative generation": about("generation", "-1"),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items; END"),
    "an index that computes": sql("CREATE INDEX i ON items (length(hex(zeroblob(1000))))"),
    "a view": sql("CREATE VIEW v AS SELECT 1"),
    "another table": sql("ALTER TABLE items RENAME COLUMN checksum TO sum"),
    "another program": sql("PRAGMA application_id = 7"),
    "a newer format": sql("PRAGMA user_version = 99"),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, easy: Floats) -> Path:
    index = Index(16, kind=HNSW(neighbors=8), similarity="cosine")
    index.add(easy[:1200])
    return index.save(tmp_path_factory.mktemp("stored") / "index")


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda name: name.replace(" ", "-"))
def test_a_forged_database_is_refused(stored: Path, tmp_path: Path, forgery: str) -> None:
    place = copied(stored, tmp_path)
    connection = sqlite3.connect(place / "index.sqlite", isolation_level=None)
    FORGERIES[forgery](connection)
    connection.close()
    for call in (Index.load, lambda place: open_index(place, read_only=True), open_index):
        with pytest.raises(
            NearerError, match=r"index\.sqlite|whose parts fit together|Update nearer|levels of lists"
        ):
            call(place)


def copied(stored: Path, tmp_path: Path) -> Path:
    place = tmp_path / "index"
    place.mkdir(parents=True)
    for file in stored.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["positions"].fill_(1),
        lambda t: t.update(positions=torch.rand(1200)),
        lambda t: t.pop("levels"),
        lambda t: t["levels"].fill_(60),
        lambda t: t["offsets"].add_(1),
        lambda t: t["neighbors"].fill_(10**6),
        lambda t: t["neighbors"].fill_(-2),
        lambda t: t["neighbors"].fill_(int(t["levels"].argmin())),
        lambda t: t.update(entry=torch.tensor([10**6, 1])),
        lambda t: t.update(entry=torch.tensor([[1, 2], [3, 4]])),
        lambda t: t.pop("about"),
        lambda t: t["about"].fill_(0),
    ],
)
def test_a_forged_structure_is_built_again(stored: Path, tmp_path: Path, new: Floats, change: Any) -> None:
    import hashlib

    place = copied(stored, tmp_path)
    file = place / "structure.safetensors"
    tensors = tensors_of(np.frombuffer(bytearray(file.read_bytes()[:-32]), np.uint8), "x")
    change(tensors)
    data = b"".join(tensor_bytes(tensors))
    file.write_bytes(data + hashlib.sha256(data).digest())
    assert Index.load(place).search(new, k=5).ids.tolist() == Index.load(stored).search(new, k=5).ids.tolist()


def test_the_structure_of_another_index_is_not_taken(tmp_path: Path, easy: Floats, new: Floats) -> None:
    one, other = Index(16, kind=IVF(probes=8)), Index(16, kind=IVF(probes=8))
    one.add(easy[:1200])
    other.add(easy[1200:2400])
    places = [index.save(tmp_path / name) for index, name in ((one, "one"), (other, "other"))]
    (places[0] / "structure.safetensors").write_bytes((places[1] / "structure.safetensors").read_bytes())
    assert Index.load(places[0]).search(new, k=5).ids.tolist() == one.search(new, k=5).ids.tolist()


NAMES = ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.sqlite-journal", "writer.lock"]


@pytest.mark.parametrize("name", [*NAMES, "structure.safetensors"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "socket"])
def test_links_and_pipes_are_refused(stored: Path, tmp_path: Path, name: str, kind: str) -> None:
    """Loading a stranger's folder touches nothing outside of it, and does not wait for anything."""
    place = copied(stored, tmp_path)
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    (place / name).unlink(missing_ok=True)
    if kind == "link":
        (place / name).symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(place / name)
    elif kind == "folder":
        (place / name).mkdir()
    else:
        listening = socket.socket(socket.AF_UNIX)
        before = os.getcwd()
        os.chdir(place)  # the name of a socket must be short
        listening.bind(name)
        listening.close()
        os.chdir(before)
    for call in (Index.load, lambda place: open_index(place, read_only=True), open_index, Index(2).save):
        with pytest.raises(CorruptFileError, match="must be a plain file"):
            call(place)
    assert outside.read_bytes() == b"mine"


def test_a_journal_that_names_another_file_is_refused(stored: Path, tmp_path: Path) -> None:
    """SQLite opens and deletes the file that a rollback journal names as the journal above it."""
    place = copied(stored, tmp_path)
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    name = os.fsencode(outside)
    checksum = sum(int.from_bytes(bytes([byte]), "big", signed=True) for byte in name) % 2**32
    page = (place / "index.sqlite").read_bytes()[:4096]
    head = bytes.fromhex("d9d505f920a163d7") + b"".join(
        number.to_bytes(4, "big")
        for number in (0, 0, len((place / "index.sqlite").read_bytes()) // 4096, 512, 4096)
    )
    tail = (
        len(page).to_bytes(4, "big")
        + name
        + len(name).to_bytes(4, "big")
        + checksum.to_bytes(4, "big")
        + SUPER_JOURNAL
    )
    (place / "index.sqlite-journal").write_bytes(head.ljust(512, b"\0") + tail)
    for call in (Index.load, open_index):
        with pytest.raises(CorruptFileError, match="names another file"):
            call(place)
    assert outside.read_bytes() == b"mine"


@pytest.mark.parametrize(
    "call", [Index.load, lambda place: open_index(place, read_only=True), open_index], ids=["load", "read", "write"]
)
def test_a_writer_killed_within_its_rollback_journal_loses_nothing(
    tmp_path: Path, easy: Floats, call: Callable[[Path], Any]
) -> None:
    """As while it leaves the mode of the log: half of the pages are written, the journal has what they were."""
    index = Index(16)
    index.add(easy[:2500], metadata={"n": range(2500)})
    place = index.save(tmp_path / "index")
    writer = sqlite3.connect(place / "index.sqlite", isolation_level=None)
    for command in ("PRAGMA cache_size = 1", "PRAGMA cache_spill = 1", "BEGIN", "DELETE FROM items"):
        writer.execute(command)
    killed = copied(place, tmp_path / "killed")
    writer.rollback()
    writer.close()
    assert (killed / "index.sqlite-journal").stat().st_size
    assert (killed / "index.sqlite").read_bytes() != (place / "index.sqlite").read_bytes()
    again = call(killed)
    assert again.ids == index.ids
    assert again.metadata([7]) == [{"n": 7}]
    again.close() if hasattr(again, "close") else None


def test_a_lock_that_is_a_database_is_refused(stored: Path, tmp_path: Path) -> None:
    place = copied(stored, tmp_path)
    (place / "writer.lock").write_bytes((place / "index.sqlite").read_bytes())
    for call in (open_index, Index(2).save):
        with pytest.raises(CorruptFileError, match="must be empty and alone"):
            call(place)
    (place / "writer.lock").write_bytes(b"")
    (place / "writer.lock-journal").write_bytes(b"x")
    with pytest.raises(CorruptFileError, match="must be empty and alone"):
        open_index(place)


def test_a_sparse_giant_is_refused_without_its_memory(stored: Path, tmp_path: Path) -> None:
    place = copied(stored, tmp_path)
    os.truncate(place / "index.sqlite", 1 << 36)
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from nearer.index import Index
from nearer.exceptions import NearerError
try:
    assert len(Index.load({str(place)!r})) == 1200
except NearerError:
    pass
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("centers", [torch.rand(3), torch.rand(3, 5), torch.full((3, 16), float("inf"))])
def test_forged_centers_are_refused(tmp_path: Path, easy: Floats, centers: torch.Tensor) -> None:
    with pytest.raises(CorruptFileError, match="`centers` must be finite rows of 16"):
        restored(easy, IVF(probes=8), centers=centers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cells", torch.zeros(3, dtype=torch.int32)),
        ("cells", torch.full((1200,), 99, dtype=torch.int32)),
        ("codes", torch.zeros(1200, 3, dtype=torch.uint8)),
        ("books", torch.zeros(5)),
    ],
)
def test_forged_cells_and_codes_are_refused(easy: Floats, name: str, value: torch.Tensor) -> None:
    with pytest.raises(CorruptFileError, match=f"`{name}` must"):
        restored(easy, IVFPQ(probes=8, bytes=8), **{name: value})


def restored(easy: Floats, kind: IVF | IVFPQ, **forged: torch.Tensor) -> Any:
    from nearer.index._approximate import build, restore

    structure = build(kind, easy[:1200], similarity="cosine")
    tensors = structure.tensors() | forged
    return restore(kind, easy[:1200], tensors, similarity="cosine", trained_on=1200)
