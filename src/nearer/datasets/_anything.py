"""Whatever people have, as a `Dataset`: DataFrames, arrays, tensors, sparse matrices, files, folders."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearer._plain import is_nothing
from nearer._validation import as_tensor
from nearer.datasets._cleaning import Cleaning
from nearer.datasets._csv_files import csv_form, read_columns
from nearer.datasets._dataset import Array, Dataset, Split
from nearer.datasets._frame import Column, Frame, frame_from, is_frame, read_cells
from nearer.datasets._source import Source
from nearer.datasets._table import LABEL_NAMES, PARQUET, TABLES, encode, label_text
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError
from nearer.relations import Kind, Pairs, Relation, kind_of
from nearer.relations._shared import kind_of_column

__all__ = [
    "Columns",
    "as_dataset",
    "beside",
    "check_ids",
    "dataset_from_frame",
    "label_columns",
    "label_values",
    "read_frame",
    "with_pairs",
]


@dataclass(frozen=True)
class Columns:
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


def as_dataset(
    data: Any,
    y: Any = None,
    *,
    columns: Columns | None = None,
    unlabeled: str | int | None = -1,
    cleaning: Cleaning | None = None,
    unreadable: str = "raise",
) -> Dataset:
    """Items and labels of any kind as a `Dataset`.

    `data` is a DataFrame (pandas, polars, Arrow, a Hugging Face data set), an array, tensor or sparse matrix,
    a pair `(X, y)`, the path of a table or of a folder of images, or a `Dataset`, which stays as it is. `y` names
    the label column (several for label sets and distributions) or holds the labels: classes, −1 or None for none, a
    0/1 matrix, rows that sum to one, numbers. `cleaning` is that of a model, for data it is to be used on; without
    it columns are looked at.

    >>> as_dataset([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]], ["a", "b", None]).all
    Split(x float32 (3, 2), y int64 (3,))
    """
    if isinstance(data, Dataset):
        if y is not None:
            raise ParameterError("`y` must be left out for a Dataset, which has its labels.")
        return data
    if isinstance(data, tuple) and len(data) == 2 and y is None:
        data, y = data
    columns = columns or Columns()
    if isinstance(data, str | os.PathLike):
        return _from_path(Path(data).expanduser(), y, columns, unlabeled, cleaning, unreadable)
    arrow = getattr(data, "with_format", None)
    if arrow is not None and hasattr(data, "features"):
        # A Hugging Face data set is an Arrow table with a wrapper.
        data = arrow("arrow")[:]
    if is_frame(data):
        frame = frame_from(data)
        named = label_columns(frame, y)
        if named:
            columns, y = replace(columns, label=named), None
        return dataset_from_frame(frame, y, columns, unlabeled=unlabeled, cleaning=cleaning, name="table")
    return _from_matrix(data, y, unlabeled, cleaning)


def with_pairs(data: Dataset, pairs: Relation) -> Dataset:
    """The same items with pairs instead of labels.

    >>> with_pairs(as_dataset([[1.0], [1.1], [5.0]]), Pairs(3, positive=[[0, 1]], negative=[[0, 2]])).kind
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


def _from_matrix(data: Any, y: Any, unlabeled: str | int | None, cleaning: Cleaning | None) -> Dataset:
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
                frame = _matrix_frame(x, [f"column_{place}" for place in range(x.shape[1])])
                return dataset_from_frame(frame, y, Columns(), unlabeled=unlabeled, cleaning=None, name="array")
            if cleaning is not None:
                return _clean_matrix(x, y, unlabeled, cleaning)
            with np.errstate(over="ignore", invalid="ignore"):
                x = x.astype(np.float32)
            if not np.isfinite(x).all():
                raise NotFiniteError("`X` must be finite within float32, got infinite entries.")
    if x.shape[0] == 0 or 0 in x.shape[1:]:
        raise ShapeError(f"`X` must have at least one row and one column, got {tuple(x.shape)}.")
    codes, names, kind = label_codes(y, x.shape[0], unlabeled)
    return Dataset(_source("array"), {"all": Split(x, codes, kind=kind)}, names)


def _matrix_frame(x: Array, names: list[str]) -> Frame:
    return Frame({name: Column("number", x[:, place].astype(np.float64)) for place, name in enumerate(names)})


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
    return dataset_from_frame(frame, y, Columns(), unlabeled=unlabeled, cleaning=cleaning, name="array")


def dataset_from_frame(
    frame: Frame,
    y: Any,
    columns: Columns,
    *,
    unlabeled: str | int | None,
    cleaning: Cleaning | None,
    name: str,
) -> Dataset:
    """Clean the features of a table and take its labels, ids and kept columns."""
    kept = [one for one in columns.keep if one not in columns.features]
    aside = [*columns.label, *kept, *([columns.ids] if columns.ids else [])]
    frame.require(*aside, *columns.ignore, *columns.features)
    if not len(frame):
        raise ShapeError("The table must hold at least one row, and has none.")
    labels: Any = y
    if columns.label:
        parts = [frame[one] for one in columns.label]
        labels = label_values(parts[0]) if len(parts) == 1 else np.column_stack([one.values for one in parts])
    codes, names, kind = label_codes(labels, len(frame), unlabeled)
    table = frame.without(aside)
    if cleaning is None:
        ignore = set(columns.ignore)
        if columns.features:
            ignore |= {one for one in table.names if one not in columns.features}
        from nearer.datasets._leaks import leaking

        leaks = leaking(table.without((*ignore, *columns.features)), y, codes, names)
        cleaning = Cleaning.learn(table, ignore=[one for one in table.names if one in ignore], leaks=leaks)
    x = cleaning.apply(table, known=columns.ignore)
    if len(columns.label) > 1:
        names = columns.label
    extra = beside(frame, columns.keep, columns.ids)
    parts_ = {"all": Split(x, codes, extra, kind=kind)}
    return Dataset(_source(name), parts_, names, cleaning.outputs, cleaning=cleaning, columns=columns)


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


