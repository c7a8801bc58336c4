"""The files of a stored index, and the manifest that says which bytes of them count.

```
name/
  manifest.json                sealed; which files, how many rows and bytes of them, their checksums
  vectors-G.f32                rows (float32), one after the other; grows at its end
  items-G.jsonl                ids and metadata of the rows, one line for each time the journal was folded in
  structure-G-N.safetensors    the approximate structure, if there is one
  journal-N.log                the changes since; read in order of their numbers
  .writer.saving/lock          held by the one process that writes
```

Only the manifest is ever replaced, in one step. Bytes that it counts are never changed, so a reader that has
opened the files keeps one version of the index whatever the writer does.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from nearer import __version__
from nearer._limits import parse_json
from nearer._storage._disk import flush_folder, write_bytes
from nearer._storage._folder import MANIFEST, _seal
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer.index._exact import Floats

__all__ = ["FORMAT", "Layout", "map_rows", "read_manifest", "write_manifest"]

FORMAT = "nearer.stored_index"
VERSION = 1
_PIECE = 1 << 22


class Layout:
    """The names of the files in a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def vectors(self, generation: int) -> Path:
        """The rows of a generation: a new one begins when gaps are closed."""
        return self.place / f"vectors-{generation}.f32"

    def items(self, generation: int) -> Path:
        """The ids and metadata of a generation."""
        return self.place / f"items-{generation}.jsonl"

    def structure(self, generation: int, number: int) -> Path:
        """The approximate structure that was saved with a journal number."""
        return self.place / f"structure-{generation}-{number}.safetensors"

    def journal(self, number: int) -> Path:
        """A journal."""
        return self.place / f"journal-{number}.log"

    def sweep(self, keep: set[str], first_journal: int) -> None:
        """Delete what the manifest does not name any more, or a killed process left."""
        for file in self.place.iterdir():
            name = file.name
            if name.startswith("journal-"):
                number = name.removeprefix("journal-").removesuffix(".log")
                old = not number.isdigit() or int(number) < first_journal
            else:
                old = name.startswith(("vectors-", "items-", "structure-", "manifest.new")) and name not in keep
            if old:
                file.unlink(missing_ok=True)


def format_of(place: Path) -> str | None:
    """What the manifest of a folder says that it is."""
    try:
        return str(json.loads((place / MANIFEST).read_bytes()).get("format"))
    except (OSError, ValueError, AttributeError):
        return None


def write_manifest(place: Path, about: dict[str, Any]) -> None:
    """Replace the manifest in one step; what it names must be on the disk already."""
    manifest = {"format": FORMAT, "version": VERSION, "library": __version__, **about}
    manifest = json.loads(json.dumps(manifest, allow_nan=False))
    manifest["sha256"] = _seal(manifest)
    fresh = place / "manifest.new"
    write_bytes(fresh, [json.dumps(manifest, indent=1, ensure_ascii=False).encode()])
    os.replace(fresh, place / MANIFEST)
    flush_folder(place)


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest, its seal checked."""
    try:
        data = (place / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingDataError(
            f"`{place}` must be the folder of an index, its manifest has gone. Check the path."
        ) from error
    try:
        manifest = parse_json(data, f"`{place / MANIFEST}`")
        known = manifest["format"], manifest["version"]
        sealed = manifest.pop("sha256", None) == _seal(manifest)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"`{place / MANIFEST}` must be the manifest of an index: {error}.") from error
    if known[0] != FORMAT:
        raise CorruptFileError(f"`{place}` must be a {FORMAT!r} folder, its manifest says {known[0]!r}.")
    if not isinstance(known[1], int) or known[1] > VERSION:
        raise CorruptFileError(f"`{place}` has version {known[1]!r} of its format. Update nearer.")
    if not sealed:
        raise CorruptFileError(f"`{place / MANIFEST}` was changed after it was written. Take it from a backup.")
    return dict(manifest)


def map_rows(file: Path, rows: int, dimension: int, *, writable: bool) -> Floats:
    """The first rows of a file, mapped; a writer's file is made as long as that, with its room on the disk."""
    size = rows * dimension * 4
    if writable:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if size > os.fstat(handle).st_size:
                # A mapped write into a file with holes would end the process when the disk is full.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(handle, 0, size)
                else:
                    os.ftruncate(handle, size)
        finally:
            os.close(handle)
    elif rows and file.stat().st_size < size:
        raise CorruptFileError(f"`{file}` must have {size:,} bytes, got {file.stat().st_size:,}. Take a backup.")
    if not rows:
        return np.empty((0, dimension), dtype=np.float32)
    mapped = np.memmap(file, dtype="<f4", mode="r+" if writable else "c", shape=(rows, dimension))
    return mapped.view(np.ndarray)


def flush_file(file: Path) -> None:
    """Put a file on the disk, mapped pages included."""
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def crc_of(rows: Floats, value: int = 0) -> int:
    """The checksum of rows, a piece at a time."""
    data = rows.reshape(-1).view(np.uint8)
    for start in range(0, len(data), _PIECE):
        value = zlib.crc32(data[start : start + _PIECE].data, value)
    return value
