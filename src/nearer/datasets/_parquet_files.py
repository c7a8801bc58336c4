"""Parquet tables, through pyarrow; a column of lists (an embedding) becomes as many features as it is long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nearer._checks import needed
from nearer._limits import check_expansion
from nearer.datasets._dataset import Array
from nearer.datasets._frame import arrow_array, arrow_values, frame_from
from nearer.datasets._table import ColumnChoice, FileTable, label_text
from nearer.exceptions import CorruptFileError, NearerError, NotFiniteError, ParameterError, ShapeError

# pandas stores its row index under such names.
INDEX = re.compile(r"__index_level_\d+__")


# What is decoded at a time: what it takes is known before the next step.
STEP = 1 << 14


def load_arrow() -> tuple[Any, Any]:
    """pyarrow and its part for Parquet, imported when they are first needed."""
    what = "Parquet files are read and written with pyarrow"
    return needed("pyarrow", what, "tables"), needed("pyarrow.parquet", what, "tables")


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """The open file, text as dictionaries; whatever pyarrow refuses inside becomes an error of ours."""
    pa, parquet = load_arrow()
    try:
        # Not read_table(path): that looks for a partitioned folder and infers more than this one file says.
        file = parquet.ParquetFile(path, pre_buffer=False)
        # A text that comes a million times stays one text while it is read.
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
        yield parquet.ParquetFile(path, pre_buffer=False, read_dictionary=texts) if texts else file
    except NearerError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise CorruptFileError(
            f"`{path.name}` must be a Parquet file, and cannot be read as one: {error}."
        ) from error


def batches(file: Any, path: Path, **wanted: Any) -> Iterator[Any]:
    """Record batches whose text is text; one alone may not take more memory than a file of this size may."""
    for batch in file.iter_batches(STEP, **wanted):
        check_expansion(batch.nbytes, path.stat().st_size, f"`{path.name}`")
        # Bytes that are no UTF-8 would come out much later, as an error of Python's.
        batch.validate(full=True)
        yield batch


def _read(file: Any, path: Path, names: list[str]) -> Any:
    """Some columns as a table, refused as soon as it takes too much."""
    import pyarrow as pa

    stored, what = path.stat().st_size, f"`{path.name}`"
    check_expansion(_asked(file.metadata.num_rows, path, set(names)), stored, what)
    taken, total = [], 0
    for batch in batches(file, path, columns=names):
        # Lists become float64 of their own; dictionaries are shared by the batches of a row group.
        total += sum(
            column.indices.nbytes if isinstance(column, pa.DictionaryArray) else column.nbytes
            for column in batch.columns
        )
        check_expansion(total, stored, what)
        taken.append(batch)
    schema = pa.schema([file.schema_arrow.field(name) for name in names])
    return pa.Table.from_batches(taken).unify_dictionaries() if taken else schema.empty_table()


def open_parquet(path: Path) -> Any:
    """The whole file as an Arrow table, whatever its columns hold; the row index of pandas is left out."""
    with opened_parquet(path) as file:
        return _read(file, path, [name for name in map(str, file.schema_arrow.names) if not INDEX.fullmatch(name)])


def read_parquet(path: Path, columns: ColumnChoice) -> FileTable:
    """Features, labels and column names of a Parquet file."""
    with opened_parquet(path) as file:
        names = [str(name) for name in file.schema_arrow.names]
        index = [number for number, name in enumerate(names) if INDEX.fullmatch(name)]
        columns = ColumnChoice(columns.label, columns.features, (*columns.ignore, *index), columns.header)
        label, chosen = columns.choose(names, path)
        table = _read(file, path, [names[number] for number in [*chosen, *([] if label is None else [label])]])
    if table.num_rows == 0:
        raise ShapeError(f"`{path.name}` must hold at least one row, and has none.")
    schema = file.schema_arrow
    words = [names[number] for number in chosen if not _is_numeric(schema.field(number).type)]
    if words:
        shown = f"{words[0]!r} holds {schema.field(names.index(words[0])).type}"
        raise ParameterError(
            f"Feature columns must be numbers, and in `{path.name}` {', '.join(map(repr, words[:10]))} "
            f"{'are' if len(words) > 1 else 'is'} not: {shown}. Name the class column with `label=`, and leave "
            f"others out with `ignore=` or convert them."
        )
    for name in (names[position] for position in chosen):
        if table.column(name).null_count:
            raise NotFiniteError(
                f"Feature columns must have a number in each row, and in `{path.name}` {name!r} is empty in "
                f"{table.column(name).null_count} rows. Fill or drop them, or leave the column out (`ignore=`)."
            )
        array = arrow_array(table.column(name))
        if not _is_number(array.type) and array.flatten().null_count:
            raise NotFiniteError(
                f"Lists of the column {name!r} in `{path.name}` must hold numbers, got empty places."
            )
    features = frame_from(table.select([names[position] for position in chosen]))
    # The first block is for a file with no feature at all, whose error FileTable words.
    x = np.column_stack([np.zeros((len(table), 0)), *(column.values for column in features.columns.values())])
    labels = np.full(table.num_rows, "", dtype=object) if label is None else _labels(table.column(names[label]))
    return FileTable(path, x, labels, features.names)


def _asked(rows: int, path: Path, wanted: set[str]) -> int:
    """The bytes that the wanted columns take: a few bytes on the disk can stand for millions of rows."""
    from nearer.datasets._parquet_footer import column_sizes

    sizes = column_sizes(path)
    if sizes is None:
        return 16 * rows * len(wanted)
    asked = 0
    for column, values, unpacked in sizes:
        # The path of a list is its name and what is inside; a name may have points of its own.
        words = column.split(".")
        if any(".".join(words[:end]) in wanted for end in range(1, len(words) + 1)):
            asked += max(16 * values, unpacked)
    return max(asked, 16 * rows * len(wanted))


def _labels(column: Any) -> Array:
    """The labels as text; each different value is turned into text once."""
    import pyarrow as pa

    try:
        values, places = arrow_values(column)
    except pa.ArrowException:
        return label_text(column.to_pylist())
    return np.asarray(label_text(values)[places])


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type)
    return _is_number(kind)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    )
