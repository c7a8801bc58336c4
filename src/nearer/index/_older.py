"""Folders of an index as nearer wrote them before they were databases: read as they are, converted when written to.

There were two: a saved folder of tensors and JSON, and a folder with a journal of changes since its last snapshot.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer._checks import check_int
from nearer._limits import check_limit, parse_json, size_on_disk
from nearer._plain import Floats
from nearer._storage import MANIFEST, read_folder
from nearer._storage._disk import open_plain
from nearer._storage._folder import seal_of
from nearer.exceptions import CorruptFileError, NearerError
from nearer.index._approximate import restore
from nearer.index._items import check_next_id
from nearer.index._kinds import Exact, Recall, SearchKind, kind_from
from nearer.index._rows import Change

if TYPE_CHECKING:
    from nearer.index._index import Index

SAVED, JOURNALED = "nearer.index", "nearer.stored_index"
MAGIC, HEAD = b"nrJ1", struct.Struct("<4sIQQQ")
# Everything that such folders consist of.
FILES = ("manifest.json", "items.json", "vectors.safetensors", "structure.safetensors", "manifest.new")
SERIES = re.compile(r"vectors-\d+\.f32|items-\d+\.jsonl|structure-\d+\.safetensors|journal-\d+\.log")


def is_older(folder: Path) -> bool:
    """Whether a folder holds an index of an older format."""
    return _format(folder) in (SAVED, JOURNALED)


def seal_of_older(folder: Path) -> str | None:
    """What tells the older index of a folder from others; None where there is none."""
    return hashlib.sha256(_read(folder / MANIFEST)).hexdigest() if is_older(folder) else None


def _format(folder: Path) -> str | None:
    try:
        return str(json.loads(_read(folder / MANIFEST, 1 << 24))["format"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _read(file: Path, most: int | None = None) -> bytes:
    """The beginning of an ordinary file, or all of it; a stranger's may be a link, a pipe or a hole."""
    with os.fdopen(open_plain(file, os.O_RDONLY), "rb") as opened:
        size = size_on_disk(os.fstat(opened.fileno()))
        check_limit("NEARER_MAX_BYTES", size if most is None else min(size, most), f"`{file}`")
        return opened.read(min(size, size if most is None else most))


