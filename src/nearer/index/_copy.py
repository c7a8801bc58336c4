"""An index from one place to another: a folder, an engine, or a Parquet file that other programs read; and two that
exchange their names.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearer._plain import Floats
from nearer._storage._disk import exchange, flush_folder
from nearer._storage._folder import resolved
from nearer.datasets._parquet_files import load_arrow
from nearer.exceptions import (
    CorruptFileError,
    LockedError,
    MissingDataError,
    ParameterError,
    ShapeError,
    WriteError,
)
from nearer.index._database import FILE, Database, has_database
from nearer.index._items import Id, check_next_id
from nearer.index._kinds import Exact, SearchKind, kind_from, kind_to
from nearer.index._open import open_index
from nearer.index._vector_index import VectorIndex
from nearer.index._writer_lock import WriterLock, hold

PART = 10_000
# What a Parquet file says of the index that it was; without it, it is a table of embeddings.
ABOUT = b"nearer.index"


class Part(NamedTuple):
    """Some items."""

    ids: list[Id]
    rows: Floats
    metadata: list[dict[str, Any]]


def copy_index(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    kind: SearchKind | None = None,
    through: Callable[[Floats], Any] | None = None,
    fingerprint: str | None = None,
    remember: str | os.PathLike[str] | None = None,
) -> int:
    """Copy all items of an index, in their order, and return how many; the target must be new.

    A Parquet file has the columns id, embedding and metadata (a JSON text). One that `nearer embed` wrote, where
    metadata are columns, can be copied into an index as well.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> with open_index(f"{place}/index", dimension=2) as index:
    ...     _ = index.add([[0, 1]], ids=["a"], metadata=[{"year": 2000}])
    >>> copy_index(f"{place}/index", f"{place}/items.parquet")
    1
    >>> copy_index(f"{place}/items.parquet", f"{place}/again")
    1
    >>> open_index(f"{place}/again", read_only=True).count({"year": 2000})
    1

    Args:
        source: the folder of an index, a URL that `open_index` takes, or a .parquet file.
        target: the same, for what is to be made.
        kind: of the new index; None takes that of the source.
        through: maps the embeddings on their way, (n, p) -> (n, q): the `transform` of an `Alignment`, say. Then
            they are no longer those of the model that made them.
        fingerprint: with `through`, of the model whose embeddings they are now.
        remember: with `through`, the folder of that model.
    """
    if through is None and (fingerprint is not None or remember is not None):
        raise ParameterError("`through` must be given with `fingerprint` and `remember`: a copy keeps its model.")
    with _read(source) as (about, parts):
        if through is not None:
            made_by = None if remember is None else _made_by(Path(remember), source, fingerprint)
            about |= {"dimension": None, "fingerprint": fingerprint, "made_by": made_by}
            parts = _through(parts, through)
        if not isinstance(about["made_by"], dict):
            about["made_by"] = None
        if about["made_by"] is not None:
            about["made_by"] = _moved(about["made_by"], source, target)
        if _is_parquet(target):
            return _write_parquet(Path(target), about, parts)
        return _write(target, about, parts, about["kind"] if kind is None else kind)


def _made_by(model: Path, source: str | os.PathLike[str], fingerprint: str | None) -> dict[str, Any]:
    """What the index says of its model, seen from the source."""
    there = model.expanduser().resolve()
    path = str(there) if "://" in str(source) else os.path.relpath(there, os.path.abspath(_folder(source)))
    return {"name": there.name, "path": path, "fingerprint": fingerprint}


def _through(parts: Iterator[Part], through: Callable[[Floats], Any]) -> Iterator[Part]:
    for part in parts:
        rows = np.asarray(through(part.rows), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(part.rows):
            raise ShapeError(f"`through` must give a row for each of {len(part.rows)}, got shape {rows.shape}.")
        yield part._replace(rows=rows)


def _write(
    target: str | os.PathLike[str], about: dict[str, Any], parts: Iterator[Part], kind: SearchKind | None
) -> int:
    part = next(parts, None)
    dimension = about.get("dimension") if part is None else part.rows.shape[1]
    if dimension is None:
        raise ShapeError("`source` must hold an item or say its dimension, it is empty.")
    new = "://" not in str(target) and not Path(target).exists()
    index: Any = open_index(
        target,
        dimension=dimension,
        similarity=about["similarity"],
        kind=kind,
        fingerprint=about["fingerprint"],
    )
    try:
        if len(index):
            raise ParameterError(f"`target` must be a new index, `{os.fspath(target)}` has items already.")
        if about["made_by"] is not None and index.made_by is None:
            index.remember(about["made_by"])
        # A folder takes all of it in one transaction; an engine part by part.
        later = {"sync": False} if hasattr(index, "sync") else {}
        copied = 0
        while part is not None:
            index.add(part.rows, part.ids, part.metadata, **later)
            copied += len(part.ids)
            part = next(parts, None)
        index.number_from(about["next_id"])
    except BaseException:
        if new:
            # While its lock is held: nobody else has anything there.
            shutil.rmtree(target, ignore_errors=True)
        getattr(index, "discard", index.close)()
        raise
    index.close()
    return copied


def _is_parquet(address: str | os.PathLike[str]) -> bool:
    return "://" not in str(address) and Path(address).suffix.lower() == ".parquet"


def _moved(model: dict[str, Any], source: Any, target: Any) -> dict[str, Any]:
    """Where the model lies, seen from another place."""
    path = str(model.get("path", ""))
    if "://" not in str(source):
        path = os.path.normpath(os.path.join(os.path.abspath(_folder(source)), path))
    if "://" not in str(target):
        path = Path(os.path.relpath(path, os.path.abspath(_folder(target)))).as_posix()
    return model | {"path": path}


def _folder(address: Any) -> str:
    return str(Path(address).parent if _is_parquet(address) else address)


@contextmanager
def _read(source: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], Iterator[Part]]]:
    if _is_parquet(source):
        yield _read_parquet(Path(source))
        return
    index: Any = open_index(source, read_only="://" not in str(source))
    about = {
        "dimension": index.dimension,
        "similarity": index.similarity,
        "kind": None if getattr(index, "_auto", False) or isinstance(index.kind, Exact) else index.kind,
        "fingerprint": index.fingerprint,
        "made_by": index.made_by,
        "next_id": index.next_id,
    }
    with index:
        yield about, _parts(index)


def _parts(index: VectorIndex) -> Iterator[Part]:
    ids = index.ids
    for start in range(0, len(ids), PART):
        part = ids[start : start + PART]
        yield Part(part, index.embeddings(part).numpy(), index.metadata(part))


def _write_parquet(file: Path, about: dict[str, Any], parts: Iterator[Part]) -> int:
    pa, parquet = load_arrow()
    if file.exists():
        raise ParameterError(f"`{file}` must not exist yet. Choose another name, or delete it.")
    noted = about | {"kind": None if about["kind"] is None else kind_to(about["kind"])}
    fresh, copied, writer = file.with_name(f"{file.name}.partial"), 0, None
    fresh.unlink(missing_ok=True)  # a link would be followed
    try:
        for part in parts:
            columns = {
                "id": pa.array(part.ids),
                "embedding": pa.FixedSizeListArray.from_arrays(pa.array(part.rows.reshape(-1)), part.rows.shape[1]),
                "metadata": pa.array([json.dumps(note, ensure_ascii=False) for note in part.metadata]),
            }
            table = pa.table(columns)
            if writer is None:
                writer = parquet.ParquetWriter(fresh, table.schema.with_metadata({ABOUT: json.dumps(noted)}))
            writer.write_table(table.replace_schema_metadata({ABOUT: json.dumps(noted)}))
            copied += len(part.ids)
        if writer is None:
            raise ShapeError("An index must hold an item to be written as Parquet, it is empty.")
        writer.close()
        os.replace(fresh, file)
        flush_folder(file.resolve().parent)
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        failure = WriteError(f"`{file}` could not be written: {error.strerror or error}. Make room.")
        failure.errno = error.errno
        raise failure from error
    finally:
        fresh.unlink(missing_ok=True)
    return copied


def _read_parquet(file: Path) -> tuple[dict[str, Any], Iterator[Part]]:
    pa, parquet = load_arrow()
    if not file.is_file():
        raise MissingDataError(f"`{file}` must be a Parquet file, there is none. Check the path.")
    try:
        opened = parquet.ParquetFile(file)
        schema = opened.schema_arrow
        noted = (schema.metadata or {}).get(ABOUT)
        about: dict[str, Any] = {"similarity": "euclidean", "kind": None, "fingerprint": None, "made_by": None}
        about["next_id"] = 0
        if noted is not None:
            about |= json.loads(noted)
            about["kind"] = None if about["kind"] is None else kind_from(about["kind"])
        check_next_id(about["next_id"])
        kind, types = schema.field("embedding").type, pa.types
        # Text and truth values would become numbers without a word.
        numbers = (types.is_fixed_size_list(kind) or types.is_list(kind)) and (
            types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
        )
        if not numbers or "id" not in schema.names:
            raise ValueError("it has no columns id and embedding (a list of numbers)")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        raise CorruptFileError(f"`{file}` must hold the items of an index: {error}.") from error
    return about, _parquet_parts(opened, file, whole=noted is not None)


def _parquet_parts(opened: Any, file: Path, *, whole: bool) -> Iterator[Part]:
    pa, _ = load_arrow()
    try:
        for batch in opened.iter_batches(batch_size=PART):
            ids = batch.column("id").to_pylist()
            rows = np.array(batch.column("embedding").to_pylist(), dtype=np.float32).reshape(len(ids), -1)
            if whole:
                metadata = [json.loads(text) if text else {} for text in batch.column("metadata").to_pylist()]
            else:
                names = [name for name in batch.schema.names if name not in ("id", "embedding")]
                notes = batch.select(names).to_pylist()
                metadata = [{name: value for name, value in note.items() if value is not None} for note in notes]
            yield Part(ids, rows, metadata)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, pa.ArrowException) as error:
        if isinstance(error, ParameterError):
            raise
        raise CorruptFileError(f"`{file}` must hold the items of an index: {error}.") from error


def switch_index(where: str | os.PathLike[str], fresh: str | os.PathLike[str]) -> None:
    """Give the index `fresh` the name `where`, and the old one the name `fresh`.

    Args:
        where: the address that readers use: a folder, or postgresql://...?table=name.
        fresh: the index that was built beside it, of the same kind of address.

    Whoever opens `where` afterwards gets the new one, and nobody sees anything between them. Whoever has the old
    folder open goes on with it; folders must be closed for writing. Whoever has the old table of PostgreSQL open
    gets a `MissingDataError` from the next call, which changes nothing. Call it again to go back.

    >>> import tempfile
    >>> from nearer.index import open_index
    >>> place = tempfile.mkdtemp()
    >>> for name, rows in {"old": [[1.0]], "new": [[1.0], [2.0]]}.items():
    ...     with open_index(f"{place}/{name}", dimension=1) as index:
    ...         _ = index.add(rows)
    >>> switch_index(f"{place}/old", f"{place}/new")
    >>> len(open_index(f"{place}/old", read_only=True))
    2
    """
    remote = [str(first).partition("://")[0] for first in (where, fresh) if "://" in str(first)]
    if remote:
        if len(remote) == 1 or not all(first in ("postgresql", "postgres") for first in remote):
            raise ParameterError("`where` and `fresh` must both be folders or both tables of PostgreSQL.")
        from nearer.index._postgres import switch_tables

        switch_tables(str(where), str(fresh))
        return
    first, second = resolved(where), resolved(fresh)
    if first == second:
        raise ParameterError(f"`fresh` must be another folder than `where`, both are `{first}`.")
    with _closed(first), _closed(second):
        _exchange(first, second)


def move_index(where: str, aside: str, **changed: Any) -> None:
    """Give an index other embeddings under its own name, by `copy_index` with `changed`; the old one is `aside`.

    A folder is closed for writing from the first item on, so that none is added to the old one and then missing. In
    Milvus, where two collections cannot exchange their names, the moved index is aside.
    """
    if "://" in where:
        copy_index(where, aside, **changed)
        if not where.startswith("milvus"):
            switch_index(where, aside)
        return
    first, second = resolved(where), resolved(aside)
    with _closed(first):
        copy_index(first, second, **changed)
        try:
            with _closed(second):
                _exchange(first, second)
        except LockedError:
            # Nothing has changed its name: without the copy the next try can begin.
            shutil.rmtree(second, ignore_errors=True)
            raise


@contextmanager
def _closed(folder: Path) -> Iterator[None]:
    """An index that nobody else can write."""
    if not has_database(folder):
        raise MissingDataError(f"`{folder}` must be the folder of an index, there is none. Check the path.")
    lock: WriterLock = hold(folder)
    try:
        yield
    finally:
        lock.let_go()


def _exchange(first: Path, second: Path) -> None:
    """Two folders that are closed for writing change their names."""
    for folder in (first, second):
        # A log beside the file would be found under the other name by whoever opens them in this moment.
        Database.write(folder).close()
        if (folder / f"{FILE}-wal").exists():
            raise LockedError(f"`{folder}` is being read. Try again when it is quieter.")
    if not exchange(first, second):
        _rename_both(first, second)
    flush_folder(first.parent)
    flush_folder(second.parent)


def _rename_both(first: Path, second: Path) -> None:
    """Where two names cannot be exchanged in one step: a reader that comes between finds nothing for a moment."""
    aside = second.parent / f".{second.name}.switching"
    os.rename(second, aside)
    try:
        os.rename(first, second)
        os.rename(aside, first)
    except BaseException:
        if not first.exists() and second.exists():
            os.rename(second, first)
        os.rename(aside, second)
        raise