def _listed_labels(labels: Any) -> Array:
    """Labels of a list as an array; what numpy would round, or spell as text, stays as it is.

    >>> _listed_labels([123456789012345678, None, 123456789012345679]).tolist()
    [123456789012345678, None, 123456789012345679]
    """
    try:
        if not isinstance(labels, list | tuple):
            return np.asarray(labels)
        listed = list(labels)
        if any(hasattr(one, "__len__") and not isinstance(one, str | bytes) for one in listed):
            return np.asarray(listed)  # several labels a row
    except (ValueError, TypeError) as error:
        raise LabelError(f"`y` must be rectangular: {error}.") from error
    known = [one for one in listed if not is_nothing(one)]
    if known and all(isinstance(one, float) for one in known):
        return np.array([np.nan if is_nothing(one) else one for one in listed], dtype=np.float64)
    if len(known) == len(listed) and len(set(map(type, known))) == 1:
        array = np.asarray(listed)
        if not isinstance(known[0], int) or array.dtype.kind in "ib":
            return array
    array = np.empty(len(listed), dtype=object)
    array[:] = [None if is_nothing(one) else one for one in listed]
    return array


def label_columns(frame: Frame, y: Any) -> tuple[str, ...]:
    """The columns that `y` names; none where it holds labels: one for each row, or no text.

    >>> frame = Frame({"kind": read_cells(["a", "b", "b"])})
    >>> label_columns(frame, "kind"), label_columns(frame, ["x", "y", "x"])
    (('kind',), ())
    """
    named = (y,) if isinstance(y, str) else tuple(y) if isinstance(y, list | tuple) else ()
    if not all(isinstance(one, str) for one in named):
        return ()
    if not isinstance(y, str) and len(named) == len(frame) and not set(named) <= set(frame.columns):
        return ()
    frame.require(*named)
    return named


def label_values(column: Column) -> Array:
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
        empty = [row for row, one in enumerate(names.tolist()) if one is None] if names.dtype == object else []
        if empty:
            raise ParameterError(
                f"The column {ids!r} must have an id in every row, got none in row {empty[0]} (counted from 0)."
            )
        extra["id"] = names
    return extra


def check_ids(data: Dataset) -> Dataset:
    """The same data, or an error that names the first ids of several rows.

    >>> check_ids(as_dataset([[1.0], [2.0]])).all
    Split(x float32 (2, 1), y int64 (2,))
    """
    ids = data.all.extra.get("id")
    if ids is None or data.columns is None or data.columns.ids is None:
        return data
    rows: dict[Any, list[int]] = {}
    for row, one in enumerate(ids.tolist()):
        rows.setdefault(one, []).append(row)
    if len(rows) < len(ids):
        twice = [(one, where) for one, where in rows.items() if len(where) > 1]
        named = ", ".join(f"{one!r} (rows {where[0]} and {where[1]}, counted from 0)" for one, where in twice[:3])
        more = f" and {len(twice) - 3:,} more" if len(twice) > 3 else ""
        raise ParameterError(
            f"The column {data.columns.ids!r} must have another id in every row, got again {named}{more}. Drop the "
            f"repeated rows, or leave the column of ids out: rows are then named by their numbers."
        )
    return data


def _from_path(
    path: Path, y: Any, columns: Columns, unlabeled: str | int | None, cleaning: Cleaning | None, unreadable: str
) -> Dataset:
    if path.is_dir():
        if y is not None or columns.label:
            raise ParameterError("A folder of images names its classes by sub-folders; leave the label out.")
        from nearer.datasets._files import load_image_folder

        return load_image_folder(path, unreadable="skip" if unreadable == "skip" else "raise")
    named = [y] if isinstance(y, str | int) else list(y or ())
    if named:
        columns = replace(columns, label=tuple(map(str, named)))
    if path.suffix.lower() not in TABLES:
        label = named if len(named) > 1 else (named[0] if named else None)
        from nearer.datasets._files import load_files

        return load_files(path, label=label, unlabeled=unlabeled)
    exact = columns.exact
    frame, note = (read_frame(path, exact), "") if cleaning is not None else _some_of(path, columns.most, exact)
    if not columns.label and cleaning is None:
        suspects = [name for name in frame.names if name.strip().lower() in LABEL_NAMES]
        if suspects:
            raise ParameterError(
                f"`label` must be given, because `{path.name}` has a column {suspects[0]!r}. Name it as the "
                f"label, or ignore it."
            )
    made = dataset_from_frame(frame, None, columns, unlabeled=unlabeled, cleaning=cleaning, name=path.name)
    return replace(made, note=note) if note else made


def _some_of(path: Path, most: int | None, exact: Collection[str]) -> tuple[Frame, str]:
    """The table, or as many rows of it as are wanted or fit, and a sentence that says so."""
    from nearer.datasets._sampling import rows_that_fit, sample_rows

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


def _source(name: str) -> Source:
    return Source(name, f"your {name}", "-", "your own", "-")
