"""In-Shop Clothes Retrieval of DeepFashion: find the same garment in another photo."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import Dataset, Source, Split
from nearer.exceptions import CorruptFileError
from nearer_papers.data import _trees as trees

__all__ = ["INSHOP", "load_inshop"]

INSHOP = Source(
    name="inshop",
    title="In-Shop Clothes Retrieval",
    citation="Liu, Luo, Qiu, Wang, Tang 2016, CVPR",
    license="non-commercial research, on request",
    address="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
)

# The published name of each part, and ours.
_PARTS = {"train": "train", "query": "queries", "gallery": "database"}
_COUNTS = {"train": 25882, "queries": 14218, "database": 12612}


def load_inshop(*, folder: str | os.PathLike[str] | None = None, check_counts: bool = True) -> Dataset:
    """`train` 25,882 images of 3,997 garments; `queries` 14,218 and `database` 12,612 of 3,985 others.

    The layout is the published one: `Eval/list_eval_partition.txt` (which calls the last two query and gallery)
    and `Img/img/` or `img/`, in `inshop` of the data folder (or `folder=`). `x` are paths of files, `y` the
    garment; score every query against the database, not against the other queries.
    """
    names = ["inshop", "In-shop Clothes Retrieval Benchmark"]
    lists = ["Eval/list_eval_partition.txt", "list_eval_partition.txt"]
    root, found = trees.find_tree(INSHOP, folder, names, lists)
    path = root / found
    rows = trees.read_rows(path, 3, skip=2)
    images, items, status = (np.array(column) for column in zip(*rows, strict=True))
    unknown = sorted(set(status.tolist()) - set(_PARTS))
    if unknown:
        raise CorruptFileError(f"`{path}` must say train, query or gallery on each line, got {unknown[0]!r}.")
    garments, y = np.unique(items, return_inverse=True)
    below = root / "Img" if (root / "Img").is_dir() else root
    parts = {
        ours: Split(images[status == published], y[status == published].astype(np.int64), root=below)
        for published, ours in _PARTS.items()
    }
    held_out = np.union1d(parts["queries"].y, parts["database"].y)
    if np.intersect1d(parts["train"].y, held_out).size:
        raise CorruptFileError(f"{INSHOP.title} must have no garment both in train and in the rest, and has some.")
    if check_counts:
        trees.check_counts({name: len(part) for name, part in parts.items()}, _COUNTS, INSHOP.title)
    trees.check_present(below, images.tolist(), INSHOP.title)
    return Dataset(INSHOP, parts, tuple(map(str, garments)))
