"""The write-ahead journal of a stored index: one checksummed record for every change.

```
record   "nrJ1"  crc32 of all that follows  length of the text  length of the rows  known to be on the disk
         text (JSON: what to do, ids, metadata)   rows (float32)
```

A kill or a power cut can leave the end of the file half written, or, before an fsync, a hole in front of it. Such
an end was never confirmed and is dropped. Every record says up to where the journal was known to be on the disk
when it was written, so damage in what had been confirmed is told from an unfinished end and is an error.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearer._limits import parse_json
from nearer._storage._disk import flush_folder
from nearer.exceptions import CorruptFileError, WriteError
from nearer.index._exact import Floats

__all__ = ["Journal", "Record", "read_records"]

MAGIC = b"nrJ1"
HEAD = struct.Struct("<4sIQQQ")


class Record(NamedTuple):
    """One change: what to do, and the rows that come with it."""

    about: dict[str, Any]
    rows: Floats
    end: int


class Journal:
    """An open journal file that grows at its end."""

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path = path
        self.length = length
        self.durable = length
        self._flushing = threading.Lock()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            # What was never confirmed goes, or the next record would stand behind it.
            os.ftruncate(self._handle, length)
            os.fsync(self._handle)
            flush_folder(path.parent)
        except BaseException:
            os.close(self._handle)
            raise

    def append(self, about: dict[str, Any], rows: Floats) -> None:
        """Write a record; it is safe only after `sync`. When it cannot be written, nothing is."""
        text = json.dumps(about, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        numbers = np.ascontiguousarray(rows, dtype="<f4").reshape(-1).view(np.uint8).data
        rest = HEAD.pack(MAGIC, 0, len(text), len(numbers), self.durable)[8:]
        head = HEAD.pack(
            MAGIC, _crc(rest, text, numbers), len(text), len(numbers), int.from_bytes(rest[16:], "little")
        )
        place = self.length
        try:
            os.lseek(self._handle, place, os.SEEK_SET)
            for part in (head, text, numbers):
                view = memoryview(part)
                while len(view):
                    count = os.write(self._handle, view)
                    view, place = view[count:], place + count
        except OSError as error:
            # A full disk: take back what was written of it.
            os.ftruncate(self._handle, self.length)
            failure = WriteError(
                f"`{self.path}` could not be written: {error.strerror or error}. Nothing was changed. Make room."
            )
            failure.errno = error.errno
            raise failure from error
        self.length = place

    def sync(self) -> None:
        """Return when everything that was appended before this call is on the disk."""
        wanted = self.length
        with self._flushing:
            # Another thread may have flushed it meanwhile: that is what makes many writers cheap.
            if self.durable >= wanted:
                return
            reached = self.length
            os.fsync(self._handle)
            self.durable = reached

    def close(self) -> None:
        """Flush and close."""
        if self._handle >= 0:
            self.sync()
            os.close(self._handle)
            self._handle = -1


def read_records(path: Path) -> Iterator[Record]:
    """The records of a journal up to an unfinished end; damage in what had been confirmed is an error."""
    data = np.fromfile(path, dtype=np.uint8)
    place = 0
    while place < len(data):
        record = _record(data, place, path)
        if record is None:
            _check_unfinished(data, place, path)
            return
        yield record
        place = record.end


def _record(data: Any, place: int, path: Path) -> Record | None:
    start = place + HEAD.size
    if start > len(data):
        return None
    magic, crc, text, rows, _ = HEAD.unpack(data[place:start].tobytes())
    if magic != MAGIC or text + rows > len(data) - start or rows % 4:
        return None
    end = start + text + rows
    if zlib.crc32(data[place + 8 : end].data) != crc:
        return None
    about = parse_json(data[start : start + text].tobytes(), f"`{path}`")
    numbers = np.frombuffer(data[start + text : end].tobytes(), dtype="<f4").astype(np.float32, copy=False)
    return Record(about, numbers, end)


def _check_unfinished(data: Any, place: int, path: Path) -> None:
    """Whether a record behind the bad one knew that it was on the disk: then it was damaged later."""
    tail = data[place:].tobytes()
    found = tail.find(MAGIC, 1)
    while found >= 0:
        at = place + found
        if at + HEAD.size <= len(data) and _record(data, at, path) is not None:
            durable = HEAD.unpack(data[at : at + HEAD.size].tobytes())[4]
            if durable > place:
                raise CorruptFileError(
                    f"`{path}` is damaged at byte {place:,}, in a change that had been confirmed. Take the folder "
                    f"from a backup."
                )
        found = tail.find(MAGIC, found + 1)


def _crc(*parts: bytes | memoryview) -> int:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value
