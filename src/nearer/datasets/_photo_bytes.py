"""Photos decoded once, as small bytes: what a training that looks at them again and again reads from."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_int
from nearer.datasets._image_files import crop_image, load_image

__all__ = ["Photo", "cut", "photo_bytes"]

Photo = NDArray[np.uint8]
# Decoded before the first of them is needed.
AHEAD = 128


def photo_bytes(
    items: Sequence[Any],
    side: int,
    *,
    squash: bool = False,
    most: float = 1e9,
    folder: str | os.PathLike[str] | None = None,
    told: Callable[[int], None] | None = None,
) -> list[Photo]:
    """Photos, files or bytes (h, w, 3), as bytes whose short side is `side` long, in the order of the items.

    What is more than twice as long as wide is cut to its middle; with `squash` all are stretched to a square. Where
    they would take more than `most` bytes they lie in a temporary file, which is mapped and has no name, so that
    nothing is left of it. `told` hears after each photo how many are done.

    >>> [photo.shape for photo in photo_bytes([np.zeros((40, 90, 3), np.uint8)], 20)]
    [(20, 40, 3)]
    """
    check_int(side, "side")
    # A photo is half as long again as it is wide, in the mean.
    if len(items) * side * side * 3 * (1.0 if squash else 1.5) <= most:
        return list(_decoded(items, side, squash, told))
    shapes: list[tuple[int, ...]] = []
    with tempfile.TemporaryFile(dir=folder, prefix="nearer-photos-") as file:
        for photo in _decoded(items, side, squash, told):
            file.write(photo.data)
            shapes.append(photo.shape)
        file.flush()
        pixels: Photo = np.memmap(file, dtype=np.uint8, mode="r")
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    return [pixels[a:b].reshape(shape) for (a, b), shape in zip(itertools.pairwise(ends), shapes, strict=True)]


def _decoded(items: Sequence[Any], side: int, squash: bool, told: Callable[[int], None] | None) -> Iterable[Photo]:
    done = 0
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(items), AHEAD):
            for photo in pool.map(lambda item: _small(item, side, squash), items[start : start + AHEAD]):
                done += 1
                if told is not None:
                    told(done)
                yield photo


def _small(item: Any, side: int, squash: bool) -> Photo:
    photo: Photo
    if isinstance(item, str | os.PathLike):
        photo = load_image(Path(item), side if squash else None, enough=side, rough=True)
    else:
        photo = np.asarray(item)
    if squash:
        return np.ascontiguousarray(cut(photo, (0, 0, *photo.shape[:2]), side))
    scale = side / min(photo.shape[:2])
    height, width = (min(round(scale * length), 2 * side) for length in photo.shape[:2])
    return np.ascontiguousarray(crop_image(photo, (height, width)))


def cut(photo: Photo, box: tuple[int, int, int, int], size: int) -> Photo:
    """The part (top, left, height, width) of a photo stretched to a square, bilinear, smoothed where it shrinks.

    >>> cut(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), (0, 1, 1, 1), 1)
    array([[[3, 4, 5]]], dtype=uint8)
    """
    top, left, height, width = box
    part = photo[top : top + height, left : left + width]
    if (height, width) == (size, size):
        return part
    from PIL import Image

    return np.asarray(Image.fromarray(part).resize((size, size), Image.Resampling.BILINEAR))
