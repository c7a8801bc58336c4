"""An index in PostgreSQL with pgvector: one table for the items, one row that says what they are.

```
nearer_indexes    name, about (jsonb): key, dimension, similarity, fingerprint, kind, kind of ids, next number
<table>           id text, position (order of insertion), metadata jsonb, embedding vector(d)
```

Every change is one transaction. `key` is made with the index and goes with it: each transaction ends by asking
whether the name still has the key that was opened, because `switch_index` gives the name to another index. Versions
of pgvector before 0.8 stop a filtered search before it has k rows, so they are refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from nearer._checks import check_int
from nearer._plain import Floats
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError
from nearer.index._fields import kind_of
from nearer.index._filters import Compare, Condition, Every
from nearer.index._items import Id, as_ids
from nearer.index._kinds import HNSW, Exact, Wanted
from nearer.index._pgvector import (
    SWITCHING,
    Vector,
    alone,
    connect,
    copy_rows,
    exact_numbers,
    in_our_words,
    load_psycopg,
    split_address,
)
from nearer.index._remote import Candidates, RemoteIndex, _check_known, already_there, checked_about
from nearer.index._rows import Change

WIDEST = 16_000
OPERATORS = {
    "euclidean": ("<->", "vector_l2_ops"),
    "cosine": ("<=>", "vector_cosine_ops"),
    "dot": ("<#>", "vector_ip_ops"),
}
T = TypeVar("T")


class PostgresIndex(RemoteIndex):
    """The items of one table; `open_index("postgresql://...?table=name")` makes it."""

    def __init__(self, address: str, table: str, about: Mapping[str, Any], connection: Any) -> None:
        super().__init__(table, about)
        self._address = address
        self._key = about["key"]
        # Between quotes a reserved word is a name.
        self._table = f'"{table}"'
        self._connection = connection
        self._operator = OPERATORS[self.similarity][0]
        self._width = 0
        self._closed = False

    @classmethod
    def open(cls, url: str, wanted: Wanted) -> PostgresIndex:
        """Open the table that the address names, or make it if there is a dimension."""
        address, table = split_address(url)
        connection = connect(address, table)
        try:
            # One at a time: whoever looks while another makes the table would see half of it.
            with in_our_words(table), connection.transaction():
                alone(connection)
                about = _about(connection, table)
                if about is None:
                    if wanted.dimension is None:
                        raise MissingDataError(
                            f"The table {table!r} must hold an index, there is none. Pass `dimension` to make one.",
                            argument="dimension",
                        )
                    about = _create(connection, table, wanted)
            return cls(address, table, about, connection)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._connection.close()

    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None) -> list[Id]:
        """As `Index.add`, in one transaction."""
        return self._put(embeddings, ids, metadata, replacing=False)

    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None) -> list[Id]:
        """As `Index.upsert`, in one transaction that may be repeated."""
        return self._put(embeddings, ids, metadata, replacing=True)

    def remove(self, ids: Any) -> int:
        """As `Index.remove`, in one transaction."""
        wanted = list(dict.fromkeys(as_ids(ids, "ids")))

        def work(connection: Any) -> int:
            _check_known(wanted, self._stored(connection, "position", wanted))
            connection.execute(
                f"DELETE FROM {self._table} WHERE id = ANY(%s)", [[str(item_id) for item_id in wanted]]
            )
            return len(wanted)

        return self._run(work) if wanted else 0

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """As `Index.count`."""
        condition, values = _condition(self._condition(where))
        query = f"SELECT count(*) FROM {self._table} {condition}"
        return int(self._run(lambda connection: connection.execute(query, values).fetchone()[0]))

    @property
    def ids(self) -> list[Id]:
        """All ids, in order of insertion."""

        def work(connection: Any) -> list[Id]:
            rows = connection.execute(f"SELECT id FROM {self._table} ORDER BY position").fetchall()
            return self._as_ids([row[0] for row in rows], connection)

        return self._run(work)

    def _put(self, embeddings: Any, ids: Any, metadata: Any, *, replacing: bool) -> list[Id]:
        def work(connection: Any) -> list[Id]:
            # Whoever holds this row changes the index: insertion has one order.
            row = connection.execute(
                "SELECT about FROM nearer_indexes WHERE name = %s FOR UPDATE", [self.name]
            ).fetchone()
            if row is None or _key(row[0]) != self._key:
                raise self._moved()
            about = _checked(row[0], self.name)
            named = {None: None, "text": True, "numbers": False}[about["ids"]]
            change = self._change(embeddings, ids, metadata, about, named=named, replacing=replacing)
            if not change.ids:
                return []
            try:
                (self._replace if replacing else self._copy)(connection, change)
            except load_psycopg().errors.UniqueViolation as error:
                known = str(error.diag.message_detail).partition("=(")[2].partition(") already")[0]
                raise already_there(known) from error
            numbers = [item_id for item_id in change.ids if isinstance(item_id, int)]
            about["ids"] = "numbers" if numbers else "text"
            about["next_id"] = max([about["next_id"], *(item_id + 1 for item_id in numbers)])
            about["fields"] = {name: sorted(row) for name, row in change.notes.kinds.items()}
            connection.execute(
                "UPDATE nearer_indexes SET about = %s WHERE name = %s", [json.dumps(about), self.name]
            )
            return change.ids

        return self._run(work)

    def _copy(self, connection: Any, change: Change) -> None:
        _send(connection, f"{self._table} (id, metadata, embedding)", copy_rows(change, numbered=False))

    def _replace(self, connection: Any, change: Change) -> None:
        connection.execute(
            f"CREATE TEMP TABLE nearer_stage (n bigint, id text, metadata jsonb, "
            f"embedding vector({self.dimension})) ON COMMIT DROP"
        )
        _send(connection, "nearer_stage (n, id, metadata, embedding)", copy_rows(change, numbered=True))
        connection.execute(
            f"INSERT INTO {self._table} (id, metadata, embedding) SELECT id, metadata, embedding FROM nearer_stage "
            f"ORDER BY n ON CONFLICT (id) DO UPDATE SET metadata = EXCLUDED.metadata, "
            f"embedding = EXCLUDED.embedding, position = EXCLUDED.position"
        )

    def _candidates(self, queries: Floats, fetch: int, where: Condition | None) -> list[Candidates]:
        condition, values = _condition(where)
        order = f"ORDER BY embedding {self._operator} %b::vector LIMIT {int(fetch)}"
        command = f"SELECT id, position, metadata, embedding FROM {self._table} {condition} {order}"
        if isinstance(self.kind, Exact):
            # Sorting all rows costs by their width: sort their places, and fetch the few that are wanted.
            command = (
                f"SELECT id, position, metadata, embedding FROM {self._table} WHERE ctid = ANY(ARRAY("
                f"SELECT ctid FROM {self._table} {condition} {order}))"
            )

        def work(connection: Any) -> list[Candidates]:
            self._prepare(connection, fetch)
            results = self._ask(connection, command, values, queries)
            short = [number for number, rows in enumerate(results) if len(rows) < fetch]
            if short and not isinstance(self.kind, Exact):
                # An approximate scan may end early; whether it did, only an exact one knows.
                with connection.transaction():
                    connection.execute("SET LOCAL enable_indexscan = off")
                    again = self._ask(connection, command, values, queries[short])
                for number, rows in zip(short, again, strict=True):
                    results[number] = rows
            names = self._as_ids([row[0] for rows in results for row in rows], connection)
            answers, at = [], 0
            for rows in results:
                vectors = np.array([row[3] for row in rows], dtype=np.float32).reshape(len(rows), self.dimension)
                answers.append(
                    Candidates(
                        names[at : at + len(rows)],
                        [row[2] for row in rows],
                        [row[1] for row in rows],
                        vectors,
                        len(rows) >= fetch,
                    )
                )
                at += len(rows)
            return answers

        return self._run(work, atomic=False) if len(queries) else []

    def _ask(self, connection: Any, command: str, values: list[Any], queries: Floats) -> list[list[Any]]:
        """One round trip for all queries."""
        if len(queries) == 1:
            cursor = connection.cursor(binary=True)
            return [cursor.execute(command, [*values, Vector(queries[0])], prepare=True).fetchall()]
        cursors = []
        with connection.pipeline():
            for query in queries:
                cursor = connection.cursor(binary=True)
                cursor.execute(command, [*values, Vector(query)], prepare=True)
                cursors.append(cursor)
        return [cursor.fetchall() for cursor in cursors]

    def _prepare(self, connection: Any, fetch: int) -> None:
        """The settings of an approximate scan, when they have to change."""
        if isinstance(self.kind, HNSW):
            width = min(1000, max(self.kind.search_width, fetch))
            if width != self._width:
                connection.execute(f"SET hnsw.ef_search = {width}")
                self._width = width

    def remember(self, model: dict[str, Any]) -> None:
        """Note which model makes the embeddings."""
        command = (
            "UPDATE nearer_indexes SET about = about || jsonb_build_object('model', %s::jsonb) WHERE name = %s"
        )
        self._run(lambda connection: connection.execute(command, [json.dumps(model), self.name]))
        self.made_by = model

    def number_from(self, next_id: int) -> None:
        """As `SQLiteIndex.number_from`."""
        command = (
            "UPDATE nearer_indexes SET about = about || jsonb_build_object('next_id', %s::numeric) "
            "WHERE name = %s AND (about ->> 'next_id')::numeric < %s"
        )
        self._run(lambda connection: connection.execute(command, [next_id, self.name, next_id]))

    def _about(self) -> dict[str, Any]:
        about = self._run(lambda connection: _about(connection, self.name))
        if about is None:
            raise self._moved()
        return about

    def _known(self, ids: Sequence[Id]) -> set[Id]:
        return set(self._column("position", ids))

    def _column(self, name: str, ids: Sequence[Id]) -> dict[Id, Any]:
        return self._run(lambda connection: self._stored(connection, name, ids))

    def _stored(self, connection: Any, name: str, ids: Sequence[Id]) -> dict[Id, Any]:
        """One column of these ids, as far as they are there."""
        query = f"SELECT id, {name} FROM {self._table} WHERE id = ANY(%s)"
        rows = connection.cursor(binary=True).execute(query, [[str(item_id) for item_id in ids]]).fetchall()
        names = self._as_ids([row[0] for row in rows], connection)
        return dict(zip(names, [row[1] for row in rows], strict=True))

    def _as_ids(self, texts: list[str], connection: Any) -> list[Id]:
        if not texts:
            return []
        if self._ids is None:
            about = _about(connection, self.name)
            if about is None or about["key"] != self._key:
                raise self._moved()
            self._ids = about["ids"]
        return [int(text) for text in texts] if self._ids == "numbers" else list(texts)

    _ids: str | None = None

    def _run(self, work: Callable[[Any], T], *, atomic: bool = True) -> T:
        """Do something in one transaction, over a new connection if the last one was lost."""
        if self._closed:
            raise ParameterError(f"The index {self.name!r} must be open, it was closed.")
        with self._one_at_a_time, in_our_words(self.name):
            if self._connection.closed:
                self._connection = connect(self._address, self.name)
                self._width = 0
            connection = self._connection
            try:
                if atomic:
                    with connection.transaction():
                        done = work(connection)
                        self._check_key(connection)
                else:
                    # The key is read after the rows: if it is still the one that was opened, so was the table.
                    done = work(connection)
                    self._check_key(connection)
            except (load_psycopg().Error, ValueError):
                # Rows of another length, ids of another kind, a table that has gone: the reason is mostly a switch.
                if not connection.closed:
                    self._check_key(connection)
                raise
            return done

    def _check_key(self, connection: Any) -> None:
        row = connection.execute(
            "SELECT about ->> 'key' FROM nearer_indexes WHERE name = %s", [self.name]
        ).fetchone()
        if row is None or row[0] != self._key:
            raise self._moved()

    def _moved(self) -> MissingDataError:
        return MissingDataError(
            f"The index {self.name!r} must be the one that was opened, and another has its name now, or none. "
            f"Nothing was changed: open it again (a server: nearer's /reload)."
        )


def switch_tables(where: str, fresh: str) -> None:
    """Exchange the names of two tables in one transaction."""
    (address, first), (beside, second) = split_address(where), split_address(fresh)
    if address != beside:
        raise ParameterError(
            "`where` and `fresh` must be tables of one base, with the same address before `table`."
        )
    if first == second:
        raise ParameterError(f"`fresh` must be another table than `where`, both are {first!r}.")
    connection = connect(address, first)
    try:
        with in_our_words(first), connection.transaction():
            alone(connection)
            # The row first, then the table, as writers do: neither can wait for the other.
            for name in sorted((first, second)):
                if _about(connection, name) is None:
                    raise MissingDataError(f"The table {name!r} must hold an index, there is none.")
                connection.execute("SELECT name FROM nearer_indexes WHERE name = %s FOR UPDATE", [name])
            for old, new in ((first, SWITCHING), (second, first), (SWITCHING, second)):
                connection.execute(f'ALTER TABLE "{old}" RENAME TO "{new}"')
                connection.execute("UPDATE nearer_indexes SET name = %s WHERE name = %s", [new, old])
    finally:
        connection.close()


def _about(connection: Any, table: str) -> dict[str, Any] | None:
    row = None
    if connection.execute("SELECT to_regclass('nearer_indexes')").fetchone()[0] is not None:
        row = connection.execute("SELECT about FROM nearer_indexes WHERE name = %s", [table]).fetchone()
    there = connection.execute("SELECT to_regclass(%s)", [f'"{table}"']).fetchone()[0] is not None
    if row is None:
        if there:
            raise CorruptFileError(f"The table {table!r} is not one that nearer made. Choose another name.")
        return None
    if not there:
        raise CorruptFileError(f"The table {table!r} of the index has gone. Take it from a backup.")
    return _checked(row[0], table)


def _checked(about: Any, table: str) -> dict[str, Any]:
    checked = checked_about(about, table)
    if not _key(checked) or checked.get("ids") not in (None, "text", "numbers"):
        raise CorruptFileError(
            f"What the engine has noted about the index {table!r} was changed: `key` and `ids` are not as nearer "
            f"wrote them. Take it from a backup."
        )
    return checked


def _key(about: Any) -> str | None:
    key = about.get("key") if isinstance(about, dict) else None
    return key if isinstance(key, str) else None


def _create(connection: Any, table: str, wanted: Wanted) -> dict[str, Any]:
    size = check_int(wanted.dimension, "dimension", maximum=WIDEST)
    chosen = Exact() if wanted.kind is None else wanted.kind
    if not isinstance(chosen, Exact | HNSW):
        raise ParameterError(f"`kind` must be Exact() or HNSW(...) for PostgreSQL, got {chosen!r}.")
    about = {"key": uuid.uuid4().hex, "ids": None, **wanted.about(size, chosen)}
    connection.execute("CREATE TABLE IF NOT EXISTS nearer_indexes (name text PRIMARY KEY, about jsonb NOT NULL)")
    connection.execute(
        f'CREATE TABLE "{table}" (id text COLLATE "C" PRIMARY KEY, '
        f"position bigint GENERATED BY DEFAULT AS IDENTITY, "
        f"metadata jsonb NOT NULL, embedding vector({size}) NOT NULL)"
    )
    connection.execute(f'CREATE INDEX ON "{table}" USING gin (metadata jsonb_path_ops)')
    if isinstance(chosen, HNSW):
        width = min(1000, max(chosen.build_width, 2 * chosen.neighbors))
        connection.execute(
            f'CREATE INDEX ON "{table}" USING hnsw (embedding {OPERATORS[about["similarity"]][1]}) '
            f"WITH (m = {min(100, chosen.neighbors)}, ef_construction = {width})"
        )
    connection.execute("INSERT INTO nearer_indexes (name, about) VALUES (%s, %s)", [table, json.dumps(about)])
    return about


def _send(connection: Any, table: str, pieces: Iterable[bytes]) -> None:
    """Put rows in the binary format into a table and its columns."""
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        for piece in pieces:
            copy.write(piece)


def _condition(where: Condition | None) -> tuple[str, list[Any]]:
    """A condition in SQL and its parameters; what must hold in any case is first, where an index serves it."""
    if where is None:
        return "", []
    parts = where.parts if isinstance(where, Every) else (where,)
    wanted = {
        part.field: part.values[0]
        for part in parts
        if isinstance(part, Compare) and part.operator == "$in" and len(part.values) == 1
    }
    served = {field: value for field, value in wanted.items() if value is not None}
    text, values = _as_sql(where)
    if served:
        text, values = f"metadata @> %s::jsonb AND {text}", [exact_numbers(json.dumps(served)), *values]
    return f"WHERE {text}", values


def _as_sql(where: Condition) -> tuple[str, list[Any]]:
    if not isinstance(where, Compare):
        parts = [_as_sql(part) for part in where.parts]
        word, empty = (" AND ", "TRUE") if isinstance(where, Every) else (" OR ", "FALSE")
        return f"({word.join(text for text, _ in parts) or empty})", [value for _, some in parts for value in some]
    if where.operator in ("$in", "$nin"):
        # An item without the field has null there.
        text = "COALESCE(metadata -> %s::text, 'null'::jsonb) = ANY(%s::jsonb[])"
        values = [where.field, [exact_numbers(json.dumps(value)) for value in where.values]]
        return (text if where.operator == "$in" else f"NOT ({text})"), values
    sign = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[where.operator]
    (value,) = where.values
    if kind_of(value) == "text":
        # In the order of the characters, as everywhere else, and not of a language.
        own = f'(metadata ->> %s::text) COLLATE "C" {sign} %s::text'
        text = f"(jsonb_typeof(metadata -> %s::text) = 'string' AND {own})"
        return text, [where.field, where.field, value]
    text = f"(jsonb_typeof(metadata -> %s::text) = 'number' AND metadata -> %s::text {sign} %s::jsonb)"
    return text, [where.field, where.field, exact_numbers(json.dumps(value))]
