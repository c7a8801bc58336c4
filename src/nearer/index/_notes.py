"""Metadata as an index keeps it: one JSON text for each item, and the kinds of values that its fields have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from nearer._limits import check_json
from nearer._plain import as_plain, check_names, table_rows
from nearer.exceptions import LimitError, ParameterError, ShapeError
from nearer.index._fields import Kinds, kind_of, merged

Metadata = dict[str, Any]
_PLAIN = {bool, int, float, str, type(None)}


class Notes(NamedTuple):
    """The JSON texts of some items, "" for those without metadata, and what the fields of the index hold then."""

    texts: list[str]
    kinds: Kinds


def as_notes(value: Any, n: int, known: Kinds) -> Notes:
    """Metadata of n items: dictionaries, a dictionary of columns or a DataFrame; None gives empty ones."""
    if value is None:
        return Notes([""] * n, known)
    table = table_rows(value)
    value = value if table is None else table
    if isinstance(value, Mapping):
        check_names(value, "`metadata`")
        columns = {str(key): list(column) for key, column in value.items() if not isinstance(column, str)}
        for key in value:
            if str(key) not in columns or len(columns[str(key)]) != n:
                raise ShapeError(f"`metadata[{key!r}]` must be a column with one value for each of the {n} rows.")
        rows: Sequence[Any] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows = rows if columns else [{}] * n
    elif isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise ParameterError(f"`metadata` must be dictionaries, or a dictionary of columns, got {value!r}.")
    else:
        rows = list(value)
    if len(rows) != n:
        raise ShapeError(f"`metadata` must have one entry for each of the {n} rows, got {len(rows)}.")
    if set(map(type, rows)) - {dict}:
        for row in rows:
            if not isinstance(row, Mapping):
                raise ParameterError(f"`metadata` must be dictionaries, or a dictionary of columns, got {row!r}.")
        rows = [dict(row) for row in rows]
    # Which keys and types there are is quickly asked of a million rows; what they mean, of the few different ones.
    pairs = {(key, type(value)) for row in rows for key, value in row.items()}
    if all(type(key) is str and kind in _PLAIN for key, kind in pairs):
        texts = _plain_texts(rows)
    else:
        texts = [_text(row, "metadata") if row else "" for row in rows]
        # Arrays, tuples, keys that are numbers: as they will be read back.
        pairs = {(key, type(value)) for text in texts if text for key, value in json.loads(text).items()}
    return Notes(texts, merged(known, pairs))


def _plain_texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of numbers and text: nothing is nested, and only a number or a character can be wrong."""
    try:
        texts = [_encode(row) if row else "" for row in rows]
        "".join(texts).encode("utf-8")
    except (ValueError, OverflowError):
        return [_text(row, "metadata") if row else "" for row in rows]  # says which it is
    return texts


def as_json(value: Any, name: str) -> Any:
    """A copy as JSON will give it back, so that a condition compares what metadata became."""
    plain = json.loads(_text(value, name))
    kind_of(plain)
    return plain


def _text(value: Any, name: str) -> str:
    try:
        text = _encode(value)
        if not text.isascii():
            text.encode("utf-8")  # half of a surrogate pair could not be written
        if text.count("[") + text.count("{") > 50:
            # As deep as it stands in a list of a file: what could not be read back is not taken.
            check_json(b"[[" + text.encode() + b"]]", f"`{name}`")
        return text
    except LimitError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"`{name}` must be JSON (text, finite numbers, lists, …): {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, date | np.datetime64):
        return as_plain(value)
    if isinstance(value, np.generic | np.ndarray | Tensor):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain, separators=(",", ":")).encode
