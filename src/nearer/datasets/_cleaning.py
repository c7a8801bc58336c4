"""What becomes of each column of a table: filled, spread into 0/1 columns, turned into a number, or left out.

The plan is learned from the training table with scikit-learn's own transformers (`SimpleImputer` for the fill,
`OneHotEncoder` with a limit for the categories), kept as plain JSON with the model, and applied to new tables by
name. Rebuilding fitted transformers would need their pickles; the two rules are a fill and a comparison.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from nearer.datasets._dataset import Array
from nearer.datasets._frame import Column, Frame
from nearer.exceptions import NotFiniteError, ParameterError, ShapeError

ColumnRule = Literal["number", "flag", "date", "categories", "text", "left out"]
# Why a column is left out that was named.
ASKED = "as asked"
# More different words than this share the column "other".
MOST_CATEGORIES = 20
# Holes and words inside cells that are rarer say nothing that neighbors could use.
LEAST_CELLS, LEAST_SHARE = 5, 0.01
DAY, YEAR = 86_400.0, 365.2425
# Letters or digits without a break: "A320-214" is a, 320 and 214.
_PIECES, _HEX = re.compile(r"[^\W\d_]+|\d+"), re.compile(r"[0-9a-fA-F-]{16,}")
SAID = {"%m/%d/%Y": ", the month first", "%d/%m/%Y": ", the day first"}
_ID_NAMES = ("id", "uuid", "guid", "index", "key", "row number", "row_number", "rownum", "rownames", "row names",
             "row_names", "unnamed: 0")  # fmt: skip


@dataclass(frozen=True)
class Cleaned:
    """What is done with one column, and why."""

    name: str
    rule: ColumnRule
    why: str = ""
    fill: float = 0.0
    """What stands in an empty cell of a number, a flag or a date."""
    categories: tuple[str, ...] = ()
    """The words that have a column of their own, of text those inside the cells; any other goes to "other"."""
    other: bool = False
    holes: bool = False
    """Whether a column of its own says which cells are empty."""
    cycle: bool = False
    """Whether two columns beside a date say the time of the year."""
    form: str | None = None
    """How the cells were written, where they could mean something else: 01/02/2024, or 1,200."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that come out."""
        if self.rule == "left out":
            return ()
        sign = "~" if self.rule == "text" else "="
        return (
            *((self.name,) if self.rule not in ("categories", "text") else ()),
            *(f"{self.name}{sign}{word}" for word in self.categories),
            *((f"{self.name}=other",) if self.other else ()),
            *((f"{self.name} (year, cos)", f"{self.name} (year, sin)") if self.cycle else ()),
            *((f"{self.name}=missing",) if self.holes else ()),
        )

    @property
    def measured(self) -> tuple[bool, ...]:
        """Which columns that come out have a unit: not words, empty cells, the time of the year."""
        return tuple(self.rule not in ("categories", "text") and name == self.name for name in self.outputs)

    def apply(self, column: Column) -> Array:
        """The cleaned values, (n, number of outputs) float32."""
        if self.rule in ("categories", "text"):
            # Codes such as 1, 2, 3 that one file quotes and another does not come as numbers.
            words = column.values if column.kind == "word" else column.words()
            table = np.zeros((len(words), len(self.outputs)), dtype=np.float32)
            number_of = {word: number for number, word in enumerate(self.categories)}
            for row, word in enumerate(words):
                # An empty cell belongs to no category: all of its columns are 0.
                if word is not None and self.rule == "text":
                    table[row, [number_of[piece] for piece in _pieces(word) if piece in number_of]] = 1
                elif word is not None and (word in number_of or self.other):
                    table[row, number_of.get(word, len(self.categories))] = 1
            return table
        if column.kind == "word" and not column.missing.all():
            first = next(word for word in column.values if word is not None)
            raise ParameterError(
                f"The column {self.name!r} must hold numbers as the model learned it, got {first!r}."
            )
        column = column.read_as(self.form, self.name)
        values = np.full(len(column.values), np.nan) if column.kind == "word" else column.values
        if self.rule == "date":
            values = values / DAY
        with np.errstate(over="ignore", invalid="ignore"):
            empty = np.isnan(values)
            filled: Array = np.where(empty, self.fill, values).astype(np.float32)[:, None]
        if not np.isfinite(filled).all():
            row = int(np.flatnonzero(~np.isfinite(filled))[0])
            raise ParameterError(
                f"The column {self.name!r} must hold finite numbers within float32, got {values[row]} in row "
                f"{row + 1}."
            )
        angle = filled.astype(np.float64) * (2 * np.pi / YEAR)
        beside = [np.cos(angle), np.sin(angle)] if self.cycle else []
        return np.concatenate(
            [filled, *beside, *([empty[:, None]] if self.holes else [])], axis=1, dtype=np.float32
        )


