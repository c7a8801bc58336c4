"""Arrays from .npy and .npz files; nothing is ever unpickled."""

from __future__ import annotations

import math
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
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError

__all__ = ["UNREADABLE", "npy_header", "read_npy", "read_npz"]

# What numpy and zipfile raise for a file that is damaged or not what its name says.
UNREADABLE = (ValueError, OSError, EOFError, KeyError, zlib.error, zipfile.BadZipFile, SyntaxError,
              tokenize.TokenError, NotImplementedError, RuntimeError, OverflowError, TypeError, IndexError,
              struct.error)  # fmt: skip


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
