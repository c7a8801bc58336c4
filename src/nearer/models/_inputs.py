"""What a model takes: which columns or images, how they are cleaned, and how items become its numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._checks import check_choice, check_int
from nearer.datasets import Dataset, Split
from nearer.datasets._anything import ColumnRoles, label_columns, named_columns, read_frame
from nearer.datasets._cleaning import Cleaned, Cleaning
from nearer.datasets._frame import Frame
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry._shared import Standardize
from nearer.models._encoders import FrozenEncoder
from nearer.models._reading import Reading, as_frame, from_hub, is_photo, is_table, read_items


@dataclass(frozen=True)
class Inputs:
    """What a model takes: rows of named features, or images of one size."""

    kind: Literal["features", "images"]
    names: tuple[str, ...] = ()
    """The feature columns in their order; empty when they have no names."""
    size: tuple[int, ...] = ()
    """(p,) for features, (channels, height, width) for images."""
    cleaning: Cleaning | None = None
    """How the columns of a table become features; None for data that came as numbers."""
    labels: tuple[str, ...] = ()
    """The label columns of the table it learned from; a new table may have them or not."""
    keep: tuple[str, ...] = ()
    """Columns that were kept beside the features."""
    ids: str | None = None
    """The column that names the rows."""
    encoder: FrozenEncoder | None = None
    """What stands in front of the metric: photos or texts become features by it."""
    text: str | None = None
    """The column of texts, or of names of photos, in a table."""

    @property
    def measured(self) -> NDArray[np.bool_] | None:
        """Which features have a unit, (p,); the 0/1 columns of words do not. None where all do."""
        if self.cleaning is None or self.encoder is not None or all(self.cleaning.measured):
            return None
        return np.array(self.cleaning.measured)

    @property
    def photos_in_tables(self) -> bool:
        """Whether a column of tables names the photos that it takes."""
        return self.text is not None and self.encoder is not None and self.encoder.kind == "photos"

    def scale(self, rows: NDArray[np.float32]) -> Standardize:
        """What brings rows to one scale: numbers get deviation one, 0/1 columns stay as wide as they are.

        At deviation one a rare word, or an empty cell, would weigh as much as many numbers.
        """
        made = Standardize.from_rows(rows)
        if self.measured is not None:
            made.scale = torch.where(torch.from_numpy(self.measured), made.scale, 1.0)
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON; `from_dict` reads it."""
        made: dict[str, Any] = {
            "kind": self.kind,
            "names": self.names,
            "size": self.size,
            "cleaning": self.cleaning,
        }
        made |= {"labels": self.labels, "keep": self.keep, "ids": self.ids, "encoder": self.encoder}
        return {name: _plain(value) for name, value in {**made, "text": self.text}.items()}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Inputs:
        """Inputs from what the manifest of a saved model says."""
        kind, names = check_choice(about["kind"], "kind", ["features", "images"]), about["names"]
        size = tuple(check_int(length, "size") for length in about["size"])
        if len(size) != (1 if kind == "features" else 3):
            raise ShapeError(
                f"`size` must be (p,) for features or (channels, height, width) for images, got {size}."
            )
        if names and len(names) != size[0]:
            raise ShapeError(f"`names` must name the {size[0]} features, got {len(names)}.")
        cleaning = None if about["cleaning"] is None else Cleaning.from_dict(about["cleaning"])
        if cleaning is not None and len(cleaning.outputs) != size[0]:
            raise ShapeError(f"`cleaning` must give the {size[0]} features, got {len(cleaning.outputs)}.")
        names, labels, keep = (tuple(str(name) for name in about[key]) for key in ("names", "labels", "keep"))
        ids, text = (None if about.get(key) is None else str(about[key]) for key in ("ids", "text"))
        encoder = None if about.get("encoder") is None else FrozenEncoder.from_dict(about["encoder"])
        return cls(kind, names, size, cleaning, labels, keep, ids, encoder, text)  # type: ignore[arg-type]

    def read(self, data: Any, y: Any = None, *, unreadable: str = "raise") -> Dataset:
        """Anything that `nearer.fit` takes as a data set for this model: its columns by name, in any order."""
        data = from_hub(data)
        encoder = None if _are_features(data, self.size) else self.encoder
        frame = read_frame(Path(data).expanduser(), self._exact(y)) if is_table(data) else as_frame(data, self.text)
        # What was fitted without an encoder is read without one, whatever is installed.
        reading = Reading(False if encoder is None else encoder, cleaning=self.cleaning, unreadable=unreadable)
        if frame is None:
            if encoder is not None and isinstance(data, str | os.PathLike):
                if is_photo(Path(data)):
                    data = [Path(data)]
                elif encoder.kind == "texts" and isinstance(data, str):
                    raise ParameterError("One text must come in a list, [text], or as the path of a table.")
            return read_items(data, y, ColumnRoles(), reading)
        columns = self._columns(frame, y)
        if encoder is not None:
            if self.text is None:
                raise ParameterError(
                    f"The model takes {encoder.kind}, and was fitted on no table. Pass a list of them."
                )
            root = Path(data).expanduser().parent if is_table(data) else Path()
            reading = replace(reading, text=self.text, photos=self.photos_in_tables, root=root)
        elif self.cleaning is None:
            # A model of bare numbers takes the columns of a table in their order.
            aside = {*columns.label, *columns.keep, *columns.ignore, *label_columns(frame, y), columns.ids}
            names = self.names or tuple(name for name in frame.names if name not in aside)
            reading = replace(reading, cleaning=Cleaning(tuple(Cleaned(name, "number") for name in names)))
        return read_items(frame, y, columns, reading)

    def _columns(self, frame: Frame, y: Any) -> ColumnRoles:
        """Which columns of a table are what, among those that it has."""
        named = label_columns(frame, y)
        learned = () if self.cleaning is None else self.cleaning.inputs
        labels = tuple(name for name in self.labels if name in frame.columns)
        keep = tuple(name for name in self.keep if name in frame.columns)
        return ColumnRoles(
            features=tuple(name for name in keep if name in learned),
            label=labels if y is None else (),
            keep=keep,
            ids=self.ids if self.ids in frame.columns else None,
            ignore=() if y is None else tuple(name for name in labels if name not in named),
        )

    def _exact(self, y: Any) -> tuple[str, ...]:
        """The columns of which it counts what was written: labels, ids, kept ones, words (digits too)."""
        cleaned = () if self.cleaning is None else self.cleaning.columns
        codes = [column.name for column in cleaned if column.categories]
        return (*named_columns(y), *self.labels, *self.keep, *([self.ids] if self.ids else []), *codes)

    def of(self, data: Dataset, part: str = "all") -> NDArray[np.float32]:
        """The items of a data set as the model wants them: its columns, in its order, or its size of image."""
        if self.encoder is not None and data.encoder is None and not _are_features(data.all.x, self.size):
            data = read_items(data, None, ColumnRoles(), Reading(self.encoder))
        split = data[part]
        if self.kind == "images":
            return self.images(split)
        if split.x.dtype.kind == "U":
            raise ShapeError(f"The model takes {self.size[0]} features, got a folder of images.")
        rows = split.matrix()
        if self.names and data.feature_names and data.feature_names != self.names:
            missing = [name for name in self.names if name not in data.feature_names]
            if missing:
                raise ShapeError(
                    f"The data must have the {len(self.names)} columns of the model, and {', '.join(missing[:5])} "
                    f"{'is' if len(missing) == 1 else 'are'} missing."
                )
            position = {name: number for number, name in enumerate(data.feature_names)}
            rows = rows[:, [position[name] for name in self.names]]
        if rows.shape[1:] != self.size:
            raise ShapeError(f"The model takes {self.size[0]} features, got {rows.shape[1]}.")
        return rows

    def images(self, split: Split) -> NDArray[np.float32]:
        """Images (n, channels, h, w) between 0 and 1; colours become grey where the model is for grey ones."""
        channels, *side = self.size
        files = split.x.dtype.kind == "U"
        images = split.images(size=(side[0], side[1]), crop=True) if files else split.images()
        if channels == 1 and images.shape[1] == 3:
            images = _gray(images)
        if images.shape[1:] != self.size:
            raise ShapeError(f"The model takes images of shape {self.size}, got {images.shape[1:]}.")
        return images


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value.to_dict() if hasattr(value, "to_dict") else value


