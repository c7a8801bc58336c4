"""Data and models as the commands name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from nearer.datasets import Dataset, load_files, load_image_folder
from nearer.models import Model

__all__ = ["load_data", "load_for"]


def load_data(
    path: Path,
    *,
    label: Sequence[str] = (),
    features: Sequence[str] = (),
    ignore: Sequence[str] = (),
    unlabeled: str | None = "-1",
    unreadable: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """A table or a folder of images; one label column gives classes, several label sets or distributions."""
    if path.expanduser().is_dir():
        return load_image_folder(path, unreadable=unreadable)
    columns: str | int | Sequence[str | int] | None = None
    if label:
        named = [_position(one, path) for one in label]
        columns = named[0] if len(named) == 1 else named
    return load_files(
        path,
        label=columns,
        features=list(features) or None,
        ignore=list(ignore),
        unlabeled=unlabeled,
    )


def load_for(model: Model, path: Path, *, label: Sequence[str] = ()) -> Dataset:
    """Data for a model: its columns are found by their names, and all others are left alone."""
    table = path.suffix in (".csv", ".tsv", ".txt", ".parquet")
    named = model.inputs.names if table and model.inputs.names[:1] != ("column_0",) else ()
    return load_data(path, label=label, features=named)


def _position(name: str, path: Path) -> str | int:
    """Columns of arrays have no names: a number is a position there."""
    return int(name) if path.suffix == ".npy" and name.lstrip("-").isdigit() else name
