"""One writer of a folder at a time, by locks that end with the process."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nearer._storage._disk import open_plain
from nearer.exceptions import LockedError, WriteError
from nearer.index._database import LOCK, check_plain, failure


class WriterLock(NamedTuple):
    """The right to write a folder: a lock of SQLite on an empty database, and one of the file that is open.

    The first is kept on network disks too. A process that opens the same file by other means, to copy the folder,
    loses it when it closes that; the second it keeps.
    """

    connection: sqlite3.Connection
    handle: int

    def let_go(self) -> None:
        """Let others write."""
        with suppress(sqlite3.Error):
            self.connection.rollback()
        self.connection.close()
        _HANDLES.discard(self.handle)
        with suppress(OSError):
            os.close(self.handle)


def _forget_handles() -> None:
    """In a process made by fork: the lock must not live longer than the one that took it."""
    for handle in _HANDLES:
        with suppress(OSError):
            os.close(handle)
    _HANDLES.clear()


_HANDLES: set[int] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_handles)


def hold(folder: Path) -> WriterLock:
    """Become the one writer of a folder."""
    connection = _hold_database(folder)
    try:
        handle = open_plain(folder / LOCK, os.O_RDWR)
    except OSError as error:
        connection.close()
        raise WriteError(f"`{folder}` could not be locked: {error.strerror}. Look at its rights.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        connection.close()
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise _open_elsewhere(folder) from error
        raise WriteError(f"`{folder}` could not be locked: {error.strerror}. Look at its rights.") from error
    _HANDLES.add(handle)
    return WriterLock(connection, handle)


def _open_elsewhere(folder: Path) -> LockedError:
    return LockedError(
        f"`{folder}` must be open for writing once, and it is already, here or in another process. Close it there; "
        f"a search (`read_only=True`) needs no such lock."
    )


def _hold_database(folder: Path) -> sqlite3.Connection:
    check_plain(folder)
    try:
        lock = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise failure(error, folder, "locked") from error
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if "locked" in str(error):
            raise _open_elsewhere(folder) from error
        raise failure(error, folder, "locked") from error
    except BaseException:
        lock.close()
        raise
    return lock
