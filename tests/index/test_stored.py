"""An index in a folder: what was confirmed is there after anything, and readers see one version."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

from nearer.exceptions import (
    CorruptFileError,
    LockedError,
    MissingDataError,
    ParameterError,
    ShapeError,
    WriteError,
)
from nearer.index import HNSW, IVF, IVFPQ, Exact, Index, open_index
from nearer.index import _stored as stored
from saved_versions import fork, wait

Floats = NDArray[np.float32]


def same(one: Any, other: Any, queries: Floats, k: int = 7) -> None:
    a, b = one.search(queries, k=k), other.search(queries, k=k)
    assert one.ids == other.ids
    assert a.ids.tolist() == b.ids.tolist()
    assert a.similarities.tolist() == b.similarities.tolist()
    assert a.metadata == b.metadata


class StoredAgainstMemory(RuleBasedStateMachine):
    """Any order of changes, compactions and openings leaves what an index in memory has."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.mkdtemp() + "/index"
        self.memory = Index(2)
        self.index: Any = open_index(self.folder, dimension=2)

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(Path(self.folder).parent)

    @rule(points=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=40), note=st.booleans())
    def add(self, points: list[tuple[int, int]], note: bool) -> None:
        rows = np.array(points, dtype=np.float64).reshape(-1, 2)
        metadata = [{"n": n} for n in range(len(rows))] if note else None
        assert self.index.add(rows, metadata=metadata) == self.memory.add(rows, metadata=metadata)

    @precondition(lambda self: len(self.memory))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(self.memory.ids), unique=True))
        assert self.index.remove(gone) == self.memory.remove(gone)

    @rule(ids=st.lists(st.integers(0, 60), unique=True, max_size=20), value=st.integers(-3, 3))
    def upsert(self, ids: list[int], value: int) -> None:
        rows = np.full((len(ids), 2), value) + np.arange(len(ids))[:, None] % 3
        assert self.index.upsert(rows, ids) == self.memory.upsert(rows, ids)

    @rule()
    def compact(self) -> None:
        self.index.compact()
        self.index.verify()

    @rule()
    def close_and_open(self) -> None:
        self.index.close()
        self.index = open_index(self.folder)

    @invariant()
    def answers_like_memory(self) -> None:
        same(self.index, self.memory, np.array([[0.5, 0.25]], dtype=np.float32))
        with open_index(self.folder, read_only=True) as reader:
            same(reader, self.memory, np.array([[0.5, 0.25]], dtype=np.float32))


def test_an_upsert_of_everything_keeps_its_offset(tmp_path: Path) -> None:
    memory, index = Index(2), open_index(tmp_path / "index", dimension=2)
    for one in (memory, index):
        one.upsert([[1, 1]], [0])
        one.upsert([[0, 0], [1, 1]], [0, 1])
    queries = np.array([[0.5, 0.25]], dtype=np.float32)
    same(open_index(tmp_path / "index", read_only=True), memory, queries)
    index.close()


StoredAgainstMemory.TestCase.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
TestStoredAgainstMemory = StoredAgainstMemory.TestCase


@pytest.mark.parametrize(
    "kind", [Exact(), HNSW(neighbors=8), IVF(probes=8), IVFPQ(probes=8, bytes=16, refine=50)], ids=str
)
@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_an_opened_index_answers_the_same(
    tmp_path: Path, easy: Floats, new: Floats, kind: Any, similarity: Any
) -> None:
    memory = Index(16, similarity=similarity, kind=kind)
    with open_index(tmp_path / "index", dimension=16, similarity=similarity, kind=kind) as index:
        for one in (memory, index):
            one.add(easy[:2000] + 100, ids=[f"ä{n}" for n in range(2000)])
            one.remove(["ä3"])
    with open_index(tmp_path / "index") as index:
        assert repr(index) == repr(memory)
        same(index, memory, new + 100)
        for one in (memory, index):
            one.add(easy[2000:2030] + 100, ids=[f"late {n}" for n in range(30)])
    with open_index(tmp_path / "index", read_only=True) as index:
        found, expected = index.search(new + 100, k=7), memory.search(new + 100, k=7)
        assert np.mean(found.ids == expected.ids) > 0.99
        assert "late 7" in index


def test_the_default_becomes_approximate_when_it_is_large(
    tmp_path: Path, easy: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "EXACT_UP_TO", 1500)
    with open_index(tmp_path / "index", dimension=16) as index:
        index.add(easy[:1500])
        assert index.kind == Exact()
        index.add(easy[1500:])
        assert isinstance(index.kind, IVF)
        assert index.recall.value >= 0.95
        told = repr(index)
    with open_index(tmp_path / "index") as index:
        assert repr(index) == told


def test_a_torn_end_is_dropped_at_every_byte(tmp_path: Path) -> None:
    place = tmp_path / "index"
    index = open_index(place, dimension=2)
    index.add([[1, 2]], ids=["kept"])
    journal = place / "journal-1.log"
    before = journal.stat().st_size
    index.add([[3, 4]], ids=["torn"], metadata=[{"n": 1}])
    whole = journal.read_bytes()
    index._journal.close()
    index._let_go()
    for length in range(before, len(whole)):
        journal.write_bytes(whole[:length])
        with open_index(place, read_only=True) as reader:
            assert reader.ids == ["kept"]
    journal.write_bytes(whole[:before] + bytes(len(whole) - before))
    with open_index(place) as index:
        assert index.ids == ["kept"]
        index.add([[3, 4]], ids=["again"])
    assert open_index(place, read_only=True).ids == ["kept", "again"]


