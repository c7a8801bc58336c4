"""CUB-200-2011: photos of two hundred kinds of birds."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import Dataset, Source, Split
from nearer.exceptions import CorruptFileError
from nearer_papers.data import _trees as trees

__all__ = ["CUB200", "load_cub200"]

CUB200 = Source(
    name="cub200",
    title="CUB-200-2011 birds",
    citation="Wah, Branson, Welinder, Perona, Belongie 2011, Caltech CNS-TR-2011-001",
    license="non-commercial research",
    address="https://www.vision.caltech.edu/datasets/cub_200_2011/",
)


def load_cub200(*, folder: str | os.PathLike[str] | None = None, check_counts: bool = True) -> Dataset:
    """`train` 5,864 images of the first 100 classes, `test` 5,924 of the other 100; `x` are paths of files.

    The layout is the published one: `images.txt`, `image_class_labels.txt`, `classes.txt` and `images/` in a
    folder `CUB_200_2011` of the data folder (or `folder=`). This is the class-disjoint split of metric learning,
    not the `train_test_split.txt` of classification. With `check_counts=False` any tree of this layout is read,
    the first half of its classes as `train`.
    """
    root, _ = trees.find_tree(CUB200, folder, ["CUB_200_2011"], ["image_class_labels.txt"])
    classes = dict(trees.read_rows(root / "classes.txt", 2))
    images = dict(trees.read_rows(root / "images.txt", 2))
    labels = dict(trees.read_rows(root / "image_class_labels.txt", 2))
    if images.keys() != labels.keys() or not set(labels.values()) <= classes.keys():
        raise CorruptFileError(
            f"The lists of {CUB200.title} in {root} must name the same images and classes: {len(images)} images, "
            f"{len(labels)} labels, {len(classes)} classes. Unpack the archive again."
        )
    try:
        numbers = sorted(classes, key=int)
    except ValueError as error:
        raise CorruptFileError(f"`{root / 'classes.txt'}` must begin each line with a number: {error}.") from error
    code = {number: place for place, number in enumerate(numbers)}
    y = np.array([code[labels[image]] for image in images])
    x = np.array(list(images.values()))
    seen = y < len(numbers) // 2
    parts = {
        name: Split(x[rows], y[rows], root=root / "images") for name, rows in (("train", seen), ("test", ~seen))
    }
    if check_counts:
        trees.check_counts(
            {name: len(part) for name, part in parts.items()}, {"train": 5864, "test": 5924}, CUB200.title
        )
    trees.check_present(root / "images", x.tolist(), CUB200.title)
    names = tuple(classes[number].split(".", 1)[-1].replace("_", " ") for number in numbers)
    return Dataset(CUB200, parts, names)
