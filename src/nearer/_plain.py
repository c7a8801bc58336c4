"""Values as JSON has them: what a table, NumPy and pandas call missing is null, and dates are text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

__all__ = ["as_plain", "table_rows"]


def table_rows(data: Any) -> list[dict[str, Any]] | None:
    """The rows of a DataFrame of pandas, polars or Arrow as dictionaries; None for anything else.

    >>> import pandas
    >>> table_rows(pandas.DataFrame({"year": [1999, None], "color": ["red", "blue"]}))
    [{'year': 1999.0, 'color': 'red'}, {'year': None, 'color': 'blue'}]
    >>> table_rows([{"year": 1999}])
    """
    if hasattr(data, "to_dicts"):
        rows = data.to_dicts()  # polars
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):
        rows = data.to_dict(orient="records")  # pandas
    elif hasattr(data, "to_pylist") and hasattr(data, "column_names"):
        rows = data.to_pylist()  # Arrow
    else:
        return None
    return [as_plain(row) for row in rows]


def as_plain(value: Any) -> Any:
    """A value as JSON has it: plain numbers, text, lists and objects, null for what is missing, dates as text.

    >>> as_plain({"n": np.int64(3), "weight": float("nan"), "on": date(1999, 12, 31)})
    {'n': 3, 'weight': None, 'on': '1999-12-31'}
    """
    if isinstance(value, Mapping):
        return {str(key): as_plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.datetime64):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, np.datetime64) else value
