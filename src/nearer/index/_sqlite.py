"""An index in a folder: every change is in its SQLite database before the call returns.

The rows are in memory too, where they are searched. A change goes into a transaction, is committed, and then goes
into memory; whatever stops it between the two, the next call reads memory again from the database. One process
writes; any number read, each the version that it opened.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from nearer._checks import check_int
from nearer._storage._folder import resolved
from nearer.exceptions import MissingDataError, ParameterError, WriteError
from nearer.index import _saving as saving
from nearer.index._database import FILE, Database, in_our_words, is_older
from nearer.index._fields import note_of
from nearer.index._index import Index
from nearer.index._items import Id
from nearer.index._kinds import IVF, Exact, Wanted
from nearer.index._saving import convert, fill, fitting, make_folder, numbers_text, restore_structure, settings_of
from nearer.index._structure_file import save_structure
from nearer.neighbors._shared import has_faiss

if TYPE_CHECKING:
    from nearer.index._writer_lock import WriterLock

P = ParamSpec("P")
R = TypeVar("R")

# A structure is saved when so many rows, and this share of them, are not in the saved one; and at closing.
UNSAVED, SHARE = 50_000, 0.1
ABANDONED: list[Any] = []


def identity(file: str) -> tuple[int, int] | None:
    """What tells one file from another at the same path."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _looked_at(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of an index in memory, called while no change is on its way there."""

    @functools.wraps(method)
    def settled(index: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with index._looking():
            return method(index, *args, **kwargs)

    return settled


class SQLiteIndex(Index):
    """A durable index in a folder, made by `open_index`: an `Index` with `sync`, `compact`, `verify`, `close`."""

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        super().__init__(1)
        self.folder = folder
        self._file = str(folder / FILE)  # joined once: every change looks at it
        self.read_only = read_only
        self._name = ""
        self._removals = 0
        self._last: int | None = 0  # position; None after gaps were closed, until the next change asks
        self._others = 0  # the changes of others that memory has
        self._generation = 0
        self._saved_structure = (-1, 0, -1)  # its generation, its rows, and how many it was trained on
        self._database: Database | None = None
        self._lock: WriterLock | None = None
        self._process = os.getpid()
        self._identity: tuple[int, int] | None = None  # of the file that is open
        self._log: tuple[int, int] | None = None  # and of its log, from the first change on
        self._writing = threading.RLock()
        self._state = threading.RLock()
        # True while a change is made, and for ever if it is stopped: then memory is read again from the database.
        self._unsettled = False
        self._torn = False  # the same, for the part of a change that goes into memory
        self._group = False  # a transaction is open whose changes are in memory already
        self._lost = False  # such changes were taken back, and nobody was told yet
        self._untidy = False  # gaps are closed in memory and not in the database

    # Opening and closing

    @classmethod
    def read(cls, folder: Path) -> SQLiteIndex:
        """One version of the index in a folder, for reading."""
        index = cls(folder, read_only=True)
        database = Database.read(folder)
        try:
            index._fill(database)
        finally:
            database.close()
        return index

    @classmethod
    def write(cls, folder: Path, wanted: Wanted) -> SQLiteIndex:
        """The index in a folder, for writing; with a dimension a new one where there is none."""
        index = cls(folder, read_only=False)
        if wanted.dimension is not None:
            index._set(wanted.dimension, wanted.similarity or "euclidean", wanted.kind)
            index._auto = wanted.kind is None
            index._target = saving.RECALL if index._auto else None
            index.fingerprint = wanted.fingerprint
        from nearer.index._writer_lock import hold

        make_folder(folder)
        index._lock = hold(folder)
        try:
            # Under the lock: another process may have made it since.
            index._database = database = Database.write(folder)
            if database.is_empty and is_older(folder):
                database.close()
                convert(folder)
                index._database = database = Database.write(folder)
            index._identity = identity(index._file)
            if not database.is_empty:
                index._read()
                saving.clear_older(folder, database.about().get("replaces"))
            elif wanted.dimension is None:
                raise MissingDataError(
                    f"`{folder}` must be the folder of an index, it is still empty. Pass `dimension` to make one.",
                    argument="dimension",
                )
            else:
                about = settings_of(index)
                index._name = about["name"]
                with database.transaction():
                    database.create()
                    database.note(**about)
                index._others = database.changes_of_others()
        except BaseException:
            index._let_go()
            raise
        return index

    def close(self) -> None:
        """Commit, save the structure and let others write; the index cannot be used afterwards."""
        with self._writing:
            if self._database is None:
                return
            try:
                if os.getpid() == self._process:
                    self.sync()
                    self._save_structure(always=True)
            finally:
                self._let_go()

    def discard(self) -> None:
        """Close, and take back what no `sync` has confirmed."""
        with self._writing:
            self._let_go()

    def _let_go(self) -> None:
        database, self._database = self._database, None
        lock, self._lock = self._lock, None
        if os.getpid() != self._process:
            # A copy made by fork: closing its handles would end the locks and the log of the other process.
            ABANDONED.extend((database, lock))
            return
        try:
            if database is not None and self._replaced():
                # Another process had it: what this one has would be written over what that one wrote.
                ABANDONED.append(database)
            elif database is not None:
                database.close()
        finally:
            if lock is not None:
                lock.let_go()

    # Changes

    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None, *, sync: bool = True) -> list[Id]:
        """As `Index.add`; on the disk when it returns, unless `sync=False` leaves that to a later `sync()`."""
        return self._put(embeddings, ids, metadata, sync=sync, replacing=False)

    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None, *, sync: bool = True) -> list[Id]:
        """As `Index.upsert`; on the disk when it returns, unless `sync=False`."""
        return self._put(embeddings, ids, metadata, sync=sync, replacing=True)

    def _put(self, embeddings: Any, ids: Any, metadata: Any, *, sync: bool, replacing: bool) -> list[Id]:
        with self._changing() as database:
            change = self._change(embeddings, ids, metadata, replacing=replacing)
            if change.ids:
                known = [item_id for item_id in change.ids if item_id in self._items.places] if replacing else []
                noted: dict[str, Any] = {}
                if not len(self._items):
                    noted["offset"] = numbers_text(change.offset)
                if change.notes.kinds is not self._items.fields.kinds:
                    noted["fields"] = {name: sorted(kinds) for name, kinds in change.notes.kinds.items()}
                if known:
                    database.remove(known)
                database.insert(change.ids, change.notes.texts, change.rows)
                if noted:
                    database.note(**noted)
            self._finish(lambda: self._take(change), added=len(change.ids), sync=sync)
        return change.ids

    def remove(self, ids: Any, *, sync: bool = True) -> int:
        """As `Index.remove`; on the disk when it returns, unless `sync=False`.

        Ids and metadata go at once. A vector stays in the file until gaps are closed, because a structure may need
        it; `compact` closes them.
        """
        with self._changing() as database:
            positions = sorted(set(self._items.find(ids)))
            if positions:
                database.remove([self._items.ids[position] for position in positions])
                database.count_removal(self._removals + 1, self._items.next_id)
            self._finish(lambda: self._drop(positions), removals=int(bool(positions)), sync=sync)
        return len(positions)

    def number_from(self, next_id: int) -> None:
        """Give out no number below this one: the index that this is a copy of has given it out."""
        if next_id <= self.next_id:
            return
        with self._changing() as database:
            database.count_removal(self._removals + 1, next_id)
            self._finish(lambda: setattr(self._items, "next_id", next_id), removals=1, sync=True)

    def rebuild(self) -> None:
        """As `Index.rebuild`."""
        with self._changing():
            self._finish(self._close_gaps, sync=True)

    def remember(self, model: dict[str, Any]) -> None:
        """Note which model makes the embeddings."""
        with self._writing:
            self.sync()
            self._check_own()
            with self._open.transaction():
                self._open.note(model=model)
            self.made_by = model

    def sync(self) -> None:
        """Return when every change that was made before is on the disk: one flush for many of them."""
        with self._writing:
            if self._group:
                self._check_own()
            self._settle()
            lost, self._lost = self._lost, False
            if self._group:
                self._unsettled = True
                try:
                    if not lost:
                        with in_our_words(self.folder, "written"):
                            self._open.commit()
                finally:
                    # Memory is ahead of the database now, unless it was committed.
                    self._group = False
                    self._settle()
            if lost:
                raise WriteError(
                    f"`{self.folder}`: changes since the last sync() could not be written. They are taken back."
                )
            self._tidy()

    def compact(self) -> None:
        """Close gaps, save the structure, and give the room of what was removed back to the disk."""
        with self._writing:
            self._check_own()
            if self._removed:
                self.rebuild()
            self.sync()
            self._save_structure(always=True)
            with in_our_words(self.folder, "written"):
                self._open.connection.execute("VACUUM")
                self._open.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """As `Index.save`; its own folder has everything already, and is only compacted."""
        with self._writing:
            if resolved(path) == self.folder:
                self.compact()
                return self.folder
            self._settle()
            with self._looking():
                return super().save(path)

    def verify(self) -> None:
        """Check every page of the database, as SQLite does, and every item against its checksum."""
        with self._writing:
            if self._database is not None:
                self.sync()
            database = Database.read(self.folder)
            try:
                database.check()
                for _, texts, _ in database.rows(self.dimension):
                    for text in texts:
                        note_of(text or "")
            finally:
                database.close()

    @property
    def _open(self) -> Database:
        if self._database is None:
            why = "was opened with read_only=True" if self.read_only else "must be open, it was closed"
            raise ParameterError(f"`{self.folder}` {why} and cannot be changed.")
        return self._database

    @contextmanager
    def _changing(self) -> Iterator[Database]:
        """One change at a time, in a transaction of its own or as a part of one that `sync` will end."""
        with self._writing:
            database = self._open
            self._check_own()
            self._settle()
            self._unsettled = True
            try:
                with in_our_words(self.folder, "written"):
                    if not self._group:
                        database.begin()
                    if database.changes_of_others() != self._others:
                        # Another writer: SQLite's locks are lost when a process opens a file by other means too.
                        self._read()
                    elif self._last is None:
                        self._last = database.version()[1]
                    if self._group:
                        database.connection.execute("SAVEPOINT change")
                    yield database
            except BaseException:
                self._settle()
                raise
            self._unsettled = False
            self._tidy()
            self._save_structure(always=False)

    def _check_own(self) -> None:
        """The file that is open must be the one at the path, and of this process: what goes elsewhere is lost."""
        if os.getpid() != self._process:
            raise ParameterError(f"`{self.folder}` was opened by the process that made this one. Open it here.")
        if self._replaced():
            raise WriteError(
                f"`{self.folder}` was moved, deleted or opened by another writer since it was opened. Nothing was "
                f"changed. Open it again."
            )

    def _replaced(self) -> bool:
        """Whether the file that is open, or its log, is no longer the one at the path."""
        if identity(self._file) != self._identity:
            return True
        log = identity(f"{self._file}-wal")
        if self._log is None:
            self._log = log
        return log != self._log

    def _finish(self, work: Callable[[], None], *, sync: bool, added: int = 0, removals: int = 0) -> None:
        """The end of a change: on the disk first, then in memory."""
        database = self._open
        if sync:
            database.commit()
            self._group = False
        else:
            if self._group:
                database.connection.execute("RELEASE change")
            self._group = True
        with self._state:
            self._torn = True
            work()
            self._removals, self._last = self._removals + removals, (self._last or 0) + added
            self._torn = False

    def _settle(self) -> None:
        """After a change that was stopped: the database without its unfinished part, and memory as the database."""
        database = self._database
        if database is None:
            return
        # On a full disk SQLite may end a transaction by itself.
        vanished = self._group and not database.connection.in_transaction
        if not self._unsettled and not vanished:
            return
        if self._group and not vanished:
            with suppress(sqlite3.Error):
                database.connection.execute("ROLLBACK TO change")
        else:
            self._lost, self._group = self._lost or self._group, False
            database.roll_back()
        with in_our_words(self.folder, "read"):
            # An error of the disk lets SQLite forget what it had read, which counts as a change of others.
            self._others = database.changes_of_others()
            same = database.version() == (self._removals, self._last)
        if self._torn or not same:
            self._read()
        self._unsettled = False

    def _tidy(self) -> None:
        """Close the gaps in the database that are closed in memory; what fails is done with a later change."""
        if not self._untidy or self._group:
            return
        self._last = None  # positions at the end are given out again
        try:
            with self._open.transaction() as connection:
                connection.execute("DELETE FROM items WHERE id IS NULL")
                self._open.note(generation=self._generation + 1)
        except WriteError:
            return
        self._generation += 1
        self._untidy = False

    def _close_gaps(self) -> None:
        self._untidy = self._untidy or self._removed > 0
        super()._close_gaps()

    def _extend_structure(self, start: int) -> None:
        if self._auto and isinstance(self.kind, Exact) and len(self._items) > saving.EXACT_UP_TO and has_faiss():
            self.kind = IVF()
        super()._extend_structure(start)

    def _save_structure(self, *, always: bool) -> None:
        structure = self._structure
        if structure is None or self._untidy or self._group:
            return
        rows, trained_on = len(structure.positions), structure.trained_on
        generation, saved_rows, saved_for = self._saved_structure
        if (generation, saved_for) != (self._generation, trained_on):
            saved_rows = 0
        due = rows > saved_rows if always else rows - saved_rows > max(UNSAVED, SHARE * rows)
        if due and save_structure(self.folder, structure, self._name, self._generation):
            self._saved_structure = (self._generation, rows, trained_on)

    # Reading

    def _read(self) -> None:
        self._fill(self._open)
        self._torn = False

    def _fill(self, database: Database) -> None:
        """Memory as the database is."""
        with self._state, fitting(self.folder), database.snapshot():
            about = database.about()
            rows = fill(self, database, about)
            self._name = str(about["name"])
            self._removals, self._last = database.version()
            self._others = database.changes_of_others()
            self._generation = check_int(about["generation"], "generation", minimum=0)
            self._untidy = rows > len(self._items)
            covered = restore_structure(self, about, self.folder)
            trained_on = -1 if self._structure is None else self._structure.trained_on
            self._saved_structure = (self._generation, covered, trained_on)

    # Looking: while a change goes into memory, searches wait; while it goes to the disk, they do not.

    @contextmanager
    def _looking(self) -> Iterator[None]:
        while True:
            with self._state:
                if not self._torn and not (self._unsettled and self._is_left()):
                    yield
                    return
            with self._writing:
                self._settle()
                if self._database is None:
                    raise ParameterError(f"`{self.folder}` was closed after a change that failed. Open it again.")

    def _is_left(self) -> bool:
        """Whether nobody is at work at the change that is not settled."""
        if not self._writing.acquire(blocking=False):
            return False
        self._writing.release()
        return True

    # As those of `Index`, from any number of threads beside one that writes.
    search = _looked_at(Index.search)
    recall_estimate = _looked_at(Index.recall_estimate)
    embeddings = _looked_at(Index.embeddings)
    metadata = _looked_at(Index.metadata)
    fields = _looked_at(Index.fields)
    count = _looked_at(Index.count)
    __len__ = _looked_at(Index.__len__)
    __contains__ = _looked_at(Index.__contains__)

    @property
    def ids(self) -> list[Id]:
        """As `Index.ids`."""
        with self._looking():
            return list(self._items.places)
