"""How much a Parquet file says it holds, read from its footer.

pyarrow has the same numbers, but a damaged entry ends the process there: its C++ code throws where Python cannot
catch. The footer is a Thrift structure in the compact protocol, of which a few fields are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearer.exceptions import CorruptFileError

# A longer footer takes seconds in Python; who writes one has a file whose size speaks for itself.
LONGEST = 1 << 20
DEEPEST = 32
# Types of the compact protocol.
TRUE, FALSE, BYTE, SHORT, INT, LONG, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
# Field numbers of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
ROW_GROUPS, COLUMNS, META_DATA, PATH, VALUES, UNCOMPRESSED = 4, 1, 3, 3, 5, 6


def column_sizes(path: Path) -> Iterator[tuple[str, int, int]] | None:
    """The path, the number of values and the unpacked bytes of every column in every row group; None if the footer
    is too long to look at.
    """
    try:
        with path.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
            if length > LONGEST:
                return None
            file.seek(-8 - length, os.SEEK_END)
            footer = _Compact(file.read(length)).struct(0)
        return iter(_sizes(footer))
    except (OSError, IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"`{path.name}` must end in the footer of a Parquet file, and does not.") from error


def _sizes(footer: dict[int, Any]) -> list[tuple[str, int, int]]:
    chunks = [chunk[META_DATA] for group in footer.get(ROW_GROUPS, ()) for chunk in group[COLUMNS]]
    return [
        (
            ".".join(word.decode("utf-8") for word in chunk[PATH]),
            max(0, int(chunk[VALUES])),
            max(0, int(chunk[UNCOMPRESSED])),
        )
        for chunk in chunks
    ]


class _Compact:
    """A reader of the compact protocol; what is not as it says ends in an IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise IndexError("a number of more than 64 bits")

    def signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self, length: int) -> bytes:
        if length > len(self.data) - self.position:
            raise IndexError("a text that is longer than the footer")
        self.position += length
        return self.data[self.position - length : self.position]

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > DEEPEST:
            raise IndexError("structures in structures")
        fields: dict[int, Any] = {}
        field = 0
        while (head := self.byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self.signed()
            kind = head & 15
            fields[field] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self.byte()
        if kind in (SHORT, INT, LONG):
            return self.signed()
        if kind == DOUBLE:
            return self.binary(8)
        if kind == BINARY:
            return self.binary(self.varint())
        if kind in (LIST, SET):
            head = self.byte()
            count = head >> 4 if head >> 4 != 15 else self.varint()
            if count > len(self.data) - self.position:
                raise IndexError("a list that is longer than the footer")
            return [self.value(head & 15, depth + 1) for _ in range(count)]
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise IndexError(f"the unknown type {kind}")
