"""One version of a folder, held open: whatever happens to its name meanwhile, these are its files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._limits import check_expansion, check_limit, parse_json, size_on_disk
from nearer._storage._disk import PIECE, open_plain
from nearer.exceptions import CorruptFileError, MissingDataError

Bytes = NDArray[np.uint8]
MANIFEST = "manifest.json"
RESTORE = "Take it from a backup, or save it again."
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BY_HANDLE = os.open in os.supports_dir_fd


class Snapshot:
    """The manifest of a folder, and an open file for each name in it; a context manager that closes them.

    Files keep their bytes while they are open, even after a writer has deleted their names.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, int] = {}
        self.opened: tuple[int, ...] | None = None
        self.folder: int | None = None

    def __enter__(self) -> Snapshot:
        try:
            kind = os.lstat(self.path).st_mode
            if stat.S_ISLNK(kind):
                raise CorruptFileError(f"`{self.path}` must be a folder, and is a link. Copy the folder there.")
            if not stat.S_ISDIR(kind):
                raise NotADirectoryError
            if _BY_HANDLE:
                self.folder = os.open(self.path, _FOLDER)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingDataError(
                f"`{self.path}` must be a folder that nearer wrote, there is no such folder."
            ) from error
        except OSError as error:
            raise CorruptFileError(f"`{self.path}` cannot be opened: {error.strerror}.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for handle in self.files.values():
            os.close(handle)
        if self.folder is not None:
            os.close(self.folder)

    def manifest(self) -> dict[str, Any]:
        """The manifest, as a dictionary with its fields."""
        if self._open(MANIFEST) is None:
            raise CorruptFileError(
                f"`{self.path}` must hold a {MANIFEST}: it was not written by nearer, or not whole."
            )
        self.opened = _identity(os.fstat(self.files[MANIFEST]))
        manifest = self.parse(MANIFEST, self.read(MANIFEST)[0].tobytes())
        shape = {"files": dict, "metadata": dict, "format": str}
        if not isinstance(manifest, dict) or any(
            not isinstance(manifest.get(key), kind) for key, kind in shape.items()
        ):
            raise CorruptFileError(
                f"`{self.path / MANIFEST}` must be the manifest of a nearer folder; it lacks its fields."
            )
        check_limit("NEARER_MAX_FILES", len(manifest["files"]), f"`{self.path / MANIFEST}`")
        return manifest

    def hold(self, names: list[str]) -> None:
        """Open all files before any is read: from here on no writer can take them away."""
        for name in names:
            if self._open(name) is None:
                raise CorruptFileError(f"`{self.path / name}` is missing. {RESTORE}")

    def checked(self, name: str, expected: object) -> Bytes:
        """The bytes of a file, after comparing them with what the manifest says about it."""
        status = os.fstat(self.files[name])
        size = expected.get("bytes") if isinstance(expected, dict) else None
        if size != status.st_size:
            raise CorruptFileError(
                f"`{self.path / name}` must be as it was written ({expected}), got {status.st_size} bytes. "
                f"{RESTORE}"
            )
        data, digest = self.read(name)
        came = {"sha256": digest, "bytes": len(data)}
        if came != expected:
            raise CorruptFileError(
                f"`{self.path / name}` must be as it was written ({expected}), got {came}. {RESTORE}"
            )
        return data

    def read(self, name: str) -> tuple[Bytes, str]:
        """All bytes of an open file, and their SHA-256."""
        status = os.fstat(self.files[name])
        check_expansion(status.st_size, size_on_disk(status), f"`{self.path / name}`")
        # numpy asks the system for large pages, which makes filling a large file's memory twice as fast.
        data: Bytes = np.empty(status.st_size, np.uint8)
        view, digest, length = data.data, hashlib.sha256(), 0
        with open(self.files[name], "rb", buffering=0, closefd=False) as file:
            while length < len(view) and (count := file.readinto(view[length : length + PIECE])):
                digest.update(view[length : length + count])
                length += count
        return data[:length], digest.hexdigest()

    def parse(self, name: str, data: bytes) -> Any:
        """The JSON in a file."""
        try:
            return parse_json(data, f"`{self.path / name}`")
        except (UnicodeDecodeError, RecursionError) as error:
            raise CorruptFileError(f"`{self.path / name}` must be JSON: {error}. {RESTORE}") from error
        except ValueError as error:
            if type(error).__module__.startswith("nearer."):
                raise
            raise CorruptFileError(f"`{self.path / name}` must be JSON: {error}. {RESTORE}") from error

    def is_current(self) -> bool:
        """Whether the folder at the path is still this one, with the manifest that was opened."""
        try:
            if self.folder is not None and not os.path.samestat(os.fstat(self.folder), os.stat(self.path)):
                return False
            status = os.lstat(self.path / MANIFEST)
            if self.opened is None:
                # What could not be opened as a file is the same as long as there is no file.
                return not stat.S_ISREG(status.st_mode)
            # An open file keeps its number, so the same number means the same file.
            return self.opened == _identity(status)
        except FileNotFoundError:
            # A manifest that was never there is no sign of a change; a folder that has gone is.
            return self.path.is_dir() and self.opened is None
        except OSError:
            return True

    def _open(self, name: str) -> int | None:
        try:
            handle = open_plain(self.path / name if self.folder is None else name, os.O_RDONLY, folder=self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise CorruptFileError(f"`{self.path / name}` cannot be opened: {error.strerror}. {RESTORE}") from error
        with contextlib.suppress(KeyError):
            os.close(self.files.pop(name))
        self.files[name] = handle
        return handle


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
