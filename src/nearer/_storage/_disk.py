"""The few calls of the file system that storage is made of; a kill may come before or after each."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["exchange", "flush_folder", "write_bytes"]

# Small enough to be still in the cache when it is hashed after it was written.
PIECE = 1 << 20
# A file system that cannot flush a folder says so with one of these; anything else is a real failure.
_NO_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF, errno.EISDIR}
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def write_bytes(file: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a new file, flush it to the disk, and return the checksum and the size of what was written."""
    digest, size = hashlib.sha256(), 0
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
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


def exchange(one: Path, other: Path) -> bool:
    """Give two folders each other's name in one step; False where the system cannot."""
    call = _renameat2()
    if call is None:
        return False
    number = call(os.fsencode(one), os.fsencode(other))
    if number == 0:
        return True
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


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

    def call(one: bytes, other: bytes) -> int:
        done: int = function(current_folder, one, current_folder, other, swap)
        return 0 if done == 0 else ctypes.get_errno()

    return call
