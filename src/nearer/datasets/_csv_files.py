"""CSV tables, read by numpy's parser; a slower second look explains what is wrong with a bad file."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np

from nearer._limits import check_expansion
from nearer.datasets._dataset import Array
from nearer.datasets._table import ColumnChoice, FileTable, check_different, ending, label_text
from nearer.exceptions import CorruptFileError, NotFiniteError, ParameterError, ShapeError


@dataclass(frozen=True)
class CsvForm:
    """How a CSV, TSV or semicolon-separated file in UTF-8 is written."""

    path: Path
    delimiter: str
    names: tuple[str, ...]
    """The columns, with names made up where the file has none."""
    skip: int
    """Lines that the column names take."""
    first: tuple[str, ...]
    """The first row of cells below the names."""

    @property
    def decimal_comma(self) -> bool:
        """Whether cells are separated by semicolons, which people do where numbers have a decimal comma."""
        return self.delimiter == ";"

    def rows(self, width: str = "as on its first line") -> Iterator[tuple[int, list[str]]]:
        """The rows below the names that are not blank, each with the line it ends on; uneven ones are an error."""
        try:
            with _opened(self.path) as file:
                reader = csv.reader(file, delimiter=self.delimiter)
                for row in reader:
                    if reader.line_num <= self.skip or not any(cell.strip() for cell in row):
                        continue
                    if len(row) != len(self.names):
                        raise CorruptFileError(
                            f"`{self.path.name}` must have {len(self.names)} columns {width}, got {len(row)} on "
                            f"line {reader.line_num}."
                        )
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise CorruptFileError(
                f"`{self.path.name}` must be a UTF-8 table of separated values: {error}."
            ) from error

    def numbers(self, converters: dict[int | str, Callable[[str], float]]) -> Array:
        """All columns as numbers by numpy's parser, ten times as fast as cell by cell and in a tenth of the memory;
        ValueError where a cell is none. `converters` are for columns of text.
        """
        with _opened(self.path) as file:
            return np.loadtxt(
                file,
                delimiter=self.delimiter,
                skiprows=self.skip,
                converters=converters or None,
                quotechar='"',
                comments=None,
                ndmin=2,
            )


def csv_form(path: Path, header: bool | None = None) -> CsvForm:
    """How a file is written; `header` says whether it begins with column names, None looks."""
    if is_packed(path):
        _check_packed(path)
    delimiter, rows, lines = _look(path)
    if not rows:
        raise ShapeError(f"`{path.name}` must hold at least one row, and is empty.")
    if header is None:
        header = _has_header(rows, path)
    if header and len(rows) == 1:
        raise ShapeError(f"`{path.name}` must hold at least one row below its column names, and has none.")
    names = [cell.strip() for cell in rows[0]] if header else [f"column_{number}" for number in range(len(rows[0]))]
    try:
        _check_quotes(path, delimiter)
    except csv.Error as error:
        raise CorruptFileError(f"`{path.name}` must close every quote: {error}.") from error
    return CsvForm(path, delimiter, tuple(names), lines[0] if header else 0, tuple(rows[-1]))


def is_packed(path: Path) -> bool:
    """Whether a table is packed by gzip."""
    return path.suffix.lower() == ".gz"


def _opened(path: Path) -> TextIO:
    if is_packed(path):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _check_packed(path: Path) -> None:
    """Refuse a packed table that breaks off, or that would become far larger than packed tables do."""
    size, stored = 0, path.stat().st_size
    try:
        with gzip.open(path) as file:
            while part := file.read(1 << 20):
                size += len(part)
                check_expansion(size, stored, f"`{path.name}`")
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(f"`{path.name}` must be packed by gzip: {error}. Pack it again.") from error


def read_csv(path: Path, chosen_columns: ColumnChoice) -> FileTable:
    """Features, labels and column names of a CSV, TSV or semicolon-separated file in UTF-8."""
    form = csv_form(
        path, True if chosen_columns.header is None and chosen_columns.by_name else chosen_columns.header
    )
    # A nameless first column holds the row numbers that pandas writes; the docstring of load_files says so.
    if form.skip and form.names[0] == "" and len(form.names) > 1:
        form = replace(form, names=("row number", *form.names[1:]))
        chosen_columns = replace(chosen_columns, ignore=(*chosen_columns.ignore, 0))
    label, features = chosen_columns.choose(form.names, path)
    labels: list[str] = []
    # Text outside the features must not stop the number parser: the label is set aside, the rest becomes zero.
    unused = set(range(len(form.names))) - set(features) - {label}
    converters: dict[int | str, Callable[[str], float]] = dict.fromkeys(unused, lambda text: 0.0)
    if label is not None:
        converters[label] = _Collector(labels)
    try:
        values = form.numbers(converters)
    except ValueError as error:
        _explain(form, features)
        raise CorruptFileError(f"`{path.name}` must be a table of comma-separated values: {error}.") from error
    if values.shape[1] != len(form.names):
        raise CorruptFileError(
            f"`{path.name}` must have {len(form.names)} columns as on its first line, got {values.shape[1]}."
        )
    texts = label_text(labels) if label is not None else np.full(len(values), "", dtype=object)
    return FileTable(path, values[:, features], texts, tuple(form.names[position] for position in features))


def read_columns(form: CsvForm, exact: Collection[str] | None = ()) -> dict[str, Array | list[str]]:
    """The columns of a CSV file by name: arrays where every cell is a number, else the cells as text.

    Those of `exact` (all of them with None) are text in any case: a float may not say what was written. A nameless
    column (the row numbers that pandas writes) is left out. Only a table with holes is taken apart cell by cell.
    """
    names = form.names
    check_different(names, form.path)
    texts: dict[int, list[str]] = {
        position: []
        for position, (name, cell) in enumerate(zip(names, form.first, strict=False))
        if exact is None or name in exact or not _is_number(cell)
    }
    try:
        values = form.numbers({position: _Collector(kept) for position, kept in texts.items()})
        if values.shape[1] != len(names):
            raise ValueError("rows of different length")
    except ValueError:  # a hole, a word among numbers, UTF-8 that breaks off: the slow look says what it is
        cells: list[list[str]] = [[] for _ in names]
        for _, row in form.rows():
            for column, cell in zip(cells, row, strict=True):
                column.append(cell)
        return {name: column for name, column in zip(names, cells, strict=True) if name}
    return {name: texts.get(position, values[:, position]) for position, name in enumerate(names) if name}


class _Collector:
    """A converter that keeps the text of a column and hands numpy a number in its place."""

    def __init__(self, kept: list[str]) -> None:
        self.kept = kept

    def __call__(self, text: str) -> float:
        self.kept.append(text)
        return 0.0


def _look(path: Path) -> tuple[str, list[list[str]], list[int]]:
    """The delimiter, the first two rows, and the line on which each of them ends."""
    try:
        with _opened(path) as file:
            if "\0" in file.read(4096):
                raise CorruptFileError(f"`{path.name}` must be a text table, and holds binary data.")
        delimiters = "\t" if ending(path) == ".tsv" else ",;\t|"
        looks = []
        for delimiter in delimiters:
            try:
                looks.append((delimiter, *_first_rows(path, delimiter)))
            except csv.Error:
                # To a wrong delimiter a wide line is one cell, and longer than a cell may be.
                if delimiter == delimiters[-1] and not looks:
                    raise
        # The delimiter that cuts both rows into the same, largest number of cells; a comma if none does.
        return max(looks, key=lambda look: _even_width(look[1]))
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"`{path.name}` must be text in UTF-8: {error}. Save it again as UTF-8.") from error
    except csv.Error as error:
        raise CorruptFileError(f"`{path.name}` must be a table of separated values: {error}.") from error


def _even_width(rows: Sequence[Sequence[str]]) -> int:
    widths = {len(row) for row in rows}
    return max(widths) if len(widths) == 1 and widths != {1} else 0


def _check_quotes(path: Path, delimiter: str) -> None:
    """A quote that is never closed would swallow the rest of the file into one cell without a word."""
    with gzip.open(path) if is_packed(path) else path.open("rb") as file:
        marks = sum(chunk.count(b'"') for chunk in iter(lambda: file.read(1 << 20), b""))
    if marks % 2:
        with _opened(path) as text:
            for _ in csv.reader(text, delimiter=delimiter, strict=True):
                pass


def _first_rows(path: Path, delimiter: str) -> tuple[list[list[str]], list[int]]:
    rows: list[list[str]] = []
    lines: list[int] = []
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=delimiter)
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append(row)
                lines.append(reader.line_num)
            if len(rows) == 2:
                break
    return rows, lines


def _has_header(rows: Sequence[Sequence[str]], path: Path) -> bool:
    """Whether the first row plainly holds names; an error where it may hold either."""
    first = [cell.strip() for cell in rows[0]]
    numeric = [_is_number(cell) for cell in first]
    if not any(numeric):
        return True
    # pandas names the columns of a bare array 0, 1, 2, ...
    counted = first[1:] if first[0] == "" else first
    if len(counted) > 1 and counted == [str(number) for number in range(len(counted))]:
        return True
    if all(numeric):
        return False
    second = [_is_number(cell) for cell in rows[1]] if len(rows) > 1 else []
    if any(below and not above for above, below in zip(numeric, second, strict=False)):
        return True
    raise ParameterError(
        f"The first line of `{path.name}` must be column names or data, and mixes numbers and text: "
        f"{', '.join(first[:6])}. Write a line of names without numbers above it (or say which it is: "
        "load_files(..., header=True))."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _explain(form: CsvForm, features: Sequence[int]) -> None:
    """Raise the error that says which lines or columns numpy could not read; return if none is found."""
    words: dict[int, tuple[int, str]] = {}
    missing: dict[int, int] = {}
    for line, row in form.rows("on each line"):
        for position in features:
            text = row[position].strip()
            if not text:
                missing.setdefault(position, line)
            elif not _is_number(text):
                words.setdefault(position, (line, text))
    wrong = sorted(words or missing)
    if not wrong:
        return
    listed = ", ".join(repr(form.names[position]) for position in wrong[:10]) + (", ..." if len(wrong) > 10 else "")
    are = "are" if len(wrong) > 1 else "is"
    if words:
        line, text = words[wrong[0]]
        hint = " Write decimals with a point." if form.decimal_comma and "," in text else ""
        raise ParameterError(
            f"Feature columns must be numbers, and in `{form.path.name}` {listed} {are} not: {text[:40]!r} on line "
            f"{line}. Name the class column with `label=`, and leave others out with `ignore=` or convert "
            f"them.{hint}"
        )
    raise NotFiniteError(
        f"Feature columns must have a number in each row, and in `{form.path.name}` {listed} {are} empty in places,"
        f" first on line {missing[wrong[0]]}. Fill or drop those rows, or leave the column out (`ignore=`)."
    )