@dataclass(frozen=True)
class Cleaning:
    """The plan for all columns of a table, in their order."""

    columns: tuple[Cleaned, ...]

    @classmethod
    def learn(
        cls,
        frame: Frame,
        *,
        ignore: Iterable[str] = (),
        leaks: Mapping[str, str] = MappingProxyType({}),
    ) -> Cleaning:
        """Look at every column of the training table; `leaks` are columns to leave out, and why.

        >>> from nearer.datasets._frame import read_cells
        >>> plan = Cleaning.learn(Frame({"age": read_cells(["41", "", "35"]), "town": read_cells(["a", "b", "a"])}))
        >>> print(plan)
        age   number      1 missing, median 38
        town  categories  a, b
        >>> plan.outputs
        ('age', 'town=a', 'town=b')
        """
        given = {**leaks, **dict.fromkeys(ignore, ASKED)}
        frame.require(*given)
        fills = _fills({name: column for name, column in frame.columns.items() if name not in given})
        plan = cls(
            tuple(
                Cleaned(name, "left out", given[name]) if name in given else _look(name, column, fills.get(name))
                for name, column in frame.columns.items()
            )
        )
        if not plan.outputs:
            raise ShapeError(
                f"The table must have at least one column to learn from, and all are left out:\n{plan}"
            )
        return plan

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the features that come out."""
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def measured(self) -> tuple[bool, ...]:
        """Which of the features have a unit."""
        return tuple(one for column in self.columns for one in column.measured)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that a new table must have."""
        return tuple(column.name for column in self.columns if column.rule != "left out")

    @property
    def plain(self) -> bool:
        """Whether every column is a number that is taken as it is, so that a bare matrix will do as well."""
        return all(column.rule == "number" and not column.holes for column in self.columns)

    def apply(self, frame: Frame, *, known: Iterable[str] = ()) -> Array:
        """The features (n, p) of a table, its columns found by name in any order.

        A column that is missing or that the model never saw is an error; `known` are others that may be there,
        such as the label.
        """
        missing = [name for name in self.inputs if name not in frame.columns]
        if missing:
            raise ShapeError(
                f"The table must have the columns the model learned from; {_listed(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing. It has {_listed(frame.names)}."
            )
        expected = {column.name for column in self.columns} | set(known)
        unknown = [name for name in frame.names if name not in expected]
        if unknown:
            raise ShapeError(
                f"The table must have no other columns than the model learned from, got {_listed(unknown)} "
                f"besides. Drop {'it' if len(unknown) == 1 else 'them'} first."
            )
        blocks = [column.apply(frame[column.name]) for column in self.columns if column.rule != "left out"]
        return np.concatenate(blocks, axis=1)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_dict(cls, record: Sequence[Mapping[str, Any]]) -> Cleaning:
        """The plan that `to_dict` came from; anything else is refused.

        >>> plan = Cleaning((Cleaned("age", "number", fill=38.0),))
        >>> Cleaning.from_dict(plan.to_dict()) == plan
        True
        """
        columns = []
        for column in record:
            if column["rule"] not in get_args(ColumnRule) or not np.isfinite(float(column["fill"])):
                raise ParameterError(f"`cleaning` must hold rules of nearer and finite numbers, got {column!r}.")
            words = tuple(str(word) for word in column["categories"])
            form = None if column.get("form") is None else str(column["form"])
            name, why, fill = str(column["name"]), str(column["why"]), float(column["fill"])
            marks = {mark: bool(column.get(mark, False)) for mark in ("other", "holes", "cycle")}
            columns.append(Cleaned(name, column["rule"], why, fill, words, form=form, **marks))
        return cls(tuple(columns))

    def __str__(self) -> str:
        names = max((len(column.name) for column in self.columns), default=0)
        lines = [
            f"{entry.name.ljust(names)}  {entry.rule.ljust(10)}  {entry.why}".rstrip() for entry in self.columns
        ]
        if len(lines) > 40:
            gone = [f"{entry.name} ({entry.why})" for entry in self.columns[20:-10] if entry.rule == "left out"]
            said = f", of them left out: {', '.join(gone[:20])}{', ...' if len(gone) > 20 else ''}" if gone else ""
            lines = [*lines[:20], f"... {len(lines) - 30} more{said} ...", *lines[-10:]]
        return "\n".join(lines)


