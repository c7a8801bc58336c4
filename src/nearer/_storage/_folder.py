"""Write a folder whole or not at all, and read one version of it whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from nearer import __version__
from nearer._limits import check_json, limit
from nearer._storage._disk import flush_folder, is_folder, write_bytes
from nearer._storage._scratch import locked, publish, remove, restore, scratch_of, settle_copies, whole_copies
from nearer._storage._snapshot import MANIFEST, RESTORE, Bytes, Snapshot
from nearer._storage._tensors import tensor_bytes, tensors_of
from nearer.exceptions import (
    CorruptFileError,
    LimitError,
    LockedError,
    MissingDataError,
    NearerError,
    ParameterError,
    WriteError,
)

# Names that are safe on every file system and cannot lead out of the folder.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True)
class Folder:
    """What `read_folder` found: checked tensors by part, JSON documents, metadata and who wrote it."""

    format: str
    version: int
    library: str
    tensors: dict[str, dict[str, Tensor]]
    documents: dict[str, Any]
    metadata: dict[str, Any]
    pages: dict[str, bytes] = field(default_factory=dict)


def write_folder(
    path: str | os.PathLike[str],
    *,
    format: str,
    version: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    documents: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    pages: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a whole folder or nothing, and return its path; an older folder of the same format is replaced.

    >>> import tempfile, torch
    >>> place = Path(tempfile.mkdtemp()) / "saved"
    >>> _ = write_folder(place, format="nearer.note", version=1, tensors={"part": {"x": torch.ones(2)}})
    >>> sorted(file.name for file in place.iterdir())
    ['manifest.json', 'part.safetensors']
    """
    folder = resolved(path)
    with _failures_named(folder), locked(folder) as scratch:
        restore(folder, scratch, is_whole)
        _check_replaceable(folder, format)
        fresh = scratch / "new"
        _clear(fresh)
        files = {}
        for part, content in tensors.items():
            name = _file_name(part, "safetensors")
            files[name] = write_bytes(fresh / name, tensor_bytes(content))
        for document, value in (documents or {}).items():
            name = _file_name(document, "json")
            if name == MANIFEST:
                raise ParameterError(f"`documents` must not use the name {document!r}: the manifest has it.")
            files[name] = write_bytes(fresh / name, [_as_json(value, f"documents[{document!r}]")])
        for name, data in (pages or {}).items():
            if not PLAIN_NAME.match(name) or name.endswith((".json", ".safetensors")):
                raise ParameterError(f"`pages` must be plain file names such as README.md, got {name!r}.")
            files[name] = write_bytes(fresh / name, [data])
        manifest = {
            "format": format,
            "version": version,
            "library": __version__,
            "files": files,
            # Through JSON and back, so that the seal is of what a reader will see (1 becomes "1" as a key).
            "metadata": json.loads(_as_json(dict(metadata or {}), "metadata")),
        }
        manifest["sha256"] = seal_of(manifest)
        write_bytes(fresh / MANIFEST, [_as_json(manifest, "metadata", indent=1)])
        publish(fresh, folder, scratch)
    return folder


