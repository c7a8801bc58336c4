"""The files of published data sets: where they are, their checksums, and fetching those that are not there.

The data folder is `folder=` of a loader, else `$NEARER_DATA`, else `~/.cache/nearer`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from nearer.datasets._dataset import Array, DataFile, Source
from nearer.datasets._numpy_files import read_npz
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data._download import download_file

__all__ = ["check_file", "data_folder", "find", "obtain", "open_npz", "sha256_of"]

# Path -> (size, time of change, checksum) of what this process has already read through.
_KNOWN: dict[Path, tuple[int, int, str]] = {}


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder where data files are looked for; it need not exist.

    >>> data_folder("my/data").as_posix()
    'my/data'
    """
    if folder is not None:
        return Path(folder).expanduser()
    return Path(os.environ.get("NEARER_DATA") or "~/.cache/nearer").expanduser()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file; remembered while its size and time of change stay the same."""
    key = path.resolve()
    status = key.stat()
    size, changed, digest = _KNOWN.get(key, (-1, -1, ""))
    if (size, changed) != (status.st_size, status.st_mtime_ns):
        with key.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _KNOWN[key] = (status.st_size, status.st_mtime_ns, digest)
    return digest


def check_file(path: Path, sha256: str) -> None:
    """Raise unless the file has this SHA-256."""
    came = sha256_of(path)
    if came != sha256:
        raise CorruptFileError(
            f"`{path.name}` in {path.parent} must have SHA-256 {sha256}, got {came} ({path.stat().st_size:,} "
            f"bytes). Replace the file; if you made it yourself with the same arrays, pass verify=False."
        )


def find(file: DataFile, folder: str | os.PathLike[str] | None = None, *, verify: bool = True) -> Path | None:
    """The path of a file in the data folder, checked against its SHA-256, or None when it is not there."""
    path = data_folder(folder) / file.name
    if not path.is_file():
        return None
    if verify:
        check_file(path, file.sha256)
    return path


def open_npz(
    source: Source, folder: str | os.PathLike[str] | None, keys: Sequence[str], *, verify: bool
) -> dict[str, Array]:
    """The arrays of a data set that exists only as one prepared file."""
    file = source.files[0]
    path = find(file, folder, verify=verify)
    if path is None:
        raise MissingDataError(_absent(source, file.name, folder))
    return read_npz(path, keys)


def obtain(
    source: Source, folder: str | os.PathLike[str] | None, *, verify: bool, allow_download: bool
) -> list[Path]:
    """The paths of the original files of a data set, fetched first if they are not in the data folder."""
    paths = []
    for file in source.downloads:
        path = data_folder(folder) / file.name
        if not path.is_file():
            if not allow_download:
                raise MissingDataError(_absent(source, file.name, folder))
            try:
                download_file(file.address, path, sha256=file.sha256)
            except MissingDataError as error:
                raise MissingDataError(f"{_absent(source, file.name, folder)} {error}") from error
        elif verify:
            check_file(path, file.sha256)
        paths.append(path)
    return paths


def _absent(source: Source, name: str, folder: str | os.PathLike[str] | None) -> str:
    where = data_folder(folder)
    prepared = " and ".join(f"`{file.name}`" for file in source.files)
    either = f" (nor the prepared {prepared})" if source.files and name != source.files[0].name else ""
    return (
        f"{source.title} needs the file `{name}`, and it is not in {where}{either}. Put it there, or name another "
        f"folder with folder= or the environment variable NEARER_DATA. The original is at {source.address}."
    )
