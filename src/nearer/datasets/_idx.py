"""The IDX files in which MNIST and its successors are published, and the loader that they share."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nearer.datasets._dataset import Array, Dataset, train_test
from nearer.datasets._local import find, obtain, read_npz
from nearer.datasets._source import Download, Source
from nearer.exceptions import CorruptFileError

__all__ = ["idx_downloads", "load_idx_set", "read_idx"]

_KEYS = ("x_train", "y_train", "x_test", "y_test")
_NAMES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
          "t10k-labels-idx1-ubyte.gz")  # fmt: skip


def read_idx(path: Path) -> Array:
    """The bytes of a gzip-compressed IDX file, in the shape that its header states.

    Header: two zero bytes, the type (8 = byte), the number of dimensions, then each size as a 32-bit big-endian.
    """
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(f"`{path}` must be a gzip file, and cannot be read as one: {error}.") from error
    dimensions = content[3] if len(content) >= 4 and content[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * dimensions
    if not dimensions or len(content) < start:
        raise CorruptFileError(f"`{path}` must begin with the header of an IDX file of bytes, got {content[:4]!r}.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    values = np.frombuffer(content, np.uint8, offset=start)
    if values.size != np.prod(shape, dtype=object):
        raise CorruptFileError(f"`{path}` must hold {shape} bytes by its header, got {values.size:,}.")
    return values.reshape(shape).copy()


def idx_downloads(folder: str, address: str, checksums: Sequence[str]) -> tuple[Download, ...]:
    """The four files of one set: training images and labels, test images and labels."""
    return tuple(
        Download(f"{folder}/{name}", f"{address}/{name}", checksum)
        for name, checksum in zip(_NAMES, checksums, strict=True)
    )


def load_idx_set(
    source: Source,
    class_names: Sequence[str],
    *,
    folder: str | os.PathLike[str] | None,
    verify: bool,
    download: bool,
) -> Dataset:
    """60,000 training and 10,000 test images from the prepared .npz, else from the four published files."""
    prepared = find(source.files[0], folder, verify=verify)
    if prepared is not None:
        arrays = list(read_npz(prepared, _KEYS).values())
    else:
        arrays = [read_idx(path) for path in obtain(source, folder, verify=verify, allow_download=download)]
    return train_test(source, (arrays[0], arrays[1]), (arrays[2], arrays[3]), class_names)
