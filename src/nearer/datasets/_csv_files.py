"""CSV tables, read by numpy's parser; a slower second look explains what is wrong with a bad file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearer.datasets._dataset import Array
from nearer.datasets._table import Columns, Table, label_text
from nearer.exceptions import CorruptFileError, NotFiniteError, ParameterError, ShapeError

__all__ = ["read_columns", "read_csv", "semicolons"]


def read_csv(path: Path, columns: Columns) -> Table:
    """Features, labels and column names of a CSV, TSV or semicolon-separated file in UTF-8."""
    delimiter, rows, lines = _look(path)
    if not rows:
        raise ShapeError(f"`{path.name}` must hold at least one row, and is empty.")
    named = _has_header(rows, columns, path)
    names = [cell.strip() for cell in rows[0]] if named else [f"column_{place}" for place in range(len(rows[0]))]
    if named and len(rows) == 1:
        raise ShapeError(f"`{path.name}` must hold at least one row below its column names, and has none.")
    # A nameless first column holds the row numbers that pandas writes; the docstring of load_files says so.
    if named and names[0] == "" and len(names) > 1:
        names[0] = "row number"
        columns = Columns(columns.label, columns.features, (*columns.ignore, 0), columns.header)
    label, chosen = columns.choose(names, path)
    labels: list[str] = []
    # Text outside the features must not stop the number parser: the label is set aside, the rest becomes zero.
    unused = set(range(len(names))) - set(chosen) - {label}
    converters: dict[int | str, Callable[[str], float]] = dict.fromkeys(unused, _zero)
    if label is not None:
        converters[label] = _Collector(labels)
    try:
        _check_quotes(path, delimiter)
        values = _parse(path, delimiter, lines[0] if named else 0, converters)
    except csv.Error as error:
        raise CorruptFileError(f"`{path.name}` must close every quote: {error}.") from error
    except (ValueError, UnicodeDecodeError) as error:
        _explain(path, delimiter, names, chosen, named)
        raise CorruptFileError(f"`{path.name}` must be a table of comma-separated values: {error}.") from error
    if values.shape[1] != len(names):
        raise CorruptFileError(
            f"`{path.name}` must have {len(names)} columns as on its first line, got {values.shape[1]}."
        )
    texts = label_text(labels) if label is not None else np.full(len(values), "", dtype=object)
    return Table(path, values[:, chosen], texts, tuple(names[place] for place in chosen))


def table_form(path: Path) -> tuple[str, list[str], int, list[str]]:
    """The delimiter, the column names (made up without a header), how many lines they take, and the first row."""
    delimiter, rows, lines = _look(path)
    if not rows:
        raise ShapeError(f"`{path.name}` must hold at least one row, and is empty.")
    named = _has_header(rows, Columns(None, None, (), None), path)
    if named and len(rows) == 1:
        raise ShapeError(f"`{path.name}` must hold at least one row below its column names, and has none.")
    names = [cell.strip() for cell in rows[0]] if named else [f"column_{place}" for place in range(len(rows[0]))]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ParameterError(f"`{path.name}` must have different column names, got {twice[0]!r} more than once.")
    try:
        _check_quotes(path, delimiter)
    except csv.Error as error:
        raise CorruptFileError(f"`{path.name}` must close every quote: {error}.") from error
    return delimiter, names, lines[0] if named else 0, rows[-1]


def semicolons(path: Path) -> bool:
    """Whether cells are separated by semicolons, which people do where numbers have a decimal comma."""
    return _look(path)[0] == ";"


def read_columns(path: Path, exact: Collection[str] | None = ()) -> dict[str, Array | list[str]]:
    """The columns of a CSV file by name: arrays where every cell is a number, else the cells as text.

    Those of `exact` (all of them with None) are text in any case: a float may not say what was written.

    A nameless column (the row numbers that pandas writes) is left out. numpy's parser reads the numbers, ten times
    as fast and in a tenth of the memory; only a table with holes is taken apart cell by cell.
    """
    delimiter, names, skip, first = table_form(path)
    asked = {place for place, name in enumerate(names) if exact is None or name in exact}
    texts: dict[int, list[str]] = {
        place: [] for place, cell in enumerate(first) if place in asked or not _is_number(cell)
    }
    try:
        if len(first) != len(names):
            raise ValueError("rows of different length")
        values = _parse(path, delimiter, skip, {place: _Collector(kept) for place, kept in texts.items()})
        if values.shape[1] != len(names):
            raise ValueError("rows of different length")
    except ValueError:  # a hole, a word among numbers, UTF-8 that breaks off: the slow look says what it is
        return _cells(path, delimiter, names, skip)
    return {name: texts.get(place, values[:, place]) for place, name in enumerate(names) if name}


def _cells(path: Path, delimiter: str, names: Sequence[str], skip: int) -> dict[str, Array | list[str]]:
    cells: list[list[str]] = [[] for _ in names]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            for row in reader:
                if reader.line_num <= skip or not any(cell.strip() for cell in row):
                    continue
                if len(row) != len(names):
                    raise CorruptFileError(
                        f"`{path.name}` must have {len(names)} columns as on its first line, got {len(row)} on "
                        f"line {reader.line_num}."
                    )
                for column, cell in zip(cells, row, strict=True):
                    column.append(cell)
    except (csv.Error, UnicodeDecodeError) as error:
        raise CorruptFileError(f"`{path.name}` must be a UTF-8 table of separated values: {error}.") from error
    return {name: column for name, column in zip(names, cells, strict=True) if name}


def _zero(text: str) -> float:
    return 0.0


class _Collector:
    """A converter that keeps the text of a column and hands numpy a number in its place."""

    def __init__(self, kept: list[str]) -> None:
        self.kept = kept

    def __call__(self, text: str) -> float:
        self.kept.append(text)
        return 0.0


def _parse(path: Path, delimiter: str, skip: int, converters: dict[int | str, Callable[[str], float]]) -> Array:
    with path.open(encoding="utf-8-sig", newline="") as file:
        table: Array = np.loadtxt(
            file,
            delimiter=delimiter,
            skiprows=skip,
            converters=converters or None,
            quotechar='"',
            comments=None,
            ndmin=2,
        )
    return table


def _look(path: Path) -> tuple[str, list[list[str]], list[int]]:
    """The delimiter, the first two rows, and the line on which each of them ends."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if "\0" in file.read(4096):
                raise CorruptFileError(f"`{path.name}` must be a text table, and holds binary data.")
        delimiters = "\t" if path.suffix.lower() == ".tsv" else ",;\t|"
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
    with path.open("rb") as file:
        marks = sum(chunk.count(b'"') for chunk in iter(lambda: file.read(1 << 20), b""))
    if marks % 2:
        with path.open(encoding="utf-8-sig", newline="") as text:
            for _ in csv.reader(text, delimiter=delimiter, strict=True):
                pass


