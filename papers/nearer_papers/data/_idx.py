"""The IDX files in which MNIST and its successors are published, and the loader that they share."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nearer._limits import check_expansion
from nearer.datasets._dataset import Array, Dataset, Download, Source
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError, NearerError
from nearer_papers.data._obtain import find, obtain
from nearer_papers.data._parts import train_test

__all__ = ["idx_downloads", "load_idx_set", "read_idx"]

_KEYS = ("x_train", "y_train", "x_test", "y_test")
_NAMES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
          "t10k-labels-idx1-ubyte.gz")  # fmt: skip


def read_idx(path: Path) -> Array:
    """The bytes of a gzip-compressed IDX file, in the shape that its header states.

    Header: two zero bytes, the type (8 = byte), the number of dimensions, then each size as a 32-bit big-endian.
    """
    what, stored = f"`{path.name}`", path.stat().st_size if path.is_file() else 0
    try:
        with gzip.open(path) as file:
            head = file.read(4)
            dimensions = head[3] if len(head) == 4 and head[:3] == b"\0\0\x08" else 0
            sizes = file.read(4 * dimensions)
            if not dimensions or len(sizes) < 4 * dimensions:
                raise CorruptFileError(
                    f"`{path}` must begin with the header of an IDX file of bytes, got {head!r}."
                )
            shape = struct.unpack(f">{dimensions}I", sizes)
            check_expansion(math.prod(shape), stored, what)
            # One more than promised, to see whether there is more.
            content = file.read(math.prod(shape) + 1)
    except NearerError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(f"`{path}` must be a gzip file, and cannot be read as one: {error}.") from error
    if len(content) != math.prod(shape):
        came = "more" if len(content) > math.prod(shape) else f"{len(content):,}"
        raise CorruptFileError(f"`{path}` must hold {shape} bytes by its header, got {came}.")
    return np.frombuffer(content, np.uint8).reshape(shape).copy()


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
