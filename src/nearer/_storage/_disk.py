"""The few calls of the file system that storage is made of; a kill may come before or after each."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# Small enough to be still in the cache when it is hashed after it was written.
PIECE = 1 << 20
# A file system that cannot flush a folder says so with one of these; anything else is a real failure.
_NO_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF, errno.EISDIR}
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
# Whoever wrote a folder may have put a link or a pipe in the place of a file: a link would lead us out of the
# folder, a pipe would make us wait for ever. Windows has neither flag.
_PLAIN = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

_A_LINK = "it is a link, and links in a folder are not followed"


def open_plain(file: str | Path, flags: int, *, folder: int | None = None) -> int:
    """Open an ordinary file, and nothing else: no link is followed, and no pipe or device is waited for.

    Args:
        file: its path, or with `folder` its name in there.
        flags: those of `os.open`.
        folder: the handle of an open folder.
    """
    if not hasattr(os, "O_NOFOLLOW") and os.path.islink(file):
        raise OSError(errno.ELOOP, _A_LINK, str(file))
    try:
        handle = os.open(file, flags | _PLAIN, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, _A_LINK, str(file)) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(file))
    return handle


def is_folder(path: Path) -> bool:
    """Whether there is a folder at the path itself, not behind a link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def write_bytes(file: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a new file, flush it to the disk, and return the checksum and the size of what was written."""
    digest, size = hashlib.sha256(), 0
    handle = open_plain(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for piece in pieces:
            view = memoryview(piece)
            for start in range(0, len(view), PIECE):
                part = view[start : start + PIECE]
                digest.update(part)
                size += len(part)
                while len(part):
                    part = part[os.write(handle, part) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    return {"sha256": digest.hexdigest(), "bytes": size}


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system knows how (Windows does not)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno in _NO_FLUSH:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Give two folders each other's name in one step; False where the system cannot."""
    call = _renameat2()
    if call is None:
        return False
    number = call(os.fsencode(first), os.fsencode(second))
    if number == 0:
        return True
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(second))


@functools.cache
def _renameat2() -> Callable[[bytes, bytes], int] | None:
    """Linux's renameat2 with RENAME_EXCHANGE, which Python does not offer; None on other systems."""
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    current_folder, swap = -100, 2

    def call(first: bytes, second: bytes) -> int:
        done: int = function(current_folder, first, current_folder, second, swap)
        return 0 if done == 0 else ctypes.get_errno()

    return call
