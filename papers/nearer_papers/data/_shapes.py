"""Shapes: binary letters and digits, silhouettes of things, outlines of MPEG-7."""

from __future__ import annotations

import os
import string
from pathlib import Path

import numpy as np

from nearer.datasets._dataset import Array, DataFile, Dataset, Download, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError
from nearer_papers.data._matlab import read_mat
from nearer_papers.data._obtain import find, obtain, open_npz

__all__ = [
    "BINARY_ALPHADIGITS",
    "CALTECH101_SILHOUETTES",
    "MPEG7_SHAPES",
    "load_binary_alphadigits",
    "load_caltech101_silhouettes",
    "load_mpeg7_shapes",
    "read_alphadigits",
]

BINARY_ALPHADIGITS = Source(
    name="binary_alphadigits",
    title="Binary Alphadigits, 20x16",
    citation="S. Lucas (Algoval); S. Roweis, data page",
    license="not stated",
    address="https://cs.nyu.edu/~roweis/data.html",
    files=(DataFile("binalpha.npz", "16a3eb7ce954100e98f0c6e76466ccdda1809ce3948a9be6a210e1af83498d68"),),
    downloads=(
        Download(
            "binary_alphadigits/binaryalphadigs.mat",
            "https://cs.nyu.edu/~roweis/data/binaryalphadigs.mat",
            "3ee9392e64e4e3bb7b35502b69bf2555a0b4197c1b31048c4189b84bc0bc6ea7",
        ),
    ),
)

CALTECH101_SILHOUETTES = Source(
    name="caltech101_silhouettes",
    title="Caltech-101 silhouettes, 28x28",
    citation="Marlin, Swersky, Chen, de Freitas 2010, AISTATS",
    license="not stated",
    address="https://people.cs.umass.edu/~marlin/data.shtml",
    files=(
        DataFile(
            "caltech101_silhouettes28.npz", "3ede22dcbb36cb890d187e84a0bf498272c8122a5cebf9c98261ec921c4bb6e8"
        ),
    ),
)

MPEG7_SHAPES = Source(
    name="mpeg7_shapes",
    title="MPEG-7 CE-Shape-1 part B, 64x64",
    citation="Latecki, Lakaemper, Eckhardt 2000, CVPR",
    license="not stated",
    address="https://github.com/wvenialbo/mpeg7ce1dataset",
    files=(DataFile("mpeg7_shapes.npz", "64599d3e8e38f2079406761ad974bababd0068a5644794d94a45b2c50c011ce2"),),
)


def load_binary_alphadigits(
    *, folder: str | os.PathLike[str] | None = None, verify: bool = True, download: bool = True
) -> Dataset:
    """1,404 two-coloured images (20, 16) of 0-9 and A-Z, 36 classes of 39, no split; ink is true.

    Read from `binalpha.npz` or the published `binaryalphadigs.mat`; fetched (0.5 MB) if neither is there.
    """
    prepared = find(BINARY_ALPHADIGITS.files[0], folder, verify=verify)
    if prepared is not None:
        stored = read_npz(prepared, ("x", "y"))
        x, y = stored["x"], stored["y"]
    else:
        x, y = read_alphadigits(obtain(BINARY_ALPHADIGITS, folder, verify=verify, allow_download=download)[0])
    part = Split(x.reshape(-1, 20, 16).astype(bool), y.astype(np.int64))
    return Dataset(BINARY_ALPHADIGITS, {"all": part}, tuple(string.digits + string.ascii_uppercase))


def read_alphadigits(path: Path) -> tuple[Array, Array]:
    """Images and labels of the published MATLAB file: cells (classes, examples) of 20x16 images."""
    cells = read_mat(path, ("dat",))["dat"]
    shapes = {np.shape(cell) for cell in cells.flat} if isinstance(cells, np.ndarray) else set()
    if shapes != {(20, 16)} or cells.ndim != 2:
        raise CorruptFileError(f"`{path}` must hold a table `dat` of 20x16 images, got {sorted(shapes)[:5]}.")
    classes, examples = cells.shape
    return np.stack(list(cells.flat)), np.repeat(np.arange(classes), examples)


def load_caltech101_silhouettes(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """8,671 two-coloured images (28, 28), 101 classes of uneven size, no split; the object is false (dark)."""
    stored = open_npz(CALTECH101_SILHOUETTES, folder, ("x", "y", "class_names"), verify=verify)
    part = Split(stored["x"].reshape(-1, 28, 28).astype(bool), stored["y"].astype(np.int64))
    return Dataset(CALTECH101_SILHOUETTES, {"all": part}, tuple(map(str, stored["class_names"])))


def load_mpeg7_shapes(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """1,400 shapes as bytes (64, 64), 70 classes of 20, no split; padded to a square and box-averaged."""
    stored = open_npz(MPEG7_SHAPES, folder, ("x", "y", "class_names"), verify=verify)
    part = Split(stored["x"], stored["y"].astype(np.int64))
    return Dataset(MPEG7_SHAPES, {"all": part}, tuple(map(str, stored["class_names"])))
