"""A set of the relation-alignment tables whose files cannot be had: a prepared file of yours is read.

It has no checksum, because nobody has published the very rows: what is read is what you prepared.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from nearer.datasets._dataset import Dataset, Source, Split
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import MissingDataError
from nearer_papers.data._obtain import data_folder

__all__ = ["COREL800", "load_corel800"]

COREL800 = Source(
    name="corel800",
    title="corel800, words of 800 pictures",
    citation="named by the relation-alignment paper, which attributes it to Mulan",
    license="not stated",
    address="https://mulan.sourceforge.net/datasets-mlc.html (which has its parent, corel5k, and not these 800)",
)


def load_corel800(*, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """`train` and `test` pictures with features and label sets, from `ml_corel800.npz`: `x_train`, `y_train`,
    `x_test`, `y_test`, `label_names`, as for the other sets of Mulan.
    """
    keys = ("x_train", "y_train", "x_test", "y_test", "label_names")
    stored = read_npz(_file(COREL800, "ml_corel800.npz", keys, folder), keys)
    parts = {
        part: Split(stored[f"x_{part}"].astype(np.float32), stored[f"y_{part}"].astype(np.uint8))
        for part in ("train", "test")
    }
    return Dataset(COREL800, parts, tuple(map(str, stored["label_names"])))


def _file(source: Source, name: str, keys: tuple[str, ...], folder: str | os.PathLike[str] | None) -> Path:
    path = data_folder(folder) / name
    if not path.is_file():
        raise MissingDataError(
            f"{source.title} needs the file `{name}`, and it is not in {path.parent}. It must hold the arrays "
            f"{', '.join(keys)}, made from {source.address}; the very rows of the paper are not published. Name "
            f"the folder with folder= or the environment variable NEARER_DATA."
        )
    return path
