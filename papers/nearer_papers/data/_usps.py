"""USPS: digits from envelopes, and the smoothed variant `uspst` of the semi-supervised papers."""

from __future__ import annotations

import bz2
import os
from pathlib import Path
from typing import IO

import numpy as np

from nearer._limits import EXPANSION, check_expansion, limit
from nearer.datasets._dataset import Array, DataFile, Dataset, Download, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError, LimitError
from nearer_papers.data._obtain import find, obtain, open_npz
from nearer_papers.data._parts import train_test

__all__ = ["USPS", "USPST", "load_usps", "load_uspst", "read_libsvm"]

_ADDRESS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"

USPS = Source(
    name="usps",
    title="USPS digits, 16x16",
    citation="Hull 1994, IEEE TPAMI 16(5); split of Hastie, Tibshirani, Friedman",
    license="none stated",
    address=f"{_ADDRESS}.html#usps",
    files=(DataFile("usps.npz", "6bf1cadedf3a3eb4c4e02b0fdbc0ee2c4bc59e0aa0c6d3951a3e918c98e1ef79"),),
    downloads=(
        Download(
            "usps/usps.bz2",
            f"{_ADDRESS}/usps.bz2",
            "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
        ),
        Download(
            "usps/usps.t.bz2",
            f"{_ADDRESS}/usps.t.bz2",
            "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
        ),
    ),
)

USPST = Source(
    name="uspst",
    title="USPS digits, smoothed, 16x16",
    citation="Hull 1994, IEEE TPAMI 16(5); the variant of the semi-supervised benchmark files",
    license="none stated",
    address="https://github.com/HoshinoTouko/MachineLearning",
    files=(DataFile("uspst.npz", "65bff4ddac640f539f999bf55c1abcc7dc09657fd54e33a25eb377f5b095a876"),),
)


def load_usps(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """`train` 7,291 and `test` 2,007 images of float32 (16, 16) in −1..1, 10 classes, the usual split.

    Read from `usps.npz` or the two LIBSVM files in the data folder; fetched (8 MB) if neither is there. The
    published values have three decimals, and both sources are rounded to them.
    """
    prepared = find(USPS.files[0], folder, verify=verify)
    if prepared is not None:
        arrays = read_npz(prepared, ("x_train", "y_train", "x_test", "y_test"))
        parts = [(arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])]
    else:
        parts = [read_libsvm(path) for path in obtain(USPS, folder, verify=verify, allow_download=download)]
    train, test = ((_three_decimals(x), y) for x, y in parts)
    return train_test(USPS, train, test, "0123456789")


def _three_decimals(x: Array) -> Array:
    return (np.rint(x.astype(np.float64) * 1000) / 1000).astype(np.float32).reshape(-1, 16, 16)


def read_libsvm(path: Path) -> tuple[Array, Array]:
    """Images and labels of a LIBSVM file of USPS: `digit+1 1:value ... 256:value` on each line."""
    try:
        with bz2.open(path, "rb") as file:
            text = _read_bounded(file, path.stat().st_size, f"`{path.name}`").decode("ascii")
        rows = [line.split() for line in text.splitlines() if line.strip()]
        y = np.array([int(row[0]) - 1 for row in rows])
        x = np.array([[float(cell.split(":")[1]) for cell in row[1:]] for row in rows])
    except LimitError:
        raise
    except (OSError, EOFError, ValueError, IndexError, OverflowError) as error:
        raise CorruptFileError(f"`{path}` must be a LIBSVM file in bzip2, and cannot be read: {error}.") from error
    if x.shape != (len(y), 256) or ((y < 0) | (y > 9)).any():
        raise CorruptFileError(
            f"`{path}` must hold rows of a digit and 256 values, got {x.shape} of digits {set(y)}."
        )
    return x, y


def load_uspst(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """2,007 smoothed images of float32 (16, 16) in −15/16..15/16, 10 classes, no split; not the USPS test part.

    The source gives 1,000 labels; the other 1,007 were recovered by matching every image to its USPS original.
    `extra["label_from_source"]` tells them apart.
    """
    arrays = open_npz(USPST, folder, ("x", "y", "y_from_source"), verify=verify)
    extra = {"label_from_source": arrays["y_from_source"]}
    part = Split(arrays["x"].reshape(-1, 16, 16), arrays["y"].astype(np.int64), extra)
    return Dataset(USPST, {"all": part}, tuple("0123456789"))


def _read_bounded(file: IO[bytes], stored: int, what: str) -> bytes:
    """All bytes of a stream that unpacks a file of `stored` bytes; a stream that does not end is cut off.

    >>> import io
    >>> _read_bounded(io.BytesIO(b"abc"), 3, "`a`")
    b'abc'
    """
    largest = max(limit("NEARER_MAX_BYTES"), EXPANSION * stored)
    data = file.read(largest + 1)
    check_expansion(len(data), stored, what)
    return data