def test_damage_in_what_was_confirmed_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "index"
    index = open_index(place, dimension=2)
    for name in "abc":
        index.add([[1, 2]], ids=[name])
    index._journal.close()
    index._let_go()
    journal = place / "journal-1.log"
    data = bytearray(journal.read_bytes())
    data[40] ^= 1
    journal.write_bytes(bytes(data))
    with pytest.raises(CorruptFileError, match="damaged at byte 0, in a change that had been confirmed"):
        open_index(place)


def test_one_flush_for_many_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = []
    flush = os.fsync
    with open_index(tmp_path / "index", dimension=2) as index:
        monkeypatch.setattr(os, "fsync", lambda handle: flushes.append(flush(handle)))
        for _ in range(50):
            index.add([[1, 2]], sync=False)
        index.remove([3], sync=False)
        assert not flushes
        index.sync()
        index.sync()
        assert len(flushes) == 1
        index.upsert([[3, 3]], [7])
        assert len(flushes) == 2
        monkeypatch.undo()


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(tmp_path / "index", dimension=2)
    index.add([[1, 2]])

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WriteError, match=r"No space left.*Nothing was changed"):
        index.add([[3, 4]])
    monkeypatch.undo()
    assert len(index) == 1
    index.add([[3, 4]])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="could not be flushed"):
        index.add([[5, 6]])
    with pytest.raises(WriteError, match="Open it again"):
        index.add([[7, 8]])
    monkeypatch.undo()
    index.close()
    with open_index(tmp_path / "index") as again:
        assert len(again) in (2, 3)


def test_a_folder_of_save_can_be_read(tmp_path: Path) -> None:
    saved = Index(2)
    saved.add([[1, 2]], ids=["a"])
    saved.save(tmp_path / "saved")
    assert open_index(tmp_path / "saved", read_only=True).ids == ["a"]
    with pytest.raises(ParameterError, match=r"written by `Index\.save`.*read_only=True"):
        open_index(tmp_path / "saved")


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "index"
    with pytest.raises(MissingDataError, match="Pass `dimension` to make one"):
        open_index(place)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(CorruptFileError, match="must be free or the folder of an index"):
        open_index(tmp_path / "other", dimension=2)
    with open_index(place, dimension=2, fingerprint="one"):
        with pytest.raises(LockedError, match=r"must not be written by two processes.*read_only=True"):
            open_index(place)
        with (
            open_index(place, read_only=True) as reader,
            pytest.raises(ParameterError, match="opened with read_only=True"),
        ):
            reader.add([[1, 2]])
    with pytest.raises(ShapeError, match="`dimension` must be 2"):
        open_index(place, dimension=3)
    with pytest.raises(ParameterError, match="`similarity` must be 'euclidean'"):
        open_index(place, similarity="dot")
    with pytest.raises(ParameterError, match=r"another model \(one\), got two"):
        open_index(place, fingerprint="two")
    with pytest.raises(ParameterError, match="`fingerprint` must be text"):
        open_index(place, fingerprint=3)  # type: ignore[arg-type]
    index = open_index(place, fingerprint="one", dimension=2, similarity="euclidean")
    index.close()
    index.close()
    with pytest.raises(ParameterError, match="it was closed"):
        index.add([[1, 2]])


@pytest.mark.parametrize("name", ["manifest.json", "items-0.jsonl", "structure-0-2.safetensors", "vectors-0.f32"])
def test_damage_is_named(tmp_path: Path, easy: Floats, name: str) -> None:
    with open_index(tmp_path / "index", dimension=16, kind=IVF(probes=8)) as index:
        index.add(easy[:1200])
    file = tmp_path / "index" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(bytes(data))
    if name == "vectors-0.f32":
        with open_index(tmp_path / "index") as index, pytest.raises(CorruptFileError, match="damaged in rows 0 to"):
            index.verify()
    else:
        with pytest.raises(CorruptFileError, match=name.split(".")[0]):
            open_index(tmp_path / "index")
    file.write_bytes(bytes(data[: len(data) // 4]))
    with pytest.raises(CorruptFileError, match=name.split(".")[0]):
        open_index(tmp_path / "index")


def test_searches_beside_a_writer_in_one_process(tmp_path: Path, easy: Floats) -> None:
    """Every answer is that of some moment: the items come in batches of ten and are never seen in part."""
    failures: list[BaseException] = []
    done = threading.Event()
    with open_index(tmp_path / "index", dimension=16, kind=IVF(probes=8)) as index:
        index.add(easy[:1500], ids=range(1500))

        def look() -> None:
            try:
                while not done.is_set():
                    found = index.search(easy[:5], k=3)
                    assert (found.ids >= 0).all()
                    assert index.count() % 10 == 0
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for start in range(1500, 2500, 10):
            index.upsert(easy[start : start + 10], range(start, start + 10), sync=False)
            index.remove(range(start - 1500, start - 1490), sync=False)
            if start % 200 == 0:
                index.compact()
        done.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_readers_in_other_processes_see_whole_versions(tmp_path: Path) -> None:
    """The writer adds tens and folds in often; a reader must always find whole tens, in order."""
    place = tmp_path / "index"
    index = open_index(place, dimension=2)

    def read() -> None:
        last = 0
        while last < 300:
            with open_index(place, read_only=True) as reader:
                n = len(reader)
                assert n % 10 == 0
                assert n >= last
                assert reader.ids == list(range(n))
                assert reader.embeddings(range(n))[:, 0].tolist() == list(range(n))
                last = n

    children = [fork(read) for _ in range(2)]
    for start in range(0, 300, 10):
        rows = np.arange(start, start + 10, dtype=np.float32)[:, None].repeat(2, axis=1)
        index.add(rows)
        index.compact()
    assert [wait(child) for child in children] == [0, 0]
    index.close()
