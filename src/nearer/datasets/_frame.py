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

__all__ = ["CellForm", "Column", "Frame", "frame_from", "is_frame", "read_cells"]

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
        block = _list_block(series)
        if block.ndim != 2:
            raise ShapeError(f"The lists of the column {name!r} must have one length, got several.")
        return {f"{name}[{place}]": Column("number", block[:, place]) for place in range(block.shape[1])}
    return {name: read_cells(series.to_list())}


def _list_block(series: Any) -> Array:
    """A column of lists as a matrix (n, width); Arrow has the numbers in one piece, others as Python lists."""
    native = series.to_native()
    if type(native).__module__.startswith("pyarrow") and len(native):
        array = native.combine_chunks() if hasattr(native, "combine_chunks") else native
        array = array.chunk(0) if hasattr(array, "chunk") else array
        numbers = array.flatten()
        if not array.null_count and not numbers.null_count and len(numbers) % len(array) == 0:
            width = len(numbers) // len(array)
            even = hasattr(array.type, "list_size") or bool((np.diff(np.asarray(array.offsets)) == width).all())
            if even and width:
                return np.asarray(numbers, dtype=np.float64).reshape(len(array), width)
    return np.array(series.to_list(), dtype=np.float64)


def read_cells(cells: Sequence[Any], *, decimal_comma: bool = False) -> Column:
    """One column of text (or mixed) cells as what it is; `decimal_comma` reads 1,5 as one and a half.

    >>> read_cells(["1,200", "", "3"]).values.tolist()
    [1200.0, nan, 3.0]
    >>> read_cells(["yes", "no", "?"]).kind, read_cells(["2024-05-01", None]).kind, read_cells(["a", "1"]).kind
    ('flag', 'date', 'word')
    """
    form = CellForm(decimal_comma=decimal_comma)
    form.look(cells)
    return form.read(cells)


@dataclass
class CellForm:
    """What all cells of a column can be read as. A long table is looked at part by part, and then read so.

    >>> form = CellForm()
    >>> form.look(["01/02/2024"]), form.look(["31/01/2024"])
    (None, None)
    >>> form.read(["01/02/2024"]).values == form.read(["01/02/2024", "31/01/2024"]).values[:1]
    array([ True])
    """

    decimal_comma: bool = False
    present: bool = False
    """Whether any cell holds something."""
    commas: bool = False
    decimals: bool = False
    """Whether a cell is like 1,5."""
    plain: bool = True
    thousands: bool = True
    decimal: bool = True
    """Whether all are numbers: as they are, without thousands separators, with decimal commas."""
    flags: bool = True
    iso: bool = True
    formats: tuple[str, ...] = DATE_FORMATS
    """The ways to write a date that fit all cells."""

    def look(self, cells: Sequence[Any]) -> None:
        """Take more cells into account."""
        texts = [text for text in map(_text, cells) if text is not None]
        if not texts:
            return
        self.present = True
        if not any("," in text for text in texts) and _parsed(texts) is not None:
            # Numbers as they are: no flag, no date; with thousands separators elsewhere they are the same numbers.
            self.flags = self.iso = False
            self.formats = ()
            self.decimal = self.decimal and _parsed([_pointed(text) for text in texts]) is not None
            return
        self.plain = False
        self.commas = self.commas or any("," in text for text in texts)
        self.decimals = self.decimals or any(_DECIMAL_COMMA.fullmatch(text) for text in texts)
        fits = all(_THOUSANDS.fullmatch(text) or "," not in text for text in texts)
        self.thousands = self.thousands and fits and _parsed([text.replace(",", "") for text in texts]) is not None
        self.decimal = self.decimal and _parsed([_pointed(text) for text in texts]) is not None
        self.flags = self.flags and all(text.lower() in FLAGS for text in texts)
        self.iso = self.iso and _iso_dates(texts) is not None
        self.formats = tuple(form for form in self.formats if _formatted_dates(texts, form) is not None)

    def read(self, cells: Sequence[Any]) -> Column:
        """Cells that were looked at, as the kind that fits all of them."""
        texts = [_text(cell) for cell in cells]
        present = [text for text in texts if text is not None]
        if self.decimal_comma and self.decimals:
            numbers = _parsed([_pointed(text) for text in present]) if self.decimal else None
        elif self.commas:
            numbers = _parsed([text.replace(",", "") for text in present]) if self.thousands else None
        else:
            numbers = _parsed(present) if self.plain else None
        if numbers is not None:
            return Column("number", _spread(numbers, texts))
        if self.present and self.flags:
            return Column("flag", _spread([FLAGS[text.lower()] for text in present], texts))
        dates = None
        if self.present and (self.iso or self.formats):
            dates = _iso_dates(present) if self.iso else _formatted_dates(present, self.formats[0])
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


def _pointed(text: str) -> str:
    """A number with a decimal comma, and points between the thousands, as programs write it."""
    return text.replace(".", "").replace(",", ".")


def _parsed(texts: Sequence[str]) -> Array | None:
    try:
        values = np.array(texts, dtype=np.str_).astype(np.float64) if texts else np.zeros(0)
    except ValueError:
        return None
    # float() also reads "1_000", which nobody writes as a number in a table.
    return None if any("_" in text for text in texts) else values


def _iso_dates(texts: Sequence[str]) -> list[float] | None:
    if not all(_ISO_DATE.fullmatch(text) for text in texts):
        return None
    try:
        return [_timestamp(datetime.fromisoformat(text)) for text in texts]
    except ValueError:
        return None


def _formatted_dates(texts: Sequence[str], form: str) -> list[float] | None:
    try:
        return [_timestamp(datetime.strptime(text, form)) for text in texts]
    except ValueError:
        return None


def _timestamp(moment: date) -> float:
    """Seconds since 1970; a time without a zone is taken as it stands, whatever zone this machine is in."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        return moment.timestamp()
    return (moment - datetime(1970, 1, 1)).total_seconds()
