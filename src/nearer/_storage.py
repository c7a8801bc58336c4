"""Checksummed folders: tensors as safetensors, everything else as JSON, never a pickle.

```
name/
  manifest.json          format, version, library, sha256 and size of every file, free metadata
  <part>.safetensors     named tensors, dtype and shape kept
  <document>.json        larger JSON values that would crowd the manifest
  <name>.<kind>          pages and pictures for people; programs never look into them
```

A folder is written beside its place under a temporary name, flushed to the disk and then renamed, so that a
reader sees the old folder or the new one and never half of one; a full disk leaves the old one as it was.
Reading checks every byte first. The checksums find damage; they are no signature against a forger, which is
why nothing in a folder is ever executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from nearer import __version__
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError

__all__ = ["Folder", "read_folder", "write_file", "write_folder"]

MANIFEST = "manifest.json"
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
    place = Path(os.path.realpath(path))
    _check_replaceable(place, format)
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.parent / f".{place.name}.new-{uuid.uuid4().hex[:12]}"
    fresh.mkdir()
    try:
        files = {}
        for part, content in tensors.items():
            files[_file_name(part, "safetensors")] = _write_tensors(fresh, part, content)
        for name, value in (documents or {}).items():
            if _file_name(name, "json") == MANIFEST:
                raise ParameterError(f"`documents` must not use the name {name!r}: the manifest has it.")
            data = _as_json(value, f"documents[{name!r}]")
            _write_bytes(fresh / _file_name(name, "json"), data)
            files[_file_name(name, "json")] = _fingerprint(fresh / _file_name(name, "json"))
        for name, data in (pages or {}).items():
            if not PLAIN_NAME.match(name) or name.endswith((".json", ".safetensors")):
                raise ParameterError(f"`pages` must be plain file names such as README.md, got {name!r}.")
            _write_bytes(fresh / name, data)
            files[name] = _fingerprint(fresh / name)
        manifest = {
            "format": format,
            "version": version,
            "library": __version__,
            "files": files,
            # Through JSON and back, so that the seal is of what a reader will see (1 becomes "1" as a key).
            "metadata": json.loads(_as_json(dict(metadata or {}), "metadata")),
        }
        manifest["sha256"] = _seal(manifest)
        _write_bytes(fresh / MANIFEST, _as_json(manifest, "metadata", indent=1))
        _flush_folder(fresh)
        _move_into_place(fresh, place)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return place


def read_folder(path: str | os.PathLike[str], *, format: str, version: int) -> Folder:
    """Read a folder of one format, up to one version, after checking every byte of it.

    >>> import tempfile, torch
    >>> place = Path(tempfile.mkdtemp()) / "saved"
    >>> _ = write_folder(place, format="nearer.note", version=1, tensors={"part": {"x": torch.ones(2)}})
    >>> read_folder(place, format="nearer.note", version=1).tensors["part"]["x"]
    tensor([1., 1.])
    """
    place = Path(path)
    manifest = _read_manifest(place)
    found = manifest.get("format")
    if found != format:
        raise CorruptFileError(f"`{place}` must be a {format!r} folder, its manifest says {found!r}.")
    written = manifest.get("version")
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise CorruptFileError(f"`{place / MANIFEST}` must name a format version, got {written!r}.")
    if written > version:
        raise CorruptFileError(
            f"`{place}` has version {written} of the {format!r} format, written by nearer "
            f"{manifest.get('library')}; this is nearer {__version__}, which reads up to version {version}. "
            f"Update nearer, or save again with this one."
        )
    seal = manifest.pop("sha256", None)
    if seal != _seal(manifest):
        raise CorruptFileError(f"`{place / MANIFEST}` was changed after it was written. {_RESTORE}")
    tensors: dict[str, dict[str, Tensor]] = {}
    documents: dict[str, Any] = {}
    pages: dict[str, bytes] = {}
    for name, expected in manifest["files"].items():
        file = place / name
        # The seal is no signature: a forged manifest must still not lead to files elsewhere.
        if not PLAIN_NAME.match(name):
            raise CorruptFileError(f"`{place / MANIFEST}` names a file outside its folder: {name!r}.")
        if not file.is_file():
            raise CorruptFileError(f"`{file}` is missing. {_RESTORE}")
        came = _fingerprint(file)
        if came != expected:
            raise CorruptFileError(f"`{file}` must be as it was written ({expected}), got {came}. {_RESTORE}")
        stem, _, kind = name.rpartition(".")
        if kind == "safetensors":
            tensors[stem] = _read_tensors(file)
        elif kind == "json":
            documents[stem] = _parse(file)
        else:
            pages[name] = file.read_bytes()
    library = str(manifest.get("library"))
    return Folder(format, written, library, tensors, documents, manifest["metadata"], pages)


def write_file(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write one file or nothing: an older file stays as it was until the new one is on the disk.

    >>> import tempfile
    >>> write_file(Path(tempfile.mkdtemp()) / "page.html", b"<p>").read_bytes()
    b'<p>'
    """
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.parent / f".{place.name}.new-{uuid.uuid4().hex[:12]}"
    try:
        _write_bytes(fresh, data)
        os.replace(fresh, place)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _flush_folder(place.parent)
    return place


