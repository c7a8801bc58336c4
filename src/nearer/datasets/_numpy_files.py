"""NPY and NPZ tables; nothing in them is ever unpickled."""

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
from nearer.datasets._table import ColumnChoice, FileTable, label_matrix, label_text
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError, ParameterError, ShapeError


def read_npy_table(path: Path, columns: ColumnChoice) -> FileTable:
    """Features of an .npy array; the label is one of its columns, or another .npy file beside it."""
    array = _numbers(read_npy(path), path.name)
    if isinstance(columns.label, str):
        other = Path(columns.label).expanduser()
        other = other if other.is_absolute() or other.is_file() else path.parent / other
        if other.suffix != ".npy":
            raise ParameterError(
                f"`label` of an .npy table must be a position or another .npy file, got {columns.label!r}."
            )
        labels = _labels(read_npy(other), other.name)
        columns = ColumnChoice(None, columns.features, columns.ignore, columns.header)
    else:
        labels = None
    if array.ndim > 2:
        if columns.label is not None or columns.features is not None or columns.ignore:
            raise ParameterError(
                f"`label`, `features` and `ignore` name columns, and `{path.name}` has shape {array.shape}."
            )
        return FileTable(path, array, _or_none(labels, len(array)), ())
    names = [f"column_{position}" for position in range(array.shape[1])]
    label, chosen = columns.choose(names, path)
    if label is not None:
        labels = label_text(array[:, label].tolist())
    return FileTable(
        path, array[:, chosen], _or_none(labels, len(array)), tuple(names[position] for position in chosen)
    )


def read_npz_tables(path: Path, columns: ColumnChoice) -> dict[str, FileTable]:
    """Features and labels of an .npz: `x` and `y`, other names if told, or `x_train`, `y_train`, ... as parts."""
    if columns.ignore:
        raise ParameterError("`ignore` names columns of a table; in an .npz name the array with features=.")
    stored = read_npz(path)
    listed = ", ".join(f"{name} {array.shape}" for name, array in stored.items()) or "none"
    x_name, y_name = _only(columns.features), columns.label
    if isinstance(y_name, (int, np.integer)):
        raise ParameterError(f"`label` must be the name of an array of `{path.name}` ({listed}), got {y_name}.")
    parts = [name.removeprefix("x_") for name in stored if name.startswith("x_")]
    if x_name is None and y_name is None and parts and "x" not in stored:
        return {part: _table(path, stored[f"x_{part}"], stored.get(f"y_{part}")) for part in parts}
    if x_name is None:
        tables = [
            name
            for name, array in stored.items()
            if array.ndim > 1 and array.dtype.kind in "biuf" and name != y_name
        ]
        x_name = next((name for name in ("x", "X") if name in stored), tables[0] if len(tables) == 1 else None)
    if x_name is None or x_name not in stored:
        raise ParameterError(
            f"`features` must name an array of `{path.name}` ({listed}), got {columns.features!r}."
        )
    if y_name is not None and y_name not in stored:
        raise ParameterError(f"`label` must name an array of `{path.name}` ({listed}), got {y_name!r}.")
    return {"all": _table(path, stored[x_name], stored.get("y" if y_name is None else y_name))}


def _only(features: object) -> str | None:
    if isinstance(features, (list, tuple)) and len(features) == 1:
        features = features[0]
    if features is not None and not isinstance(features, str):
        raise ParameterError(f"`features` must be the name of one array of an .npz, got {features!r}.")
    return features


def _table(path: Path, x: Array, y: Array | None) -> FileTable:
    array = _numbers(x, path.name)
    names = tuple(f"column_{number}" for number in range(array.shape[1])) if array.ndim == 2 else ()
    labels = None if y is None else _labels(y, path.name)
    return FileTable(path, array, _or_none(labels, len(array)), names)


def _numbers(array: Array, name: str) -> Array:
    if array.ndim < 2:
        raise ShapeError(f"`{name}` must hold features of shape (n, p), got {array.shape}. Pass one row per item.")
    if array.dtype.kind not in "biuf":
        raise ShapeError(f"`{name}` must hold numbers as features, got {array.dtype}.")
    return array


def _labels(array: Array, name: str) -> Array:
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim == 2:
        return label_matrix(flat, name)
    if flat.ndim != 1:
        raise ShapeError(f"`{name}` must hold labels of shape (n,) or (n, c), got {array.shape}.")
    return label_text(flat.tolist())


def _or_none(labels: Array | None, n: int) -> Array:
    return np.full(n, "", dtype=object) if labels is None else labels


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