def _first_rows(path: Path, delimiter: str) -> tuple[list[list[str]], list[int]]:
    rows: list[list[str]] = []
    lines: list[int] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append(row)
                lines.append(reader.line_num)
            if len(rows) == 2:
                break
    return rows, lines


def _has_header(rows: Sequence[Sequence[str]], columns: Columns, path: Path) -> bool:
    """Whether the first row holds names: said by the caller, named by the caller, or plain to see."""
    if columns.header is not None:
        return columns.header
    first = [cell.strip() for cell in rows[0]]
    asked = [columns.label, *columns.ignore]
    asked += [columns.features] if isinstance(columns.features, str) else list(columns.features or ())
    if any(isinstance(name, str) for name in asked):
        return True
    numeric = [_is_number(cell) for cell in first]
    if not any(numeric):
        return True
    # pandas names the columns of a bare array 0, 1, 2, ...
    counted = first[1:] if first[0] == "" else first
    if len(counted) > 1 and counted == [str(place) for place in range(len(counted))]:
        return True
    if all(numeric):
        return False
    second = [_is_number(cell) for cell in rows[1]] if len(rows) > 1 else []
    if any(below and not above for above, below in zip(numeric, second, strict=False)):
        return True
    raise ParameterError(
        f"`header` must be given, because the first line of `{path.name}` mixes numbers and text: "
        f"{', '.join(first[:6])}. Pass header=True if it holds the column names, header=False if it is data."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _explain(path: Path, delimiter: str, names: Sequence[str], chosen: Sequence[int], named: bool) -> None:
    """Raise the error that says which lines or columns numpy could not read; return if none is found."""
    words: dict[int, tuple[int, str]] = {}
    missing: dict[int, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader: Any = csv.reader(file, delimiter=delimiter)
            below = not named
            for row in reader:
                if not any(cell.strip() for cell in row):
                    continue
                if not below:
                    below = True
                    continue
                if len(row) != len(names):
                    raise CorruptFileError(
                        f"`{path.name}` must have {len(names)} columns on each line, got {len(row)} on line "
                        f"{reader.line_num}."
                    )
                for place in chosen:
                    text = row[place]
                    if not text.strip():
                        missing.setdefault(place, reader.line_num)
                    elif not _is_number(text):
                        words.setdefault(place, (reader.line_num, text.strip()))
    except (csv.Error, UnicodeDecodeError) as error:
        raise CorruptFileError(f"`{path.name}` must be a UTF-8 table of separated values: {error}.") from error
    if words:
        place, (line, text) = next(iter(sorted(words.items())))
        listed = ", ".join(repr(names[number]) for number in sorted(words)[:10]) + (
            ", ..." if len(words) > 10 else ""
        )
        hint = " Write decimals with a point." if delimiter == ";" and "," in text else ""
        raise ParameterError(
            f"Feature columns must be numbers, and in `{path.name}` {listed} "
            f"{'are' if len(words) > 1 else 'is'} not: {text[:40]!r} on line {line}. Name the class column with "
            f"label=, and leave others out with ignore= or convert them.{hint}"
        )
    if missing:
        place, line = next(iter(sorted(missing.items())))
        listed = ", ".join(repr(names[number]) for number in sorted(missing)[:10])
        raise NotFiniteError(
            f"Feature columns must have a number in each row, and in `{path.name}` {listed} "
            f"{'are' if len(missing) > 1 else 'is'} empty in places, first on line {line}. Fill or drop those "
            f"rows, or leave the column out (`ignore`)."
        )
