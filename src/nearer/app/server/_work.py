"""What the threads of the server do: embed, search and compare a batch of requests; write a batch of changes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nearer.app.server._problems import Refusal
from nearer.app.server._state import Served, features_of, features_of_image, through
from nearer.exceptions import ParameterError

Floats = NDArray[np.float32]
encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Ask:
    """A question: vectors, items, an image or ids, and what is wanted of them."""

    want: Literal["embed", "search", "similar", "same", "item"]
    vectors: Floats | None = None
    items: Sequence[Any] | Floats | None = None
    image: bytes | None = None
    ids: list[Any] | None = None
    k: int = 10
    where: dict[str, Any] | None = None


@dataclass(slots=True)
class WriteJob:
    """Items to add, to put in the place of others, or to remove."""

    kind: Literal["add", "upsert", "remove", "remove-known"]
    vectors: Floats | None = None
    items: Sequence[Any] | Floats | None = None
    ids: list[Any] | None = None
    metadata: list[dict[str, Any]] | None = None


def condition_of(ask: Ask) -> bytes | None:
    """The condition of a filtered search, None without one: equal conditions are looked up once.

    >>> condition_of(Ask("search", where={"b": 1, "a": 2})), condition_of(Ask("search", where={}))
    (b'{"a":2,"b":1}', None)
    """
    return msgspec.json.encode(ask.where, order="deterministic") if ask.where else None


def answer(served: Served, asks: Sequence[Ask]) -> list[Any]:
    """One result or exception for each question; the model and the index see all of them at once."""
    results: list[Any] = [None] * len(asks)
    rows: list[Floats | None] = [ask.vectors for ask in asks]
    features: dict[int, Floats] = {}
    for number, ask in enumerate(asks):
        try:
            if ask.want == "item":
                results[number] = _by_id(functools.partial(_item, served.index), ask.ids or [])
            elif ask.ids is not None:
                rows[number] = np.asarray(_by_id(served.index.embeddings, ask.ids).numpy(), dtype=np.float32)
            elif ask.image is not None:
                features[number] = features_of_image(served.model, ask.image)
            elif ask.items is not None:
                features[number] = features_of(served.model, ask.items)
        except Exception as error:
            results[number] = error
    _together(
        list(features),
        lambda places: _cut(through(served.model, np.concatenate([features[asked] for asked in places])),
                            [len(features[asked]) for asked in places]),
        rows,
        results,
    )  # fmt: skip
    groups: dict[tuple[int, bytes | None], list[int]] = {}
    for number, ask in enumerate(asks):
        if results[number] is not None:
            continue
        if ask.want == "embed":
            results[number] = rows[number]
        elif ask.want == "same":
            results[number] = _distance(rows[number])
        else:
            groups.setdefault((ask.k + (ask.want == "similar"), condition_of(ask)), []).append(number)
    for (k, _), places in groups.items():
        _together(places, lambda some, k=k: _searched(served, asks, rows, some, k), results, results)  # type: ignore[misc]
    return results


def _together(
    places: list[int], work: Callable[[list[int]], Sequence[Any]], into: list[Any], failed: list[Any]
) -> None:
    """Run `work` for all places; if it fails, for each alone, so that one bad request spoils no other."""
    if not places:
        return
    try:
        for number, result in zip(places, work(places), strict=True):
            into[number] = result
    except Exception as error:
        if len(places) == 1:
            failed[places[0]] = error
            return
        for number in places:
            _together([number], work, into, failed)


def _cut(rows: Floats, lengths: list[int]) -> list[Floats]:
    return np.split(rows, np.cumsum(lengths)[:-1])


def _item(index: Any, ids: list[Any]) -> bytes:
    """The JSON of one item."""
    (vector,), (metadata,) = index.embeddings(ids).tolist(), index.metadata(ids)
    return encode({"id": ids[0], "vector": vector, "metadata": metadata})


def _distance(rows: Floats | None) -> float:
    assert rows is not None
    return float(np.linalg.norm(rows[0].astype(np.float64) - rows[1].astype(np.float64)))


def _by_id(work: Callable[[list[Any]], Any], ids: list[Any]) -> Any:
    """What `work` does with ids that came in a URL: as text, or as the numbers that they spell."""
    for known in (ids, as_numbers(ids)):
        if known is not None:
            with contextlib.suppress(ParameterError):
                return work(known)
    raise Refusal(404, "unknown_id", f"There is no item {' or '.join(map(str, ids))}.")


def as_numbers(ids: list[Any]) -> list[int] | None:
    """Ids that came as text as whole numbers of 64 bits, None where one is none.

    >>> as_numbers(["7"]), as_numbers(["a"])
    ([7], None)
    """
    try:
        numbers = [int(item_id) for item_id in ids if len(str(item_id)) < 21]
    except ValueError:
        return None
    kept = len(numbers) == len(ids) and all(-(2**63) <= item_id < 2**63 for item_id in numbers)
    return (
        numbers
        if kept and all(str(item_id) == str(number) for item_id, number in zip(ids, numbers, strict=True))
        else None
    )


def _searched(
    served: Served, asks: Sequence[Ask], rows: list[Floats | None], places: list[int], k: int
) -> list[bytes]:
    """The JSON answers of some searches with the same k and condition."""
    parts = [part for number in places if (part := rows[number]) is not None]
    result = served.index.search(
        parts[0] if len(parts) == 1 else np.concatenate(parts), k=k, where=asks[places[0]].where
    )
    ids, near = result.ids.tolist(), result.similarities.tolist()
    far, notes = result.distances.tolist(), result.metadata
    answers, start = [], 0
    for number, part in zip(places, parts, strict=True):
        results = [
            [
                {"id": item_id, "distance": distance, "similarity": similarity, "metadata": note}
                for item_id, distance, similarity, note in zip(
                    ids[row], far[row], near[row], notes[row], strict=True
                )
            ]
            for row in range(start, start + len(part))
        ]
        start += len(part)
        if asks[number].want == "similar":
            itself = {str(item_id) for item_id in asks[number].ids or ()}
            others = [hit for hit in results[0] if str(hit["id"]) not in itself]
            answers.append(encode({"results": others[: asks[number].k]}))
        else:
            answers.append(encode({"results": results}))
    return answers


def write(served: Served, changes: Sequence[WriteJob]) -> list[Any]:
    """Make changes one after the other, and bring all of them to the disk together; then they are answered."""
    results: list[Any] = []
    for change in changes:
        try:
            results.append(_applied(served, change))
        except Exception as error:
            results.append(error)
    sync = getattr(served.index, "sync", None)
    if sync is not None and not all(isinstance(result, Exception) for result in results):
        try:
            sync()
        except Exception as error:
            # None of them is made; those that were refused before keep their own reason.
            return [result if isinstance(result, Exception) else error for result in results]
    return results


def _applied(served: Served, change: WriteJob) -> list[Any] | int:
    index = served.index
    # Engines commit each change themselves; the embedded index flushes many of them at once.
    later = {"sync": False} if hasattr(index, "sync") else {}
    if change.kind == "remove":
        assert change.ids is not None
        return int(_by_id(lambda ids: index.remove(ids, **later), change.ids))
    if change.kind == "remove-known":
        there = [item_id for item_id in dict.fromkeys(change.ids or ()) if item_id in index]
        return int(index.remove(there, **later)) if there else 0
    rows = change.vectors
    if rows is None:
        assert change.items is not None
        rows = through(served.model, features_of(served.model, change.items), side="database")
    if change.kind == "upsert":
        return list(index.upsert(rows, ids=change.ids, metadata=change.metadata, **later))
    try:
        return list(index.add(rows, ids=change.ids, metadata=change.metadata, **later))
    except ParameterError as error:
        known = [item_id for item_id in change.ids or () if item_id in index]
        if known:
            raise Refusal(
                409, "duplicate_id", f"The item {known[0]!r} is there already. Use mode upsert to replace it."
            ) from error
        raise
