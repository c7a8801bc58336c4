"""A table as people have it: named columns of numbers, words, dates and flags, with holes.

DataFrames of pandas and polars and Arrow tables come in through narwhals; cells of a CSV file are read for what
they are: numbers with decimal points or commas and thousands separators, yes and no, dates, words. Nothing is
repaired here; `Cleaning` says what becomes of each column.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from nearer.datasets._dataset import Array
from nearer.exceptions import ParameterError, ShapeError

__all__ = ["Column", "Frame", "frame_from", "is_frame", "read_cells"]

ColumnKind = Literal["number", "flag", "date", "word"]
# What people and programs write where there is nothing.
MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "missing"))
FLAGS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0, "y": 1.0, "n": 0.0}
DATE_FORMATS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column: float64 with NaN for numbers, flags and dates (seconds since 1970); text or
    None.
    """

    kind: ColumnKind
    values: Array

    @property
    def missing(self) -> Array:
        """Where there is no value, (n,)."""
        if self.kind == "word":
            return np.array([value is None for value in self.values], dtype=bool)
        empty: Array = np.isnan(self.values)
        return empty

    def take(self, rows: Any) -> Column:
        """The values of some rows."""
        return Column(self.kind, self.values[rows])


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns by name, all of the same length."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if len({len(column.values) for column in self.columns.values()}) > 1:
            raise ShapeError("The columns of a table must have the same length.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).values) if self.columns else 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in their order."""
        return tuple(self.columns)

    def without(self, names: Iterable[str]) -> Frame:
        """The other columns."""
        gone = set(names)
        return Frame({name: column for name, column in self.columns.items() if name not in gone})

    def __getitem__(self, name: str) -> Column:
        if name in self.columns:
            return self.columns[name]
        shown = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
        close = difflib.get_close_matches(name, self.names, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ParameterError(f"{name!r} must be a column of the table, which has {shown}.{hint}")


def is_frame(data: Any) -> bool:
    """Whether narwhals knows this as a DataFrame (pandas, polars, pyarrow, ...).

    >>> is_frame([[1, 2]])
    False
    """
    return isinstance(nw.from_native(data, eager_only=True, pass_through=True), nw.DataFrame)


def frame_from(data: Any) -> Frame:
    """A DataFrame of any library as a `Frame`; a column of lists or arrays becomes one column for each entry.

    >>> import pandas
    >>> frame_from(pandas.DataFrame({"age": [41, None], "town": ["Ulm", None]}))["town"].values.tolist()
    ['Ulm', None]
    """
    native = nw.from_native(data, eager_only=True)
    if len(set(map(str, native.columns))) < len(native.columns):
        raise ParameterError("The columns of a table must have different names, as text, got some twice.")
    columns: dict[str, Column] = {}
    for series in native.iter_columns():
        columns |= _columns_of(str(series.name), series)
    return Frame(columns)


def _columns_of(name: str, series: Any) -> dict[str, Column]:
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        holes = series.is_null()
        # A list costs seconds on a million rows; only a column with holes of its own kind needs one.
        cells = [np.nan if value is None else float(value) for value in series.to_list()] if holes.any() else series
        return {name: Column("flag" if kind == nw.Boolean else "number", np.asarray(cells, dtype=np.float64))}
    if isinstance(kind, nw.Datetime) or kind == nw.Date:
        # NaT of pandas is the one date that differs from itself.
        days = [np.nan if day is None or day != day else _timestamp(day) for day in series.to_list()]
        return {name: Column("date", np.array(days, dtype=np.float64))}
    if isinstance(kind, nw.List | nw.Array):
        block = np.array(series.to_list(), dtype=np.float64)
        if block.ndim != 2:
            raise ShapeError(f"The lists of the column {name!r} must have one length, got several.")
        return {f"{name}[{place}]": Column("number", block[:, place]) for place in range(block.shape[1])}
    return {name: read_cells(series.to_list())}


def read_cells(cells: Sequence[Any], *, decimal_comma: bool = False) -> Column:
    """One column of text (or mixed) cells as what it is; `decimal_comma` reads 1,5 as one and a half.

    >>> read_cells(["1,200", "", "3"]).values.tolist()
    [1200.0, nan, 3.0]
    >>> read_cells(["yes", "no", "?"]).kind, read_cells(["2024-05-01", None]).kind, read_cells(["a", "1"]).kind
    ('flag', 'date', 'word')
    """
    texts = [_text(cell) for cell in cells]
    present = [text for text in texts if text is not None]
    numbers = _numbers(present, decimal_comma=decimal_comma)
    if numbers is not None:
        return Column("number", _spread(numbers, texts))
    if present and all(text.lower() in FLAGS for text in present):
        return Column("flag", _spread([FLAGS[text.lower()] for text in present], texts))
    dates = _dates(present)
    if dates is not None:
        return Column("date", _spread(dates, texts))
    words = np.empty(len(texts), dtype=object)
    words[:] = texts
    return Column("word", words)


def _text(cell: Any) -> str | None:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return None
    text = str(cell).strip()
    return None if text.lower() in MISSING else text


def _spread(values: Sequence[float] | Array, texts: Sequence[str | None]) -> Array:
    """The values of the cells that have one, NaN in the others."""
    result = np.full(len(texts), np.nan)
    result[[text is not None for text in texts]] = values
    return result


def _numbers(texts: Sequence[str], *, decimal_comma: bool) -> Array | None:
    if decimal_comma and any(_DECIMAL_COMMA.fullmatch(text) for text in texts):
        texts = [text.replace(".", "").replace(",", ".") for text in texts]
    elif any("," in text for text in texts):
        if not all(_THOUSANDS.fullmatch(text) or "," not in text for text in texts):
            return None
        texts = [text.replace(",", "") for text in texts]
    try:
        values = np.array(texts, dtype=np.str_).astype(np.float64) if texts else np.zeros(0)
    except ValueError:
        return None
    # float() also reads "1_000", which nobody writes as a number in a table.
    return None if any("_" in text for text in texts) else values


def _dates(texts: Sequence[str]) -> list[float] | None:
    if not texts:
        return None
    if all(_ISO_DATE.fullmatch(text) for text in texts):
        try:
            return [_timestamp(datetime.fromisoformat(text)) for text in texts]
        except ValueError:
            return None
    for form in DATE_FORMATS:
        try:
            return [_timestamp(datetime.strptime(text, form)) for text in texts]
        except ValueError:
            continue
    return None


def _timestamp(moment: date) -> float:
    """Seconds since 1970; a time without a zone is taken as it stands, whatever zone this machine is in."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        return moment.timestamp()
    return (moment - datetime(1970, 1, 1)).total_seconds()
