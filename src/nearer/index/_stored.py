"""An index that lives in a folder: every change is on the disk before the call returns.

A change is written to a journal and flushed; the rows go into a mapped file at the same time. Folding the journal
in (`compact`) flushes what was added to that file, appends a line of ids and metadata and replaces the manifest:
nothing that was written before is written again, until removed items make up so much that the gaps are closed.
One process writes; any number read, each the version that it opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from nearer._checks import check_int, check_number
from nearer._limits import parse_json
from nearer._storage._disk import flush_folder, write_bytes
from nearer._storage._scratch import _acquire, _release, scratch_of
from nearer._storage._tensors import tensor_bytes, tensors_of
from nearer.exceptions import CorruptFileError, LockedError, NearerError, ParameterError, WriteError
from nearer.index._approximate import restore
from nearer.index._exact import Similarity
from nearer.index._folder import KINDS, _recall
from nearer.index._index import Index, SearchResult
from nearer.index._items import Id
from nearer.index._journal import Journal, Record, read_records
from nearer.index._kinds import IVF, Exact, Kind
from nearer.index._layout import Layout, crc_of, flush_file, map_rows, read_manifest, write_manifest
from nearer.index._rows import Change

__all__ = ["StoredIndex"]

# Up to so many rows comparing with all of them takes a millisecond or so.
EXACT_UP_TO = 20_000
RECALL = 0.95
# Bytes of journal after which it is folded in.
LONG = 1 << 26
# Rows that a saved structure may lack: they are put in when the index is opened.
UNCOVERED = 0.02
ATTEMPTS = 100


@dataclass
class Saved:
    """What the manifest counts."""

    generation: int = 0
    rows: int = 0
    items_bytes: int = 0
    items_crc: int = 0
    extents: list[list[int]] | None = None
    journal: int = 1
    structure: dict[str, Any] | None = None


class StoredIndex(Index):
    """A durable index in a folder, made by `open_index`: an `Index` with `sync`, `compact`, `verify`, `close`."""

    def __init__(
        self,
        place: Path,
        dimension: int,
        *,
        similarity: Similarity,
        kind: Kind | None,
        fingerprint: str | None,
        read_only: bool,
    ) -> None:
        super().__init__(dimension, similarity=similarity, kind=kind)
        self.fingerprint = fingerprint
        self.read_only = read_only
        self._auto = kind is None
        self._target = RECALL if self._auto else None
        self._layout = Layout(place)
        self._saved = Saved(extents=[])
        self._mapped = True  # the buffer is the file of rows
        self._gone: list[int] = []  # saved rows that were removed since
        self._journal: Journal | None = None
        self._lock: int | None = None
        self._broken = False
        self._writing = threading.RLock()
        self._state = threading.RLock()

    @property
    def place(self) -> Path:
        """The folder."""
        return self._layout.place

    # Opening and closing

    @classmethod
    def create(
        cls, place: Path, dimension: int, *, similarity: Similarity, kind: Kind | None, fingerprint: str | None
    ) -> StoredIndex:
        """A new, empty index in a folder that is free."""
        index = cls(place, dimension, similarity=similarity, kind=kind, fingerprint=fingerprint, read_only=False)
        place.mkdir(parents=True, exist_ok=True)
        index._hold()
        try:
            index._journal = Journal(index._layout.journal(1))
            index._write_manifest(index._saved)
            flush_folder(place.parent)
        except BaseException:
            index._let_go()
            raise
        return index

    @classmethod
    def open(cls, place: Path, *, read_only: bool) -> StoredIndex:
        """The index in a folder: as writer, or one version of it for reading."""
        if not read_only:
            read_manifest(place)
            lock = _lock(place)
            try:
                index = cls._read(place, read_manifest(place), read_only=False)
                index._lock = lock
                index._continue()
            except BaseException:
                _release(lock, scratch_of(place / "writer"))
                raise
            return index
        for attempt in range(ATTEMPTS):
            manifest = read_manifest(place)
            try:
                index = cls._read(place, manifest, read_only=True)
            except (FileNotFoundError, CorruptFileError):
                # The writer may have folded its journal in while we read.
                if read_manifest(place) == manifest or attempt == ATTEMPTS - 1:
                    raise
                continue
            if read_manifest(place) == manifest:
                return index
        raise LockedError(f"`{place}` changed {ATTEMPTS} times while it was opened. Try again when it is quieter.")

    def close(self) -> None:
        """Fold the journal in and let others write; the index cannot be used afterwards."""
        with self._writing:
            if self._journal is None:
                return
            try:
                if not self._broken:
                    self.compact()
            finally:
                with contextlib.suppress(OSError):
                    self._journal.close()
                self._journal = None
                self._let_go()

    def __enter__(self) -> StoredIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    # Changes

    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None, *, sync: bool = True) -> list[Id]:
        """As `Index.add`; on the disk when it returns, unless `sync=False` leaves that to a later `sync()`."""
        with self._writing:
            self._check_writable()
            change = self._change(embeddings, ids, metadata)
            if change.ids:
                self._log("add", change)
        return self._finish(change.ids, sync)

    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None, *, sync: bool = True) -> list[Id]:
        """As `Index.upsert`; on the disk when it returns, unless `sync=False`."""
        with self._writing:
            self._check_writable()
            change = self._change(embeddings, ids, metadata, replacing=True)
            if change.ids:
                self._log("upsert", change)
        return self._finish(change.ids, sync)

    def remove(self, ids: Any, *, sync: bool = True) -> int:
        """As `Index.remove`; on the disk when it returns, unless `sync=False`."""
        with self._writing:
            self._check_writable()
            positions = sorted(set(self._items.find(ids)))
            if positions:
                gone = [self._items.ids[place] for place in positions]
                self._opened.append({"op": "remove", "ids": gone}, np.empty(0, dtype=np.float32))
                with self._state:
                    self._drop(positions)
        self._finish([], sync)
        return len(positions)

    def sync(self) -> None:
        """Return when every change that was made before is on the disk: one flush for many of them."""
        journal = self._journal
        if journal is None:
            return
        try:
            journal.sync()
        except OSError as error:
            # What the system failed to write it may have forgotten: only the disk knows what is there now.
            self._broken = True
            failure = WriteError(
                f"`{journal.path}` could not be flushed: {error.strerror or error}. Changes since the last flush "
                f"may be lost. Make room, and open the index again."
            )
            failure.errno = error.errno
            raise failure from error

    def _log(self, op: str, change: Change) -> None:
        about: dict[str, Any] = {"op": op, "ids": change.ids}
        if any(change.metadata):
            about["metadata"] = change.metadata
        # An upsert may replace everything that there is: then the offset is all that is left of the index.
        if (op == "upsert" or not len(self._items)) and change.offset.any():
            about["offset"] = change.offset.tolist()
        self._opened.append(about, change.rows)
        try:
            with self._state:
                self._take(change)
        except BaseException:
            # The journal has it and memory has part of it: only opening again makes them one.
            self._broken = True
            raise

    def _finish(self, ids: list[Id], sync: bool) -> list[Id]:
        if sync:
            self.sync()
        journal = self._journal
        if journal is not None and journal.length > LONG:
            self.compact()
        return ids

    @property
    def _opened(self) -> Journal:
        if self._journal is None:
            raise ParameterError(f"The index in `{self.place}` must be open, it was closed.")
        return self._journal

    def _check_writable(self) -> None:
        if self.read_only:
            raise ParameterError(f"`{self.place}` was opened with read_only=True and cannot be changed.")
        if self._broken:
            raise WriteError(f"`{self.place}` could not be flushed before. Open it again to go on.")
        _ = self._opened

    # Searching: while a change goes into memory, searches wait; while it goes to the disk, they do not.

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None) -> SearchResult:
        """As `Index.search`, from any number of threads beside one that writes."""
        with self._state:
            return super().search(queries, k, where=where)

    def embeddings(self, ids: Any) -> torch.Tensor:
        """As `Index.embeddings`."""
        with self._state:
            return super().embeddings(ids)

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """As `Index.count`."""
        with self._state:
            return super().count(where)

    def rebuild(self) -> None:
        """As `Index.rebuild`; closed gaps are written at the next `compact`."""
        with self._state:
            if self._removed:
                self._mapped = False
            super().rebuild()

    # Folding the journal in

    def compact(self) -> None:
        """Fold the journal into the snapshot: only what is new is written. Searches go on meanwhile."""
        with self._writing:
            self._check_writable()
            self.sync()
            journal = self._opened
            if not journal.length and self._mapped:
                return
            saved = self._next_snapshot()
            fresh = Journal(self._layout.journal(saved.journal))
            try:
                self._write_manifest(saved)
            except BaseException:
                fresh.close()
                raise
            self._journal, self._saved, self._gone = fresh, saved, []
            journal.close()
            self._sweep()

    def verify(self) -> None:
        """Read every saved row and compare it with its checksum; opening only looks at sizes.

        Ids, metadata, the manifest and the journal are always checked when the index is opened.
        """
        with self._writing:
            start, saved = 0, self._saved
            rows = map_rows(self._layout.vectors(saved.generation), saved.rows, self.dimension, writable=False)
            for count, crc in saved.extents or []:
                if crc_of(rows[start : start + count]) != crc:
                    raise CorruptFileError(
                        f"`{self._layout.vectors(saved.generation)}` is damaged in rows {start:,} to "
                        f"{start + count:,}. Take it from a backup."
                    )
                start += count

    def _next_snapshot(self) -> Saved:
        """Put everything on the disk that the next manifest will name."""
        old, n = self._saved, len(self._items)
        moved = not self._mapped
        generation = old.generation + moved
        file = self._layout.vectors(generation)
        try:
            if moved:
                room = map_rows(file, n, self.dimension, writable=True)
                room[:] = self._vectors
                with self._state:
                    self._buffer, self._mapped = room, True
            start = 0 if moved else old.rows
            extents = [] if moved else [*(old.extents or [])]
            if n > start:
                extents.append([n - start, crc_of(self._buffer[start:n])])
                flush_file(file)
            line = {
                "rows": n - start,
                "ids": self._items.ids[start:],
                "metadata": self._items.metadata[start:] if any(self._items.metadata[start:]) else None,
                "removed": np.flatnonzero(~self._alive).tolist() if moved else sorted(self._removed_since(start)),
            }
            data = json.dumps(line, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            begin, crc = (0, 0) if moved else (old.items_bytes, old.items_crc)
            _write_at(self._layout.items(generation), begin, data)
            saved = Saved(
                generation, n, begin + len(data), zlib.crc32(data, crc), extents, old.journal + 1, old.structure
            )
            saved.structure = self._save_structure(saved, moved)
            flush_folder(self.place)
        except OSError as error:
            if isinstance(error, NearerError):
                raise
            failure = WriteError(
                f"`{self.place}` could not be written: {error.strerror or error}. The journal has everything. "
                f"Make room."
            )
            failure.errno = error.errno
            raise failure from error
        return saved

    def _removed_since(self, start: int) -> set[int]:
        late = (start + np.flatnonzero(~self._alive[start:])).tolist()
        return {*self._gone, *late}

    def _drop(self, positions: list[int]) -> None:
        # Noted before gaps may be closed, which begins a new generation and makes the notes worthless.
        self._gone += [place for place in positions if place < self._saved.rows]
        super()._drop(positions)

    def _save_structure(self, saved: Saved, moved: bool) -> dict[str, Any] | None:
        structure = self._structure
        if structure is None:
            return None
        old = None if moved else saved.structure
        if (
            old is not None
            and old["trained_on"] == structure.trained_on
            and (saved.rows - old["rows"]) <= UNCOVERED * saved.rows
        ):
            return old
        file = self._layout.structure(saved.generation, saved.journal)
        # Nobody changes it while this process holds `_writing`, and searches only read.
        written = write_bytes(file, tensor_bytes(structure.tensors()))
        recall = None if structure.recall is None else asdict(structure.recall)
        return {
            "file": file.name,
            "rows": len(structure.positions),
            "trained_on": structure.trained_on,
            "recall": recall,
            **written,
        }

    def _write_manifest(self, saved: Saved) -> None:
        write_manifest(
            self.place,
            {
                "dimension": self.dimension,
                "similarity": self.similarity,
                "kind": type(self.kind).__name__,
                "settings": asdict(self.kind),
                "auto": self._auto,
                "fingerprint": self.fingerprint,
                "offset": self._offset.tolist() if self._offset.any() else None,
                "longest": self._longest,
                "next_id": self._items.next_id,
                "saved": asdict(saved),
            },
        )

    def _make_room(self, rows: int) -> None:
        if not self._mapped or self.read_only:
            super()._make_room(rows)
            self._mapped = False
            return
        self._buffer = map_rows(self._layout.vectors(self._saved.generation), rows, self.dimension, writable=True)

    def _extend_structure(self, start: int) -> None:
        if self._auto and isinstance(self.kind, Exact) and len(self._items) > EXACT_UP_TO:
            self.kind = IVF()
        super()._extend_structure(start)

    # Reading

    @classmethod
    def _read(cls, place: Path, about: dict[str, Any], *, read_only: bool) -> StoredIndex:
        try:
            kind = KINDS[about["kind"]](**about["settings"])
            index = cls(
                place,
                about["dimension"],
                similarity=about["similarity"],
                kind=kind,
                fingerprint=about["fingerprint"],
                read_only=read_only,
            )
            index._auto = about["auto"] is True
            index._target = RECALL if index._auto else None
            index._saved = saved = Saved(**about["saved"])
            index._load_rows(about)
            index._load_items(about)
            if saved.structure is not None:
                index._load_structure(saved.structure, kind)
            number = saved.journal
            while (file := index._layout.journal(number)).exists() or number == saved.journal:
                if not file.exists() and not read_only:
                    break  # killed after the manifest and before the journal that it names
                for record in read_records(file):
                    index._replay(record)
                number += 1
        except (NearerError, FileNotFoundError):
            raise
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RuntimeError) as error:
            raise CorruptFileError(
                f"`{place}` must hold an index whose parts fit together: {error!r}. Take it from a backup."
            ) from error
        return index

    def _load_rows(self, about: dict[str, Any]) -> None:
        n = check_int(self._saved.rows, "rows", minimum=0)
        if about["offset"] is not None:
            offset = np.array(about["offset"], dtype=np.float32)
            if offset.shape != (self.dimension,) or not np.isfinite(offset).all():
                raise CorruptFileError(f"the offset must be {self.dimension} finite numbers")
            self._offset = offset
        self._longest = check_number(about["longest"], "longest", minimum=0)
        if n:
            file = self._layout.vectors(self._saved.generation)
            room = max(n, file.stat().st_size // (4 * self.dimension))
            if file.stat().st_size < n * 4 * self.dimension:
                raise CorruptFileError(f"`{file}` must have {n:,} rows, it is shorter. Take it from a backup.")
            self._buffer = map_rows(file, room, self.dimension, writable=not self.read_only)

    def _load_items(self, about: dict[str, Any]) -> None:
        saved, items = self._saved, self._items
        self._alive = np.ones(saved.rows, dtype=np.bool_)
        if saved.items_bytes:
            file = self._layout.items(saved.generation)
            with open(file, "rb") as opened:
                data = opened.read(saved.items_bytes)
            if len(data) != saved.items_bytes or zlib.crc32(data) != saved.items_crc:
                raise CorruptFileError(f"`{file}` was changed after it was written. Take it from a backup.")
            for line in data.splitlines():
                part = parse_json(line, f"`{file}`")
                items.ids += part["ids"]
                items.metadata += part["metadata"] or [{} for _ in part["ids"]]
                self._alive[part["removed"]] = False
        if len(items.ids) != saved.rows or len(items.metadata) != saved.rows:
            raise CorruptFileError(f"the items must be {saved.rows}, got {len(items.ids)}")
        self._removed = saved.rows - int(self._alive.sum())
        if self._removed:
            alive = np.flatnonzero(self._alive).tolist()
            items.places = {items.ids[place]: place for place in alive}
            for place in np.flatnonzero(~self._alive).tolist():
                items.metadata[place] = {}
        else:
            items.places = dict(zip(items.ids, range(saved.rows), strict=True))
        if len(items.places) != saved.rows - self._removed or len(set(map(type, items.ids))) > 1:
            raise CorruptFileError("the ids must be different and of one kind")
        items.next_id = check_int(about["next_id"], "next_id", minimum=-(1 << 63), maximum=1 << 63)

    def _load_structure(self, about: dict[str, Any], kind: Kind) -> None:
        name = str(about["file"])
        file = self.place / Path(name).name
        data = np.fromfile(file, dtype=np.uint8)
        if len(data) != about["bytes"] or _sha256(data) != about["sha256"]:
            raise CorruptFileError(f"`{file}` was changed after it was written. Take it from a backup.")
        covered = check_int(about["rows"], "rows", maximum=self._saved.rows)
        assert not isinstance(kind, Exact)
        structure = restore(
            kind,
            self._buffer[:covered],
            tensors_of(data, f"`{file}`"),
            similarity=self.similarity,
            trained_on=check_int(about["trained_on"], "trained_on", minimum=0),
        )
        structure.recall = None if about["recall"] is None else _recall(**about["recall"])
        if covered < self._saved.rows:
            structure.add(self._vectors, np.arange(covered, self._saved.rows), measure=False)
        self._structure = structure

    def _replay(self, record: Record) -> None:
        about, op = record.about, record.about["op"]
        if op == "remove":
            self._drop(sorted(set(self._items.find(about["ids"]))))
            return
        rows = record.rows.reshape(len(about["ids"]), self.dimension)
        if not np.isfinite(rows).all():
            raise CorruptFileError("the journal must hold finite rows")
        ids, notes = self._items.checked(len(rows), about["ids"], about.get("metadata"), replacing=op == "upsert")
        offset = np.array(about.get("offset", np.zeros(self.dimension)), dtype=np.float32)
        self._take(Change(ids, notes, rows, offset))

    # The lock and the files

    def _hold(self) -> None:
        self._lock = _lock(self.place)

    def _let_go(self) -> None:
        if self._lock is not None:
            _release(self._lock, scratch_of(self.place / "writer"))
            self._lock = None

    def _continue(self) -> None:
        """Go on at the end of the last journal."""
        number = self._saved.journal
        while self._layout.journal(number + 1).exists():
            number += 1
        file = self._layout.journal(number)
        length = 0
        if file.exists():
            for record in read_records(file):
                length = record.end
        self._saved.journal = number
        self._journal = Journal(file, length)
        self._sweep()

    def _sweep(self) -> None:
        saved = self._saved
        keep = {self._layout.vectors(saved.generation).name, self._layout.items(saved.generation).name}
        if saved.structure is not None:
            keep.add(saved.structure["file"])
        first = read_manifest(self.place)["saved"]["journal"]
        self._layout.sweep(keep, first)


def _lock(place: Path) -> int:
    try:
        return _acquire(place, scratch_of(place / "writer"), 0.0)
    except LockedError as error:
        told = str(error).split(" Waited ")[0]
        raise LockedError(f"{told} Open it with read_only=True, or end that process.") from error


def _write_at(file: Path, start: int, data: bytes) -> None:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        os.ftruncate(handle, start)
        os.lseek(handle, start, os.SEEK_SET)
        view = memoryview(data)
        while len(view):
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(data: Any) -> str:
    import hashlib

    return hashlib.sha256(data.data).hexdigest()
