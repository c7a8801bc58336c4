"""CUB-200-2011: photos of two hundred kinds of birds."""

from __future__ import annotations

import os

import numpy as np

from nearer.datasets._dataset import Dataset, Source, Split
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data import _trees as trees

__all__ = ["CUB200", "load_cub200"]

CUB200 = Source(
    name="cub200",
    title="CUB-200-2011 birds",
    citation="Wah, Branson, Welinder, Perona, Belongie 2011, Caltech CNS-TR-2011-001",
    license="non-commercial research",
    address="https://www.vision.caltech.edu/datasets/cub_200_2011/",
)


COUNTS = {"train": 5864, "test": 5924}
PLACES = ("CUB_200_2011", "CUB_200_2011/images", "cub200", "cub")


def load_cub200(
    *, folder: str | os.PathLike[str] | None = None, check_counts: bool = True, allow_missing: bool = False
) -> Dataset:
    """`train` 5,864 images of the first 100 classes, `test` 5,924 of the other 100; `x` are paths of files.

    The layout is the published one: `images.txt`, `image_class_labels.txt`, `classes.txt` and `images/` in a
    folder `CUB_200_2011` of the data folder (or `folder=`). This is the class-disjoint split of metric learning,
    not the `train_test_split.txt` of classification. With `check_counts=False` any tree of this layout is read,
    the first half of its classes as `train`.

    Where there are no lists, two hundred numbered class folders (`001.Black_footed_Albatross`, in `cub200` or
    `cub`) will do. With `allow_missing` some images may not be there; the note of the data set says how many.
    """
    plain = trees.find_class_folders(folder, PLACES, 200) if not _has_lists(folder) else None
    if plain is not None:
        parts, found = trees.read_class_folders(plain)
        return Dataset(CUB200, parts, found, note=_counted(parts, check_counts, allow_missing))
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
    if allow_missing:
        parts = {name: trees.present(part) for name, part in parts.items()}
    note = _counted(parts, check_counts, allow_missing)
    trees.check_present(root / "images", np.concatenate([part.x for part in parts.values()]).tolist(), CUB200.title)
    names = tuple(classes[number].split(".", 1)[-1].replace("_", " ") for number in numbers)
    return Dataset(CUB200, parts, names, note=note)


def _has_lists(folder: str | os.PathLike[str] | None) -> bool:
    try:
        trees.find_tree(CUB200, folder, ["CUB_200_2011"], ["image_class_labels.txt"])
    except MissingDataError:
        return False
    return True


def _counted(parts: dict[str, Split], check: bool, allow_missing: bool) -> str:
    came = {name: len(part) for name, part in parts.items()}
    return trees.check_counts(came, COUNTS, CUB200.title, allow_missing=allow_missing) if check else ""
