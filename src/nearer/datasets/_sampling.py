"""A table larger than memory as a random sample of its rows, read part by part.

A metric of p columns has p² numbers at most: rows beyond some hundred thousands teach it nothing more, so a sample
is what a fit needs. `nearer embed` and `nearer index` go through every row.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np

from nearer._checks import check_int
from nearer.datasets._dataset import Array
from nearer.datasets._frame import Column, Frame
from nearer.datasets._streams import open_stream
from nearer.datasets._table import PARQUET

READ_ROWS = 1 << 14
# What a table takes in memory for each byte of its file: numbers as float64, words as Python strings, and copies.
GROWTH = {True: 12.0, False: 6.0}  # compressed Parquet or text
SHARE = 0.5


def rows_that_fit(path: Path) -> float:
    """The share of a table's rows, at most 1, that fits into half of this machine's memory.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("a,b\\n1,2\\n")
    >>> rows_that_fit(path)
    1.0
    """
    asked = GROWTH[path.suffix.lower() in PARQUET] * path.stat().st_size
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
