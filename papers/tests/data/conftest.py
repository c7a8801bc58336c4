"""The real data files, when this machine has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nearer.datasets import Dataset, load
from nearer.datasets._catalog import sources
from nearer_papers.data._obtain import data_folder

DataFile = Callable[[str], Path]


@pytest.fixture(scope="session")
def data_file() -> DataFile:
    """The path of a file of the data folder; the test is skipped, with the reason, where it is absent."""

    def find(name: str) -> Path:
        path = data_folder() / name
        if not path.is_file():
            pytest.skip(f"{name} is not in {data_folder()}; set NEARER_DATA to a folder that has it")
        return path

    return find


@pytest.fixture(scope="session")
def real() -> Callable[[str], Dataset]:
    """A data set by name, loaded once for all tests; skipped where its prepared files are absent."""
    loaded: dict[str, Dataset] = {}

    def get(name: str) -> Dataset:
        for file in next(source for source in sources() if source.name == name).files:
            if not (data_folder() / file.name).is_file():
                pytest.skip(f"{file.name} is not in {data_folder()}; set NEARER_DATA to a folder that has it")
        if name not in loaded:
            loaded[name] = load(name)
        return loaded[name]

    return get
