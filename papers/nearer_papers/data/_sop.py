"""Stanford Online Products: photos of 22,634 things that were for sale."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import Dataset, Source, Split
from nearer.exceptions import CorruptFileError
from nearer_papers.data import _trees as trees

__all__ = ["SOP", "load_sop"]

SOP = Source(
    name="sop",
    title="Stanford Online Products",
    citation="Oh Song, Xiang, Jegelka, Savarese 2016, CVPR",
    license="not stated",
    address="https://cvgl.stanford.edu/projects/lifted_struct/",
)


def load_sop(*, folder: str | os.PathLike[str] | None = None, check_counts: bool = True) -> Dataset:
    """`train` 59,551 images of 11,318 products, `test` 60,502 of 11,316 others; `x` are paths of files.

    The layout is the published one: `Ebay_train.txt`, `Ebay_test.txt` and the image folders in
    `Stanford_Online_Products` of the data folder (or `folder=`). `y` is the published product number less one;
    `extra["kind"]` is one of the 12 kinds of product (bicycle, sofa, ...), from 0.
    """
    root, _ = trees.find_tree(SOP, folder, ["Stanford_Online_Products"], ["Ebay_train.txt"])
    parts = {}
    for name in ("train", "test"):
        path = root / f"Ebay_{name}.txt"
        rows = trees.read_rows(path, 4, skip=1)
        try:
            numbers = np.array([[int(row[1]), int(row[2])] for row in rows], dtype=np.int64) - 1
        except ValueError as error:
            raise CorruptFileError(f"`{path}` must have numbers in its first three columns: {error}.") from error
        x = np.array([row[3] for row in rows])
        parts[name] = Split(x, numbers[:, 0], {"kind": numbers[:, 1]}, root)
    shared = np.intersect1d(parts["train"].y, parts["test"].y)
    if shared.size:
        raise CorruptFileError(f"{SOP.title} must have no product in both parts, and has {shared.size}.")
    if check_counts:
        trees.check_counts(
            {name: len(part) for name, part in parts.items()}, {"train": 59551, "test": 60502}, SOP.title
        )
    trees.check_present(root, [*parts["train"].x, *parts["test"].x], SOP.title)
    return Dataset(SOP, parts)
