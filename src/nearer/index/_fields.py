"""The fields of metadata: what kinds of values they hold, and a column of each that is filtered.

A column keeps every different value once, and for every position which of them it has. A condition is then decided
for the different values and looked up for the positions, whatever the condition is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._limits import check_limit
from nearer.exceptions import CorruptFileError

# Field -> the kinds of the values that were ever put in.
Kinds = dict[str, set[str]]
_KINDS: dict[type, str] = {
    bool: "truth values",
    int: "numbers",
    float: "numbers",
    str: "text",
    type(None): "nothing",
    list: "lists",
    dict: "objects",
}


def note_of(text: str) -> dict[str, Any]:
    """The metadata of an item, a dictionary of its own, from the text that an index keeps ("" for none)."""
    if not text:
        return {}
    try:
        note = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"The metadata of an item must be JSON, they are damaged: {error}.") from error
    if not isinstance(note, dict):
        raise CorruptFileError(f"The metadata of an item must be a JSON object, got {text[:40]!r}. Take a backup.")
    return note


def kind_of(value: Any) -> str:
    """The kind of a JSON value, in the plural, for comparisons and messages.

    >>> kind_of(True), kind_of(1), kind_of(1.5), kind_of("1")
    ('truth values', 'numbers', 'numbers', 'text')
    """
    return _KINDS[type(value)]


def merged(known: Kinds, pairs: Iterable[tuple[str, type]]) -> Kinds:
    """The kinds with those of more fields and types; `known` itself where nothing is new, as nearly always."""
    new = [(name, _KINDS[kind]) for name, kind in pairs if _KINDS[kind] not in known.get(name, ())]
    if not new:
        return known
    kinds = {name: set(some) for name, some in known.items()}
    for name, kind in new:
        kinds.setdefault(name, set()).add(kind)
    if len(kinds) > len(known):
        # Every new name is noted beside all others: names that never end would cost more with each item.
        check_limit(
            "NEARER_MAX_FIELDS", len(kinds), "`metadata` (a name that differs from item to item is a value)"
        )
    return kinds


def kinds_from(noted: Mapping[str, Iterable[str]]) -> Kinds:
    """The kinds that were written down as lists."""
    return {str(name): set(kinds) for name, kinds in noted.items()}


def frozen(value: Any) -> Hashable:
    """A JSON value as a key that is equal when the values are: 1 and 1.0 are, 1 and true are not.

    >>> frozen([1, {"a": None}]) == frozen([1.0, {"a": None}]), frozen(1) == frozen(True)
    (True, False)
    """
    if isinstance(value, list):
        return ("lists", tuple(frozen(entry) for entry in value))
    if isinstance(value, dict):
        return ("objects", frozenset((name, frozen(entry)) for name, entry in value.items()))
    return (kind_of(value), value)


class FieldColumn:
    """The values of one field by position; −1 stands for an item that does not have it."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.codes: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.size = 0
        self._code: dict[Hashable, int] = {}

    def extend(self, values: Sequence[Any], missing: Any) -> None:
        """Take the values of the next positions; those that are `missing` have none."""
        end = self.size + len(values)
        if end > len(self.codes):
            # A new array: a search that has begun goes on with the old one.
            room = np.empty(max(end, self.size + self.size // 2), dtype=np.int32)
            room[: self.size] = self.codes[: self.size]
            self.codes = room
        for position, value in enumerate(values, start=self.size):
            if value is missing:
                self.codes[position] = -1
                continue
            key = frozen(value)
            code = self._code.get(key)
            if code is None:
                code = self._code[key] = len(self.values)
                self.values.append(value)
            self.codes[position] = code
        self.size = end

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Close gaps."""
        self.codes = self.codes[: self.size][kept[: self.size]]
        self.size = len(self.codes)

    def equal_to(self, values: Collection[Any]) -> NDArray[np.bool_]:
        """Which positions hold one of some values; null also matches items without the field."""
        codes = self.codes[: self.size]
        equal = np.zeros(self.size, dtype=np.bool_)
        wanted = {self._code.get(frozen(value)) for value in values} - {None}
        if len(wanted) > 8:
            equal = np.isin(codes, np.array(list(wanted), dtype=np.int32))
        else:
            for code in wanted:
                equal |= codes == code
        return equal | (codes < 0) if None in values else equal

    def that(self, holds: Callable[[Any], bool]) -> NDArray[np.bool_]:
        """Which positions hold a value for which a condition holds; those without one do not."""
        table = np.fromiter((holds(value) for value in self.values), dtype=np.bool_, count=len(self.values))
        # The last entry is that of the code −1.
        return np.append(table, False)[self.codes[: self.size]]


class Fields:
    """The columns of the fields that were asked for, made when they first are, from the text of the metadata."""

    def __init__(self) -> None:
        self.kinds: Kinds = {}
        self._columns: dict[str, FieldColumn] = {}
        self._making = threading.Lock()  # searches of several threads may be the first to ask

    def column(self, name: str, texts: Sequence[str]) -> FieldColumn:
        """The column of a field for all positions of `texts`, one JSON object each ("" for none)."""
        with self._making:
            column = self._columns.setdefault(name, FieldColumn())
            if column.size < len(texts):
                missing = object()
                later = texts[column.size :]
                values = [note_of(text).get(name, missing) if text else missing for text in later]
                column.extend(values, missing)
            return column

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Close gaps."""
        for name, column in list(self._columns.items()):
            column.keep(kept)
            if len(column.values) > 2 * column.size + 1000:
                del self._columns[name]  # mostly values of items that have gone: made again when it is asked for
