"""Data that does not fit into memory, part by part: tables, arrays, folders of photos, Hugging Face data sets.

A stream knows how many rows it has where that is cheap to know, can begin at any row, and has a fingerprint, by
which a run that was interrupted sees that it goes on with the same data. A metric of p columns has p² numbers at
most: rows beyond some hundred thousands teach it nothing more, so a random sample of the rows is what a fit needs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearer._checks import check_int, needed
from nearer.datasets._csv_files import csv_form, is_packed
from nearer.datasets._dataset import Array
from nearer.datasets._frame import CellForm, Column, Frame, frame_from
from nearer.datasets._image_files import list_images, why_unreadable
from nearer.datasets._numpy_files import UNREADABLE, npy_header
from nearer.datasets._parquet_files import INDEX, batches, opened_parquet
from nearer.datasets._table import PARQUET, TABLES, TEXT_TABLES, check_different, ending
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError, ShapeError

# What Arrow decodes at a time: large steps would keep whole row groups.
READ_ROWS = 1 << 14


@dataclass(frozen=True)
class Stream:
    """Rows that come in parts: a `Frame`, an array (n, ...), or a list of the paths of photos."""

    name: str
    rows: int | None
    fingerprint: str
    parts: Callable[[int, int], Iterator[Any]]
    """`parts(start, size)`: the rows from `start` on, `size` at a time."""
    root: Path | None = None
    """The folder of photos."""


def open_stream(data: Any, *, unreadable: str = "raise") -> Stream:
    """The stream of a CSV, TSV, Parquet or .npy file, of a folder of Parquet files or photos, or of a Hugging Face
    data set: a folder that `save_to_disk` wrote, or the object itself, also one that streams.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.npy"
    >>> np.save(path, np.arange(6.0).reshape(3, 2))
    >>> [part.tolist() for part in open_stream(path).parts(1, 1)]
    [[[2.0, 3.0]], [[4.0, 5.0]]]
    """
    if not isinstance(data, str | os.PathLike):
        return _hugging_face(data)
    path = Path(data).expanduser()
    suffix = ending(path)
    if not path.exists():
        raise MissingDataError(f"`{path}` must be a file or a folder, and there is no such one.")
    if path.is_dir():
        if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
            return _saved_by_hugging_face(path)
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in PARQUET)
        return _parquet(path, files) if files else _photos(path, unreadable)
    if suffix in PARQUET:
        return _parquet(path, [path])
    if suffix in TEXT_TABLES:
        return _csv(path)
    if suffix == ".npy":
        return _numpy(path)
    raise ParameterError(
        f"`{path.name}` must end in {', '.join((*TABLES, '.npy'))} or be a folder, to be read in parts."
    )


def _fingerprint(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def _of_files(files: list[Path]) -> str:
    """Names, sizes and times of files: cheap, and enough to see that they are other ones."""
    facts = [(file.name, (status := file.stat()).st_size, status.st_mtime_ns) for file in files]
    return _fingerprint(facts)


def _numpy(path: Path) -> Stream:
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = npy_header(file)
            begin = file.tell()
    except UNREADABLE as error:
        raise CorruptFileError(
            f"`{path.name}` must be an .npy file, and cannot be read as one: {error}."
        ) from error
    if len(shape) < 2 or fortran or dtype.kind not in "biuf":
        raise ShapeError(f"`{path.name}` must hold rows of numbers, one item each, got {dtype} of shape {shape}.")
    width = int(np.prod(shape[1:], dtype=np.int64))
    if path.stat().st_size < begin + shape[0] * width * dtype.itemsize:
        raise CorruptFileError(f"`{path.name}` must hold {shape[0]} rows, and is shorter. Copy it again.")

    def parts(start: int, size: int) -> Iterator[Any]:
        for first in range(start, shape[0], size):
            count = min(size, shape[0] - first)
            # Not mapped: pages of a mapped file stay in the memory of the process.
            rows = np.fromfile(path, dtype, count * width, offset=begin + first * width * dtype.itemsize)
            yield rows.reshape(count, *shape[1:])

    return Stream(path.name, shape[0], _of_files([path]), parts)


def _photos(path: Path, unreadable: str) -> Stream:
    names = [name for name in list_images(path) if unreadable != "skip" or why_unreadable(path / name) is None]
    if not names:
        raise ShapeError(f"`{path}` must hold photos or Parquet files, and has none.")

    def parts(start: int, size: int) -> Iterator[Any]:
        for first in range(start, len(names), size):
            yield [path / name for name in names[first : first + size]]

    return Stream(path.name, len(names), _fingerprint(names), parts, path)


def _parquet(path: Path, files: list[Path]) -> Stream:
    counts = []
    for file in files:
        with opened_parquet(file) as source:
            counts.append(source.metadata.num_rows)

    def pieces(start: int) -> Iterator[Any]:
        for file, count in zip(files, counts, strict=True):
            if start >= count:
                start -= count
                continue
            with opened_parquet(file) as source:
                names = [name for name in source.schema_arrow.names if not INDEX.fullmatch(str(name))]
                for group in range(source.num_row_groups):
                    rows = source.metadata.row_group(group).num_rows
                    if start >= rows:
                        start -= rows
                        continue
                    yield from _from_row(batches(source, file, row_groups=[group], columns=names), start)
                    start = 0

    return Stream(path.name, sum(counts), _of_files(files), lambda start, size: _frames(pieces(start), size))


def _from_row(batches: Iterator[Any], start: int) -> Iterator[Any]:
    """Arrow batches without the first `start` rows."""
    for batch in batches:
        if start < batch.num_rows:
            yield batch.slice(start)
        start = max(0, start - batch.num_rows)


def _frames(batches: Iterator[Any], size: int) -> Iterator[Frame]:
    """Arrow batches gathered or cut into parts of `size` rows."""
    import pyarrow as pa

    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        while batch.num_rows:
            taken = batch.slice(0, size - rows)
            waiting.append(taken)
            rows += taken.num_rows
            batch = batch.slice(taken.num_rows)
            if rows == size:
                yield frame_from(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
    if waiting:
        yield frame_from(pa.Table.from_batches(waiting))


def _csv(path: Path) -> Stream:
    written = csv_form(path)
    names = written.names
    check_different(names, path)

    def rows() -> Iterator[list[str]]:
        return (row for _, row in written.rows())

    # What a column is depends on all of its cells: a date such as 01/02 is settled by a 31 much later.
    forms = [CellForm(decimal_comma=written.decimal_comma) for _ in names]
    count = 0
    for block in _blocks(rows(), READ_ROWS):
        count += len(block)
        for form, cells in zip(forms, zip(*block, strict=True), strict=True):
            form.look(cells)

    def parts(start: int, size: int) -> Iterator[Any]:
        for block in _blocks(itertools.islice(rows(), start, None), size):
            columns = zip(names, forms, zip(*block, strict=True), strict=True)
            yield Frame({name: form.read(cells) for name, form, cells in columns if name})

    return Stream(path.name, count, _of_files([path]), parts)


def _blocks(rows: Iterator[list[str]], size: int) -> Iterator[list[list[str]]]:
    block: list[list[str]] = []
    for row in rows:
        block.append(row)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block


def _saved_by_hugging_face(path: Path) -> Stream:
    """A folder that `Dataset.save_to_disk` wrote: Arrow streams, named in state.json."""
    pa = needed("pyarrow", "Reading Arrow needs pyarrow", "tables")
    if (path / "dataset_dict.json").is_file():
        splits = json.loads((path / "dataset_dict.json").read_text()).get("splits", [])
        raise ParameterError(
            f"`{path}` holds the splits {', '.join(splits)}. Name one: {path / (splits or ['x'])[0]}."
        )
    try:
        state = json.loads((path / "state.json").read_text())
        files = [path / Path(entry["filename"]).name for entry in state["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"`{path / 'state.json'}` must list the files of a data set.") from error
    if state.get("_indices_data_files"):
        raise ParameterError(f"`{path}` holds a selection of rows; flatten it: dataset.flatten_indices().")

    def pieces() -> Iterator[Any]:
        for file in files:
            try:
                with pa.OSFile(str(file)) as source:
                    yield from pa.ipc.open_stream(source)
            except (pa.ArrowException, OSError) as error:
                raise CorruptFileError(f"`{file.name}` must be an Arrow stream: {error}.") from error

    return Stream(path.name, None, _of_files(files), lambda start, size: _frames(_from_row(pieces(), start), size))


def _hugging_face(data: Any) -> Stream:
    """A `datasets.Dataset`, or an `IterableDataset` that streams."""
    if not (hasattr(data, "with_format") and hasattr(data, "features")):
        raise ParameterError(f"`data` must be a path or a Hugging Face data set, got {type(data).__name__}.")
    streams = not hasattr(data, "__len__")

    def parts(start: int, size: int) -> Iterator[Any]:
        if streams:
            for table in data.skip(start).with_format("arrow").iter(batch_size=size):
                yield frame_from(table)
            return
        tables = data.with_format("arrow")
        for first in range(start, len(data), size):
            yield frame_from(tables[first : first + size])

    print_of = getattr(data, "_fingerprint", None) or _fingerprint(str(data))
    return Stream("data set", None if streams else len(data), str(print_of), parts)


# What a table takes in memory for each byte of its file: numbers as float64, words as Python strings, and copies.
GROWTH = {True: 12.0, False: 6.0}  # compressed Parquet or text
PACKED = 30.0
SHARE = 0.5


def rows_that_fit(path: Path) -> float:
    """The share of a table's rows, at most 1, that fits into half of this machine's memory.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("a,b\\n1,2\\n")
    >>> rows_that_fit(path)
    1.0
    """
    asked = (PACKED if is_packed(path) else GROWTH[path.suffix.lower() in PARQUET]) * path.stat().st_size
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 8 << 30
    return min(1.0, SHARE * memory / max(asked, 1.0))


def sample_rows(path: Path, most: int, *, seed: int = 0, exact: Collection[str] = ()) -> tuple[Frame, int]:
    """At most `most` rows of a CSV or Parquet file, drawn at random and in their order, and how many there are.

    What was written is kept of the columns of `exact`, and costs memory.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("a,b\\n" + "".join(f"{n},{n % 2}\\n" for n in range(50)))
    >>> frame, total = sample_rows(path, 10)
    >>> len(frame), total
    (10, 50)
    """
    check_int(most, "rows")
    stream = open_stream(path)
    total = int(stream.rows or 0)
    chosen = np.sort(np.random.default_rng(seed).choice(total, min(most, total), replace=False))
    taken: dict[str, list[Column]] = {}
    start = 0
    for part in stream.parts(0, READ_ROWS):
        inside = chosen[(chosen >= start) & (chosen < start + len(part))] - start
        start += len(part)
        if len(inside):
            for name, column in part.columns.items():
                some = column.take(inside)
                taken.setdefault(name, []).append(some if name in exact else Column(some.kind, some.values))
    return Frame({name: _joined(columns) for name, columns in taken.items()}, rows=chosen), total


def _joined(columns: list[Column]) -> Column:
    """Parts of a column as one; a part without any value has no say in what the column is."""
    first = next((column for column in columns if not column.missing.all()), columns[0])
    kind = first.kind
    blank = None if kind == "word" else np.nan
    values = [
        column.values if column.kind == kind else np.full(len(column.values), blank, dtype=first.values.dtype)
        for column in columns
    ]
    exact, written = (_all_of([getattr(column, name) for column in columns]) for name in ("exact", "written"))
    return Column(kind, np.concatenate(values), exact, written)


def _all_of(arrays: list[Array | None]) -> Array | None:
    """The arrays as one, None where one is missing."""
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if len(present) == len(arrays) else None
