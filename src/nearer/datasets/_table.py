"""A table on its way in: features, raw labels, column names; and how labels become codes."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearer._plain import is_nothing, objects
from nearer.datasets._dataset import Array
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError
from nearer.relations._shared import SIGNS, kind_of_matrix

# What the names of tables end in.
TEXT_TABLES = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
TABLES = (*TEXT_TABLES, *PARQUET)


def ending(path: str | os.PathLike[str]) -> str:
    """What the name of a file ends in, of a packed table what it is inside.

    >>> ending("a.CSV"), ending("a.csv.gz"), ending("a.tar.gz")
    ('.csv', '.csv', '.gz')
    """
    name = Path(path)
    inner = Path(name.stem).suffix.lower()
    return inner if name.suffix.lower() == ".gz" and inner in TEXT_TABLES else name.suffix.lower()


# A column with one of these names is a label to any reader, so it must not slip in among the features.
LABEL_NAMES = frozenset({"class", "label", "labels", "target", "y"})
_NOT_WHOLE = "Labels must be names or whole numbers, got {}. For targets of regression use MLKR."


@dataclass(frozen=True)
class FileTable:
    """Features (n, ...), labels as text (n,) with "" for none or a matrix (n, c), and the names of the features."""

    path: Path
    x: Array
    labels: Array
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.x.shape[0] == 0 or self.x.shape[1:] == (0,):
            raise ShapeError(f"`{self.path.name}` must hold at least one row and one feature, got {self.x.shape}.")
        if len(self.labels) != self.x.shape[0]:
            raise ShapeError(
                f"`{self.path.name}` must have one label for each of its {self.x.shape[0]} rows, got "
                f"{len(self.labels)}."
            )


@dataclass(frozen=True)
class ColumnChoice:
    """Which column is the label and which are features, as the caller of `load_files` said."""

    label: str | int | None
    features: str | Sequence[str | int] | None
    ignore: tuple[str | int, ...]
    header: bool | None

    @property
    def by_name(self) -> bool:
        """Whether a column is named, so that the file must have names."""
        features = [self.features] if isinstance(self.features, str) else list(self.features or ())
        return any(isinstance(column, str) for column in (self.label, *self.ignore, *features))

    def choose(self, names: Sequence[str], path: Path) -> tuple[int | None, list[int]]:
        """Positions of the label (or None) and of the features among the columns of a file."""
        if not names:
            raise ShapeError(f"`{path.name}` must hold at least one column, and has none.")
        check_different(names, path)
        label = None if self.label is None else self._position(self.label, "label", names, path)
        dropped = {self._position(column, "ignore", names, path) for column in self.ignore}
        if self.features is not None:
            listed = [self.features] if isinstance(self.features, str) else list(self.features)
            chosen = [self._position(column, "features", names, path) for column in listed]
            if label in chosen:
                raise ParameterError(f"`features` must not hold the label column, got {self.label!r} in both.")
            return label, [position for position in chosen if position not in dropped]
        rest = [position for position in range(len(names)) if position != label and position not in dropped]
        suspects = [names[position] for position in rest if names[position].strip().lower() in LABEL_NAMES]
        if label is None and suspects:
            raise ParameterError(
                f"`label` must be given, because `{path.name}` has a column {suspects[0]!r}. Pass "
                f"`label={suspects[0]!r}`, or `ignore=[{suspects[0]!r}]` to leave it out."
            )
        return label, rest

    @staticmethod
    def _position(column: str | int, argument: str, names: Sequence[str], path: Path) -> int:
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            if not -len(names) <= column < len(names):
                raise ParameterError(f"`{argument}` must be a position below {len(names)}, got {column}.")
            return int(column) % len(names)
        if column in names:
            return list(names).index(str(column))
        shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise ParameterError(f"`{argument}` must name a column of `{path.name}` ({shown}), got {column!r}.")


def check_different(names: Sequence[str], path: Path) -> None:
    """Refuse two columns of one name."""
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise ParameterError(f"`{path.name}` must have different column names, got {name!r} {times} times.")


def label_text(values: Iterable[object]) -> Array:
    """Labels of any type as text: None and NaN become "", whole numbers lose their decimals.

    >>> label_text([1.0, float("nan"), "cat", None]).tolist()
    ['1', '', 'cat', '']
    """
    # Objects: an array of text gives every entry the room of the longest.
    return objects(map(_one_label, values))


def label_matrix(array: Array, name: str) -> Array:
    """Labels in several columns (n, c): 0/1 for label sets (uint8), or rows that sum to one for distributions.

    >>> label_matrix(np.array([[1, 0], [1, 1]]), "table").dtype
    dtype('uint8')
    """
    return array.astype(np.uint8 if kind_of_matrix(array, name=name) == "sets" else np.float32)


def _one_label(value: object) -> str:
    if is_nothing(value):
        return ""
    if isinstance(value, (float, np.floating)):
        if value != np.floor(value):
            raise LabelError(_NOT_WHOLE.format(value))
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    return str(value).strip()


def encode(labels: Mapping[str, Array], unlabeled: str | int | None) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Codes 0..c−1 (−1 where there is no label) for each part, and the names of the classes they share.

    >>> encode({"all": np.array(["dog", "", "cat"])}, None)
    ({'all': array([ 1, -1,  0])}, ('cat', 'dog'))
    >>> encode({"all": np.array(["-1", "1"])}, -1)
    ({'all': array([0, 1])}, ('-1', '1'))
    """
    marker = "" if unlabeled is None else str(unlabeled).strip()
    present = sorted(set().union(*(part.tolist() for part in labels.values())) - {""})
    numbers = {name: _number(name) for name in present}
    if present and None not in numbers.values():
        fraction = next((name for name, number in numbers.items() if number != int(number or 0)), None)
        if fraction is not None:
            raise LabelError(_NOT_WHOLE.format(fraction))
        # 1 and 1.0 are one class when all labels are numbers.
        canonical = {name: str(int(number or 0)) for name, number in numbers.items()}
        classes = sorted(set(canonical.values()), key=int)
    else:
        canonical = {name: name for name in present}
        classes = present
    # −1 and +1 alone are two classes, as everywhere in the field; beside others −1 marks what has no label.
    if marker in classes and classes != [str(sign) for sign in SIGNS]:
        classes.remove(marker)
        if len(classes) == 1:
            raise LabelError(
                f"`y` must name at least two classes, got {classes[0]!r} alone: {unlabeled!r} marks rows without a "
                f"label."
            )
    code = {name: position for position, name in enumerate(classes)}
    codes = {}
    for part, texts in labels.items():
        table = {name: code.get(canonical.get(name, ""), -1) for name in set(texts.tolist())}
        codes[part] = np.fromiter((table[text] for text in texts.tolist()), np.int64, len(texts))
    return codes, tuple(classes)


