"""The folder `.name.saving` beside `name`: the lock of the process that saves, and what it has not finished.

```
.name.saving/
  lock      held with flock while a process saves; says which process
  new       the version that is being written
  old       the version before, where two names cannot be exchanged in one step
  gone      what is being deleted
```

It may have come with a folder from a stranger: a link in its place, or in it, is never followed, and what is behind
it is neither written nor deleted.

It exists only during a save. Found later, it tells of a process that was killed, and whoever gets the lock next
puts things right: at any moment either `name` is whole, or `old` or `new` is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from nearer._limits import limit
from nearer._storage._disk import exchange, flush_folder, is_folder, open_plain
from nearer.exceptions import LockedError, WriteError

# Windows has no flock: writers are not kept apart there.
if os.name == "posix":
    import fcntl

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


def scratch_of(folder: Path) -> Path:
    """Where a save of `folder` works."""
    return folder.parent / f".{folder.name}.saving"


@contextlib.contextmanager
def locked(folder: Path, *, wait: float | None = None) -> Iterator[Path]:
    """Be the one process that changes `folder`; gives the scratch folder, which is gone afterwards."""
    scratch = scratch_of(folder)
    handle = _acquire(folder, scratch, limit("NEARER_LOCK_SECONDS") if wait is None else wait)
    try:
        yield scratch
    finally:
        # Without `name` itself, `old` may be the last copy there is.
        for name in ("new", "old", "gone") if os.path.lexists(folder) else ("new", "gone"):
            remove(scratch / name)
        _release(handle, scratch)


def settle_copies(folder: Path, is_whole: Callable[[Path], bool]) -> bool:
    """Finish or undo what a killed save left beside a folder; False if there is nothing, or someone is at work."""
    scratch = scratch_of(folder)
    if not os.path.lexists(scratch):
        return False
    try:
        with locked(folder, wait=0):
            restore(folder, scratch, is_whole)
    except (LockedError, OSError):
        # Held by a writer, or not ours to change: reading goes on without.
        return False
    return True


def restore(folder: Path, scratch: Path, is_whole: Callable[[Path], bool]) -> None:
    """Under the lock: if a kill came between two renames, let the newest whole version have its name back."""
    if os.path.lexists(folder):
        return
    for copy in whole_copies(scratch, is_whole):
        os.rename(copy, folder)
        flush_folder(folder.parent)
        return


def whole_copies(scratch: Path, is_whole: Callable[[Path], bool]) -> list[Path]:
    """The whole versions in a scratch folder, newest first."""
    copies: list[tuple[int, Path]] = []
    if not is_folder(scratch):
        return []
    for copy in (scratch / "new", scratch / "old"):
        # A writer at work may take it away between any two of our steps.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            written = (copy / "manifest.json").lstat().st_mtime_ns
            if is_whole(copy):
                copies.append((written, copy))
    return [copy for _, copy in sorted(copies, reverse=True)]


def publish(fresh: Path, folder: Path, scratch: Path) -> None:
    """Give a finished folder its name, in one step; when that fails, everything is as it was."""
    flush_folder(fresh)
    old = scratch / "old"
    if not _holds_something(folder):
        if os.name == "nt" and folder.is_dir():
            os.rmdir(folder)
        os.rename(fresh, folder)
        undo = [(folder, fresh)]
    elif exchange(fresh, folder):
        undo = []
    else:
        os.rename(folder, old)
        try:
            os.rename(fresh, folder)
        except BaseException:
            os.rename(old, folder)
            raise
        undo = [(folder, fresh), (old, folder)]
    try:
        flush_folder(folder.parent)
    except BaseException:
        # Not known to be durable: better the old version, which is, than one that a power cut may take.
        if undo:
            for source, target in undo:
                os.rename(source, target)
        else:
            exchange(fresh, folder)
        raise


def _holds_something(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _acquire(folder: Path, scratch: Path, wait: float) -> int:
    deadline = time.monotonic() + wait
    pause = 0.002
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(scratch)
        lock = scratch / "lock"
        try:
            handle = _open_lock(scratch, lock)
        except FileNotFoundError:
            continue  # the one before us has just swept
        try:
            if _take(handle) and _same(handle, lock):
                os.ftruncate(handle, 0)
                now = datetime.now(UTC).isoformat(timespec="seconds")
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()} since {now}".encode())
                return handle
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace") if hasattr(os, "pread") else ""
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() >= deadline:
            raise LockedError(
                f"`{folder}` must not be written by two processes at once, and {holder or 'another process'} is "
                f"writing it. Waited {wait:g} seconds: try again, end that process, or raise NEARER_LOCK_SECONDS."
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _open_lock(scratch: Path, lock: Path) -> int:
    if not stat.S_ISDIR(os.lstat(scratch).st_mode):
        raise WriteError(
            f"`{scratch}` must be the folder that nearer makes for a save, and is a link or a file. Delete it."
        )
    try:
        handle = open_plain(lock, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO):
            raise
        raise WriteError(f"`{lock}` must be a lock that nearer made: {error.strerror}. Delete it.") from error
    if os.fstat(handle).st_nlink > 1:
        os.close(handle)
        raise WriteError(f"`{lock}` must be a lock that nearer made: it has a second name elsewhere. Delete it.")
    return handle


def _take(handle: int) -> bool:
    if os.name != "posix":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some network file systems have no locks: better an unlocked save there than none.
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _same(handle: int, lock: Path) -> bool:
    """Whether the lock is still the one at its path: its last holder may have deleted it before we got it."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(lock))
    except FileNotFoundError:
        return False


def _release(handle: int, scratch: Path) -> None:
    # Deleted while it is still held: nobody can take a lock that is about to vanish and keep it.
    with contextlib.suppress(OSError):
        os.unlink(scratch / "lock")
    if os.name == "posix":
        # By name, because a forked child may still have the same open file.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)
    # Another process may have made its lock in the same folder meanwhile: then the folder is its.
    with contextlib.suppress(OSError):
        os.rmdir(scratch)


def remove(path: Path) -> None:
    """Delete a file or a folder, or as much of it as can be; what is left is swept the next time."""
    # Not everything that rmtree does is covered by its `ignore_errors`, and the lock must be given back after this.
    with contextlib.suppress(OSError):
        if is_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
