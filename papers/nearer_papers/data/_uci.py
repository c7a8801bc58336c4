"""Tables of the UCI repository: isolet, letter, satimage, vehicle."""

from __future__ import annotations

import os
import string
from pathlib import Path

import numpy as np

from nearer.datasets._dataset import Array, DataFile, Dataset, Download, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError
from nearer_papers.data._obtain import find, obtain, open_npz
from nearer_papers.data._parts import train_test

__all__ = [
    "ISOLET",
    "LETTER",
    "SATIMAGE",
    "VEHICLE",
    "load_isolet",
    "load_letter",
    "load_satimage",
    "load_vehicle",
    "read_letter",
    "read_satimage",
]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

ISOLET = Source(
    name="isolet",
    title="Isolet spoken letters",
    citation="Fanty, Cole 1991, NIPS 3",
    license="CC BY 4.0",
    address=f"{_UCI}/isolet",
    files=(DataFile("isolet.npz", "3305f0c34d2cc935810c2f6e0e3c12303aee2fb1079903fe9d97972a5119f53a"),),
)
LETTER = Source(
    name="letter",
    title="Letter recognition",
    citation="Frey, Slate 1991, Machine Learning 6(2)",
    license="CC BY 4.0",
    address=f"{_UCI}/letter-recognition",
    files=(DataFile("letter.npz", "97052ed16fcc22ed8f3d01ed6049afae85796872f943078c02bc949faef089e9"),),
    downloads=(
        Download(
            "letter/letter-recognition.data",
            f"{_UCI}/letter-recognition/letter-recognition.data",
            "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
        ),
    ),
)
SATIMAGE = Source(
    name="satimage",
    title="Statlog Landsat satellite",
    citation="Statlog project; UCI",
    license="CC BY 4.0",
    address=f"{_UCI}/statlog/satimage",
    files=(DataFile("satimage.npz", "8d185cc2456a53100c071773fd555574a9be0f613df0e8d4dc558f99d8fcee2d"),),
    downloads=(
        Download(
            "satimage/sat.trn",
            f"{_UCI}/statlog/satimage/sat.trn",
            "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
        ),
        Download(
            "satimage/sat.tst",
            f"{_UCI}/statlog/satimage/sat.tst",
            "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
        ),
    ),
)
VEHICLE = Source(
    name="vehicle",
    title="Statlog vehicle silhouettes",
    citation="Siebert 1987, Turing Institute; Statlog project",
    license="CC BY 4.0",
    address=f"{_UCI}/statlog/vehicle",
    files=(DataFile("vehicle.npz", "2dfec5016f045291107c7b24f1c4cecc15082bb713ac51959e87545f9163619c"),),
)

# Codes of the published files, in the order of the class names; there is no code 6.
_SOILS = {
    2: "cotton crop",
    4: "damp grey soil",
    3: "grey soil",
    1: "red soil",
    5: "vegetation stubble",
    7: "very damp grey soil",
}


def load_isolet(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 6,238 (speakers of isolet1-4) and `test` 1,559 (isolet5), 617 features in −1..1, 26 letters."""
    stored = open_npz(ISOLET, folder, ("x_train", "y_train", "x_test", "y_test"), verify=verify)
    train, test = ((stored[f"x_{part}"] / np.float32(1e4), stored[f"y_{part}"]) for part in ("train", "test"))
    return train_test(ISOLET, train, test, string.ascii_uppercase)


def load_letter(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """`train` 16,000 and `test` 4,000 (the first and the last rows, as usual), 16 numbers 0..15, 26 letters.

    Read from `letter.npz` or the published `letter-recognition.data`; fetched (0.7 MB) if neither is there.
    """
    prepared = find(LETTER.files[0], folder, verify=verify)
    if prepared is not None:
        stored = read_npz(prepared, ("x", "y"))
        x, y = stored["x"], stored["y"]
    else:
        x, y = read_letter(obtain(LETTER, folder, verify=verify, allow_download=download)[0])
    features = x.astype(np.float32)
    return train_test(LETTER, (features[:16000], y[:16000]), (features[16000:], y[16000:]), string.ascii_uppercase)


def read_letter(path: Path) -> tuple[Array, Array]:
    """Features and codes 0..25 of the published file: a letter and 16 numbers on each line."""
    try:
        rows = [line.split(",") for line in path.read_text("ascii").splitlines() if line]
        y = np.array([string.ascii_uppercase.index(row[0]) for row in rows])
        return np.array([[int(cell) for cell in row[1:]] for row in rows]).reshape(-1, 16), y
    except ValueError as error:
        raise CorruptFileError(f"`{path}` must hold a letter and 16 numbers on each line: {error}.") from error


def load_satimage(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """`train` 4,435 and `test` 2,000 of the Statlog project, 36 pixel values of a 3x3 window, 6 soils.

    Read from `satimage.npz` or the published `sat.trn` and `sat.tst`; fetched (0.8 MB) if neither is there.
    """
    prepared = find(SATIMAGE.files[0], folder, verify=verify)
    if prepared is not None:
        stored = read_npz(prepared, ("x", "y"))
        x, y = stored["x"], stored["y"]
    else:
        parts = [read_satimage(path) for path in obtain(SATIMAGE, folder, verify=verify, allow_download=download)]
        x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    features = x.astype(np.float32)
    return train_test(SATIMAGE, (features[:4435], y[:4435]), (features[4435:], y[4435:]), list(_SOILS.values()))


def read_satimage(path: Path) -> tuple[Array, Array]:
    """Features and codes 0..5 of a published file: 36 numbers and the soil's number on each line."""
    try:
        rows = np.array(
            [[int(cell) for cell in line.split()] for line in path.read_text("ascii").splitlines() if line]
        )
        return rows.reshape(-1, 37)[:, :36], np.array(
            [list(_SOILS).index(code) for code in rows.reshape(-1, 37)[:, 36]]
        )
    except ValueError as error:
        raise CorruptFileError(f"`{path}` must hold 36 numbers and a soil on each line: {error}.") from error


def load_vehicle(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """846 silhouettes of vehicles, 18 shape features, 4 classes, no split."""
    stored = open_npz(VEHICLE, folder, ("x", "y", "class_names"), verify=verify)
    part = Split(stored["x"].astype(np.float32), stored["y"].astype(np.int64))
    return Dataset(VEHICLE, {"all": part}, tuple(map(str, stored["class_names"])))
