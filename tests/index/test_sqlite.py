"""An index in a folder: what was confirmed is there after anything, and readers see one version."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

import nearer
from nearer._storage import write_folder
from nearer.exceptions import (
    CorruptFileError,
    LockedError,
    MissingDataError,
    NearerError,
    ParameterError,
    ShapeError,
    WriteError,
)
from nearer.index import HNSW, IVF, Exact, Index, _saving, open_index
from nearer.index._database import Database
from nearer.index._sqlite import SQLiteIndex
from saved_versions import fork, wait

Floats = NDArray[np.float32]
OURS = str(Path(nearer.__file__).parent)  # an environment inside a folder called nearer is not ours


@pytest.fixture
def _untidied_memory() -> Iterator[None]:
    """What other tests left behind is not deleted while one of ours is interrupted: it would be hit instead."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


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
    ("kind", "similarity"),
    [(Exact(), "cosine"), (HNSW(neighbors=8), "euclidean"), (IVF(probes=8), "cosine")],
    ids=str,
)
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
    monkeypatch.setattr(_saving, "EXACT_UP_TO", 1500)
    with open_index(tmp_path / "index", dimension=16) as index:
        index.add(easy[:1500])
        assert index.kind == Exact()
        index.add(easy[1500:])
        assert isinstance(index.kind, IVF)
        assert index.recall.value >= 0.95
        told = repr(index)
    with open_index(tmp_path / "index") as index:
        assert repr(index) == told


def test_one_flush_for_many_changes(tmp_path: Path) -> None:
    """Others see the changes of a group when `sync` has brought all of them to the disk, in one transaction."""
    with open_index(tmp_path / "index", dimension=2) as index:
        for _ in range(50):
            index.add([[1, 2]], sync=False)
        index.remove([3], sync=False)
        assert len(index) == 49
        assert len(open_index(tmp_path / "index", read_only=True)) == 0
        index.sync()
        index.sync()
        assert len(open_index(tmp_path / "index", read_only=True)) == 49
        with pytest.raises(ParameterError, match="3 is not"):
            index.remove([3], sync=False)
        index.add([[3, 3]], sync=False)
        with pytest.raises(ShapeError, match="must have 2 columns"):
            index.add([[3, 3, 3]], sync=False)
        index.upsert([[3, 3]], [7])
        assert len(open_index(tmp_path / "index", read_only=True)) == 50
        index.add([[4, 4]], sync=False)
    assert len(open_index(tmp_path / "index", read_only=True)) == 51, "closing syncs"


class Failing:
    """A connection in which the n-th command fails as a full disk makes it fail."""

    def __init__(self, connection: sqlite3.Connection, at: int) -> None:
        self.connection, self.left = connection, at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.connection, name)
        if name not in ("execute", "executemany"):
            return found

        def call(*given: Any) -> Any:
            writes = given[0] != "BEGIN" and not given[0].startswith(("ROLLBACK", "SELECT", "PRAGMA"))
            self.left -= writes
            if writes and self.left == 0:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorname = "SQLITE_FULL"  # type: ignore[misc]
                raise error
            return found(*given)

        return call


@pytest.mark.parametrize("sync", [True, False])
def test_a_failed_command_changes_nothing(tmp_path: Path, sync: bool) -> None:
    memory, index = Index(2), open_index(tmp_path / "index", dimension=2)
    queries = np.array([[0.5, 0.25]], dtype=np.float32)
    for one in (memory, index):
        one.add(np.arange(200).reshape(100, 2), metadata={"n": range(100)})
    changes: list[Any] = [
        lambda one, **how: one.add([[1, 2]], metadata={"other": [1]}, **how),
        lambda one, **how: one.upsert([[1, 2], [3, 4]], [5, 200], **how),
        lambda one, **how: one.remove([7, 8], **how),
    ]
    real = index._database.connection
    failures = 0
    for change in changes:
        for at in range(1, 12):
            index._database.connection = Failing(real, at)
            try:
                change(index, sync=sync)
                index.sync()
            except WriteError as error:
                failures += error.errno == errno.ENOSPC
                same(index, memory, queries)
                same(open_index(tmp_path / "index", read_only=True), memory, queries)
            else:
                change(memory)
                break
            finally:
                index._database.connection = real
    assert failures > 8
    index.verify()
    same(index, memory, queries)
    index.close()
    same(open_index(tmp_path / "index", read_only=True), memory, queries)