def load_older(index: Index, folder: Path) -> None:
    """Fill an empty index in memory from a folder of an older format."""
    try:
        if _format(folder) == JOURNALED:
            _load_journaled(index, folder)
        else:
            _load_saved(index, folder)
    except NearerError:
        raise
    except (OSError, KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        raise CorruptFileError(
            f"`{folder}` must hold an index whose parts fit together: {error!r}. Take it from a backup."
        ) from error


def remove_older(folder: Path, seal: str | None) -> None:
    """Delete the files of the older format, whose items are in the database now; `seal` says of which index."""
    if seal is None or seal != seal_of_older(folder):
        return
    kept = folder / MANIFEST
    for file in sorted(folder.iterdir()):
        ours = file.name in FILES[:3] or file.name == FILES[4] or SERIES.fullmatch(file.name)
        if file != kept and ours and stat.S_ISREG(file.lstat().st_mode):
            file.unlink(missing_ok=True)
    # Last, because it says that the others may go.
    kept.unlink(missing_ok=True)


def _begin(index: Index, about: dict[str, Any]) -> SearchKind:
    kind = kind_from(about)
    index._set(check_int(about["dimension"], "dimension"), about["similarity"], kind)
    return kind


def _load_saved(index: Index, folder: Path) -> None:
    content = read_folder(folder, format=SAVED, version=1)
    about, listed = content.metadata, content.documents["items"]
    kind = _begin(index, about)
    index.kind = Exact()  # the structure is there already
    vectors, offset = (content.tensors["vectors"][name].numpy() for name in ("vectors", "offset"))
    _check_rows(vectors, (check_int(about["items"], "items", minimum=0), index.dimension))
    _check_rows(offset, (index.dimension,))
    ids, notes = index._items.checked(len(vectors), listed["ids"], listed["metadata"])
    index._take(Change(ids, notes, vectors, offset))
    index._items.next_id = max(index._items.next_id, check_next_id(about["next_id"]))
    index.kind = kind
    if "structure" in content.tensors and not isinstance(kind, Exact):
        trained_on = check_int(about["trained_on"], "trained_on", minimum=0)
        index._structure = restore(
            kind, vectors, content.tensors["structure"], similarity=index.similarity, trained_on=trained_on
        )
        index._structure.recall = Recall.read(about["recall"])


def _load_journaled(index: Index, folder: Path) -> None:
    about = parse_json(_read(folder / MANIFEST), f"`{folder / MANIFEST}`")
    if about.pop("sha256", None) != seal_of(about):
        raise CorruptFileError(f"`{folder / MANIFEST}` was changed after it was written. Take it from a backup.")
    _begin(index, about)
    index.fingerprint = about["fingerprint"]
    saved = about["saved"]
    n, generation = check_int(saved["rows"], "rows", minimum=0), saved["generation"]
    if n:
        data = _read(folder / f"vectors-{int(generation)}.f32", 4 * n * index.dimension)
        vectors = np.frombuffer(data[: len(data) // 4 * 4], dtype="<f4")
        vectors = vectors[: len(vectors) // index.dimension * index.dimension].reshape(-1, index.dimension)
        _check_rows(vectors, (n, index.dimension))
        data = _read(folder / f"items-{int(generation)}.jsonl", check_int(saved["items_bytes"], "items", minimum=0))
        if len(data) != saved["items_bytes"] or zlib.crc32(data) != saved["items_crc"]:
            raise CorruptFileError(f"the items of `{folder}` were changed after they were written. Take a backup.")
        parts = [parse_json(line, f"`{folder}`") for line in data.splitlines()]
        ids = [item_id for part in parts for item_id in part["ids"]]
        notes = [note for part in parts for note in part["metadata"] or [{}] * len(part["ids"])]
        kept = np.ones(n, dtype=np.bool_)
        kept[[row for part in parts for row in part["removed"]]] = False
        stay = np.flatnonzero(kept).tolist()
        fresh, checked = index._items.checked(len(stay), [ids[row] for row in stay], [notes[row] for row in stay])
        offset = np.array(about["offset"] or np.zeros(index.dimension), dtype=np.float32)
        index._take(Change(fresh, checked, vectors[kept], offset))
    number = saved["journal"]
    while (file := folder / f"journal-{int(number)}.log").exists():
        for record, rows in _records(_read(file), file):
            _replay(index, record, rows)
        number += 1
    index._items.next_id = max(index._items.next_id, check_next_id(about["next_id"]))


def _records(data: bytes, file: Path) -> Iterator[tuple[dict[str, Any], Floats]]:
    """The changes of a journal, up to an end that was never finished."""
    position = 0
    while position + HEAD.size <= len(data):
        magic, crc, text, rows, _ = HEAD.unpack_from(data, position)
        start = position + HEAD.size
        end = start + text + rows
        if magic != MAGIC or end > len(data) or zlib.crc32(data[position + 8 : end]) != crc:
            return
        yield parse_json(data[start : start + text], f"`{file}`"), np.frombuffer(data[start + text : end], "<f4")
        position = end


def _replay(index: Index, record: dict[str, Any], rows: Floats) -> None:
    if record["op"] == "remove":
        with suppress(NearerError):
            index.remove(record["ids"])
        return
    numbers = rows.reshape(len(record["ids"]), index.dimension)
    _check_rows(numbers, numbers.shape)
    replacing = record["op"] == "upsert"
    ids, notes = index._items.checked(len(numbers), record["ids"], record.get("metadata"), replacing=replacing)
    offset = np.array(record.get("offset", np.zeros(index.dimension)), dtype=np.float32)
    index._take(Change(ids, notes, numbers, offset))


def _check_rows(rows: Any, shape: tuple[int, ...]) -> None:
    if rows.shape != shape or rows.dtype != np.float32 or not np.isfinite(rows).all():
        raise CorruptFileError(f"the rows must be finite float32 of shape {shape}, got {rows.shape}")