def _number(text: str) -> int | float | None:
    """The finite number that a label spells, or None for a name, such as 007; long integers stay exact."""
    if "_" in text or re.fullmatch(r"[-+]?0[0-9].*", text):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def finite_features(table: FileTable, dtype: np.dtype[np.floating]) -> Array:
    """The features in the asked type; an error names the first column and row that is missing or too large."""
    if table.x.dtype == np.uint8 and table.x.ndim > 2:
        return table.x
    with np.errstate(over="ignore", invalid="ignore"):
        x = table.x.astype(dtype)
    # A finite sum is one quick pass; only a suspicious one is looked at entry by entry.
    with np.errstate(over="ignore", invalid="ignore"):
        total = x.sum(dtype=np.float64)
    bad = ~np.isfinite(x) if not np.isfinite(total) else np.zeros((), bool)
    if bad.any():
        row, *position = (int(axis[0]) for axis in np.nonzero(bad))
        column = repr(table.names[position[0]]) if table.names and len(position) == 1 else str(tuple(position))
        columns = len({int(number) for number in np.nonzero(bad)[1]})
        raise NotFiniteError(
            f"`{table.path.name}` must hold finite numbers, got {int(bad.sum())} missing or infinite in {columns} "
            f"column{'s' if columns > 1 else ''}, the first in row {row + 1} of column {column}. Fill or drop "
            f"them, or leave the column out (`ignore=`)."
        )
    return x
