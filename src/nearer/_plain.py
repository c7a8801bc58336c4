"""Values as JSON has them: what a table, NumPy and pandas call missing is null, and dates are text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import ParameterError

# Any array of NumPy, whose shape and type the docstrings say.
Array = NDArray[Any]
Floats = NDArray[np.float32]
Positions = NDArray[np.int64]


def is_nothing(value: Any) -> bool:
    """None, NaN, and what pandas has for them: NA and NaT.

    >>> is_nothing(float("nan")), is_nothing(np.datetime64("NaT")), is_nothing("")
    (True, True, False)
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(value, float | np.floating) and value != value)


def objects(values: Iterable[Any]) -> Array:
    """An array (n,) of Python objects as they are: NumPy would round, spell or pad them to one type.

    >>> objects(["a", None, 123456789012345678]).tolist()
    ['a', None, 123456789012345678]
    """
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def counted(number: int, what: str, plural: str = "") -> str:
    """A number with its noun, in the singular for one.

    >>> counted(1, "query", "queries"), counted(1200, "row")
    ('1 query', '1,200 rows')
    """
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def table_rows(data: Any) -> list[dict[str, Any]] | None:
    """The rows of a DataFrame of pandas, polars or Arrow as dictionaries; None for anything else.

    >>> import pandas
    >>> table_rows(pandas.DataFrame({"year": [1999, None], "color": ["red", "blue"]}))
    [{'year': 1999.0, 'color': 'red'}, {'year': None, 'color': 'blue'}]
    >>> table_rows([{"year": 1999}])
    """
    if hasattr(data, "to_dicts"):
        names, rows = data.columns, data.to_dicts  # polars
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):
        names, rows = data.columns, lambda: data.to_dict(orient="records")  # pandas
    elif hasattr(data, "to_pylist") and hasattr(data, "column_names"):
        names, rows = data.column_names, data.to_pylist  # Arrow
    else:
        return None
    check_names(names, "The columns of a table")
    return [as_plain(row) for row in rows()]


def csv_text(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    r"""Rows as a table of separated values, whose cells are empty where a row has no value.

    >>> csv_text(["a", "b"], [{"b": 1}])
    'a,b\r\n,1\r\n'
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def check_names(names: Iterable[Any], what: str) -> None:
    """Refuse names that are equal as text: one of two columns would be lost."""
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ParameterError(f"{what} must have different names, as text, got {twice!r} twice.")


def as_plain(value: Any) -> Any:
    """A value as JSON has it: plain numbers, text, lists and objects, null for what is missing, dates as text.

    >>> as_plain({"n": np.int64(3), "weight": float("nan"), "on": datetime(1999, 12, 31)})
    {'n': 3, 'weight': None, 'on': '1999-12-31'}
    """
    if isinstance(value, Mapping):
        return {str(key): as_plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.datetime64):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [as_plain(entry) for entry in value]
    if is_nothing(value):
        return None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime) and value.tzinfo is None and value.time() == time():
        value = value.date()  # the beginning of a day is the day, as people write it in a filter
    return value.isoformat() if isinstance(value, date) else value
