"""A table as people have it: named columns of numbers, words, dates and flags, with holes.

DataFrames of pandas and polars and Arrow tables come in through narwhals; cells of a CSV file are read for what
they are: numbers with decimal points or commas and thousands separators, yes and no, dates, words. Nothing is
repaired here; `Cleaning` says what becomes of each column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from nearer._limits import check_limit
from nearer._plain import is_nothing, objects
from nearer.datasets._dataset import Array
from nearer.exceptions import ParameterError, ShapeError

ColumnKind = Literal["number", "flag", "date", "word"]
# What people and programs write where there is nothing.
MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "missing"))
FLAGS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0, "y": 1.0, "n": 0.0}
DATE_FORMATS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y")
# What a column takes besides its values: a file of 800 bytes can hold one list of 40 million zeros.
COLUMN_BYTES = 512
DECIMAL_COMMA, THOUSANDS = "1,5", "1,200"
# Ways to write that the same cells may fit.
ALIKE = (("%m/%d/%Y", "%d/%m/%Y"), (DECIMAL_COMMA, THOUSANDS))
SPELLED = {
    "%m/%d/%Y": "dates such as 12/31/2024, the month first",
    "%d/%m/%Y": "dates such as 31/12/2024, the day first",
    DECIMAL_COMMA: "numbers with decimal commas",
    THOUSANDS: "numbers with commas between the thousands",
}
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DIGITS = re.compile(r"-?[0-9]+")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column: float64 with NaN for numbers, flags and dates (seconds since 1970); text or
    None.

    A float is what a feature needs. Ids, labels and kept columns need what was written: 123456789012345678 and
    the number after it are one float, and 007 is no 7.
    """

    kind: ColumnKind
    values: Array
    exact: Array | None = None
    """What the values cannot say: whole numbers as integers, text as it was given."""
    written: Array | None = None
    """The cells of a file, text or None."""
    form: str | None = None
    """How cells were read that could mean something else in another file: 01/02/2024, or 1,200."""

    @property
    def missing(self) -> Array:
        """Where there is no value, (n,)."""
        if self.kind == "word":
            return np.array([value is None for value in self.values], dtype=bool)
        return np.isnan(self.values)

    def take(self, rows: Any) -> Column:
        """The values of some rows."""
        exact, written = (None if array is None else array[rows] for array in (self.exact, self.written))
        return Column(self.kind, self.values[rows], exact, written, self.form)

    def read_as(self, form: str | None, name: str) -> Column:
        """The same cells read as a model learned them: 01/02/2024 is what it was in the table it learned from.

        >>> column = read_cells(["01/02/2024"])
        >>> column.kept().tolist(), column.read_as("%d/%m/%Y", "day").kept().tolist()
        (['2024-01-02'], ['2024-02-01'])
        """
        alike = next((pair for pair in ALIKE if {form, self.form} <= set(pair)), None)
        if form == self.form or alike is None or self.written is None:
            return self
        texts = [_text(cell) for cell in self.written]
        values = _read_in(form, [text for text in texts if text is not None])
        if values is None:
            raise ParameterError(
                f"The column {name!r} must hold {SPELLED[form or '']}, as the model learned it, got "
                f"{next(text for text in texts if text is not None and _read_in(form, [text]) is None)!r}."
            )
        return replace(self, values=_spread(values, texts), form=form)

    def kept(self) -> Array:
        """The values with their types: whole numbers, numbers, truth values or text, and None where there is none.

        >>> read_cells(["1999", "", "2000"]).kept().tolist(), read_cells(["007", "12"]).kept().tolist()
        ([1999, None, 2000], ['007', '12'])
        """
        if self.kind == "date":
            # Not as it was written: text is ordered by its characters, and 2019-10-03 comes after 2019-02-11.
            given = np.array(
                [None if np.isnan(seconds) else _iso(seconds) for seconds in self.values], dtype=object
            )
        elif self.exact is not None:
            given = self.exact
        else:
            given = self.values if self.kind != "flag" else np.nan_to_num(self.values).astype(np.bool_)
        if given.dtype == object or not self.missing.any():
            return given
        holes: Array = given.astype(object)
        holes[self.missing] = None
        return holes

    def names(self) -> Array:
        """The values as names of rows: integers or text, never a number that was rounded; None where there is none.

        >>> read_cells(["1.10", "1.1"]).names().tolist(), read_cells(["4006381333931"]).names().tolist()
        (['1.10', '1.1'], [4006381333931])
        """
        kept = self.kept()
        if self.exact is not None and all(value is None or type(value) is int for value in kept.tolist()):
            return kept
        return self.words()

    def words(self) -> Array:
        """The values as text, None where there is none."""
        if self.written is not None:
            return self.written
        return objects(None if value is None else _spelled(value) for value in self.kept().tolist())


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns by name, all of the same length."""

    columns: Mapping[str, Column]
    rows: Array | None = None
    """Which rows of the file these are, where they are a sample of it."""

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
        return Frame({name: column for name, column in self.columns.items() if name not in gone}, self.rows)

    def __getitem__(self, name: str) -> Column:
        self.require(name)
        return self.columns[name]

    def require(self, *names: str) -> None:
        """An error that lists the columns where one of these is not among them."""
        name = next((name for name in names if name not in self.columns), None)
        if name is None:
            return
        shown = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
        from nearer._names import hint

        raise ParameterError(f"{name!r} must be a column of the table, which has {shown}.{hint(name, self.names)}")


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
    if kind.is_decimal():
        return {name: _of_decimals(series.to_list())}
    if kind.is_numeric() or kind == nw.Boolean:
        holes = series.is_null().to_numpy()
        # A list costs seconds on a million rows; a column with holes of its own kind is filled to do without.
        numbers = (series.fill_null(False if kind == nw.Boolean else 0) if holes.any() else series).to_numpy()
        values = numbers.astype(np.float64)
        values[holes] = np.nan
        exact = numbers if kind.is_integer() else None
        return {name: Column("flag" if kind == nw.Boolean else "number", values, exact)}
    if isinstance(kind, nw.Datetime) or kind == nw.Date:
        # NaT of pandas is the one date that differs from itself.
        try:
            days = [np.nan if day is None or day != day else _timestamp(day) for day in series.to_list()]
        except (OverflowError, ValueError) as error:
            raise ParameterError(
                f"The column {name!r} must hold dates of the years 1 to 9999, got others: {error}."
            ) from error
        return {name: Column("date", np.array(days, dtype=np.float64))}
    if isinstance(kind, nw.List | nw.Array):
        try:
            block = _list_block(series)
        except (ValueError, TypeError) as error:
            lengths = sorted({0 if cell is None else len(cell) for cell in series.to_list()})
            raise ShapeError(
                f"The lists of the column {name!r} must be numbers of one length, got {lengths[:5]}: {error}."
            ) from error
        if block.ndim != 2:
            raise ShapeError(f"The lists of the column {name!r} must hold numbers, got lists in lists.")
        check_limit("NEARER_MAX_BYTES", COLUMN_BYTES * block.shape[1], f"The lists of the column {name!r}")
        return {f"{name}[{number}]": Column("number", block[:, number]) for number in range(block.shape[1])}
    cells, places = _objects(series)
    column = replace(read_cells(cells, exact=False), exact=_as_given(cells))
    return {name: column if places is None else column.take(places)}


def _objects(series: Any) -> tuple[list[Any], Array | None]:
    """The cells of a column as Python objects; of Arrow each text once, and which one each row has."""
    native = series.to_native()
    if series.dtype not in (nw.String, nw.Categorical) or not type(native).__module__.startswith("pyarrow"):
        return list(series.to_list()), None
    return arrow_values(native)


def arrow_array(column: Any) -> Any:
    """A column of Arrow in one piece."""
    import pyarrow as pa

    array = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def arrow_values(column: Any) -> tuple[list[Any], Array]:
    """The different values of a column of Arrow and None, and which of them each row has."""
    import pyarrow as pa

    array = arrow_array(column)
    codes = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    values = [*codes.dictionary.to_pylist(), None]
    return values, codes.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False).astype(np.int64)


def _as_given(listed: list[Any]) -> Array:
    """Cells of a column of objects: text and whole numbers as they are, anything else as text."""
    whole = all(type(cell) is int for cell in listed if not is_nothing(cell))
    return objects(
        None if is_nothing(cell) else cell if whole or isinstance(cell, str) else _spelled(cell) for cell in listed
    )


def _of_decimals(cells: Sequence[Any]) -> Column:
    """Decimal numbers; those without decimals are whole numbers."""
    values = np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    if all(cell is None or cell == cell.to_integral_value() for cell in cells if cell is None or cell.is_finite()):
        whole = objects(None if cell is None or not cell.is_finite() else int(cell) for cell in cells)
        return Column("number", values, whole)
    return Column("number", values)


def _list_block(series: Any) -> Array:
    """A column of lists as a matrix (n, width); Arrow has the numbers in one piece, others as Python lists."""
    native = series.to_native()
    if type(native).__module__.startswith("pyarrow") and len(native):
        array = arrow_array(native)
        numbers = array.flatten()
        if not array.null_count and not numbers.null_count and len(numbers) % len(array) == 0:
            width = len(numbers) // len(array)
            even = hasattr(array.type, "list_size") or bool((np.diff(np.asarray(array.offsets)) == width).all())
            if even and width:
                return np.asarray(numbers, dtype=np.float64).reshape(len(array), width)
    return np.array(series.to_list(), dtype=np.float64)


def read_cells(cells: Sequence[Any], *, decimal_comma: bool = False, exact: bool = True) -> Column:
    """One column of text (or mixed) cells as what it is; `decimal_comma` reads 1,5 as one and a half, `exact` keeps
    what was written besides the values.

    >>> read_cells(["1,200", "", "3"]).values.tolist()
    [1200.0, nan, 3.0]
    >>> read_cells(["yes", "no", "?"]).kind, read_cells(["2024-05-01", None]).kind, read_cells(["a", "1"]).kind
    ('flag', 'date', 'word')
    """
    form = CellForm(decimal_comma=decimal_comma)
    form.look(cells)
    return form.read(cells, exact=exact)


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
    whole: bool = True
    """Whether all are whole numbers of 64 bits as programs write them: 12 and not 012 or 12.0."""
    codes: bool = False
    """Whether a cell is like 007 or longer than 64 bits: digits that are no number to people."""
    truths: bool = True
    """Whether all are true or false, and not yes, no or letters."""

    def look(self, cells: Sequence[Any]) -> None:
        """Take more cells into account."""
        texts = [text for text in map(_text, cells) if text is not None]
        if not texts:
            return
        self.present = True
        plain = [text.replace(",", "") for text in texts] if any("," in text for text in texts) else texts
        whole = all(map(_is_whole, plain))
        self.whole = self.whole and whole
        self.codes = self.codes or (
            not whole and any(_DIGITS.fullmatch(text) and not _is_whole(text) for text in texts)
        )
        self.truths = self.truths and all(text.lower() in ("true", "false") for text in texts)
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

    def read(self, cells: Sequence[Any], *, exact: bool = True) -> Column:
        """Cells that were looked at, as the kind that fits all of them; `exact` keeps what was written besides."""
        texts = [_text(cell) for cell in cells]
        column = self._read(texts, [text for text in texts if text is not None])
        if not exact and column.form is None:
            return column
        written = objects(None if is_nothing(cell) else str(cell).strip() or None for cell in cells)
        given: Array | None = objects(texts)
        if column.kind == "word":
            given = written
        elif column.kind == "flag" and self.truths:
            given = None
        elif column.kind == "number" and not self.codes:
            counted = self.whole and column.form != DECIMAL_COMMA
            numbers = (0 if text is None else int(text.replace(",", "")) for text in texts)
            given = np.fromiter(numbers, np.int64, len(texts)) if counted else None
        return replace(column, exact=given, written=written)

    def _read(self, texts: Sequence[str | None], present: list[str]) -> Column:
        form = None
        if self.commas:
            # Where 10,61 stands no comma is between thousands, whatever separates the cells of the file.
            decimal = self.decimals and (self.decimal_comma or not self.thousands)
            form = DECIMAL_COMMA if decimal else THOUSANDS
            numbers = _read_in(form, present) if (self.decimal if decimal else self.thousands) else None
        else:
            numbers = _parsed(present) if self.plain else None
        if numbers is not None:
            return Column("number", _spread(numbers, texts), form=form)
        if self.present and self.flags:
            return Column("flag", _spread([FLAGS[text.lower()] for text in present], texts))
        dates = None
        if self.present and (self.iso or self.formats):
            form = None if self.iso else self.formats[0]
            dates = _iso_dates(present) if form is None else _read_in(form, present)
        if dates is not None:
            return Column("date", _spread(dates, texts), form=form)
        return Column("word", objects(texts))


def _read_in(form: str | None, texts: Sequence[str]) -> Sequence[float] | Array | None:
    """Numbers or dates that are written in one way, None where one is not."""
    if form == DECIMAL_COMMA:
        return _parsed([_pointed(text) for text in texts])
    if form == THOUSANDS:
        fits = all(_THOUSANDS.fullmatch(text) or "," not in text for text in texts)
        return _parsed([text.replace(",", "") for text in texts]) if fits else None
    return None if form is None else _formatted_dates(texts, form)


def _text(cell: Any) -> str | None:
    if is_nothing(cell):
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


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _spelled(value: Any) -> str:
    """A value as people write it: 3.0 is 3, and no digit is lost."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _iso(seconds: float) -> str:
    """Seconds since 1970 as ISO text."""
    if seconds % 1:
        return str(np.datetime64(round(seconds * 1e6), "us"))
    # The beginning of a day is the day, as people write it in a filter.
    moment = np.datetime64(int(seconds), "s")
    return str(moment.astype("datetime64[D]") if seconds % 86_400 == 0 else moment)


def _parsed(texts: Sequence[str]) -> Array | None:
    try:
        # Not as an array of text: that gives every cell the room of the longest.
        values = np.fromiter(map(float, texts), np.float64, len(texts))
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