_RESTORE = "Take it from a backup, or save it again."


def _check_replaceable(place: Path, format: str) -> None:
    """Refuse to replace anything that nearer did not write: a mistyped path must not cost someone a folder."""
    if place.is_dir() and not any(place.iterdir()):
        return
    if not place.exists() and not place.is_symlink():
        return
    if not place.is_dir():
        raise ParameterError(f"`path` must be a folder or free, `{place}` is a file. Choose another path.")
    try:
        manifest = _read_manifest(place)
    except (CorruptFileError, MissingDataError) as error:
        raise ParameterError(
            f"`path` must be free or a folder that nearer wrote, `{place}` is neither. Delete it or choose another."
        ) from error
    if manifest.get("format") != format:
        raise ParameterError(f"`path` must be free or hold {format!r}, `{place}` holds {manifest.get('format')!r}.")
    foreign = {file.name for file in place.iterdir()} - {MANIFEST, *manifest["files"]}
    if foreign:
        raise ParameterError(
            f"`path` must hold nothing but what nearer wrote, `{place}` also holds {sorted(foreign)[0]!r}. Move it."
        )


def _read_manifest(place: Path) -> dict[str, Any]:
    if not place.is_dir():
        previous = sorted(place.parent.glob(f".{place.name}.old-*")) if place.parent.is_dir() else []
        hint = f" A complete earlier copy is in `{previous[-1]}`." if previous else " Check the path."
        raise MissingDataError(f"`{place}` must be a folder that nearer wrote, there is no such folder.{hint}")
    file = place / MANIFEST
    if not file.is_file():
        raise CorruptFileError(f"`{place}` must hold a {MANIFEST}: it was not written by nearer, or not whole.")
    manifest = _parse(file)
    shape = {"files": dict, "metadata": dict, "format": str}
    if not isinstance(manifest, dict) or any(
        not isinstance(manifest.get(key), kind) for key, kind in shape.items()
    ):
        raise CorruptFileError(f"`{file}` must be the manifest of a nearer folder; it lacks its fields.")
    return manifest


def _move_into_place(fresh: Path, place: Path) -> None:
    old = place.parent / f".{place.name}.old-{uuid.uuid4().hex[:12]}"
    replaces = place.is_dir()
    if replaces:
        os.rename(place, old)
    try:
        os.rename(fresh, place)
    except BaseException:
        if replaces:
            os.rename(old, place)
        raise
    _flush_folder(place.parent)
    if replaces:
        shutil.rmtree(old, ignore_errors=True)


def _write_tensors(folder: Path, part: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    file = folder / _file_name(part, "safetensors")
    try:
        save_file(dict(_independent(tensors)), file)
    except SafetensorError as error:
        # A full disk arrives here under the name of another library.
        raise OSError(f"`{file}` could not be written: {error}") from error
    # safetensors makes files for the owner alone; a saved model is as public as its folder.
    os.chmod(file, folder.stat().st_mode & 0o666)
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())
    return _fingerprint(file)


def _independent(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Contiguous tensors on the CPU, no two of them on the same memory (safetensors refuses shared memory)."""
    seen: set[int] = set()
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ParameterError(f"`tensors[{name!r}]` must be a tensor, got {type(tensor).__name__}.")
        plain = tensor.detach().cpu().contiguous()
        address = plain.untyped_storage().data_ptr()
        yield name, plain.clone() if address in seen else plain
        seen.add(address)


def _read_tensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as content:
            # The tensors lie on a memory map; copies survive when the file is changed or cut later on.
            return {name: content.get_tensor(name).clone() for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CorruptFileError(f"`{file}` must be a safetensors file: {error}. {_RESTORE}") from error


def _parse(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes().decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CorruptFileError(f"`{file}` must be JSON: {error}. {_RESTORE}") from error


def _as_json(value: Any, name: str, *, indent: int | None = None) -> bytes:
    try:
        return (json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False) + "\n").encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"`{name}` must be JSON (text, finite numbers, booleans, None, lists, dictionaries): {error}."
        ) from error


def _seal(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest, independent of how its JSON is laid out."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _fingerprint(file: Path) -> dict[str, Any]:
    with open(file, "rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return {"sha256": digest, "bytes": file.stat().st_size}


def _file_name(stem: str, kind: str) -> str:
    if not PLAIN_NAME.match(stem):
        raise ParameterError(f"The name of a file must be letters, digits, '_', '-' and '.', got {stem!r}.")
    return f"{stem}.{kind}"


def _write_bytes(file: Path, data: bytes) -> None:
    with open(file, "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _flush_folder(folder: Path) -> None:
    """Make the names in a folder durable where the system knows how (Windows does not)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
