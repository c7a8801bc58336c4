"""Multi-label sets of the Mulan collection: each item carries any number of labels."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import DataFile, Dataset, Source, Split
from nearer_papers.data._obtain import open_npz

__all__ = [
    "COREL5K",
    "EMOTIONS",
    "FLAGS",
    "SCENE",
    "load_corel5k",
    "load_emotions",
    "load_flags",
    "load_scene",
]


def _mulan(name: str, title: str, citation: str, sha256: str) -> Source:
    address = f"https://github.com/tsoumakas/mulan/tree/master/data/multi-label/{name}"
    return Source(name, title, citation, "not stated for the data", address, (DataFile(f"ml_{name}.npz", sha256),))


EMOTIONS = _mulan(
    "emotions",
    "Emotions in music",
    "Trohidis, Tsoumakas, Kalliris, Vlahavas 2008, ISMIR",
    "ff3b44482197d147024ff710d879f6ba39ee1b0858d7b429894a00619031cafb",
)
FLAGS = _mulan(
    "flags",
    "Colours in flags",
    "Goncalves, Plastino, Freitas 2013, ICTAI",
    "513d36a60cbd93adbe04d068e90dd216746bfe08f74ec15b601a35ae58eb230e",
)
SCENE = _mulan(
    "scene",
    "Natural scenes",
    "Boutell, Luo, Shen, Brown 2004, Pattern Recognition 37(9)",
    "53e2cd82d0b836f23740c730c77bd39d7951535c6ba45ae886d467a50b63875e",
)
COREL5K = _mulan(
    "corel5k",
    "Corel5k image words",
    "Duygulu, Barnard, de Freitas, Forsyth 2002, ECCV",
    "ae9155a2e975e0e4cb314007fd181bd0cc4e2ab894e1d382ef9929084634688f",
)


def _load(source: Source, folder: str | os.PathLike[str] | None, verify: bool, *more: str) -> Dataset:
    keys = ("x_train", "y_train", "x_test", "y_test", "label_names", *more)
    stored = open_npz(source, folder, keys, verify=verify)
    parts = {
        part: Split(stored[f"x_{part}"].astype(np.float32), stored[f"y_{part}"].astype(np.uint8))
        for part in ("train", "test")
    }
    features = tuple(map(str, stored.get("feature_names", ())))
    extra = {name: stored[name] for name in more if name != "feature_names"}
    return Dataset(source, parts, tuple(map(str, stored["label_names"])), features, extra=extra)


def load_emotions(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 391 and `test` 202 songs, 72 audio features of very different scales, 6 labels (1.87 on average)."""
    return _load(EMOTIONS, folder, verify, "feature_names")


def load_flags(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 129 and `test` 65 flags, 19 features, 7 colours as labels (3.39 on average).

    Nine features are codes without an order; `data.extra["feature_is_nominal"]` marks them.
    """
    return _load(FLAGS, folder, verify, "feature_names", "feature_is_nominal")


def load_scene(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 1,211 and `test` 1,196 photos, 294 colour features in 0..1, 6 labels (1.07 on average)."""
    return _load(SCENE, folder, verify)


def load_corel5k(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 4,500 and `test` 500 photos, 499 features 0 or 1, 374 words as labels (3.52 on average)."""
    return _load(COREL5K, folder, verify)