def _fills(columns: Mapping[str, Column]) -> dict[str, float]:
    """The median of every number and date, the most frequent value of every flag; one imputer for all of a kind."""
    # Only learning a plan needs it; a server that applies one starts in half the time without.
    from sklearn.impute import SimpleImputer

    for name, column in columns.items():
        if column.kind == "number" and np.isinf(column.values).any():
            row = int(np.flatnonzero(np.isinf(column.values))[0])
            raise NotFiniteError(
                f"The column {name!r} must hold finite numbers, got {column.values[row]} in row {row} (counted "
                f"from 0). Empty the cell, drop the row, or leave the column out (`ignore=`)."
            )
    fills: dict[str, float] = {}
    for strategy, kinds in (("median", ("number", "date")), ("most_frequent", ("flag",))):
        names = [name for name, each in columns.items() if each.kind in kinds and not each.missing.all()]
        if names:
            imputer = SimpleImputer(strategy=strategy).fit(
                np.column_stack([columns[name].values for name in names])
            )
            fills |= dict(zip(names, map(float, imputer.statistics_), strict=True))
    return fills


def _look(name: str, column: Column, fill: float | None) -> Cleaned:
    """The rule for one column, whose median or most frequent value is `fill`."""
    missing = int(column.missing.sum())
    n, present = len(column.values), column.values[~column.missing]
    if not len(present):
        return Cleaned(name, "left out", "empty")
    if not missing and (present == present[0]).all():
        return Cleaned(name, "left out", "always the same")
    holes = f"{missing} missing, " if missing else ""
    named_id = name.strip().lower() in _ID_NAMES or name.lower().endswith(("_id", " id"))
    different = len(set(present.tolist())) if named_id or column.kind == "word" else 0
    if named_id and different == n:
        return Cleaned(name, "left out", "looks like an id: another value in every row")
    if column.kind == "word":
        if different > MOST_CATEGORIES and 2 * different > n:
            return _text(name, present, f"{different} different words in {n} rows: an id or free text")
        return _categories(name, present, holes)
    assert fill is not None  # a column with values that are no words has one
    if column.kind == "date":
        note = f"days since 1970{', ' + holes.rstrip(', ') if missing else ''}{SAID.get(column.form or '', '')}"
        cycle = len(present) >= 10 * LEAST_CELLS and bool(np.ptp(present) > YEAR * DAY)
        return Cleaned(name, "date", note, fill / DAY, holes=_matters(missing, n), cycle=cycle, form=column.form)
    word = "most frequent" if column.kind == "flag" else "median"
    note = f"{holes}{word} {fill:.4g}" if missing else ""
    return Cleaned(name, column.kind, note, fill, holes=_matters(missing, n), form=column.form)


def _matters(count: int, n: int) -> bool:
    """Whether something is there in enough rows, and missing in enough."""
    return min(count, n - count) >= max(LEAST_CELLS, LEAST_SHARE * n)


def _pieces(text: str) -> set[str]:
    """The words and numbers inside a cell."""
    return set(_PIECES.findall(text.lower()))


def _text(name: str, present: Array, why: str) -> Cleaned:
    """The words that stand in many cells, each with a column; left out where there are none."""
    counts = Counter(piece for cell in present for piece in _pieces(cell))
    often = [piece for piece, count in counts.items() if _matters(count, len(present))]
    words = tuple(sorted(often, key=lambda piece: (-counts[piece], piece))[:MOST_CATEGORIES])
    if not words or all(map(_HEX.fullmatch, present)):
        return Cleaned(name, "left out", why)
    return Cleaned(name, "text", f"{', '.join(words[:4])}{', ...' if len(words) > 4 else ''} in {why}", 0.0, words)


def _categories(name: str, present: Array, holes: str) -> Cleaned:
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist")
    encoder.fit(present.astype(object)[:, None])
    rare = encoder.infrequent_categories_[0]
    gone = set() if rare is None else set(rare.tolist())
    words = tuple(str(word) for word in encoder.categories_[0] if word not in gone)
    note = f"{holes}{', '.join(words[:4])}{', ...' if len(words) > 4 else ''}"
    return Cleaned(name, "categories", note + (f" and {len(gone)} rare" if gone else ""), 0.0, words, bool(gone))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


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
