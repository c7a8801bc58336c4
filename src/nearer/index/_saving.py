"""An index in memory and its database: all of it read, all of it written, folders of older formats converted."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer import __version__
from nearer._checks import check_int
from nearer._plain import Floats
from nearer._storage import MANIFEST
from nearer._storage._disk import flush_folder
from nearer._storage._folder import resolved
from nearer.exceptions import (
    CorruptFileError,
    LimitError,
    LockedError,
    MissingDataError,
    ParameterError,
    WriteError,
)
from nearer.index._approximate import SMALL, build
from nearer.index._database import COMPANIONS, FILE, Database, check_plain, has_database, is_older
from nearer.index._fields import kinds_from
from nearer.index._items import Items, check_next_id
from nearer.index._kinds import IVF, Exact, kind_from, kind_to
from nearer.index._rows import LONGEST, WIDEST
from nearer.index._structure_file import load_structure, save_structure
from nearer.neighbors._shared import has_faiss

if TYPE_CHECKING:
    from nearer.index._index import Index

# Up to so many rows comparing with all of them takes a millisecond or so.
EXACT_UP_TO = 20_000
RECALL = 0.95


def settings_of(index: Index) -> dict[str, Any]:
    """What a new database says of itself."""
    return {
        "library": __version__,
        "name": secrets.token_hex(8),
        "dimension": index.dimension,
        "similarity": index.similarity,
        "kind": None if index._auto else kind_to(index.kind),
        "fingerprint": index.fingerprint,
        "model": index.made_by,
        "offset": numbers_text(index._offset),
        "fields": {name: sorted(kinds) for name, kinds in index._items.fields.kinds.items()},
        "state": [0, index._items.next_id],  # how often items were removed, and the next number as it was then
        "generation": 0,
    }


def fill(index: Index, database: Database, about: dict[str, Any]) -> int:
    """Read all items into an index, which is as it was if that fails; returns how many rows the database has."""
    kind = None if about["kind"] is None else kind_from(about["kind"])
    dimension = check_int(about["dimension"], "dimension", maximum=WIDEST)
    check_int(about["generation"], "generation", minimum=0)
    size, file = database.size(), database.folder / FILE
    # Every row is in the file: what asks for more memory than that was forged.
    n = database.count(size // (4 * dimension))
    if 4 * n * dimension > size:
        raise CorruptFileError(
            f"`{file}` must hold {n:,} rows of {dimension} numbers, it is shorter. Take a backup."
        )
    # Memory that is not touched costs nothing, and the first add need not copy everything.
    items, room = Items(), np.empty((n + n // 16 + 64 * (n > 0), dimension), dtype=np.float32)
    alive, longest, start, characters = np.ones(n, dtype=np.bool_), 0.0, 0, 0
    for ids, texts, rows in database.rows(dimension):
        end = start + len(ids)
        if end > n:
            raise CorruptFileError(f"`{file}` must hold {n:,} rows, it gives more. Take it from a backup.")
        room[start:end] = rows
        squares = np.einsum("nd,nd->n", rows, rows, dtype=np.float64)
        if not (squares < LONGEST**2).all():
            raise CorruptFileError(f"`{file}` must hold finite rows no longer than {LONGEST:g}. Take a backup.")
        longest = max(longest, float(np.sqrt(squares.max())))
        items.ids += ["" if item_id is None else item_id for item_id in ids]
        items.texts += [text or "" for text in texts]
        characters += sum(map(len, items.texts[start:end]))
        if characters > size:
            raise CorruptFileError(f"`{file}` must hold its metadata once, they are too long.")
        if None in ids:
            alive[start:end] = [item_id is not None for item_id in ids]
        start = end
    if start != n:
        raise CorruptFileError(f"`{file}` must hold {n:,} rows, it has {start:,}. Take a backup.")
    if not alive.any():
        items, room, alive = Items(), room[:0], np.empty(0, dtype=np.bool_)
    elif alive.all():
        items.places = dict(zip(items.ids, range(n), strict=True))
    else:
        items.places = {items.ids[position]: position for position in np.flatnonzero(alive).tolist()}
    if isinstance(next(iter(items.places), ""), int):
        items.ids = [0 if item_id == "" else item_id for item_id in items.ids]
    if len(items.places) != int(alive.sum()) or len(set(map(type, items.ids))) > 1:
        raise CorruptFileError(f"`{file}` must hold different ids of one kind. Take a backup.")
    removals, next_id = about["state"]
    check_int(removals, "state", minimum=0)
    items.next_id = check_next_id(next_id)
    if items.places and not items.named:
        items.next_id = max(items.next_id, 1 + int(max(items.places)))
    items.fields.kinds = kinds_from(about["fields"])
    offset = _numbers(about["offset"], dimension)
    index._set(dimension, about["similarity"], kind)
    index.fingerprint = None if about["fingerprint"] is None else str(about["fingerprint"])
    index.made_by = about["model"]
    index._auto = kind is None
    index._target = RECALL if index._auto else None
    index._items, index._buffer, index._alive, index._offset = items, room, alive, offset
    index._removed, index._longest = len(alive) - int(alive.sum()), longest
    return n


def restore_structure(index: Index, about: dict[str, Any], folder: Path) -> int:
    """Give an index its structure, from the cache or built anew; returns how many rows the cache has of it."""
    if index._auto and len(index._items) > EXACT_UP_TO and has_faiss():
        index.kind = IVF()
    if isinstance(index.kind, Exact) or len(index._items) < SMALL:
        return 0
    restored = load_structure(
        folder,
        index._vectors,
        kind=index.kind,
        similarity=index.similarity,
        name=about["name"],
        generation=about["generation"],
    )
    if restored is None:
        structure = build(index.kind, index._vectors, similarity=index.similarity, target=index._target)
        restored = structure, 0
    index._structure, covered = restored
    index.kind = index._structure.kind
    return covered


def load(index: Index, path: str | os.PathLike[str]) -> Index:
    """Fill an index in memory from a folder."""
    folder = resolved(path)
    check_plain(folder)
    if not folder.is_dir():
        raise MissingDataError(f"`{folder}` must be the folder of an index, there is no such folder. Look for it.")
    if not has_database(folder) and (folder / MANIFEST).exists():
        from nearer.index._older import load_older

        load_older(index, folder)
        return index
    database = Database.read(folder)
    try:
        with fitting(folder), database.snapshot():
            about = database.about()
            fill(index, database, about)
            restore_structure(index, about, folder)
    finally:
        database.close()
    return index


def save(index: Index, path: str | os.PathLike[str]) -> Path:
    """Write an index whole, in the place of the one that is there, in one transaction."""
    folder = resolved(path)
    check_free(folder)
    # What is saved must not change: whoever searches in it goes on, and an interrupt leaves it as it is.
    index = index.compacted() if index._removed else index
    from nearer.index._writer_lock import hold

    fresh = make_folder(folder)
    lock = hold(folder)
    try:
        replaced = write_all(index, folder)
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        lock.let_go()
        raise
    clear_older(folder, replaced)
    lock.let_go()
    return folder


def write_all(index: Index, folder: Path) -> str | None:
    """Replace everything in the database of a folder whose lock is held; returns what of an older format it
    replaces.
    """
    replaced = None
    if is_older(folder):
        from nearer.index._older import seal_of_older

        replaced = seal_of_older(folder)
    about = {**settings_of(index), "replaces": replaced}
    database = Database.write(folder)
    try:
        with database.transaction() as connection:
            if database.is_empty:
                database.create()
            else:
                connection.execute("DELETE FROM items")
            database.note(**about)
            database.insert(index._items.ids, index._items.texts, index._vectors)
        if index._structure is not None:
            save_structure(folder, index._structure, about["name"], 0)
    finally:
        database.close()
    return replaced


def convert(folder: Path) -> None:
    """Put the items of a folder of an older format into a database in the same folder."""
    from nearer.index._index import Index
    from nearer.index._older import load_older

    index = Index(1)
    load_older(index, folder)
    index.rebuild()
    write_all(index, folder)


def clear_older(folder: Path, seal: str | None) -> None:
    """Delete what is left of the older index that the database has replaced."""
    if seal is not None and is_older(folder):
        from nearer.index._older import remove_older

        remove_older(folder, seal)


def check_free(folder: Path) -> None:
    """Refuse a place that holds anything else than an index."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"`{folder}` must be a folder, it is a file. Choose another name.")
    free = (folder / FILE).exists() or is_older(folder) or not folder.exists()
    if not free and any(file.name not in COMPANIONS for file in folder.iterdir()):
        raise CorruptFileError(
            f"`{folder}` must be the folder of an index or free, it holds something else. Choose another."
        )


def make_folder(folder: Path) -> bool:
    """Make a folder and put its name on the disk; False if it was there."""
    if folder.is_dir():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flush_folder(folder.parent)
    except OSError as error:
        failure = WriteError(f"`{folder}` could not be made: {error.strerror}. Look at its rights.")
        failure.errno = error.errno
        raise failure from error
    return True


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """Whatever a forged database makes of our code is its fault."""
    try:
        yield
    except (CorruptFileError, LimitError, LockedError, WriteError, MissingDataError):
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RuntimeError) as error:
        raise CorruptFileError(
            f"`{folder}` must hold an index whose parts fit together: {error!r}. Take it from a backup."
        ) from error


def numbers_text(numbers: Floats) -> str | None:
    """Numbers as text for JSON; None where all are 0."""
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode() if numbers.any() else None


def _numbers(text: Any, dimension: int) -> Floats:
    if text is None:
        return np.zeros(dimension, dtype=np.float32)
    numbers = np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32)
    if numbers.shape != (dimension,) or not np.isfinite(numbers).all():
        raise ValueError(f"the offset must be {dimension} finite numbers")
    return numbers