def _gray(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Luma of colour images, (n, 3, h, w) -> (n, 1, h, w)."""
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32).reshape(1, 3, 1, 1)
    return (images * weights).sum(axis=1, keepdims=True)


def _are_features(data: Any, size: tuple[int, ...]) -> bool:
    """Whether these are rows that an encoder has made already."""
    if isinstance(data, Dataset):
        return data.encoder is not None or _are_features(data.all.x, size)
    if isinstance(data, tuple) and len(data) == 2:
        return _are_features(data[0], size)
    kind = data.dtype.kind if isinstance(data, np.ndarray) else "f" if isinstance(data, torch.Tensor) else ""
    return kind == "f" and tuple(data.shape[1:]) == size


def item_metadata(data: Dataset) -> list[dict[str, Any]] | None:
    """What is known of each item besides its numbers: its class, its file, its kept columns."""
    part = data.all
    files = part.x if part.x.dtype.kind == "U" else None
    named = part.y.ndim == 1 and bool(data.class_names)
    columns = data.columns or ColumnRoles()
    named_so, labels = columns.keep, columns.label
    # Whoever filters by it knows the column; labels that came without one have the general name.
    label = labels[0] if len(labels) == 1 else "label"
    kept = {
        name: values.tolist()
        for name, values in part.extra.items()
        if name != "id" and (values.dtype.kind in "UO" or name in named_so)
    }
    if files is None and not named and not kept:
        return None
    rows: list[dict[str, Any]] = [{} for _ in range(len(part))]
    for number, row in enumerate(rows):
        if named and part.y[number] >= 0:
            row[label] = data.class_names[int(part.y[number])]
        if files is not None:
            row["file"] = str(files[number])
        row |= {name: values[number] for name, values in kept.items() if values[number] is not None}
    return rows
