"""Tables and matrices with labels of any kind as a `Dataset`; `nearer.models._reading` decides what the data is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearer._plain import is_nothing, objects
from nearer._validation import as_tensor
from nearer.datasets._cleaning import Cleaning
from nearer.datasets._csv_files import csv_form, read_columns
from nearer.datasets._dataset import Array, Dataset, Split, own_source
from nearer.datasets._frame import Column, Frame, frame_from, read_cells
from nearer.datasets._table import PARQUET, encode, label_text
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError
from nearer.relations import Pairs, Relation, kind_of
from nearer.relations._shared import Kind, kind_of_column


@dataclass(frozen=True)
class ColumnRoles:
    """Which columns of a table are what; the others are features."""

    label: tuple[str, ...] = ()
    ids: str | None = None
    """The name of each row in results; not a feature."""
    keep: tuple[str, ...] = ()
    """Kept beside the rows for people and searches; not features."""
    ignore: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    """The only columns to learn from, if any are named."""
    text: str | None = None
    """The column of texts that an encoder reads; the other columns are then no features."""
    most: int | None = None
    """Rows to take of a file, drawn at random; None takes all that fit into half of the memory."""

    @property
    def exact(self) -> tuple[str, ...]:
        """The columns of which it counts what was written."""
        return (*self.label, *self.keep, *([self.ids] if self.ids else []))


def with_pairs(data: Dataset, pairs: Relation) -> Dataset:
    """The same items with pairs instead of labels.

    >>> with_pairs(dataset_from_matrix([[1.0], [1.1], [5.0]]), Pairs(3, positive=[[0, 1]], negative=[[0, 2]])).kind
    'pairs'
    """
    rows = len(data.all)
    if not isinstance(pairs, Pairs):
        raise ParameterError(
            f"`y` must be labels or relations.Pairs, got {type(pairs).__name__}. Losses take any relation: "
            f"`RAWLoss()(embeddings, relation)`."
        )
    if not pairs.both_ways or pairs.n_queries != rows:
        raise ShapeError(
            f"`y` must be pairs of the {rows} rows among themselves, got pairs of {pairs.n_queries} with "
            f"{pairs.n_database} items{'' if pairs.both_ways else ' in one direction'}."
        )
    nobody = np.full(rows, -1, dtype=np.int64)
    part = replace(data.all, y=nobody, kind="pairs")
    return replace(data, parts={"all": part}, class_names=(), pairs=pairs)


def dataset_from_matrix(
    data: Any, y: Any = None, *, unlabeled: str | int | None = -1, cleaning: Cleaning | None = None
) -> Dataset:
    """An array, tensor or sparse matrix (n, p) or images (n, h, w[, c]) and their labels.

    >>> dataset_from_matrix([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]], ["a", "b", None]).all
    Split(x float32 (3, 2), y int64 (3,))
    """
    if hasattr(data, "toarray"):
        x = data.tocsr()
        if x.nnz and not np.isfinite(x.data).all():
            raise NotFiniteError("`X` must be finite, got NaN or infinite entries in a sparse matrix.")
    else:
        x = as_tensor(data, "X").detach().cpu().numpy()
        if x.ndim == 1:
            raise ShapeError(f"`X` must have shape (n, p), got {x.shape}. Pass one row per item.")
        if x.ndim == 2:
            if cleaning is None and x.dtype.kind == "f" and np.isnan(x).any():
                frame = _matrix_frame(x, [f"column_{number}" for number in range(x.shape[1])])
                return dataset_from_frame(frame, y, ColumnRoles(), unlabeled=unlabeled, cleaning=None, name="array")
            if cleaning is not None:
                return _clean_matrix(x, y, unlabeled, cleaning)
            with np.errstate(over="ignore", invalid="ignore"):
                x = x.astype(np.float32)
            if not np.isfinite(x).all():
                raise NotFiniteError("`X` must be finite within float32, got infinite entries.")
    if x.shape[0] == 0 or 0 in x.shape[1:]:
        raise ShapeError(f"`X` must have at least one row and one column, got {tuple(x.shape)}.")
    codes, names, kind = label_codes(y, x.shape[0], unlabeled)
    return Dataset(own_source("array"), {"all": Split(x, codes, kind=kind)}, names)


def _matrix_frame(x: Array, names: list[str]) -> Frame:
    return Frame({name: Column("number", x[:, number].astype(np.float64)) for number, name in enumerate(names)})


def _clean_matrix(x: Array, y: Any, unlabeled: str | int | None, cleaning: Cleaning) -> Dataset:
    """A bare matrix for a model that learned from a table: only where no column was changed but its holes."""
    names = [column.name for column in cleaning.columns]
    if not all(column.rule in ("number", "left out") for column in cleaning.columns) or x.shape[1] != len(names):
        raise ShapeError(
            f"The model learned from a table with the columns {', '.join(names[:8])}"
            f"{', ...' if len(names) > 8 else ''}; pass such a table. A bare array of shape {x.shape} has no "
            f"column names."
        )
    frame = _matrix_frame(x, names)
    return dataset_from_frame(frame, y, ColumnRoles(), unlabeled=unlabeled, cleaning=cleaning, name="array")


def dataset_from_frame(
    frame: Frame,
    y: Any,
    columns: ColumnRoles,
    *,
    unlabeled: str | int | None,
    cleaning: Cleaning | None,
    name: str,
) -> Dataset:
    """Clean the features of a table and take its labels, ids and kept columns."""
    kept = [column for column in columns.keep if column not in columns.features]
    aside = [*columns.label, *kept, *([columns.ids] if columns.ids else [])]
    frame.require(*aside, *columns.ignore, *columns.features)
    if not len(frame):
        raise ShapeError("The table must hold at least one row, and has none.")
    codes, names, kind = table_labels(frame, y, columns.label, unlabeled)
    table = frame.without(aside)
    if cleaning is None:
        ignore = set(columns.ignore)
        if columns.features:
            ignore |= {column for column in table.names if column not in columns.features}
        from nearer.datasets._cleaning import leaking

        leaks = leaking(table.without((*ignore, *columns.features)), y, codes, names)
        cleaning = Cleaning.learn(table, ignore=[column for column in table.names if column in ignore], leaks=leaks)
    x = cleaning.apply(table, known=columns.ignore)
    part = Split(x, codes, beside(frame, columns.keep, columns.ids), kind=kind)
    return Dataset(own_source(name), {"all": part}, names, cleaning.outputs, cleaning=cleaning, columns=columns)


def label_codes(labels: Any, n: int, unlabeled: str | int | None = -1) -> tuple[Array, tuple[str, ...], Kind]:
    """Labels of any kind as a data set keeps them: codes and class names, a matrix, or numbers.

    >>> label_codes(["cat", None, "dog"], 3)
    (array([ 0, -1,  1]), ('cat', 'dog'), 'partial')
    """
    if labels is None:
        return np.full(n, -1, dtype=np.int64), (), "partial"
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu().numpy()
    if hasattr(labels, "to_list") and not isinstance(labels, np.ndarray):
        labels = labels.to_list()  # a Series of pandas or polars
    array = labels.toarray() if hasattr(labels, "toarray") else labels
    if not isinstance(array, np.ndarray):
        array = _listed_labels(array)
    elif array.dtype.kind == "M":
        array = array.astype("datetime64[us]").astype(object)
    if array.ndim == 0:
        raise ShapeError(f"`y` must have one entry for each of the {n} rows, got one {type(labels).__name__}.")
    if len(array) != n:
        raise ShapeError(f"`y` must have one entry for each of the {n} rows, got {len(array)}.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        kind = kind_of(array, name="y")
        return array.astype(np.uint8 if kind == "sets" else np.float32), (), kind
    known = ~np.isnan(array) if array.dtype.kind == "f" else np.ones(n, dtype=bool)
    if kind_of_column(array, known, name="y") == "numbers":
        return array.astype(np.float32), (), "numbers"
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise LabelError(f"`y` must fit into 64 bits with a sign, got {array.max()}.")
    codes, names = encode({"all": label_text(array.tolist())}, unlabeled)
    return codes["all"], names, kind_of_column(codes["all"], codes["all"] >= 0, name="y")


def table_labels(
    frame: Frame, y: Any, columns: tuple[str, ...], unlabeled: str | int | None
) -> tuple[Array, tuple[str, ...], Kind]:
    """The labels of a table as `label_codes` gives them: of its label columns if there are any, else `y`.

    >>> table_labels(Frame({"a": read_cells(["1", "0"]), "b": read_cells(["1", "1"])}), None, ("a", "b"), None)[1:]
    (('a', 'b'), 'sets')
    """
    if len(columns) > 1:
        matrix = np.column_stack([frame[name].values for name in columns])
        codes, _, kind = label_codes(matrix, len(frame), unlabeled)
        return codes, columns, kind
    return label_codes(_label_values(frame[columns[0]]) if columns else y, len(frame), unlabeled)


def _listed_labels(labels: Any) -> Array:
    """Labels of a list as an array; what numpy would round, or spell as text, stays as it is.

    >>> _listed_labels([123456789012345678, None, 123456789012345679]).tolist()
    [123456789012345678, None, 123456789012345679]
    """
    try:
        if not isinstance(labels, list | tuple):
            return np.asarray(labels)
        listed = list(labels)
        if any(hasattr(label, "__len__") and not isinstance(label, str | bytes) for label in listed):
            return np.asarray(listed)  # several labels a row
    except (ValueError, TypeError) as error:
        raise LabelError(f"`y` must be rectangular: {error}.") from error
    known = [label for label in listed if not is_nothing(label)]
    if known and all(isinstance(label, float) for label in known):
        return np.array([np.nan if is_nothing(label) else label for label in listed], dtype=np.float64)
    if len(known) == len(listed) and len(set(map(type, known))) == 1:
        array = np.asarray(listed)
        if not isinstance(known[0], int) or array.dtype.kind in "ib":
            return array
    return objects(None if is_nothing(label) else label for label in listed)


def named_columns(y: Any) -> tuple[str, ...]:
    """The columns that `y` may name: a text, or a list of nothing else.

    >>> named_columns("kind"), named_columns(["a", "b"]), named_columns([0, 1])
    (('kind',), ('a', 'b'), ())
    """
    names = (y,) if isinstance(y, str) else tuple(y) if isinstance(y, list | tuple) else ()
    return names if all(isinstance(name, str) for name in names) else ()


def label_columns(frame: Frame, y: Any) -> tuple[str, ...]:
    """The columns that `y` names; none where it holds labels: one for each row, or no text.

    >>> frame = Frame({"kind": read_cells(["a", "b", "b"])})
    >>> label_columns(frame, "kind"), label_columns(frame, ["x", "y", "x"])
    (('kind',), ())
    """
    named = named_columns(y)
    if not isinstance(y, str) and len(named) == len(frame) and not set(named) <= set(frame.columns):
        return ()
    frame.require(*named)
    return named


def _label_values(column: Column) -> Array:
    """A label column as values: words and codes as they are, whole numbers as class names, fractions as numbers."""
    if column.kind == "word":
        return column.values
    if column.kind == "number":
        present = column.values[~column.missing]
        # Fractions are no names of classes, even where a DataFrame has them as text.
        if column.exact is None or (present != np.floor(present)).any():
            return column.values
    return column.kept()


def beside(frame: Frame, keep: Iterable[str], ids: str | None) -> dict[str, Array]:
    """What stands beside the features of a table: kept columns with their types, and the ids of the rows.

    >>> beside(Frame({"year": read_cells(["1999", "2000"])}), ["year"], None)["year"].tolist()
    [1999, 2000]
    """
    extra = {name: frame[name].kept() for name in keep}
    if ids:
        names = frame[ids].names()
        empty = (
            [row for row, row_id in enumerate(names.tolist()) if row_id is None] if names.dtype == object else []
        )
        if empty:
            raise ParameterError(
                f"The column {ids!r} must have an id in every row, got none in row {empty[0]} (counted from 0)."
            )
        extra["id"] = names
    return extra


def check_ids(data: Dataset) -> Dataset:
    """The same data, or an error that names the first ids of several rows.

    >>> check_ids(dataset_from_matrix([[1.0], [2.0]])).all
    Split(x float32 (2, 1), y int64 (2,))
    """
    ids = data.all.extra.get("id")
    if ids is None or data.columns is None or data.columns.ids is None:
        return data
    rows: dict[Any, list[int]] = {}
    for row, row_id in enumerate(ids.tolist()):
        rows.setdefault(row_id, []).append(row)
    if len(rows) < len(ids):
        twice = [(row_id, where) for row_id, where in rows.items() if len(where) > 1]
        named = ", ".join(
            f"{row_id!r} (rows {where[0]} and {where[1]}, counted from 0)" for row_id, where in twice[:3]
        )
        more = f" and {len(twice) - 3:,} more" if len(twice) > 3 else ""
        raise ParameterError(
            f"The column {data.columns.ids!r} must have another id in every row, got again {named}{more}. Drop the "
            f"repeated rows, or leave the column of ids out: rows are then named by their numbers."
        )
    return data


def sampled_frame(path: Path, most: int | None, exact: Collection[str]) -> tuple[Frame, str]:
    """The table, or as many rows of it as are wanted or fit, and a sentence that says so."""
    from nearer.datasets._streams import rows_that_fit, sample_rows

    share = rows_that_fit(path) if path.is_file() else 1.0
    if most is None and share >= 1:
        return read_frame(path, exact), ""
    from nearer.datasets._streams import open_stream

    total = int(open_stream(path).rows or 0)
    wanted = min(total if most is None else most, max(1, int(share * total)))
    if wanted >= total:
        return read_frame(path, exact), ""
    frame, total = sample_rows(path, wanted, exact=exact)
    why = "" if most is not None and wanted == most else ", which fit into half of the memory"
    return frame, f"{wanted:,} of its {total:,} rows, drawn at random{why}"


def read_frame(path: Path, exact: Collection[str] | None = ()) -> Frame:
    """A CSV, TSV or Parquet file as it is, with holes, words and dates.

    `exact` are the columns of ids, labels, codes and kept values, of which what was written is kept (None: all).
    """
    if not path.is_file():
        from nearer.datasets._files import load_files

        load_files(path)  # the error that names what is missing
    if path.suffix.lower() in PARQUET:
        from nearer.datasets._parquet_files import open_parquet

        return frame_from(open_parquet(path))
    form = csv_form(path)
    return Frame(
        {
            name: Column("number", cells)
            if isinstance(cells, np.ndarray)
            else read_cells(cells, decimal_comma=form.decimal_comma, exact=exact is None or name in exact)
            for name, cells in read_columns(form, exact).items()
        }
    )