def read_folder(path: str | os.PathLike[str], *, format: str, version: int) -> Folder:
    """Read one version of a folder of one format, after checking every byte of it; a save beside it does no harm.

    >>> import tempfile, torch
    >>> place = Path(tempfile.mkdtemp()) / "saved"
    >>> _ = write_folder(place, format="nearer.note", version=1, tensors={"part": {"x": torch.ones(2)}})
    >>> read_folder(place, format="nearer.note", version=1).tensors["part"]["x"]
    tensor([1., 1.])
    """
    location = resolved(path)
    deadline = time.monotonic() + limit("NEARER_LOCK_SECONDS")
    while True:
        snapshot = Snapshot(location)
        try:
            with snapshot:
                try:
                    folder = _content(snapshot, format, version)
                except (CorruptFileError, LimitError):
                    if snapshot.is_current() or time.monotonic() > deadline:
                        raise
                    continue  # a save ended while we read: take its version
        except MissingDataError as error:
            # Between two renames, or after a kill there.
            settle(location)
            # A writer is between its two renames, or we may not finish them: the version that was there is whole.
            old = scratch_of(location) / "old"
            if not is_folder(old.parent) or not is_whole(old) or time.monotonic() > deadline:
                if _is_there(location, deadline):
                    continue
                raise MissingDataError(f"{error} Check the path.") from error
            with contextlib.suppress(MissingDataError), Snapshot(old) as snapshot:
                try:
                    return _content(snapshot, format, version)
                except CorruptFileError:
                    # Whole a moment ago: its writer is taking it away, unless it is damaged and stays.
                    if snapshot.is_current() and is_whole(old):
                        raise
            continue  # it has just got its name back, or has gone: look again
        except CorruptFileError as error:
            copies = whole_copies(scratch_of(location), is_whole)
            hint = f" The newest whole earlier copy is in `{copies[0]}`." if copies else ""
            raise CorruptFileError(f"{error}{hint}") from error
        settle(location)
        return folder


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Delete a saved folder so that nobody ever sees half of it; of a link only the link goes."""
    if os.path.islink(path):
        os.unlink(path)
        return
    folder = resolved(path)
    with _failures_named(folder), locked(folder) as scratch:
        _clear(scratch / "gone")
        os.rmdir(scratch / "gone")
        os.rename(folder, scratch / "gone")


def write_file(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write one file or nothing: an older file stays as it was until the new one is on the disk.

    >>> import tempfile
    >>> write_file(Path(tempfile.mkdtemp()) / "page.html", b"<p>").read_bytes()
    b'<p>'
    """
    file = resolved(path)
    with _failures_named(file), locked(file) as scratch:
        remove(scratch / "new")
        write_bytes(scratch / "new", [data])
        os.replace(scratch / "new", file)
        flush_folder(file.parent)
    return file


def settle(path: str | os.PathLike[str]) -> bool:
    """Finish or undo what a killed save left beside a folder; False when there is nothing or someone is at work."""
    return settle_copies(resolved(path), is_whole)


def _is_there(location: Path, deadline: float) -> bool:
    """Whether a folder can be read before the deadline: two looks at it may fall between two saves of others."""
    left = deadline - time.monotonic()
    if left <= 0 or location.is_dir():
        return left > 0
    if not os.path.lexists(scratch_of(location)):
        return location.is_dir()
    # While others save, only the lock says that there is nothing. It may not be ours to take: then there is not.
    with contextlib.suppress(LockedError, OSError), locked(location, wait=left) as scratch:
        restore(location, scratch, is_whole)
    return location.is_dir()


def is_whole(folder: Path) -> bool:
    """Whether a folder is one that nearer wrote, every byte of it as it was written."""
    try:
        with Snapshot(folder) as snapshot:
            manifest = snapshot.manifest()
            _check_seal(manifest, snapshot.path)
            snapshot.hold(list(manifest["files"]))
            for name, expected in manifest["files"].items():
                snapshot.checked(name, expected)
    except NearerError:
        return False
    return True


def _content(snapshot: Snapshot, format: str, version: int) -> Folder:
    folder = snapshot.path
    manifest = snapshot.manifest()
    format_found = manifest.get("format")
    if format_found != format:
        raise CorruptFileError(f"`{folder}` must be a {format!r} folder, its manifest says {format_found!r}.")
    written = manifest.get("version")
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise CorruptFileError(f"`{folder / MANIFEST}` must name a format version, got {written!r}.")
    if written > version:
        raise CorruptFileError(
            f"`{folder}` has version {written} of the {format!r} format, written by nearer "
            f"{manifest.get('library')}; this is nearer {__version__}, which reads up to version {version}. "
            f"Update nearer, or save again with this one."
        )
    _check_seal(manifest, folder)
    snapshot.hold(list(manifest["files"]))
    tensors: dict[str, dict[str, Tensor]] = {}
    documents: dict[str, Any] = {}
    pages: dict[str, bytes] = {}
    for name, expected in manifest["files"].items():
        data = snapshot.checked(name, expected)
        stem, _, kind = name.rpartition(".")
        if kind == "safetensors":
            tensors[stem] = _tensors(data, folder / name)
        elif kind == "json":
            documents[stem] = snapshot.parse(name, data.tobytes())
        else:
            pages[name] = data.tobytes()
    library = str(manifest.get("library"))
    return Folder(format, written, library, tensors, documents, manifest["metadata"], pages)