def test_what_failed_in_a_group_takes_the_group_with_it_and_says_so(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index", dimension=2)
    index.add([[1, 2]])
    index.add([[3, 4]], sync=False)
    index._database.connection.rollback()  # as SQLite itself does when the disk is full in the middle of a group
    index.add([[5, 6]], sync=False)
    with pytest.raises(WriteError, match=r"since the last sync\(\) could not be written"):
        index.sync()
    assert index.embeddings(index.ids).tolist() == [[1, 2]]
    index.sync()
    index.add([[9, 9]])
    index.close()
    assert len(open_index(tmp_path / "index", read_only=True)) == 2


@pytest.mark.usefixtures("_untidied_memory")
def test_an_interrupt_anywhere_leaves_memory_as_the_database(tmp_path: Path, easy: Floats) -> None:
    """Each line of our code in turn is the one where Ctrl-C arrives; the same index goes on."""
    place = tmp_path / "index"
    index = open_index(place, dimension=16)
    index.add(easy[:80])
    done, at, step = 0, 0, 5
    changes: list[Any] = [
        lambda: index.add(easy[1200:1203]),
        lambda: index.upsert(easy[1300:1303], [2, 3, 5000 + at]),
        lambda: index.remove(index.ids[40:42]),
    ]
    while done < len(changes):
        at += step  # every line would take a minute
        left = [at]

        def stop(frame: Any, event: str, _: Any, left: list[int] = left) -> Any:
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            if event == "line":
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
            return stop

        try:
            sys.settrace(stop)
            changes[done]()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if left[0] > 0:
            done, at = done + 1, 0
        else:
            same(index, open_index(place, read_only=True), easy[:5])
            index.add(easy[:1])
            index.remove(index.ids[-1:])
    index.verify()
    index.close()
    with open_index(place) as again:
        same(again, open_index(place, read_only=True), easy[:5])


def test_another_writer_is_noticed(tmp_path: Path) -> None:
    """Where no lock is kept, as on some network disks: what the other wrote is not lost."""
    one = open_index(tmp_path / "index", dimension=2)
    one._lock.connection.rollback()
    fcntl.flock(one._lock.handle, fcntl.LOCK_UN)
    other = open_index(tmp_path / "index")
    other.add([[1, 2]])
    one.add([[3, 4]])
    other.remove([0])
    assert one.add([[5, 6]]) == [2]
    assert one.ids == [1, 2]
    other.close()
    one.close()


def test_copying_the_folder_lets_no_second_writer_in(tmp_path: Path) -> None:
    """Closing a file that was read to copy it drops the locks of SQLite on it, and not ours."""
    with open_index(tmp_path / "index", dimension=2) as index:
        index.add([[1, 2]])
        shutil.copytree(tmp_path / "index", tmp_path / "copy")
        code = f"from nearer.index import open_index; open_index({str(tmp_path / 'index')!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "must be open for writing once" in other.stderr
        index.add([[3, 4]])
    assert Index.load(tmp_path / "index").ids == [0, 1]


def test_a_log_that_another_writer_took_away_is_noticed(tmp_path: Path) -> None:
    """Both locks lost: the other one has closed, and what this one would write is read by nobody."""
    one = open_index(tmp_path / "index", dimension=2)
    one.add([[1, 2]])
    kept = (tmp_path / "index" / "index.sqlite-wal").read_bytes()
    (tmp_path / "index" / "index.sqlite-wal").unlink()
    (tmp_path / "index" / "index.sqlite-wal").write_bytes(kept)
    with pytest.raises(WriteError, match="opened by another writer"):
        one.add([[3, 4]])
    with pytest.raises(WriteError, match="opened by another writer"):
        one.compact()
    before = (tmp_path / "index" / "index.sqlite").read_bytes()
    one.close()
    assert (tmp_path / "index" / "index.sqlite").read_bytes() == before, "it must not write over the other's rows"


@pytest.mark.parametrize("work", ["close", "sync", "compact", "verify"])
def test_a_forked_copy_commits_nothing(tmp_path: Path, work: str) -> None:
    index = open_index(tmp_path / "index", dimension=2)
    index.add([[1, 2]])
    index.add([[3, 4]], sync=False)

    def child() -> None:
        try:
            getattr(index, work)()
        except ParameterError:
            assert work != "close"

    assert wait(fork(child)) == 0
    assert open_index(tmp_path / "index", read_only=True).ids == [0]
    index.close()
    assert open_index(tmp_path / "index", read_only=True).ids == [0, 1]


@pytest.mark.usefixtures("_untidied_memory")
@pytest.mark.parametrize("read_only", [False, True])
def test_an_interrupt_anywhere_in_a_save_leaves_the_index_as_it_is(tmp_path: Path, read_only: bool) -> None:
    rows = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    with open_index(tmp_path / "index", dimension=4) as made:
        made.add(rows, metadata={"n": range(60)})
        made.remove([3, 7, 20])
    index = open_index(tmp_path / "index", read_only=read_only)
    before = [index.ids, index.embeddings(index.ids).numpy().tolist(), index.metadata(index.ids)]

    for number in range(1, 2000, 3):
        # Each its own: a connection that the interrupt left open is closed whenever memory is tidied up.
        left, place = [number], tmp_path / f"elsewhere{number}"

        def interrupt(frame: Any, event: str, argument: Any, left: list[int] = left) -> Any:
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            if event == "line":
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            index.save(place)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert [index.ids, index.embeddings(index.ids).numpy().tolist(), index.metadata(index.ids)] == before
        shutil.rmtree(place, ignore_errors=True)
        if left[0] > 0:
            break
    else:
        pytest.fail("the save must come to its end")
    if not read_only:
        index.upsert(rows[:2], ids=[0, 1])
        index.verify()
        index.close()


def test_a_saved_folder_can_be_written_and_an_open_one_saved(tmp_path: Path) -> None:
    saved = Index(2, similarity="cosine")
    saved.add([[1, 2]], ids=["a"], metadata=[{"n": 1}])
    saved.save(tmp_path / "saved")
    with open_index(tmp_path / "saved") as index:
        index.add([[2, 1]], ids=["b"])
        index.save(tmp_path / "copy")
        assert index.save(tmp_path / "saved") == tmp_path / "saved"
        with pytest.raises(LockedError, match="must be open for writing once"):
            saved.save(tmp_path / "saved")
    assert Index.load(tmp_path / "saved").ids == Index.load(tmp_path / "copy").ids == ["a", "b"]
    assert Index.load(tmp_path / "copy").search([[1, 2]], k=1, where={"n": 1}).ids.tolist() == [["a"]]


def test_a_closed_index_is_one_plain_file(tmp_path: Path) -> None:
    with open_index(tmp_path / "index", dimension=2) as index:
        index.add([[1, 2]], ids=["a"], metadata=[{"n": 2000}])
        assert (tmp_path / "index" / "index.sqlite-wal").exists()
        open_index(tmp_path / "index", read_only=True)
    assert sorted(file.name for file in (tmp_path / "index").iterdir()) == ["index.sqlite", "writer.lock"]
    with sqlite3.connect(tmp_path / "index" / "index.sqlite") as plain:
        found = plain.execute("SELECT id, json_extract(metadata, '$.n'), length(embedding) FROM items").fetchall()
    plain.close()
    assert found == [("a", 2000, 8)]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_a_folder_that_cannot_be_written_can_be_read() -> None:
    # Not below pytest's own folder, which other users may not enter.
    around = Path(tempfile.mkdtemp())
    place = around / "index"
    with open_index(place, dimension=2) as index:
        index.add([[1, 2]], ids=["a"])

    def look() -> None:
        if os.geteuid() == 0:
            os.setegid(65534)
            os.seteuid(65534)
        assert open_index(place, read_only=True).ids == ["a"]
        with pytest.raises(NearerError, match=r"could not be|rights"):
            open_index(place)

    try:
        (place / "writer.lock").unlink()
        (place / "index.sqlite").chmod(0o444)
        place.chmod(0o555)
        around.chmod(0o755)
        assert wait(fork(look)) == 0
    finally:
        place.chmod(0o755)
        shutil.rmtree(around)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
def test_a_log_on_a_disk_that_cannot_be_written_is_not_ignored() -> None:
    """What a killed writer confirmed is in the log, which SQLite reads only with a file beside it."""
    around = Path(tempfile.mkdtemp())
    place, copy = around / "index", around / "copy"
    index = open_index(place, dimension=2)
    index.add([[1, 2]], ids=["a"])
    copy.mkdir()
    for name in ("index.sqlite", "index.sqlite-wal"):
        shutil.copy(place / name, copy)
    index.close()

    def become_nobody() -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    def look() -> None:
        become_nobody()
        with pytest.raises(WriteError, match=r"was not closed by its writer.*Copy the folder"):
            open_index(copy, read_only=True)

    def look_again() -> None:
        become_nobody()
        assert open_index(copy, read_only=True).ids == ["a"]

    try:
        around.chmod(0o755)
        copy.chmod(0o555)
        assert wait(fork(look)) == 0
        copy.chmod(0o755)
        open_index(copy).close()
        (copy / "index.sqlite-wal").touch()  # an empty one has nothing to lose
        copy.chmod(0o555)
        assert wait(fork(look_again)) == 0
    finally:
        copy.chmod(0o755)
        shutil.rmtree(around)


@pytest.mark.parametrize("name", ["nearer.index", "nearer.stored_index"])
def test_an_index_from_before_databases_is_refused_and_stays(tmp_path: Path, name: str) -> None:
    place = write_folder(tmp_path / "index", format=name, version=1, tensors={}, documents={"items": {}})
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    for call in (Index.load, lambda place: open_index(place, read_only=True, dimension=2)):
        with pytest.raises(
            CorruptFileError, match=r"an index from before 0\.1\.0, which must be made again|or free"
        ):
            call(place)
    for call in (lambda place: open_index(place, dimension=2), Index(2).save):
        with pytest.raises(CorruptFileError, match="must be the folder of an index or free"):
            call(place)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "index"
    with pytest.raises(MissingDataError, match="Pass `dimension` to make one"):
        open_index(place)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(CorruptFileError, match="must be the folder of an index or free"):
        open_index(tmp_path / "other", dimension=2)
    with open_index(place, dimension=2, fingerprint="one"):
        with pytest.raises(LockedError, match=r"must be open for writing once.*read_only=True"):
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


@pytest.mark.parametrize("name", ["index.sqlite", "structure.safetensors"])
def test_any_flipped_bit_is_found_or_does_not_matter(tmp_path: Path, easy: Floats, new: Floats, name: str) -> None:
    """A reader gives the right answers or an error of ours; the structure is only a cache."""
    place = tmp_path / "index"
    with open_index(place, dimension=16, kind=IVF(probes=8)) as index:
        index.add(easy[:1200], metadata={"n": range(1200)})
        right = [index.ids, index.search(new, k=3).similarities.tolist(), index.search(new, k=3).metadata]
    data = (place / name).read_bytes()
    chance = np.random.default_rng(0)
    found = 0
    for bit in chance.integers(0, 8 * len(data), size=60 if name == "index.sqlite" else 6).tolist():
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (place / name).write_bytes(bytes(damaged))
        try:
            reader = open_index(place, read_only=True)
        except NearerError:
            found += 1
            continue
        assert [
            reader.ids,
            reader.search(new, k=3).similarities.tolist(),
            reader.search(new, k=3).metadata,
        ] == right
    assert found > 30 if name == "index.sqlite" else found == 0
    (place / name).write_bytes(data[: len(data) // 2])
    if name == "index.sqlite":
        with pytest.raises(NearerError):
            open_index(place, read_only=True)
    else:
        with open_index(place) as index:
            assert index.ids == right[0]
        assert (place / name).stat().st_size == len(data), "it was built again"


def test_damage_in_a_row_is_named(tmp_path: Path) -> None:
    place = tmp_path / "index"
    with open_index(place, dimension=2) as index:
        index.add([[1, 2], [3, 4]], ids=["a", "b"], metadata=[{"n": 1}, {"n": 2}])
    for change in ("metadata = '{\"n\": 3}'", "embedding = x'0000803f00000041'", "id = 'c'"):
        copy = Path(shutil.copytree(place, tmp_path / f"copy {change[0]}"))
        with sqlite3.connect(copy / "index.sqlite") as plain:
            plain.execute(f"UPDATE items SET {change} WHERE id = 'b'")
        plain.close()
        for call in (lambda copy=copy: open_index(copy), lambda copy=copy: Index.load(copy)):
            with pytest.raises(CorruptFileError, match="is damaged in row 1"):
                call()


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


def test_the_largest_number_is_an_id_like_others(tmp_path: Path) -> None:
    with open_index(tmp_path / "index", dimension=1) as index:
        index.add([[1.0], [2.0]], ids=[2**63 - 1, -(2**63)])
    with open_index(tmp_path / "index") as index:
        assert index.ids == [2**63 - 1, -(2**63)]
        with pytest.raises(ParameterError, match="numbers of 64 bits are used up"):
            index.add([[3.0]])


@pytest.mark.parametrize("kind", [IVF(probes=4), HNSW(neighbors=8)], ids=str)
def test_a_kill_before_gaps_are_closed_shifts_nothing(
    tmp_path: Path, easy: Floats, new: Floats, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_index(tmp_path / "index", dimension=16, kind=kind) as index:
        index.add(easy[:500])
        monkeypatch.setattr(SQLiteIndex, "_tidy", lambda self: None)
        index.remove(index.ids)
    monkeypatch.undo()
    with open_index(tmp_path / "index") as index:
        index.add(easy[500:])
        right = index.search(new, k=1).ids.tolist()
    assert open_index(tmp_path / "index", read_only=True).search(new, k=1).ids.tolist() == right


def test_a_copy_of_the_process_may_not_write(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index", dimension=1)

    def copy() -> None:
        with pytest.raises(ParameterError, match="was opened by the process that made this one"):
            index.add([[1.0]])
        index.close()

    assert wait(fork(copy)) == 0
    index.add([[2.0]])
    index.close()
    assert len(open_index(tmp_path / "index", read_only=True)) == 1


def test_writes_into_a_folder_that_has_gone_are_refused(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index", dimension=1)
    index.add([[1.0]])
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(WriteError, match="was moved, deleted or opened"):
        index.add([[2.0]])
    with open_index(tmp_path / "index", dimension=1) as other:
        with pytest.raises(WriteError, match="was moved, deleted or opened"):
            index.add([[2.0]])
        other.add([[3.0]])
    index.close()
    assert open_index(tmp_path / "index", read_only=True).embeddings([0]).tolist() == [[3.0]]


def test_a_failed_close_ends_in_an_error_and_not_in_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(tmp_path / "index", dimension=1)
    index.add([[1.0]])

    def broken(self: Any) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Database, "changes_of_others", broken)
    for call in (lambda: index.add([[2.0]]), index.close):
        with pytest.raises(NearerError):
            call()
    for look in (lambda: len(index), lambda: index.search([[1.0]]), lambda: index.ids):
        with pytest.raises(ParameterError, match="closed after a change that failed"):
            look()


def test_a_reader_with_gaps_can_be_saved_elsewhere(tmp_path: Path) -> None:
    with open_index(tmp_path / "index", dimension=1) as index:
        index.add([[1.0], [2.0], [3.0]])
        index.remove([1])
    open_index(tmp_path / "index", read_only=True).save(tmp_path / "copy")
    assert Index.load(tmp_path / "copy").ids == [0, 2]


def test_values_that_a_forged_database_has_many_times_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows may share their pages: together they must not be longer than the file."""
    with open_index(tmp_path / "index", dimension=2) as index:
        index.add(np.ones((50, 2)), metadata=[{"text": "x" * 1000}] * 50)
    monkeypatch.setattr(Database, "size", lambda self: 20_000)
    with pytest.raises(CorruptFileError, match="must hold every value once"):
        open_index(tmp_path / "index", read_only=True)
