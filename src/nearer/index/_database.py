"""The file of an index: one SQLite database. What must not be lost is left to it; nothing here is a storage engine.

```
name/
  index.sqlite            about: settings, fields, counters; items: rows in order of insertion
  structure.safetensors   the approximate structure, a cache: built again when it is missing, stale or damaged
  writer.lock             an empty database, locked as long as somebody has the index open for writing
```

A removed item stays as a row without id and metadata until gaps are closed, because the structure knows rows by
their order. While a process writes, the database has a write-ahead log, so that readers go on beside it; closing it
leaves one plain file that a read-only disk can hold.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from nearer._limits import limit, parse_json, size_on_disk
from nearer._plain import Floats
from nearer._storage import MANIFEST
from nearer.exceptions import CorruptFileError, LockedError, MissingDataError, NearerError, WriteError
from nearer.index._items import Id
from nearer.index._rows import checksums

FILE, STRUCTURE, LOCK = "index.sqlite", "structure.safetensors", "writer.lock"
LOCK_LOGS = (f"{LOCK}-journal", f"{LOCK}-wal", f"{LOCK}-shm")
COMPANIONS = (FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal", LOCK, STRUCTURE, *LOCK_LOGS)
APPLICATION, VERSION = 0x6E656172, 1  # "near"
SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE items (position INTEGER PRIMARY KEY, id UNIQUE, metadata TEXT, embedding BLOB NOT NULL, "
    "checksum INTEGER NOT NULL)",
)
# The end of a rollback journal that names a second one, which SQLite would then open and delete. No database of one
# file has such a journal; a stranger's could name any file of the user.
SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
ROWS = 1024
# Settings, tables: far fewer are ours, and a forged tree of pages could give them without end.
FEW = 1000
VECTOR = "SELECT embedding FROM items WHERE id = ?"
INSERT = "INSERT INTO items (id, metadata, embedding, checksum) VALUES (?, ?, ?, ?)"
REMOVE = "UPDATE items SET id = NULL, metadata = NULL, checksum = ? WHERE id = ?"


class Database:
    """An open database file; every error of SQLite leaves it as one of ours."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.folder = folder
        self.writable = writable
        self.connection = connection

    # Opening

    @classmethod
    def write(cls, folder: Path) -> Database:
        """Open for writing what is there, or an empty database; the caller holds the writer's lock."""
        check_plain(folder)
        with in_our_words(folder, "open"):
            connection = _connect(folder / FILE, "rwc")
        try:
            with in_our_words(folder, "open"):
                version = _version(folder, connection)
                # A file system that cannot share memory (a network disk) answers with another mode, and keeps it.
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA journal_size_limit = {1 << 26}")
            if version:
                _check_schema(folder, connection)
            return cls(folder, connection, writable=True)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def read(cls, folder: Path) -> Database:
        """Open for reading, beside a writer or not; nothing in the folder is changed."""
        check_plain(folder)
        if not (folder / FILE).exists():
            raise MissingDataError(
                f"`{folder}` must be the folder of an index, there is no {FILE}. Check the path."
            )
        immutable = False
        if not os.access(folder, os.W_OK):
            # Nobody can write there, and so nobody does; locks and shared memory would have to be written too.
            immutable = not _size(folder / f"{FILE}-wal")
            if not immutable and not (folder / f"{FILE}-shm").exists():
                raise WriteError(
                    f"`{folder}` was not closed by its writer: its last changes are in {FILE}-wal, and cannot be "
                    f"read where nothing can be written. Copy the folder to another disk, and open it there."
                )
        elif (folder / f"{FILE}-journal").exists():
            # A writer was killed while it changed the journal's mode: SQLite finishes for it, and needs to write.
            _recover(folder)
        try:
            return cls._reading(folder, "ro")
        except NearerError:
            if not immutable:
                raise
        return cls._reading(folder, "ro&immutable=1")

    @classmethod
    def _reading(cls, folder: Path, mode: str) -> Database:
        connection = None
        try:
            with in_our_words(folder, "open"):
                connection = _connect(folder / FILE, mode)
                version = _version(folder, connection)
            if not version:
                raise MissingDataError(f"`{folder}` must be the folder of an index, {FILE} is still empty.")
            _check_schema(folder, connection)
            return cls(folder, connection, writable=False)
        except BaseException:
            if connection is not None:
                connection.close()
            raise

    def close(self) -> None:
        """Close; a writer first puts the write-ahead log into the file, unless readers are in it."""
        if self.writable:
            with suppress(sqlite3.Error):
                self.connection.rollback()
                self.connection.execute("PRAGMA busy_timeout = 100")
                self.connection.execute("PRAGMA journal_mode = DELETE")
        self.connection.close()

    # What is in it

    @property
    def is_empty(self) -> bool:
        """Whether it was never filled."""
        with in_our_words(self.folder, "read"):
            return not self.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()

    def create(self) -> None:
        """The two tables; inside a transaction."""
        for command in SCHEMA:
            self.connection.execute(command)
        self.connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self.connection.execute(f"PRAGMA user_version = {VERSION}")

    def about(self) -> dict[str, Any]:
        """All settings and counters."""
        with in_our_words(self.folder, "read"):
            cursor = self.connection.execute(f"SELECT name, value FROM about LIMIT {FEW}")
            rows = [row for part in self._bounded(cursor) for row in part]
        return {name: parse_json(value.encode(), f"`{self.folder / FILE}`") for name, value in rows}

    def note(self, **values: Any) -> None:
        """Set settings and counters."""
        self.connection.executemany(
            "INSERT INTO about (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [(name, json.dumps(value, allow_nan=False)) for name, value in values.items()],
        )

    def version(self) -> tuple[int, int]:
        """How often items were removed, and the last position: every change of the items changes one of them."""
        command = "SELECT value, (SELECT coalesce(max(position), 0) FROM items) FROM about WHERE name = 'state'"
        text, last = self.connection.execute(command).fetchone()
        return int(json.loads(text)[0]), int(last)

    def changes_of_others(self) -> int:
        """A number that changes when another connection has written, and not when this one has."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def count_removal(self, number: int, next_id: int) -> None:
        """Note a removal, and the next number: the items that are left may not tell it any more."""
        self.connection.execute("UPDATE about SET value = ? WHERE name = 'state'", (f"[{number}, {next_id}]",))

    def insert(self, ids: Sequence[Id], texts: Sequence[str], rows: Floats) -> None:
        """Append items."""
        width = 4 * rows.shape[1]
        for start in range(0, len(ids), ROWS):
            part = slice(start, start + ROWS)
            names, notes, numbers = ids[part], [text or None for text in texts[part]], rows[part]
            data = numbers.astype("<f4", copy=False).tobytes()
            blobs = [data[at : at + width] for at in range(0, len(data), width)]
            sums = checksums(names, notes, numbers)
            self.connection.executemany(INSERT, zip(names, notes, blobs, sums, strict=True))

    def remove(self, ids: Iterable[Id]) -> None:
        """Leave only the vectors of some items, which a structure may still need."""
        names = list(ids)
        # From the database, not from memory: no fault there may damage what is here.
        stored = [self.connection.execute(VECTOR, (name,)).fetchone() for name in names]
        if None in stored:
            raise CorruptFileError(
                f"`{self.folder / FILE}` must hold {names[stored.index(None)]!r}, it is not there."
            )
        rows = np.frombuffer(b"".join(blob for (blob,) in stored), dtype="<f4").reshape(len(names), -1)
        sums = checksums([None] * len(names), [None] * len(names), rows)
        self.connection.executemany(REMOVE, zip(sums, names, strict=True))

    def rows(self, dimension: int) -> Iterator[tuple[list[Id | None], list[str | None], Floats]]:
        """All items, some thousand at a time, each compared with its checksum."""
        with in_our_words(self.folder, "read"):
            cursor = self.connection.execute(
                "SELECT id, metadata, embedding, checksum FROM items ORDER BY position"
            )
            start = 0
            for part in self._bounded(cursor):
                ids, texts, blobs, sums = (list(column) for column in zip(*part, strict=True))
                _check_types(self.folder, ids, texts, blobs, sums, 4 * dimension)
                rows = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(part), dimension)
                right = checksums(ids, texts, rows)
                if right != sums:
                    at = [expected == other for expected, other in zip(right, sums, strict=True)].index(False)
                    raise CorruptFileError(
                        f"`{self.folder / FILE}` is damaged in row {start + at:,} ({ids[at]!r}), which was changed "
                        f"after it was written. Take it from a backup."
                    )
                yield ids, texts, rows
                start += len(part)

    def _bounded(self, cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
        """Rows, some at a time; forged ones may share their pages and hold far more together than the file."""
        left, part = self.size(), []
        for row in cursor:
            for value in row:
                if value.__class__ is bytes or value.__class__ is str:
                    left -= len(value)
            if left < 0:
                raise CorruptFileError(f"`{self.folder / FILE}` must hold every value once. Take it from a backup.")
            part.append(row)
            if len(part) == ROWS:
                yield part
                part = []
        if part:
            yield part

    def count(self, most: int) -> int:
        """How many rows there are, removed ones included; counting ends behind `most`."""
        with in_our_words(self.folder, "read"):
            command = "SELECT count(*) FROM (SELECT 1 FROM items LIMIT ?)"
            return int(self.connection.execute(command, [most + 1]).fetchone()[0])

    def size(self) -> int:
        """The bytes of the file and of its log."""
        return _size(self.folder / FILE) + _size(self.folder / f"{FILE}-wal")

    def check(self) -> None:
        """SQLite's own check of every page."""
        with in_our_words(self.folder, "read"):
            lines = self.connection.execute("PRAGMA integrity_check(3)").fetchall()
        if lines != [("ok",)]:
            told_us = "; ".join(str(row[0]) for row in lines)
            raise CorruptFileError(f"`{self.folder / FILE}` is damaged: {told_us}. Take it from a backup.")

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of what is done in it, or nothing."""
        with in_our_words(self.folder, "written"):
            self.begin()
            try:
                yield self.connection
            except BaseException:
                self.roll_back()
                raise
            self.commit()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One version for everything that is read in it, whatever a writer does meanwhile."""
        own = not self.connection.in_transaction
        with in_our_words(self.folder, "read"):
            if own:
                self.connection.execute("BEGIN")
            try:
                yield
            finally:
                if own:
                    self.roll_back()

    def begin(self) -> None:
        """Begin to write; as with `commit`, the caller tells what SQLite refuses."""
        if self.connection.in_transaction:
            self.roll_back()  # what an interrupt left
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Bring everything since `begin` to the disk; on an error none of it is there."""
        try:
            self.connection.execute("COMMIT")
        except BaseException:
            self.roll_back()
            # What reached the log without its flush could be found there after a kill: begin a new one.
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            raise

    def roll_back(self) -> None:
        """Forget everything since `begin`."""
        with suppress(sqlite3.Error):
            self.connection.rollback()


def is_older(folder: Path) -> bool:
    """Whether a folder holds an index from before databases; what reads those is loaded where one may be."""
    if not os.path.lexists(folder / MANIFEST):
        return False
    from nearer.index._older import is_older as found

    return found(folder)


def has_database(folder: Path) -> bool:
    """Whether a folder has the file of an index, with something in it: a maker may have been stopped before."""
    if not _size(folder / FILE):
        return False
    # A folder of an older format keeps its manifest until the database has everything: what cannot be read beside
    # it is a conversion that was killed. Elsewhere whoever opens it will be told what is wrong.
    unreadable = not is_older(folder)
    if (folder / f"{FILE}-journal").exists() and os.access(folder, os.W_OK):
        _recover(folder)
    try:
        connection = _connect(folder / FILE, "ro")
    except sqlite3.Error:
        return unreadable
    try:
        return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
    except (sqlite3.Error, UnicodeDecodeError):
        return unreadable
    finally:
        connection.close()


def _size(file: Path) -> int:
    """The bytes of a file that are there; one with holes claims more."""
    try:
        return size_on_disk(file.stat())
    except OSError:
        return 0


# A stranger's folder


def check_plain(folder: Path) -> None:
    """Refuse a folder whose files are links, pipes or devices: opening it must touch nothing outside of it."""
    for name in COMPANIONS:
        try:
            mode = os.lstat(folder / name).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise WriteError(f"`{folder}` could not be read: {error.strerror}. Look at its rights.") from error
        if not stat.S_ISREG(mode):
            raise CorruptFileError(
                f"`{folder / name}` must be a plain file, it is a link, pipe or folder. Delete it."
            )
    if _size(folder / LOCK) or any((folder / name).exists() for name in LOCK_LOGS):
        # It is locked and never written; SQLite would act on what a journal beside it says.
        raise CorruptFileError(f"`{folder / LOCK}` must be empty and alone, nearer never writes it. Delete it.")
    journal = folder / f"{FILE}-journal"
    try:
        with open(journal, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8))
            end = file.read(8)
    except OSError:
        return  # a writer has just finished with it, or SQLite will say what is wrong
    if end == SUPER_JOURNAL:
        raise CorruptFileError(f"`{journal}` names another file, which nearer never writes. Remove it.")


def _check_types(folder: Path, ids: Any, texts: Any, blobs: Any, sums: Any, width: int) -> None:
    kinds = set(map(type, ids)) - {type(None)}
    wrong = (
        not kinds <= {int, str}
        or len(kinds) > 1
        or not set(map(type, texts)) <= {str, type(None)}
        or set(map(type, blobs)) != {bytes}
        or set(map(len, blobs)) != {width}
        or set(map(type, sums)) != {int}
    )
    if wrong:
        raise CorruptFileError(
            f"`{folder / FILE}` must hold rows of {width} bytes, ids of one kind. Take a backup."
        )


# SQLite's words and ours


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(file))}?mode={mode}",
        uri=True,
        timeout=limit("NEARER_LOCK_SECONDS"),
        isolation_level=None,
        check_same_thread=False,
    )
    # A stranger's database may hold damaged pages and functions in its schema.
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _recover(folder: Path) -> None:
    try:
        connection = _connect(folder / FILE, "rw")
    except sqlite3.Error:
        return
    with suppress(sqlite3.Error, UnicodeDecodeError):
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    connection.close()


def _version(folder: Path, connection: sqlite3.Connection) -> int:
    """The version of the format; 0 for a database in which nothing is yet."""
    empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if empty and not application:
        return 0
    if application != APPLICATION:
        raise CorruptFileError(f"`{folder / FILE}` must be the database of an index, it is another one.")
    if version > VERSION:
        command = "SELECT trim(substr(value, 1, 40), '\"') FROM about WHERE name = 'library'"
        (library,) = connection.execute(command).fetchone() or ("",)
        raise CorruptFileError(
            f"`{folder}` has version {version} of its format, written by nearer {library}; this one reads up to "
            f"{VERSION}. Update nearer."
        )
    return version


def _check_schema(folder: Path, connection: sqlite3.Connection) -> None:
    """Our two tables as we made them, and nothing that acts by itself."""
    with in_our_words(folder, "read"):
        commands = connection.execute(f"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT {FEW}").fetchall()
    # Nothing else: an index could compute anything whenever a row is added.
    if sorted(sql for (sql,) in commands) != sorted(SCHEMA):
        raise CorruptFileError(f"`{folder / FILE}` must have the tables of an index, it has others. Take a backup.")


class in_our_words:
    """What SQLite refuses, in our words: `with in_our_words(place, "written"): ...`."""

    def __init__(self, folder: Path, doing: str) -> None:
        self.folder, self.doing = folder, doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise failure(error, self.folder, self.doing) from error
        if isinstance(error, UnicodeDecodeError):
            raise CorruptFileError(f"`{self.folder / FILE}` must hold text, it is damaged: {error}.") from error


def failure(error: sqlite3.Error, folder: Path, doing: str) -> NearerError:
    """What SQLite refused, as an error of ours."""
    code = str(getattr(error, "sqlite_errorname", "") or "")
    refusal: NearerError
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LockedError(f"`{folder}` is being changed by another process. Try again when it is quieter.")
    if code.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        # SQLite does not say which error the system gave; a full disk is the one that it does.
        number = errno.ENOSPC if code == "SQLITE_FULL" or _is_full(folder) else errno.EIO
        number = errno.EACCES if code.startswith(("SQLITE_READONLY", "SQLITE_PERM")) else number
        refusal = WriteError(
            f"`{folder}` could not be {doing}: {error}. Nothing was changed. Make room, or look at its rights."
        )
        refusal.errno = number
        return refusal
    if code.startswith("SQLITE_NOMEM"):
        raise MemoryError(str(error)) from error
    return CorruptFileError(f"`{folder / FILE}` must be the database of an index: {error}. Take it from a backup.")


def _is_full(folder: Path) -> bool:
    """Some failures of a full disk come as errors of input and output."""
    try:
        disk = os.statvfs(folder)
    except (OSError, AttributeError):
        return False
    return disk.f_bavail * disk.f_frsize < 1 << 16