def _check_seal(manifest: dict[str, Any], folder: Path) -> None:
    if manifest.pop("sha256", None) != seal_of(manifest):
        raise CorruptFileError(f"`{folder / MANIFEST}` was changed after it was written. {RESTORE}")
    # The seal is no signature: a forged manifest must still not lead to files elsewhere.
    for name in manifest["files"]:
        if not PLAIN_NAME.match(name):
            raise CorruptFileError(f"`{folder / MANIFEST}` names a file outside its folder: {name!r}.")


def _tensors(data: Bytes, file: Path) -> dict[str, Tensor]:
    try:
        return tensors_of(data, f"`{file}`")
    except LimitError:
        raise
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"`{file}` must be a safetensors file: {error}. {RESTORE}") from error


def _check_replaceable(folder: Path, format: str) -> None:
    """Refuse to replace anything that nearer did not write: a mistyped path must not cost someone a folder."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ParameterError(f"`path` must be a folder or free, `{folder}` is a file. Choose another path.")
    present = {file.name for file in folder.iterdir()}
    if not present:
        return
    try:
        with Snapshot(folder) as snapshot:
            manifest = snapshot.manifest()
    except NearerError as error:
        raise ParameterError(
            f"`path` must be free or a folder that nearer wrote, `{folder}` is neither. Delete it or choose "
            f"another."
        ) from error
    if manifest.get("format") != format:
        raise ParameterError(
            f"`path` must be free or hold {format!r}, `{folder}` holds {manifest.get('format')!r}."
        )
    foreign = present - {MANIFEST, *manifest["files"]}
    if foreign:
        raise ParameterError(
            f"`path` must hold nothing but what nearer wrote, `{folder}` also holds "
            f"{sorted(foreign)[0]!r}. Move it."
        )


@contextlib.contextmanager
def _failures_named(folder: Path) -> Iterator[None]:
    """A full disk, a missing permission: one error that says what was to be written and what became of it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield
    except NearerError:
        raise
    except OSError as error:
        failure = WriteError(
            f"`{folder}` could not be written: {error.strerror or error}. What was there before is as it was. Make "
            f"room or choose another path."
        )
        failure.errno = error.errno
        raise failure from error


def _clear(folder: Path) -> None:
    """An empty folder, whatever a killed process left under its name."""
    remove(folder)
    os.mkdir(folder)


def resolved(path: str | os.PathLike[str]) -> Path:
    """Links followed to the end: what is replaced is the folder, not the link to it."""
    text = os.fspath(path)
    if not text or "\0" in text:
        raise ParameterError(f"`path` must be the name of a file or folder, got {text!r}.")
    return Path(os.path.realpath(text))


def _as_json(value: Any, name: str, *, indent: int | None = None) -> bytes:
    try:
        data = (json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False) + "\n").encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"`{name}` must be JSON (text, finite numbers, booleans, None, lists, dictionaries): {error}."
        ) from error
    # What could not be read back is not written.
    check_json(data, f"`{name}`")
    return data


def seal_of(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest, independent of how its JSON is laid out."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _file_name(stem: str, kind: str) -> str:
    if not PLAIN_NAME.match(stem):
        raise ParameterError(f"The name of a file must be letters, digits, '_', '-' and '.', got {stem!r}.")
    return f"{stem}.{kind}"
