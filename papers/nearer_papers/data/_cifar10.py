"""CIFAR-10: 60,000 small colour photos of ten kinds of things."""

from __future__ import annotations

import os
import tarfile
import zlib
from pathlib import Path

import numpy as np

from nearer._limits import check_expansion, check_limit
from nearer.datasets._dataset import Array, DataFile, Dataset, Download, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError
from nearer_papers.data._obtain import data_folder, find, obtain

__all__ = ["CIFAR10", "load_cifar10", "read_cifar10_archive"]

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SECOND_HALF = "cifar10_train_2.npz"
# Means of the 50,000 training images, of the red, green and blue bytes in 0..1, to four places as published.
_MEANS = (0.4914, 0.4822, 0.4465)

CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10 colour photos, 32x32",
    citation="Krizhevsky 2009, Learning multiple layers of features from tiny images",
    license="none stated by the authors",
    address="https://www.cs.toronto.edu/~kriz/cifar.html",
    files=(
        DataFile("cifar10_train_1.npz", "c8eb6d587bf34e2aa8b7aa630bd60ed7ec4c3ab6f4581aa121bd1f5d25d896fd"),
        DataFile("cifar10_test.npz", "5f605ed0713d85f838885aa5ae35b7084ee0f61c0730b12940248a246c12efa9"),
    ),
    downloads=(
        Download(
            "cifar10/cifar-10-binary.tar.gz",
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
)


def load_cifar10(
    *,
    folder: str | os.PathLike[str] | None = None,
    complete: bool = False,
    verify: bool = True,
    download: bool = True,
) -> Dataset:
    """`train` and `test` (10,000) of colour bytes (32, 32, 3), 10 classes of equal size, original order.

    The published training part has 50,000 images. The prepared files may hold only its first 25,000, and then
    `train` is that half and `note` says so; `complete=True` refuses the half and asks for the whole. Without
    prepared files the published archive is read, and fetched (170 MB) if it is not in the data folder.
    """
    first, test = (find(file, folder, verify=verify) for file in CIFAR10.files)
    second = data_folder(folder) / _SECOND_HALF
    archive = data_folder(folder) / CIFAR10.downloads[0].name
    halved = not second.is_file()
    if first is None or test is None or (halved and (complete or archive.is_file())):
        try:
            path = obtain(CIFAR10, folder, verify=verify, allow_download=download)[0]
        except MissingDataError as error:
            if first is None or test is None:
                raise
            raise MissingDataError(
                f"`complete` asks for 50,000 training images, and {data_folder(folder)} has the first 25,000: put "
                f"{_SECOND_HALF} or {CIFAR10.downloads[0].name} there. The original is at {CIFAR10.address}."
            ) from error
        train_part, test_part = read_cifar10_archive(path)
        return _dataset(train_part, test_part, "")
    parts = [_decode(first)] if halved else [_decode(first), _decode(second)]
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if not halved:
        _check_whole(x, y, second)
    note = f"`train` is the first 25,000 of 50,000 images: {_SECOND_HALF} is not there" if halved else ""
    return _dataset((x, y), _decode(test), note)


def read_cifar10_archive(path: Path) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Train and test images and labels of the published binary archive; it is read in memory, never unpacked.

    A record is one label byte and 3,072 pixel bytes: the red, the green and the blue 32x32 plane.
    """
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    found: dict[str, tuple[Array, Array]] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            asked = 0
            for number, member in enumerate(archive, start=1):
                asked += member.size
                check_limit("NEARER_MAX_FILES", number, f"`{path.name}`")
                check_expansion(asked, path.stat().st_size, f"`{path.name}`")
                name = member.name.rsplit("/", 1)[-1]
                content = archive.extractfile(member)
                if name in names and content is not None:
                    records = np.frombuffer(content.read(), np.uint8).reshape(-1, 3073)
                    pixels = np.moveaxis(records[:, 1:].reshape(-1, 3, 32, 32), 1, -1)
                    found[name] = np.ascontiguousarray(pixels), records[:, 0].copy()
    except LimitError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        raise CorruptFileError(
            f"`{path}` must be the CIFAR-10 binary archive, and cannot be read: {error}."
        ) from error
    lacking = [name for name in names if name not in found]
    if lacking:
        raise CorruptFileError(f"`{path}` must hold {', '.join(names)}, and lacks {', '.join(lacking)}.")
    x, y = (np.concatenate(arrays) for arrays in zip(*(found[name] for name in names[:5]), strict=True))
    return (x, y), found[names[5]]


def _decode(path: Path) -> tuple[Array, Array]:
    """Undo the differences: along rows, then columns, then red and blue relative to green."""
    stored = read_npz(path, ("delta", "y"))
    delta = stored["delta"]
    if delta.dtype != np.uint8 or delta.ndim != 4 or delta.shape[0] != 3:
        raise CorruptFileError(
            f"`{path.name}` must hold `delta` of bytes (3, n, 32, 32), got {delta.dtype} {delta.shape}."
        )
    planes = np.cumsum(np.cumsum(delta, axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
    return np.stack([planes[0] + planes[1], planes[1], planes[2] + planes[1]], axis=-1), stored["y"]


def _check_whole(x: Array, y: Array, path: Path) -> None:
    """The second half has no checksum of its own: compare the whole with the published class counts and means."""
    counts = np.bincount(y.astype(np.int64), minlength=10)
    means = x.mean(axis=(0, 1, 2), dtype=np.float64) / 255
    if x.shape != (50000, 32, 32, 3) or (counts != 5000).any() or np.abs(means - _MEANS).max() > 1e-4:
        raise CorruptFileError(
            f"`{path.name}` must complete the training part to 50,000 images, 5,000 of each class, with means "
            f"{_MEANS}; got {len(x):,}, {counts.tolist()}, {tuple(means.round(4).tolist())}."
        )


def _dataset(train: tuple[Array, Array], test: tuple[Array, Array], note: str) -> Dataset:
    parts = {name: Split(x, y.astype(np.int64)) for name, (x, y) in (("train", train), ("test", test))}
    return Dataset(CIFAR10, parts, _CLASSES, note=note)
