"""Where a data set comes from, and the files it is made of with their checksums."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DataFile", "Download", "Source", "own_source"]


@dataclass(frozen=True)
class DataFile:
    """A prepared file of the data folder and the SHA-256 that it must have."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Download:
    """An original file: where it is kept below the data folder, its address and SHA-256."""

    name: str
    address: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: what to cite, under which licence, the address of the original, the files.

    >>> from nearer.datasets import load
    >>> load("digits").source.name
    'digits'
    """

    name: str
    title: str
    citation: str
    license: str
    address: str
    files: tuple[DataFile, ...] = ()
    downloads: tuple[Download, ...] = ()


def own_source(name: str) -> Source:
    """The source of the user's own data.

    >>> own_source("pets.csv").title
    'your pets.csv'
    """
    return Source(name, f"your {name}", "-", "your own", "-")
