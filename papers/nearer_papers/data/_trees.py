"""What the published image collections share: a folder with lists, images below it, known counts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nearer.datasets._dataset import Source
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data._obtain import data_folder

__all__ = ["check_counts", "check_present", "find_tree", "read_rows"]


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


def check_counts(came: Mapping[str, int], published: Mapping[str, int], title: str) -> None:
    """Raise when a collection does not have the published number of images in each part.

    >>> check_counts({"train": 2}, {"train": 3}, "Toy")
    Traceback (most recent call last):
    ...
    nearer.exceptions.CorruptFileError: Toy must have 3 train images, got 2 train. ...
    """
    if dict(came) != dict(published):
        want = ", ".join(f"{count:,} {part}" for part, count in published.items())
        got = ", ".join(f"{count:,} {part}" for part, count in came.items())
        raise CorruptFileError(
            f"{title} must have {want} images, got {got}. The copy is incomplete or another release; pass "
            f"check_counts=False for a part of it."
        )
