"""Files on this machine: the data folder, their checksums, and reading arrays without ever unpickling.

The data folder is `folder=` of a loader, else `$NEARER_DATA`, else `~/.cache/nearer`.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nearer._limits import check_expansion, check_limit, size_on_disk
from nearer.datasets._dataset import Array
from nearer.datasets._download import download_file
from nearer.datasets._source import DataFile, Source
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError

__all__ = [
    "check_file",
    "data_folder",
    "find",
    "npy_header",
    "obtain",
    "open_npz",
    "read_npy",
    "read_npz",
    "sha256_of",
]

# What numpy and zipfile raise for a file that is damaged or not what its name says.
UNREADABLE = (ValueError, OSError, EOFError, KeyError, zlib.error, zipfile.BadZipFile, SyntaxError,
              tokenize.TokenError, NotImplementedError, RuntimeError, OverflowError, TypeError, IndexError,
              struct.error)  # fmt: skip

# Path -> (size, time of change, checksum) of what this process has already read through.
_KNOWN: dict[Path, tuple[int, int, str]] = {}


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder where data files are looked for; it need not exist.

    >>> data_folder("my/data").as_posix()
    'my/data'
    """
    if folder is not None:
        return Path(folder).expanduser()
    return Path(os.environ.get("NEARER_DATA") or "~/.cache/nearer").expanduser()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file; remembered while its size and time of change stay the same."""
    key = path.resolve()
    status = key.stat()
    size, changed, digest = _KNOWN.get(key, (-1, -1, ""))
    if (size, changed) != (status.st_size, status.st_mtime_ns):
        with key.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _KNOWN[key] = (status.st_size, status.st_mtime_ns, digest)
    return digest


def check_file(path: Path, sha256: str) -> None:
    """Raise unless the file has this SHA-256."""
    came = sha256_of(path)
    if came != sha256:
        raise CorruptFileError(
            f"`{path.name}` in {path.parent} must have SHA-256 {sha256}, got {came} ({path.stat().st_size:,} "
            f"bytes). Replace the file; if you made it yourself with the same arrays, pass verify=False."
        )


def find(file: DataFile, folder: str | os.PathLike[str] | None = None, *, verify: bool = True) -> Path | None:
    """The path of a file in the data folder, checked against its SHA-256, or None when it is not there."""
    path = data_folder(folder) / file.name
    if not path.is_file():
        return None
    if verify:
        check_file(path, file.sha256)
    return path


def open_npz(
    source: Source, folder: str | os.PathLike[str] | None, keys: Sequence[str], *, verify: bool
) -> dict[str, Array]:
    """The arrays of a data set that exists only as one prepared file."""
    file = source.files[0]
    path = find(file, folder, verify=verify)
    if path is None:
        raise MissingDataError(_absent(source, file.name, folder))
    return read_npz(path, keys)


def obtain(
    source: Source, folder: str | os.PathLike[str] | None, *, verify: bool, allow_download: bool
) -> list[Path]:
    """The paths of the original files of a data set, fetched first if they are not in the data folder."""
    paths = []
    for file in source.downloads:
        path = data_folder(folder) / file.name
        if not path.is_file():
            if not allow_download:
                raise MissingDataError(_absent(source, file.name, folder))
            try:
                download_file(file.address, path, sha256=file.sha256)
            except MissingDataError as error:
                raise MissingDataError(f"{_absent(source, file.name, folder)} {error}") from error
        elif verify:
            check_file(path, file.sha256)
        paths.append(path)
    return paths


def _absent(source: Source, name: str, folder: str | os.PathLike[str] | None) -> str:
    where = data_folder(folder)
    prepared = " and ".join(f"`{file.name}`" for file in source.files)
    either = f" (nor the prepared {prepared})" if source.files and name != source.files[0].name else ""
    return (
        f"{source.title} needs the file `{name}`, and it is not in {where}{either}. Put it there, or name another "
        f"folder with folder= or the environment variable NEARER_DATA. The original is at {source.address}."
    )


def read_npz(path: Path, keys: Sequence[str] | None = None) -> dict[str, Array]:
    """The arrays of an .npz file, all of them or the named ones; nothing is ever unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_limit("NEARER_MAX_FILES", len(archive.namelist()), f"`{path.name}`")
            stored = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
            wanted = list(stored) if keys is None else list(keys)
            lacking = [key for key in wanted if key not in stored]
            if not lacking:
                return _members(archive, {key: stored[key] for key in wanted}, path)
    except LimitError:
        raise
    except UNREADABLE as error:
        raise _not_readable(path, "an .npz file of plain arrays", error) from error
    raise CorruptFileError(
        f"`{path.name}` must hold the arrays {', '.join(wanted)}, and lacks {', '.join(lacking)} (it holds "
        f"{', '.join(sorted(stored)) or 'none'}). docs/datasets.md lists what is in each file."
    )


def read_npy(path: Path) -> Array:
    """The array of an .npy file; nothing is ever unpickled."""
    try:
        with path.open("rb") as file:
            status = path.stat()
            asked = _promised(file, status.st_size)
            check_expansion(asked, size_on_disk(status), f"`{path.name}`")
            return _array(file)
    except LimitError:
        raise
    except UNREADABLE as error:
        raise _not_readable(path, "an .npy file with a plain array", error) from error


def _members(archive: zipfile.ZipFile, names: dict[str, str], path: Path) -> dict[str, Array]:
    """Arrays of an archive, after adding up what all of them will take in memory."""
    asked = 0
    for name in names.values():
        with archive.open(name) as file:
            asked += _promised(file, archive.getinfo(name).file_size)  # type: ignore[arg-type]
    check_expansion(asked, size_on_disk(path.stat()), f"`{path.name}`")
    arrays = {}
    for key, name in names.items():
        with archive.open(name) as file:
            arrays[key] = _array(file)  # type: ignore[arg-type]
    return arrays


def npy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether columns come first, and the type of an .npy file that holds plain values."""
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise ValueError(f"its format has version {version}")
    shape, fortran, dtype = headers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds pickled Python objects, which can run code when they are read")
    if any(length < 0 for length in shape):
        raise ValueError(f"its header promises the shape {shape}")
    return shape, bool(fortran), dtype


def _promised(file: BinaryIO, size: int) -> int:
    """The bytes that an array will take by its header, of which `size` are said to be there."""
    shape, _, dtype = npy_header(file)
    promised = math.prod(shape) * dtype.itemsize
    if promised > size:
        raise ValueError(f"its header promises {promised:,} bytes, the file has {size:,}")
    return promised


def _array(file: BinaryIO) -> Array:
    if file.seekable():
        file.seek(0)
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _not_readable(path: Path, what: str, error: BaseException) -> CorruptFileError | MissingDataError:
    if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError)):
        return MissingDataError(f"`{path}` must be {what}, and cannot be opened: {error.strerror}.")
    return CorruptFileError(f"`{path}` must be {what}, and cannot be read as one: {error}.")
