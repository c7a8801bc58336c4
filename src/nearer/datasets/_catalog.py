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

from nearer._checks import check_choice
from nearer.datasets import _classics as classics
from nearer.datasets._dataset import Dataset
from nearer.datasets._source import Source
from nearer.exceptions import ParameterError

__all__ = ["dataset_names", "load", "sources"]

GROUP = "nearer.datasets"
Loader = Callable[..., Dataset]
_SHIPPED: tuple[tuple[Source, Loader], ...] = (
    (classics.DIGITS, classics.load_digits),
    (classics.IRIS, classics.load_iris),
    (classics.WINE, classics.load_wine),
    (classics.BREAST_CANCER, classics.load_breast_cancer),
)


@functools.cache
def _loaders() -> Mapping[str, tuple[Source, Loader]]:
    brought = [pair for point in sorted(entry_points(group=GROUP)) for pair in point.load()]
    return {source.name: (source, loader) for source, loader in (*_SHIPPED, *brought)}


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
