"""Columns that give the label away: the number of the row in a sorted file, and the label itself.

A metric that learns from one of them scores well on held-out rows of the same table and knows nothing of a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearer.datasets._dataset import Array
from nearer.datasets._frame import Column, Frame

# Fewer rows than these run in steps of one, or agree with the label, by chance.
LEAST_ROWS = 10
# Lines that come twice or were dropped: the number jumps at one place for each, at two where a copy is elsewhere.
# Nothing that was measured grows by one from row to row at 49 of 50 places without coming back to a value.
JUMPS = (2, 0.02)
ENOUGH = 100
# Enough to see that most columns are no copy.
FIRST = 100
RUNNING = "a running row number, in the order of the file"
COPY = "the label itself"


def leaking(frame: Frame, y: Any, codes: Array, classes: tuple[str, ...]) -> Mapping[str, str]:
    """The columns of a table that give its label away, and why.

    `y` is what the caller gave as labels, for its name; `codes` and `classes` are what it was read as: codes, a
    matrix (n, c) or numbers.

    >>> from nearer.datasets._frame import read_cells
    >>> rows = {"row": read_cells([str(row) for row in range(12)]), "kind": read_cells(["a", "b"] * 6)}
    >>> leaking(Frame(rows), None, np.array([0, 1] * 6), ("a", "b"))
    {'row': 'a running row number, in the order of the file', 'kind': 'the label itself'}
    """
    named = {str(name) for name in getattr(y, "columns", [getattr(y, "name", None)]) if name not in (None, "")}
    reasons = {}
    for name, column in frame.columns.items():
        jumps = _jumps(column, frame.rows)
        if jumps is not None:
            reasons[name] = RUNNING if not jumps else f"{RUNNING} (but for {jumps} place{'s' * (jumps > 1)})"
        elif (len(frame) >= LEAST_ROWS or name in named) and _is_label(column, codes, classes):
            reasons[name] = COPY
        elif name in named and codes.ndim == 1 and classes and _one_to_one(column, codes):
            reasons[name] = f"{COPY}, in other words"
    return reasons


def _jumps(column: Column, rows: Array | None) -> int | None:
    """At how many places a column that counts the rows of the file does not grow with them; None where it counts
    nothing: where these places are many, or a value comes again (cycles of several machines are a feature).
    """
    values = column.values
    if column.kind != "number" or len(values) < LEAST_ROWS:
        return None
    # A few rows of years or ages run by themselves; row numbers begin with 0 or 1.
    few = JUMPS[0] if len(values) >= ENOUGH or values[0] in (0, 1) else 0
    most = max(few, int(JUMPS[1] * len(values)))
    steps = np.ones(len(values) - 1) if rows is None else np.diff(rows)
    known = values[np.isfinite(values)]
    with np.errstate(invalid="ignore"):
        jumps = int((np.diff(values) != steps).sum())
    if jumps > most or len(np.unique(known)) < len(values) - most or (known != np.floor(known)).any():
        return None
    return jumps


def _is_label(column: Column, codes: Array, classes: tuple[str, ...]) -> bool:
    """Whether a column has the values of the label, or of one of several."""
    if codes.ndim == 2 or not classes:
        if column.kind not in ("number", "flag") or (codes.ndim == 1 and codes.dtype.kind != "f"):
            return False
        values = column.values.astype(np.float32)
        table = codes.reshape(len(codes), -1)
        return any(np.array_equal(values, table[:, number]) for number in range(table.shape[1]))
    known = np.flatnonzero(codes >= 0)
    names = np.array(classes, dtype=object)
    for rows in (known[:FIRST], known):
        if not len(rows) or (column.take(rows).words() != names[codes[rows]]).any():
            return False
    return True


def _one_to_one(column: Column, codes: Array) -> bool:
    known = codes >= 0
    pairs = set(zip(column.words()[known].tolist(), codes[known].tolist(), strict=True))
    return 1 < len(pairs) == len({word for word, _ in pairs}) == len({code for _, code in pairs})
