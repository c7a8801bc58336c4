"""COIL-20: twenty objects on a turntable."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import DataFile, Dataset, Source, Split
from nearer_papers.data._obtain import open_npz

__all__ = ["COIL20", "load_coil20"]

COIL20 = Source(
    name="coil20",
    title="COIL-20 object views, 32x32",
    citation="Nene, Nayar, Murase 1996, Columbia University CUCS-005-96",
    license="not stated in the source; Columbia: non-commercial research",
    address="https://www.cs.columbia.edu/CAVE/software/softlib/coil-20.php",
    files=(DataFile("coil20.npz", "430151f84ed722b393af984d7e69fe6b236b6e73d83d486a3d70f18bdc88be74"),),
)


def load_coil20(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """1,440 grey views as bytes (32, 32), 20 objects in 72 poses each, no split."""
    stored = open_npz(COIL20, folder, ("x", "y"), verify=verify)
    return Dataset(COIL20, {"all": Split(stored["x"].reshape(-1, 32, 32), stored["y"].astype(np.int64))})
