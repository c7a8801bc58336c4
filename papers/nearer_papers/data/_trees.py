"""What the published image collections share: a folder with lists, images below it, known counts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nearer.datasets._dataset import Source, Split
from nearer.datasets._image_files import list_images
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data._obtain import data_folder

__all__ = [
    "check_counts",
    "check_present",
    "find_class_folders",
    "find_tree",
    "present",
    "read_class_folders",
    "read_rows",
]

_NUMBERED = re.compile(r"(\d+)\.(.+)")


def find_tree(
    source: Source, folder: str | os.PathLike[str] | None, names: Sequence[str], markers: Sequence[str]
) -> tuple[Path, str]:
    """The unpacked folder of a collection and the first of the `markers`, files that only it has, found in it.

    `folder` may be that folder or the one around it; the default is the data folder. `names` are the usual names
    of the unpacked folder.
    """
    around = data_folder(folder)
    places = [around / name for name in names]
    places = [around, *places] if folder is not None else places
    for marker in markers:
        for place in places:
            if (place / marker).is_file():
                return place, marker
    looked = ", ".join(str(place) for place in places)
    files = " or ".join(f"`{marker}`" for marker in markers)
    raise MissingDataError(
        f"{source.title} needs its unpacked folder with the file {files}; looked in {looked}. Name the folder "
        f"with folder= or the environment variable NEARER_DATA. The original is at {source.address}."
    )


def read_rows(path: Path, columns: int, *, skip: int = 0) -> list[list[str]]:
    """The lines of a list as `columns` words each (the last takes the rest of the line); `skip` leading lines."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError as error:
        raise MissingDataError(
            f"`{path}` is needed, and there is no such file. Unpack the archive again."
        ) from error
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"`{path}` must be a text file, and is not: {error}.") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        if number <= skip or not line.strip():
            continue
        row = line.split(None, columns - 1)
        if len(row) != columns:
            raise CorruptFileError(
                f"`{path}` must have {columns} entries on each line, got {line!r} on line {number}."
            )
        rows.append([word.strip() for word in row])
    if not rows:
        raise CorruptFileError(f"`{path}` must name at least one image, and is empty.")
    return rows


def check_present(root: Path, names: Sequence[str], title: str) -> None:
    """Raise when an image that the lists of a collection name is not on disk."""
    lacking = [name for name in names if not os.path.isfile(os.path.join(root, name))]
    if lacking:
        raise MissingDataError(
            f"{title} must have {len(names):,} images below {root}, and {len(lacking):,} are not there, the first "
            f"is `{lacking[0]}`. Unpack the archive again."
        )


def find_class_folders(folder: str | os.PathLike[str] | None, names: Sequence[str], classes: int) -> Path | None:
    """A folder with a numbered sub-folder for each class ("001.Laysan_Albatross"), where there is no published "
    "list."""
    around = data_folder(folder)
    for place in (
        [around / name for name in names] if folder is None else [around, *(around / one for one in names)]
    ):
        if place.is_dir() and sum(_is_class(one) for one in place.iterdir()) == classes:
            return place
    return None


def _is_class(place: Path) -> bool:
    return place.is_dir() and _NUMBERED.fullmatch(place.name) is not None


def read_class_folders(root: Path) -> tuple[dict[str, Split], tuple[str, ...]]:
    """The images of numbered class folders, the first half of the classes as `train`, and the names of the classes.

    The numbers are the official order, and so the split, whatever the names would be sorted by.
    """
    folders = sorted((one for one in root.iterdir() if _is_class(one)), key=lambda one: int(one.name.split(".")[0]))
    x, y = [], []
    for number, folder in enumerate(folders):
        files = [f"{folder.name}/{name}" for name in list_images(folder)]
        x += files
        y += [number] * len(files)
    paths, codes = np.array(x), np.array(y, dtype=np.int64)
    seen = codes < len(folders) // 2
    parts = {name: Split(paths[rows], codes[rows], root=root) for name, rows in (("train", seen), ("test", ~seen))}
    return parts, tuple(folder.name.split(".", 1)[1].replace("_", " ") for folder in folders)


def present(part: Split) -> Split:
    """The items of a part whose files are there."""
    assert part.root is not None
    return part.take(np.array([(part.root / str(name)).is_file() for name in part.x], dtype=bool))


def check_counts(
    came: Mapping[str, int], published: Mapping[str, int], title: str, *, allow_missing: bool = False
) -> str:
    """Raise when a collection does not have the published number of images in each part. With `allow_missing` it
    may have fewer, and what is missing is what comes back, to be said.

    >>> check_counts({"train": 2}, {"train": 3}, "Toy")
    Traceback (most recent call last):
    ...
    nearer.exceptions.CorruptFileError: Toy must have 3 train images, got 2 train. ...
    >>> check_counts({"train": 2}, {"train": 3}, "Toy", allow_missing=True)
    '1 of 3 train images missing'
    """
    lacking = {part: count - came.get(part, 0) for part, count in published.items()}
    if allow_missing and min(lacking.values()) >= 0:
        short = [f"{count:,} of {published[part]:,} {part} images" for part, count in lacking.items() if count]
        return f"{' and '.join(short)} missing" if short else ""
    if dict(came) != dict(published):
        want = ", ".join(f"{count:,} {part}" for part, count in published.items())
        got = ", ".join(f"{count:,} {part}" for part, count in came.items())
        raise CorruptFileError(
            f"{title} must have {want} images, got {got}. The copy is incomplete or another release; pass "
            f"check_counts=False for a part of it, or allow_missing=True (`--allow-missing`) where files lack."
        )
    return ""
