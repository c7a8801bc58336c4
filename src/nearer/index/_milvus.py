"""An index in Milvus, a cluster or a file of milvus-lite, through the same client.

Milvus has no transactions: an `add` that fails takes back what it had inserted, an `upsert` can be repeated. A
field `position` holds the order of insertion, from a counter in the properties of the collection; clocks go back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from nearer._checks import check_int, needed
from nearer._plain import Floats
from nearer.exceptions import CorruptFileError, MissingDataError, NearerError, ParameterError
from nearer.index._fields import note_of
from nearer.index._filters import Compare, Condition, Every
from nearer.index._items import Id, as_ids
from nearer.index._kinds import HNSW, IVF, Exact, Wanted
from nearer.index._remote import Candidates, RemoteIndex, _check_known, already_there, checked_about, lost
from nearer.index._rows import Change
from nearer.index._vector_index import SearchResult

METRICS = {"euclidean": "L2", "cosine": "COSINE", "dot": "IP"}
LONGEST_ID = 65_535
WIDEST = 32_768
MOST = 16_384  # rows that one search or query gives
BATCH = 1_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}\Z")
LONG = re.compile("[0-9]{19}")
FIELDS = ["id", "position", "whole", "metadata", "embedding"]


def load_pymilvus() -> Any:
    """pymilvus, imported when it is first needed."""
    return needed("pymilvus", "Milvus must be reached through pymilvus", "milvus")


class MilvusIndex(RemoteIndex):
    """The items of one collection; `open_index("milvus://host:port/collection")` makes it."""

    def __init__(self, client: Any, collection: str, about: Mapping[str, Any]) -> None:
        super().__init__(collection, about)
        self._client = client
        self._closed = False

    @classmethod
    def open(cls, url: str, wanted: Wanted) -> MilvusIndex:
        """Open the collection that the address names, or make it if there is a dimension."""
        options, collection = split_address(url)
        pymilvus = load_pymilvus()
        with _in_our_words(collection):
            client = pymilvus.MilvusClient(**options)
        try:
            with _in_our_words(collection):
                if client.has_collection(collection):
                    about = _about(client, collection)
                elif wanted.dimension is None:
                    raise MissingDataError(
                        f"The collection {collection!r} must be there, it is not. Pass `dimension` to make one.",
                        argument="dimension",
                    )
                else:
                    about = _create(client, collection, wanted)
                client.load_collection(collection)
            return cls(client, collection, about)
        except BaseException:
            client.close()
            raise

    def close(self) -> None:
        """Close the client."""
        if not self._closed:
            self._closed = True
            self._client.close()

    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None) -> list[Id]:
        """As `Index.add`; when a part fails, what was inserted before it is taken back."""
        with self._asking() as client:
            about = _about(client, self.name)
            change = self._change(embeddings, ids, metadata, about, named=self._named())
            known = self._known(change.ids)
            for item_id in change.ids:
                if item_id in known:
                    raise already_there(item_id)
            rows = self._entities(change, self._note(change, about))
            done = 0
            try:
                for done in range(0, len(rows), BATCH):
                    client.insert(self.name, rows[done : done + BATCH])
            except BaseException:
                # Also the part that failed: how much of it went in, nobody says.
                self._delete([row["id"] for row in rows[: done + BATCH]])
                raise
            return change.ids

    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None) -> list[Id]:
        """As `Index.upsert`; after a failure repeat the call."""
        with self._asking() as client:
            about = _about(client, self.name)
            change = self._change(embeddings, ids, metadata, about, named=self._named(), replacing=True)
            rows = self._entities(change, self._note(change, about))
            for start in range(0, len(rows), BATCH):
                client.upsert(self.name, rows[start : start + BATCH])
            return change.ids

    def remove(self, ids: Any) -> int:
        """As `Index.remove`."""
        wanted = list(dict.fromkeys(as_ids(ids, "ids")))
        with self._asking():
            _check_known(wanted, self._known(wanted))
            self._delete([str(item_id) for item_id in wanted])
        return len(wanted)

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None) -> SearchResult:
        """As `Index.search`; Milvus gives at most 16,384 items, and to ask for more is an error."""
        if check_int(k, "k") > MOST and self.count(where) > MOST:
            raise ParameterError(f"`k` must be at most {MOST:,} for Milvus, which gives no more, got {k:,}.")
        return super().search(queries, k, where=where)

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """As `Index.count`."""
        condition = _expression(self._condition(where))
        with self._asking() as client:
            return int(client.query(self.name, filter=condition, output_fields=["count(*)"])[0]["count(*)"])

    @property
    def ids(self) -> list[Id]:
        """All ids, in order of insertion."""
        rows: list[Any] = []
        with self._asking() as client:
            parts = client.query_iterator(
                self.name, batch_size=BATCH, filter="", output_fields=["id", "position", "whole"]
            )
            while part := parts.next():
                rows += part
            parts.close()
        return [_id(row) for row in sorted(rows, key=lambda row: int(row["position"]))]

    def _named(self) -> bool | None:
        rows = self._client.query(self.name, filter="", output_fields=["whole"], limit=1)
        return None if not len(rows) else not rows[0]["whole"]

    def _delete(self, names: list[str]) -> None:
        for start in range(0, len(names), BATCH):
            self._client.delete(self.name, filter=_one_of(names[start : start + BATCH]))

    def _note(self, change: Change, about: dict[str, Any]) -> int:
        """The first place for these items; what will be given out is noted first, so that none is given twice."""
        for item_id in change.ids:
            if len(str(item_id).encode()) > LONGEST_ID:
                raise ParameterError(f"`ids` must be at most {LONGEST_ID:,} bytes for Milvus, got a longer one.")
        for text in change.notes.texts:
            if LONG.search(text):
                _check_numbers(note_of(text), "metadata")
        start = int(about["next_position"])
        highest = max((item_id + 1 for item_id in change.ids if isinstance(item_id, int)), default=0)
        fields = change.notes.kinds
        for name, kinds in fields.items():
            if {"numbers", "truth values"} <= kinds:
                raise ParameterError(
                    f"`metadata[{name!r}]` must hold numbers or truth values for Milvus: it takes 1 for true."
                )
        self._kinds = fields
        about |= {"next_id": max(highest, about["next_id"]), "next_position": start + len(change.ids)}
        about["fields"] = {name: sorted(kinds) for name, kinds in fields.items()}
        if change.ids:
            self._client.alter_collection_properties(self.name, {"nearer": json.dumps(about)})
        return start

    def _entities(self, change: Change, start: int) -> list[dict[str, Any]]:
        return [
            {
                "id": str(item_id),
                "position": start + number,
                "whole": isinstance(item_id, int),
                "metadata": note_of(note),
                "embedding": row,
            }
            for number, (item_id, note, row) in enumerate(
                zip(change.ids, change.notes.texts, list(change.rows), strict=True)
            )
        ]

    def _candidates(self, queries: Floats, fetch: int, where: Condition | None) -> list[Candidates]:
        if not len(queries):
            return []
        limit = min(fetch, MOST)
        params: dict[str, Any] = {}
        if isinstance(self.kind, HNSW):
            params = {"ef": max(self.kind.search_width, limit)}
        elif isinstance(self.kind, IVF):
            params = {"nprobe": self.kind.probes}
        with self._asking() as client:
            result = client.search(
                self.name,
                data=list(queries),
                limit=limit,
                filter=_expression(where),
                output_fields=FIELDS,
                search_params={"params": params},
                anns_field="embedding",
            )
        answers = []
        for hits in result:
            rows = [hit["entity"] for hit in hits]
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
            answers.append(
                Candidates(
                    [_id({"id": hit["id"], "whole": row["whole"]}) for hit, row in zip(hits, rows, strict=True)],
                    [row["metadata"] for row in rows],
                    [int(row["position"]) for row in rows],
                    vectors.reshape(len(rows), self.dimension),
                    len(rows) >= limit and limit < MOST,
                )
            )
        return answers

    def remember(self, model: dict[str, Any]) -> None:
        """Note which model makes the embeddings."""
        with self._asking() as client:
            about = _about(client, self.name) | {"model": model}
            client.alter_collection_properties(self.name, {"nearer": json.dumps(about)})
        self.made_by = model

    def number_from(self, next_id: int) -> None:
        """As `SQLiteIndex.number_from`."""
        with self._asking() as client:
            about = _about(client, self.name)
            about["next_id"] = max(next_id, about["next_id"])
            client.alter_collection_properties(self.name, {"nearer": json.dumps(about)})

    def _about(self) -> dict[str, Any]:
        with self._asking() as client:
            return _about(client, self.name)

    def _known(self, ids: Sequence[Id]) -> set[Id]:
        return set(self._column("whole", ids))

    def _column(self, name: str, ids: Sequence[Id]) -> dict[Id, Any]:
        entities: dict[Id, Any] = {}
        with self._asking() as client:
            for start in range(0, len(ids), BATCH):
                condition = _one_of([str(item_id) for item_id in ids[start : start + BATCH]])
                rows = client.query(self.name, filter=condition, output_fields=list({"id", "whole", name}))
                entities |= {_id(row): row[name] for row in rows}
        return entities

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        if self._closed:
            raise ParameterError(f"The index {self.name!r} must be open, it was closed.")
        with self._one_at_a_time, _in_our_words(self.name):
            yield self._client


def split_address(url: str) -> tuple[dict[str, Any], str]:
    """What the client takes, and the collection: milvus://host:port/collection, or milvus:///file.db?collection=."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    if parts.hostname:
        collection = parts.path.strip("/") or "nearer"
        scheme = "https" if options.get("secure", ["0"])[0] in ("1", "true") else "http"
        given = {"uri": f"{scheme}://{parts.hostname}:{parts.port or 19530}", "timeout": 10.0}
        if parts.username:
            given["token"] = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    else:
        collection = options.get("collection", ["nearer"])[0]
        file = Path(unquote(parts.path))
        if file.suffix != ".db":
            raise ParameterError(f"The file of milvus-lite must end in .db, got {file.name!r}.")
        file.parent.mkdir(parents=True, exist_ok=True)
        given = {"uri": str(file)}
    if not NAME.match(collection):
        raise ParameterError(f"`collection` must be letters, digits and '_', got {collection!r}.")
    return given, collection


