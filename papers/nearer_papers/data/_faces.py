"""Faces: MSRA25 and ORL."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import DataFile, Dataset, Source, Split
from nearer_papers.data._obtain import open_npz

__all__ = ["MSRA25", "ORL", "load_msra25", "load_orl"]

MSRA25 = Source(
    name="msra25",
    title="MSRA25 faces, 16x16",
    citation="Microsoft Research Asia face set",
    license="not stated",
    address="https://github.com/ma-xu/L21FS",
    files=(DataFile("msra25.npz", "abec88f637b927e7564c42d8713d760d0fc785dd1dd77a15ec7768c2669c9244"),),
)

ORL = Source(
    name="orl",
    title="ORL faces, 32x32",
    citation="Samaria, Harter 1994, IEEE Workshop on Applications of Computer Vision",
    license="not stated in the source; AT&T: free with acknowledgement",
    address="https://github.com/ma-xu/L21FS",
    files=(DataFile("orl.npz", "8bb218ea1f03f1f0684f588a677823ea95b0261b4968f81884aae263bf38a92d"),),
)


def load_msra25(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """1,799 grey faces as bytes (16, 16), 12 people, no split."""
    stored = open_npz(MSRA25, folder, ("x", "y"), verify=verify)
    # The file keeps the column order of MATLAB; without the transposition the faces lie on their side.
    upright = np.ascontiguousarray(stored["x"].reshape(-1, 16, 16).transpose(0, 2, 1))
    return Dataset(MSRA25, {"all": Split(upright, stored["y"].astype(np.int64))})


def load_orl(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """400 grey faces as bytes (32, 32), 40 people with 10 pictures each, no split."""
    stored = open_npz(ORL, folder, ("x", "y"), verify=verify)
    return Dataset(ORL, {"all": Split(stored["x"].reshape(-1, 32, 32), stored["y"].astype(np.int64))})
