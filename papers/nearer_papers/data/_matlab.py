"""Read MATLAB files (version 5 to 7.2), in which several data sets are published.

A small reader of our own: scipy's `loadmat` can crash the whole process on a damaged file, and this one only ever
slices bytes. It knows numbers, text, cells and structs, which is what the published files hold.

Layout: a header of 128 bytes, then elements. An element is a type, a length and that many bytes, padded to eight;
up to four bytes may stand inside the tag itself. A compressed element holds another one in zlib. A matrix element
holds flags with its class, its sizes, its name, then numbers, or further matrices in column order.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nearer._limits import EXPANSION, check_expansion, limit
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError

__all__ = ["read_mat"]

# A number or text array, a table of cells (dtype object), or a struct as one table for each field.
Value: TypeAlias = np.ndarray[Any, Any] | str | dict[str, np.ndarray[Any, Any]]

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {1: "latin-1", 2: "utf-8", 3: "utf-16", 4: "utf-16", 16: "utf-8", 17: "utf-16"}
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _CHAR, _FIRST_NUMBER, _LAST_NUMBER = 1, 2, 4, 6, 15


def read_mat(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, Any]:
    """The named variables of a MATLAB file: arrays, text, cells as object arrays, structs as dicts of them."""
    if not Path(path).is_file():
        raise MissingDataError(f"`{path}` must be a MATLAB file, and there is no such file.")
    content = Path(path).read_bytes()
    what, plain = f"`{Path(path).name}`", 0
    try:
        if content[126:128] not in (b"IM", b"MI"):
            raise ValueError("it does not begin like one of version 5 to 7.2")
        order = "<" if content[126:128] == b"IM" else ">"
        stored: dict[str, Value] = {}
        for kind, data in _elements(content[128:], order):
            if kind == _COMPRESSED:
                data = _inflate(data, len(content), what)
                plain += len(data)
                check_expansion(plain, len(content), what)
                kind, data = next(_elements(data, order))
            if kind == _MATRIX:
                name, value = _matrix(data, order, names)
                stored[name] = value
    except LimitError:
        raise
    except (
        ValueError,
        StopIteration,
        IndexError,
        OverflowError,
        zlib.error,
        struct.error,
        RecursionError,
    ) as error:
        raise CorruptFileError(f"`{path}` must be a MATLAB file, and cannot be read as one: {error}.") from error
    lacking = [name for name in names if name not in stored]
    if lacking:
        raise CorruptFileError(
            f"`{path}` must hold the variables {', '.join(names)}, and lacks {', '.join(lacking)}."
        )
    return {name: stored[name] for name in names}


def _inflate(data: bytes, stored: int, what: str) -> bytes:
    stream = zlib.decompressobj()
    largest = max(limit("NEARER_MAX_BYTES"), EXPANSION * stored)
    plain = stream.decompress(data, largest)
    if not stream.eof:
        check_expansion(len(plain) + len(stream.unconsumed_tail), stored, what)
        raise ValueError("a compressed part is cut off")
    return plain


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of one element after the other."""
    place = 0
    while place < len(data):
        (word,) = struct.unpack_from(f"{order}I", data, place)
        kind, length, start = word & 0xFFFF, word >> 16, place + 4
        following = place + 8
        if not length:
            kind = word
            (length,) = struct.unpack_from(f"{order}I", data, place + 4)
            start = place + 8
            following = start + length + (-length % 8 if kind != _COMPRESSED else 0)
        if start + length > len(data) or (word >> 16 and length > 4):
            raise ValueError(
                f"an element of {length:,} bytes does not fit into the {len(data) - start:,} that are left"
            )
        yield kind, data[start : start + length]
        place = following


def _matrix(data: bytes, order: str, names: Sequence[str] | None = None) -> tuple[str, Value]:
    """The name and the value of a matrix element; the value is skipped when only other `names` are wanted."""
    if not data:
        return "", np.zeros((0, 0))
    parts = _elements(data, order)
    kind = struct.unpack_from(f"{order}I", next(parts)[1])[0] & 0xFF
    sizes = _numbers(*next(parts), order)
    shape = tuple(sizes.tolist())
    if not shape or sizes.dtype.kind == "f" or min(shape) < 0:
        raise ValueError(f"a matrix has the sizes {shape}")
    name = next(parts)[1].decode("latin-1")
    if names is not None and name not in names:
        return name, ""
    if kind == _CHAR:
        return name, _text(*next(parts), order, shape)
    if _FIRST_NUMBER <= kind <= _LAST_NUMBER:
        return name, _reshaped(_numbers(*next(parts), order), shape)
    if kind == _CELL:
        return name, _reshaped(_objects([_inner(part, order) for part in parts]), shape)
    if kind == _STRUCT:
        width = int(_numbers(*next(parts), order)[0])
        listed = next(parts)[1]
        if width < 1:
            raise ValueError("a struct has field names of no length")
        fields = [
            listed[place : place + width].split(b"\0")[0].decode("latin-1")
            for place in range(0, len(listed), width)
        ]
        values = [_inner(part, order) for part in parts]
        return name, {
            field: _reshaped(_objects(values[place :: len(fields)]), shape) for place, field in enumerate(fields)
        }
    raise ValueError(f"it holds a value of class {kind}, which is neither number, text, cell nor struct")


def _inner(part: tuple[int, bytes], order: str) -> Value:
    kind, data = part
    if kind != _MATRIX:
        raise ValueError(f"a cell or field holds an element of type {kind}")
    return _matrix(data, order)[1]


def _numbers(kind: int, data: bytes, order: str) -> np.ndarray[Any, Any]:
    if kind not in _NUMBERS:
        raise ValueError(f"numbers are stored as type {kind}")
    return np.frombuffer(data, np.dtype(f"{order}{_NUMBERS[kind]}"))


def _text(kind: int, data: bytes, order: str, shape: tuple[int, ...]) -> str:
    if kind not in _TEXT:
        raise ValueError(f"text is stored as type {kind}")
    suffix = ("-le" if order == "<" else "-be") if _TEXT[kind] == "utf-16" else ""
    text = data.decode(_TEXT[kind] + suffix)
    # Several lines of text are stored column by column.
    rows = shape[0] if shape[0] > 1 and len(text) == int(np.prod(shape, dtype=object)) else 1
    return "\n".join(text[row::rows] for row in range(rows))


def _objects(values: Sequence[Value]) -> np.ndarray[Any, Any]:
    cells = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        cells[place] = value
    return cells


def _reshaped(values: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if values.size != np.prod(shape, dtype=object):
        raise ValueError(f"a matrix of {shape} has {values.size} values")
    return values.reshape(shape, order="F")
