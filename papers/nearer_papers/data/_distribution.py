"""Label-distribution sets: each item says how much of every label it shows, and the degrees sum to one."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import DataFile, Dataset, Source, Split
from nearer_papers.data._obtain import open_npz

__all__ = [
    "MOVIE",
    "NATURAL_SCENE",
    "SBU_3DFE",
    "SJAFFE",
    "load_movie",
    "load_natural_scene",
    "load_sbu_3dfe",
    "load_sjaffe",
]

_GENG = "Geng 2016, IEEE TKDE 28(7)"
_PYLDL = "https://github.com/SpriteMisaka/PyLDL"


def _source(name: str, title: str, citation: str, address: str, sha256: str) -> Source:
    return Source(name, title, citation, "not stated", address, (DataFile(f"ldl_{name}.npz", sha256),))


NATURAL_SCENE = _source(
    "natural_scene",
    "Natural scenes, ranked labels",
    f"{_GENG}; Geng, Luo 2014, CVPR",
    "https://github.com/Yunan-Lu/GLEMR",
    "865f75482bb2cdea2afacb684ba8aa8a2e0d5a5c240443f9ba29f5dd364b49f6",
)
SJAFFE = _source(
    "sjaffe",
    "JAFFE faces, six emotions",
    f"{_GENG}; Lyons et al. 1998, FG",
    _PYLDL,
    "cc9374e234f04eb4d404f826a655edea88dbca1d91be58c2061ea429d564497f",
)
SBU_3DFE = _source(
    "sbu_3dfe",
    "BU-3DFE faces, six emotions",
    f"{_GENG}; Yin et al. 2006, FG",
    _PYLDL,
    "a7332145135093d8c78f446f160b1025babc0adf17d4bf2ff739ab8a21f6a787",
)
MOVIE = _source(
    "movie",
    "Ratings of films",
    "Geng, Hou 2015, IJCAI",
    _PYLDL,
    "6e0cee8172471ea84b5a53f7fc3de1045b0da758345a7034bc5965b3f24b777c",
)


def _load(
    source: Source, folder: str | os.PathLike[str] | None, verify: bool, names: tuple[str, ...] = ()
) -> Dataset:
    stored = open_npz(source, folder, ("x", "d"), verify=verify)
    part = Split(stored["x"].astype(np.float32), stored["d"].astype(np.float32))
    return Dataset(source, {"all": part}, names)


def load_natural_scene(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """2,000 photos, 294 features in 0..1, degrees of 9 labels, no split.

    The file has no label names; `class_names` are the usual ones in their usual order.
    """
    names = ("plant", "sky", "cloud", "snow", "building", "desert", "mountain", "water", "sun")
    return _load(NATURAL_SCENE, folder, verify, names)


def load_sjaffe(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """213 faces, 243 texture features, degrees of 6 emotions, no split."""
    return _load(SJAFFE, folder, verify)


def load_sbu_3dfe(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """2,500 faces, 243 texture features, degrees of 6 emotions, no split."""
    return _load(SBU_3DFE, folder, verify)


def load_movie(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """7,755 films, 1,869 features in 0..1, the shares of 5 rating levels, no split."""
    return _load(MOVIE, folder, verify)