def _about(client: Any, collection: str) -> dict[str, Any]:
    described = client.describe_collection(collection)
    text = (described.get("properties") or {}).get("nearer")
    if text is None:
        raise CorruptFileError(f"The collection {collection!r} is not one that nearer made. Choose another name.")
    try:
        about = checked_about(json.loads(text), collection)
        check_int(about.get("next_position"), "next_position", minimum=0, maximum=2**62)
    except (ValueError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError(
            f"What Milvus has noted about {collection!r} is not what nearer wrote: {error}."
        ) from error
    return about


def _create(client: Any, collection: str, wanted: Wanted) -> dict[str, Any]:
    pymilvus = load_pymilvus()
    size = check_int(wanted.dimension, "dimension", minimum=2, maximum=WIDEST)
    chosen = Exact() if wanted.kind is None else wanted.kind
    if isinstance(chosen, Exact):
        index = {"index_type": "FLAT"}
    elif isinstance(chosen, HNSW):
        index = {"index_type": "HNSW", "params": {"M": chosen.neighbors, "efConstruction": chosen.build_width}}  # type: ignore[dict-item]
    elif isinstance(chosen, IVF):
        index = {"index_type": "IVF_FLAT", "params": {"nlist": chosen.cells or 1024}}  # type: ignore[dict-item]
    else:
        raise ParameterError(f"`kind` must be Exact(), HNSW(...) or IVF(...) for Milvus, got {chosen!r}.")
    about = {**wanted.about(size, chosen), "next_position": 0}
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    kinds = pymilvus.DataType
    schema.add_field("id", kinds.VARCHAR, is_primary=True, max_length=LONGEST_ID)
    schema.add_field("position", kinds.INT64)
    schema.add_field("whole", kinds.BOOL)
    schema.add_field("metadata", kinds.JSON)
    schema.add_field("embedding", kinds.FLOAT_VECTOR, dim=size)
    indexes = client.prepare_index_params()
    indexes.add_index("embedding", metric_type=METRICS[about["similarity"]], **index)
    client.create_collection(
        collection,
        schema=schema,
        index_params=indexes,
        consistency_level="Strong",
        properties={"nearer": json.dumps(about)},
    )
    return about


def _expression(where: Condition | None) -> str:
    """A condition in the language of Milvus; "" for none."""
    if where is None:
        return ""
    if not isinstance(where, Compare):
        word = " and " if isinstance(where, Every) else " or "
        return "(" + word.join(_expression(part) for part in where.parts) + ")"
    for value in where.values:
        _check_numbers(value, f"where[{where.field!r}]")
        if isinstance(value, list | dict):
            raise ParameterError(
                f"`where[{where.field!r}]` must be text, a number or a truth value for Milvus, got {value!r}."
            )
    field = f"metadata[{_quoted(where.field)}]"
    values = [_quoted(value) if isinstance(value, str) else json.dumps(value) for value in where.values]
    if where.operator in ("$in", "$nin"):
        # To compare with a field that is not there, or null, is neither true nor false.
        same = (
            " or ".join(f"{field} == {value}" for value in values if value != "null")
            or f"{field} == 0 and {field} == 1"
        )
        there, absent = f"(exists {field})", f"(not (exists {field}))"
        if where.operator == "$in":
            return f"({same} or {absent})" if None in where.values else f"({same})"
        other = f"(not ({same}))"
        return f"({there} and {other})" if None in where.values else f"({absent} or {other})"
    sign = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[where.operator]
    return f"({field} {sign} {values[0]})"


def _check_numbers(value: Any, name: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ParameterError(f"`{name}` must hold whole numbers of 64 bits for Milvus, got {value!r}. Use text.")
    if isinstance(value, list | dict):
        for entry in value.values() if isinstance(value, dict) else value:
            _check_numbers(entry, name)


def _one_of(names: Sequence[str]) -> str:
    """The condition that the id is one of these. The client would put them between quotes as they are."""
    return f"id in [{', '.join(_quoted(name) for name in names)}]"


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _quoted(text: str) -> str:
    r"""A text in the language of filters, in which quotes, backslashes and line breaks must be escaped.

    >>> print(_quoted("O'Brien"), _quoted('"x'), _quoted("a\\b"), _quoted("two\nlines"))
    "O'Brien" "\"x" "a\\b" "two\nlines"
    """
    return f'"{text.translate(_ESCAPES)}"'


def _id(row: Any) -> Id:
    return int(row["id"]) if row["whole"] else str(row["id"])


@contextmanager
def _in_our_words(collection: str) -> Iterator[None]:
    """What the engine refuses, in our words."""
    pymilvus = load_pymilvus()
    try:
        yield
    except NearerError:
        raise
    except Exception as error:
        # The client lets some errors of the transport through as they are.
        ours = isinstance(error, pymilvus.MilvusException | OSError) or type(error).__module__.startswith("grpc")
        if not ours:
            raise
        raise lost("Milvus", collection, error) from error
