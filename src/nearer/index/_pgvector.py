"""A connection to PostgreSQL that knows vectors: addresses, pgvector's binary form, and errors in our words."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from nearer._checks import needed
from nearer._plain import Floats
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError, WriteError
from nearer.index._remote import lost
from nearer.index._rows import Change

MINIMUM = (0, 8)
TABLE = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")
SWITCHING = "nearer_switching"
OURS = ("nearer_indexes", "nearer_stage", SWITCHING)
# One number for all that is made once: "nearer" in ASCII. The lock goes with the transaction.
MAKING = int.from_bytes(b"nearer", "big")
# A text, which stays as it is, or a float as Python writes it from 1e16 on.
LARGE = re.compile(r'"(?:[^"\\]|\\.)*"|(-?[0-9.]+e\+[0-9]+)')
START = b"PGCOPY\n\xff\r\n\x00" + bytes(8)


def load_psycopg() -> Any:
    """psycopg, imported when it is first needed."""
    return needed("psycopg", "PostgreSQL must be reached through psycopg", "postgres")


class Vector:
    """A row as pgvector reads it."""

    def __init__(self, row: Floats) -> None:
        self.data = vector_bytes(row)


def vector_bytes(row: Floats) -> bytes:
    """Its binary form: the length, nothing, and the numbers, all with the high byte first."""
    return struct.pack(">HH", len(row), 0) + row.astype(">f4").tobytes()


def split_address(url: str) -> tuple[str, str]:
    """The address without the table, and the table."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    table = dict(options).get("table", "nearer")
    if not TABLE.match(table):
        raise ParameterError(f"`table` must be small letters, digits and '_' (at most 51), got {table!r}.")
    if table in OURS:
        raise ParameterError(f"`table` must be another name than {', '.join(OURS)}, got {table!r}: nearer uses it.")
    rest = urlencode([(key, value) for key, value in options if key != "table"], safe="/")
    return urlunsplit(parts._replace(query=rest)), table


def connect(address: str, table: str) -> Any:
    """A connection that knows vectors; the address, which may hold a password, stays out of the error."""
    psycopg = load_psycopg()
    try:
        connection = psycopg.connect(address, autocommit=True, connect_timeout=10)
    except psycopg.ProgrammingError as error:
        raise ParameterError("The address must be postgresql://user@host/base?table=name.") from error
    except psycopg.OperationalError as error:
        raise lost("PostgreSQL", table, error) from error
    try:
        with in_our_words(table):
            _register(psycopg, connection, _vector_type(connection))
            _check_version(connection)
            # Filtered scans go on until they have enough.
            for setting in ("hnsw.iterative_scan = strict_order", "hnsw.max_scan_tuples = 2147483647"):
                connection.execute(f"SET {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _vector_type(connection: Any) -> int:
    """The number of the type, which pgvector brings; it is made if it is not there yet."""
    query = "SELECT oid FROM pg_type WHERE typname = 'vector'"
    row = connection.execute(query).fetchone()
    if row is None:
        try:
            with connection.transaction():
                alone(connection)
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except load_psycopg().Error as error:
            raise MissingDataError(
                f"PostgreSQL must have the extension pgvector, 0.8 or newer: {error.diag.message_primary}. "
                f"Install it."
            ) from error
        row = connection.execute(query).fetchone()
    return int(row[0])


def _register(psycopg: Any, connection: Any, oid: int) -> None:
    class Read(psycopg.adapt.Loader):  # type: ignore[misc]
        format = psycopg.pq.Format.BINARY

        def load(self, data: Any) -> Any:
            return np.frombuffer(data, dtype=">f4", offset=4)

    class Write(psycopg.adapt.Dumper):  # type: ignore[misc]
        format = psycopg.pq.Format.BINARY

        def dump(self, value: Vector) -> bytes:
            return value.data

    Write.oid = oid
    connection.adapters.register_loader(oid, Read)
    connection.adapters.register_dumper(Vector, Write)


def _check_version(connection: Any) -> None:
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    number = "none" if row is None else str(row[0])
    if tuple(int(part) for part in re.findall(r"\d+", number)[:2]) < MINIMUM:
        raise MissingDataError(
            f"pgvector must be {'.'.join(map(str, MINIMUM))} or newer, got {number}: older ones return fewer than "
            f"k items from a filtered search. Update it (ALTER EXTENSION vector UPDATE)."
        )


def copy_rows(change: Change, *, numbered: bool) -> Iterator[bytes]:
    """The items in PostgreSQL's binary COPY format."""
    yield START
    size = change.rows.shape[1]
    head = struct.pack(">h", 4 if numbered else 3)
    vector_head = struct.pack(">iHH", 4 + 4 * size, size, 0)
    numbers = change.rows.astype(">f4")
    pieces: list[bytes] = []
    for number, (item_id, note) in enumerate(zip(change.ids, change.notes.texts, strict=True)):
        name = str(item_id).encode()
        text = b"\x01" + exact_numbers(note or "{}").encode()
        pieces += [head, struct.pack(">iq", 8, number)] if numbered else [head]
        pieces += [struct.pack(">i", len(name)), name, struct.pack(">i", len(text)), text]
        pieces += [vector_head, numbers[number].tobytes()]
        if number % 1000 == 999:
            yield b"".join(pieces)
            pieces = []
    yield b"".join(pieces) + struct.pack(">h", -1)


def exact_numbers(text: str) -> str:
    """JSON in which large floats have all their digits: PostgreSQL takes them as decimals, and 1e23 is not 10²³.

    >>> exact_numbers('{"a": 1e+23, "b": "1e+23", "c": 1e-07}')
    '{"a": 99999999999999991611392.0, "b": "1e+23", "c": 1e-07}'
    """
    if "e+" not in text:
        return text
    return LARGE.sub(lambda match: match[0] if match[1] is None else f"{float(match[1]):.1f}", text)


def alone(connection: Any) -> None:
    """Until the end of this transaction no other process makes what is made once; "IF NOT EXISTS" does not wait."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [MAKING])


@contextmanager
def in_our_words(table: str) -> Iterator[None]:
    """What the engine refuses, in our words."""
    psycopg = load_psycopg()
    try:
        yield
    except psycopg.Error as error:
        reason = str(error.diag.message_primary or error).rstrip(". ")
        errors = psycopg.errors
        if isinstance(error, errors.DiskFull):
            raise WriteError(
                f"The index {table!r} could not be written: {reason}. Nothing was changed. Make room."
            ) from error
        if isinstance(error, errors.ProgramLimitExceeded):
            raise ParameterError(f"PostgreSQL does not take this: {reason}. Ids must be shorter.") from error
        if isinstance(error, errors.InsufficientPrivilege):
            raise ParameterError(f"The user must be allowed to change {table!r}: {reason}. Ask for it.") from error
        if isinstance(error, psycopg.DataError):
            raise ParameterError(
                f"PostgreSQL does not take this: {reason}. Ids and metadata must not hold the character 0."
            ) from error
        if isinstance(error, psycopg.ProgrammingError):
            raise CorruptFileError(
                f"The tables {table!r} and 'nearer_indexes' must be as nearer made them: {reason}. Take them from "
                f"a backup."
            ) from error
        raise lost("PostgreSQL", table, error) from error
