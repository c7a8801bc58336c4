"""Every data set by its name, for commands and experiments that are told what to load.

Four small ones come with scikit-learn. Other packages bring theirs: an entry point of the group "nearer.datasets"
names a tuple of (source, loader); `nearer-papers` has those of the published experiments.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from nearer._checks import check_choice
from nearer.datasets._dataset import Dataset, Source, Split
from nearer.exceptions import ParameterError

GROUP = "nearer.datasets"
Loader = Callable[..., Dataset]
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

DIGITS = Source(
    name="digits",
    title="Optical recognition of handwritten digits, 8x8",
    citation="Alpaydin, Kaynak 1998, UCI; the test part, as shipped with scikit-learn",
    license="CC BY 4.0",
    address="https://archive.ics.uci.edu/dataset/80",
)
IRIS = Source("iris", "Iris flowers", "Fisher 1936, Annals of Eugenics 7", "CC BY 4.0", f"{_UCI}/iris")
WINE = Source("wine", "Wines of three growers", "Forina et al. 1988, PARVUS; UCI", "CC BY 4.0", f"{_UCI}/wine")
BREAST_CANCER = Source(
    "breast_cancer",
    "Breast cancer Wisconsin (diagnostic)",
    "Street, Wolberg, Mangasarian 1993",
    "CC BY 4.0",
    f"{_UCI}/breast-cancer-wisconsin",
)


def _shipped(source: Source) -> Dataset:
    """A data set that comes with scikit-learn; the digits as pixels in 0..1 instead of its sixteenths."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{source.name}")()
    y, names = bunch.target.astype(np.int64), tuple(map(str, bunch.target_names))
    if source is DIGITS:
        return Dataset(source, {"all": Split((bunch.images / 16).astype(np.float32), y)}, names)
    part = Split(bunch.data.astype(np.float32), y)
    return Dataset(source, {"all": part}, names, tuple(map(str, bunch.feature_names)))


@functools.cache
def _loaders() -> Mapping[str, tuple[Source, Loader]]:
    brought = [pair for point in sorted(entry_points(group=GROUP)) for pair in point.load()]
    shipped = [(source, functools.partial(_shipped, source)) for source in (DIGITS, IRIS, WINE, BREAST_CANCER)]
    return {source.name: (source, loader) for source, loader in (*shipped, *brought)}


def sources() -> list[Source]:
    """What is known about every data set, those that need no file first."""
    return [source for source, _ in _loaders().values()]


def dataset_names() -> list[str]:
    """The names that `load` takes, those that need no file first; more with `pip install nearer-papers`.

    >>> dataset_names()[:4]
    ['digits', 'iris', 'wine', 'breast_cancer']
    """
    return list(_loaders())


def load(name: str, *, folder: str | os.PathLike[str] | None = None, **settings: Any) -> Dataset:
    """The data set of this name.

    Args:
        name: one of `dataset_names()`.
        folder: where its files are; by default `$NEARER_DATA`, else the cache.
        settings: what the loader of this data set takes besides, such as `verify=False` (skip the checksum),
            `download=False`, `pixels="105"` (omniglot), `check_counts=False` (folders of photos).

    >>> load("iris").all
    Split(x float32 (150, 4), y int64 (150,))
    """
    check_choice(name, "name", dataset_names())
    _, loader = _loaders()[name]
    known = inspect.signature(loader).parameters
    for setting in settings:
        if setting not in known:
            have = ", ".join(known) or "no settings"
            raise ParameterError(f"`{setting}` is no setting of the data set {name!r}, which has {have}.")
    return loader(folder=folder, **settings) if "folder" in known else loader(**settings)
