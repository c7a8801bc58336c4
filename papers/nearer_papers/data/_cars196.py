"""Cars-196: photos of car models, as files or as ready features of a small network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from nearer.datasets._dataset import Array, DataFile, Dataset, Source, Split
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data import _trees as trees
from nearer_papers.data._matlab import read_mat
from nearer_papers.data._obtain import open_npz

__all__ = ["CARS196", "CARS196_FEATURES", "load_cars196", "load_cars196_features"]

_CITATION = "Krause, Stark, Deng, Fei-Fei 2013, 3dRR"

CARS196 = Source(
    name="cars196",
    title="Cars-196",
    citation=_CITATION,
    license="non-commercial research",
    address="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
)
CARS196_FEATURES = Source(
    name="cars196_features",
    title="Cars-196, EfficientNet-Lite0 features of the train images",
    citation=f"{_CITATION}; Tan, Le 2019, ICML",
    license="non-commercial research; network weights not stated",
    address=CARS196.address,
    files=(
        DataFile("cars196_effnetlite0.npz", "6f67e90bfe9cf00f02a80fe04eb6ffbc85acef5bbf22b35b1320567d998fbfe1"),
    ),
)


def load_cars196_features(*, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Dataset:
    """`train` 4,052 items of classes 0-97, `test` 4,092 of classes 98-195; 1,280 features, none negative.

    Frozen features of the 8,144 official train images (bounding-box crops), so half of Cars-196: scores are not
    comparable with papers, which use 8,054 / 8,131 images.
    """
    stored = open_npz(CARS196_FEATURES, folder, ("q", "scale", "y", "class_names"), verify=verify)
    x = stored["q"] * stored["scale"].astype(np.float32)
    return Dataset(CARS196_FEATURES, _halves(x, stored["y"], 98), tuple(map(str, stored["class_names"])))


COUNTS = {"train": 8054, "test": 8131}
PLACES = ("cars196", "Cars196", "CARS196", "stanford_cars", "cars")


def load_cars196(
    *, folder: str | os.PathLike[str] | None = None, check_counts: bool = True, allow_missing: bool = False
) -> Dataset:
    """`train` 8,054 images of the first 98 models, `test` 8,131 of the other 98; `x` are paths of files.

    Two published layouts are read, from `cars196` in the data folder (or `folder=`): `cars_annos.mat` with
    `car_ims/`, or `devkit/` (`cars_meta.mat`, `cars_train_annos.mat`, `cars_test_annos_withlabels.mat`, which
    may also lie beside it) with `cars_train/` and `cars_test/`. With `check_counts=False` any tree of these
    layouts is read, the first half of its classes as `train`.

    Where there are no lists, 196 numbered class folders (`001.AM General Hummer SUV 2000`, also in `cars`) will do.
    With `allow_missing` some images may not be there; the note of the data set says how many.
    """
    try:
        root, found = trees.find_tree(CARS196, folder, PLACES[:4], ["cars_annos.mat", "devkit/cars_meta.mat"])
    except MissingDataError:
        plain = trees.find_class_folders(folder, PLACES, 196)
        if plain is None:
            raise
        parts, named = trees.read_class_folders(plain)
        return Dataset(CARS196, parts, named, note=_counted(parts, check_counts, allow_missing))
    paths, y, classes = _one_list(root) if found == "cars_annos.mat" else _devkit(root)
    if len(y) == 0 or y.min() < 0 or y.max() >= len(classes):
        raise CorruptFileError(
            f"{CARS196.title} in {root} must have classes 1..{len(classes)}, and has others or none."
        )
    parts = _halves(np.array(paths), y, len(classes) // 2, root)
    if allow_missing:
        parts = {name: trees.present(part) for name, part in parts.items()}
    note = _counted(parts, check_counts, allow_missing)
    trees.check_present(root, np.concatenate([part.x for part in parts.values()]).tolist(), CARS196.title)
    return Dataset(CARS196, parts, tuple(classes), note=note)


def _counted(parts: dict[str, Split], check: bool, allow_missing: bool) -> str:
    came = {name: len(part) for name, part in parts.items()}
    return trees.check_counts(came, COUNTS, CARS196.title, allow_missing=allow_missing) if check else ""


def _halves(x: Array, y: Array, boundary: int, root: Path | None = None) -> dict[str, Split]:
    labels = y.astype(np.int64)
    seen = labels < boundary
    return {name: Split(x[rows], labels[rows], root=root) for name, rows in (("train", seen), ("test", ~seen))}


def _one_list(root: Path) -> tuple[list[str], Array, list[str]]:
    stored = read_mat(root / "cars_annos.mat", ("annotations", "class_names"))
    paths, codes = _fields(root / "cars_annos.mat", stored["annotations"], "relative_im_path")
    return paths, codes, _texts(root / "cars_annos.mat", stored["class_names"])


def _devkit(root: Path) -> tuple[list[str], Array, list[str]]:
    kit = root / "devkit"
    labeled = "cars_test_annos_withlabels.mat"
    lists = {"cars_train": kit / "cars_train_annos.mat", "cars_test": kit / labeled}
    if not lists["cars_test"].is_file() and (root / labeled).is_file():
        lists["cars_test"] = root / labeled
    paths: list[str] = []
    codes: list[Array] = []
    for images, path in lists.items():
        files, numbers = _fields(path, read_mat(path, ("annotations",))["annotations"], "fname")
        paths += [f"{images}/{name}" for name in files]
        codes.append(numbers)
    names = read_mat(kit / "cars_meta.mat", ("class_names",))["class_names"]
    return paths, np.concatenate(codes), _texts(kit / "cars_meta.mat", names)


def _fields(path: Path, annotations: Any, name: str) -> tuple[list[str], Array]:
    """The file name and the class (from 0) of every record."""
    fields = sorted(annotations) if isinstance(annotations, dict) else []
    if not {name, "class"} <= set(fields):
        raise CorruptFileError(
            f"`{path}` must hold records with the fields {name} and class, got {', '.join(fields) or 'none'}. The "
            f"test list of the devkit has no classes; take cars_test_annos_withlabels.mat."
        )
    files = [value for value in annotations[name].flat if isinstance(value, str)]
    classes = [int(value.item()) for value in annotations["class"].flat if _is_whole(value)]
    if not len(files) == len(classes) == annotations[name].size:
        raise CorruptFileError(f"`{path}` must have one name and one whole number in each record, and does not.")
    return files, np.array(classes, dtype=np.int64) - 1


def _is_whole(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf" and value.item() % 1 == 0


def _texts(path: Path, cells: Any) -> list[str]:
    if not isinstance(cells, np.ndarray) or not all(isinstance(cell, str) for cell in cells.flat):
        raise CorruptFileError(f"`{path}` must hold `class_names` as cells of text, and does not.")
    return list(cells.flat)
