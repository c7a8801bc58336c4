"""One item of a data set as people know it: its name, and its picture where it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.datasets._dataset import Dataset, Split
from nearer.datasets._image_files import load_image
from nearer.exceptions import NearerError


def item_name(data: Dataset, row: int) -> str:
    """What a person would call a row: its id, its file, its text or its number.

    >>> from nearer.datasets._dataset import own_source
    >>> item_name(Dataset(own_source("array"), {"all": Split(np.zeros((2, 1)), np.zeros(2))}), 1)
    'row 1'
    """
    part = data.all
    for name in ("id", "file", "text"):
        if name in part.extra:
            return str(part.extra[name][row])
    return str(part.x[row]) if part.x.dtype.kind == "U" else f"row {row}"


def photos_of(data: Dataset) -> Split | None:
    """The photos or images themselves, also where an encoder made features of them; None where there are none."""
    part = data.all
    if data.encoder is not None and data.encoder.kind == "photos":
        files = isinstance(data.items[0], Path)
        seen = np.array([str(item) for item in data.items]) if files else np.stack(data.items)
        return Split(seen, part.y, kind=part.kind)
    return part if part.x.dtype.kind == "U" or part.x.ndim > 2 else None


def item_picture(photos: Split | None, row: int, *, side: int | None = 256) -> Array | None:
    """The picture of a row as bytes (h, w, 3) or (h, w), None where there is none that can be read.

    It is at least `side` large where the file is; None asks for all of its pixels.
    """
    if photos is None:
        return None
    x: Any = photos.x[row]
    if photos.x.dtype.kind == "U":
        try:
            return load_image((photos.root or Path()) / str(x), enough=side, rough=True)
        except NearerError:
            return None
    image = np.asarray(x)
    if image.ndim == 3 and image.shape[0] in (1, 3) and image.shape[-1] not in (1, 3):
        image = np.moveaxis(image, 0, -1)
    image = image[..., 0] if image.ndim == 3 and image.shape[-1] == 1 else image
    return image if image.dtype == np.uint8 else (255 * np.clip(image, 0, 1)).astype(np.uint8)
