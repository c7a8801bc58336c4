"""Your own data: a table (CSV, Parquet, NPZ, NPY), several tables, or a folder of images."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from nearer._checks import check_choice
from nearer.datasets._csv_files import read_csv
from nearer.datasets._dataset import Array, Dataset, Split, own_source
from nearer.datasets._image_files import list_images, why_unreadable
from nearer.datasets._numpy_files import read_npy_table, read_npz_tables
from nearer.datasets._parquet_files import read_parquet
from nearer.datasets._table import (
    PARQUET,
    TEXT_TABLES,
    ColumnChoice,
    FileTable,
    encode,
    ending,
    finite_features,
    label_matrix,
)
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError, ShapeError

PathLike = str | os.PathLike[str]


def load_files(
    path: PathLike | Mapping[str, PathLike],
    *,
    label: str | int | Sequence[str | int] | None = None,
    features: str | Sequence[str | int] | None = None,
    ignore: Sequence[str | int] = (),
    header: bool | None = None,
    unlabeled: str | int | None = -1,
    dtype: Literal["float32", "float64"] = "float32",
) -> Dataset:
    """A table file, or several as named parts, as features `x` (n, p) and class codes `y` (n,).

    `path` ends in .csv, .tsv, .txt, .parquet, .npz or .npy, or maps part names to such files (`{"train": ...,
    "test": ...}`), which then share one numbering of the classes. A folder goes to `load_image_folder`.

    `label` names the column of the classes (or gives its position; −1 is the last). A row where it is empty, NaN,
    null or equal to `unlabeled` gets the code −1. `features` names the columns to use (default: all others),
    `ignore` those to leave out. In an .npz, `label` and `features` are the names of arrays (default `y` and `x`;
    `x_train`, `y_train`, ... make parts); for an .npy, `label` is a position or the path of another .npy.
    Several label columns (or an array `y` of shape (n, c)) are label sets if they hold 0 and 1, or label
    distributions if every row sums to one; `y` is then a matrix. `header` says whether a CSV begins with column
    names; None looks. A first column without a name (the row numbers of pandas) is left out.

    Whole-number classes are sorted by value, others by name; `class_names` gives the originals back. ColumnChoice
    that are not numbers, missing numbers and damaged files are errors that name them.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pets.csv").write_text("weight,kind\\n4.1,cat\\n30.0,dog\\n3.9,cat\\n")
    ...     pets = load_files(Path(folder, "pets.csv"), label="kind").all
    >>> pets.x.shape, pets.y.tolist()
    ((3, 1), [0, 1, 0])

    Args:
        path: a file, or a mapping from part names to files.
        label: the column of the classes, by name or position; several for label sets and distributions.
        features: the columns to use; None takes all others.
        ignore: columns to leave out.
        header: whether a CSV begins with names; None looks.
        unlabeled: the value that means: no label.
        dtype: of the features.
    """
    check_choice(dtype, "dtype", ["float32", "float64"])
    if isinstance(path, Mapping):
        if not path:
            raise ParameterError("`path` must name at least one part, got an empty mapping.")
        paths = {str(part): Path(file).expanduser() for part, file in path.items()}
    else:
        paths = {"all": Path(path).expanduser()}
    first = next(iter(paths.values()))
    if len(paths) == 1 and first.is_dir():
        return load_image_folder(first)
    if label is not None and not isinstance(label, str | int):
        return _load_label_columns(path, list(label), features, ignore, header, dtype)
    columns = ColumnChoice(label, features, tuple(ignore), header)
    tables: dict[str, FileTable] = {}
    for part, file in paths.items():
        for inner, table in _read(file, columns).items():
            tables[part if inner == "all" else inner] = table
    _check_same_features(tables)
    codes = {part: table.labels for part, table in tables.items()}
    names: tuple[str, ...] = ()
    if all(labels.ndim == 1 for labels in codes.values()):
        codes, names = encode(codes, unlabeled)
    parts = {part: Split(finite_features(table, np.dtype(dtype)), codes[part]) for part, table in tables.items()}
    return Dataset(own_source(first.name), parts, names, next(iter(tables.values())).names)


def _load_label_columns(
    path: PathLike | Mapping[str, PathLike],
    label: list[str | int],
    features: str | Sequence[str | int] | None,
    ignore: Sequence[str | int],
    header: bool | None,
    dtype: Literal["float32", "float64"],
) -> Dataset:
    """A table with several label columns: features are read first, then labels as if they were features."""
    if len(label) == 1:
        return load_files(path, label=label[0], features=features, ignore=ignore, header=header, dtype=dtype)
    x = load_files(path, features=features, ignore=[*ignore, *label], header=header, dtype=dtype)
    y = load_files(path, features=label, header=header, dtype="float64")
    names = tuple(str(name) for name in y.feature_names)
    parts = {part: Split(x[part].x, label_matrix(y[part].x, x.source.name), root=x[part].root) for part in x}
    return Dataset(x.source, parts, names, x.feature_names)


def _read(path: Path, columns: ColumnChoice) -> dict[str, FileTable]:
    readers: dict[str, Callable[[Path, ColumnChoice], FileTable | dict[str, FileTable]]] = {
        **dict.fromkeys(TEXT_TABLES, read_csv),
        **dict.fromkeys(PARQUET, read_parquet),
        ".npy": read_npy_table,
        ".npz": read_npz_tables,
    }
    if not path.is_file():
        raise MissingDataError(f"`path` must be a file, and there is none at {path}.")
    suffix = ending(path)
    if suffix not in readers:
        raise ParameterError(
            f"`path` must end in {', '.join(readers)} or be a folder of images, got {path.name!r}."
        )
    table = readers[suffix](path, columns)
    return table if isinstance(table, dict) else {"all": table}


def _check_same_features(tables: Mapping[str, FileTable]) -> None:
    (first, reference), *others = tables.items()
    for part, table in others:
        if table.x.shape[1:] != reference.x.shape[1:] or table.names != reference.names:
            differing = sorted(set(table.names) ^ set(reference.names))[:5]
            what = (
                f"they differ in {', '.join(differing)}"
                if differing
                else f"{table.x.shape[1:]} and {reference.x.shape[1:]}"
            )
            raise ShapeError(f"Parts {first!r} and {part!r} must have the same features in the same order: {what}.")


def load_image_folder(path: PathLike, *, unreadable: Literal["raise", "skip"] = "raise") -> Dataset:
    """The images of a folder, one class for each sub-folder; `x` are paths, read only when they are used.

    Images that lie directly in the folder have no label (−1). Sub-folders `train` and `test` (nothing else) are
    taken as parts with classes inside them. Every image is decoded once to see that it is whole: a damaged one is
    an error, or with `unreadable="skip"` left out and named in `skipped`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for kind in ("cat", "dog"):
    ...         Path(folder, kind).mkdir()
    ...         Image.new("RGB", (4, 4)).save(Path(folder, kind, "one.png"))
    ...     photos = load_image_folder(folder).all
    >>> photos.y.tolist()
    [0, 1]

    Args:
        path: the folder.
        unreadable: "raise" or "skip" for a damaged image.
    """
    check_choice(unreadable, "unreadable", ["raise", "skip"])
    root = Path(path).expanduser()
    if not root.is_dir():
        raise MissingDataError(f"`path` must be a folder of images, and there is none at {root}.")
    folders = {entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")}
    parts = {"train": root / "train", "test": root / "test"} if folders == {"train", "test"} else {"all": root}
    images: dict[str, list[str]] = {}
    labels: dict[str, Array] = {}
    skipped: list[str] = []
    for part, folder in parts.items():
        names, bad = _readable(folder, unreadable)
        skipped += [(folder.relative_to(root) / name).as_posix() for name in bad]
        images[part] = [(folder.relative_to(root) / name).as_posix() for name in names]
        labels[part] = np.array([name.split("/")[0] if "/" in name else "" for name in names], dtype=np.str_)
        if not names:
            raise ShapeError(f"`path` must hold at least one readable image, got none in {folder}.")
    codes, classes = encode(labels, None)
    splits = {part: Split(np.array(images[part]), codes[part], root=root) for part in parts}
    return Dataset(own_source(root.name), splits, classes, skipped=tuple(skipped))


def _readable(folder: Path, unreadable: str) -> tuple[list[str], list[str]]:
    good: list[str] = []
    bad: dict[str, str] = {}
    for name in list_images(folder):
        reason = why_unreadable(folder / name)
        if reason is None:
            good.append(name)
        else:
            bad[name] = reason
    if bad and unreadable == "raise":
        name, reason = next(iter(bad.items()))
        raise CorruptFileError(
            f"`path` must hold whole images, and {len(bad)} of {len(bad) + len(good)} cannot be read, the first is "
            f"{folder / name}: {reason}. Replace them, or pass `unreadable='skip'` to leave them out."
        )
    return good, list(bad)
