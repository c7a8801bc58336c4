"""One door to every index: a folder, PostgreSQL with pgvector, Milvus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nearer._checks import check_choice
from nearer._storage._folder import resolved
from nearer.exceptions import MissingDataError, ParameterError, ShapeError
from nearer.index._database import check_plain, has_database, is_older
from nearer.index._index import Index
from nearer.index._kinds import SearchKind, Wanted
from nearer.index._saving import check_free
from nearer.index._sqlite import SQLiteIndex
from nearer.index._vector_index import VectorIndex
from nearer.neighbors._shared import Similarity


def open_index(
    where: str | os.PathLike[str],
    *,
    dimension: int | None = None,
    similarity: Similarity | None = None,
    kind: SearchKind | None = None,
    fingerprint: str | None = None,
    model: Any = None,
    remember: str | os.PathLike[str] | None = None,
    read_only: bool = False,
) -> VectorIndex:
    """Open the index at `where`, or with `dimension` make one if there is none.

    Args:
        where: a folder; "postgresql://user@host/base?table=name"; "milvus://host:port/collection" or
            "milvus:///path/file.db?collection=name" for a file of milvus-lite.
        dimension: of the embeddings, to make a new index; must fit one that exists.
        similarity: "euclidean" (for new ones), "cosine" or "dot"; must fit one that exists.
        kind: `Exact()`, `HNSW(...)`, `IVF(...)` or `IVFPQ(...)` of a new index. None chooses by size: exact up to
            20,000 rows, above cells with as many probes as find 95 % of the neighbors on a sample.
        fingerprint: names the model that makes the embeddings; an index of another model is refused.
        model: is put in front: `add` takes items and maps them with `transform_database` or `transform`, `search`
            with `transform_queries` or `transform`. It gives its own fingerprint.
        remember: the folder of the model that makes the embeddings. An index that knows of none notes it, relative
            to itself, and `nearer search` and `nearer serve` then need only the index.
        read_only: a folder only: the version that is there now, beside a process that writes.

    A change to a folder is on the disk when the call returns; a killed process loses nothing that it was told is
    done.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/index"
    >>> with open_index(folder, dimension=2) as index:
    ...     index.add([[0, 1], [2, 3]], ids=["a", "b"])
    ['a', 'b']
    >>> open_index(folder, read_only=True).search([[2, 2]], k=1).ids.tolist()
    [['b']]
    """
    if model is not None:
        from nearer.index._mapped import MappedIndex, fingerprint_of, maps_of

        maps_of(model)
        index: Any = open_index(
            where,
            dimension=dimension,
            similarity=similarity,
            kind=kind,
            fingerprint=fingerprint_of(model) if fingerprint is None else fingerprint,
            remember=getattr(model, "place", None) if remember is None else remember,
            read_only=read_only,
        )
        index = MappedIndex(index, model)
        return index
    if similarity is not None:
        check_choice(similarity, "similarity", ["cosine", "dot", "euclidean"])
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise ParameterError(f"`fingerprint` must be text, got {fingerprint!r}.")
    wanted = Wanted(dimension, similarity, kind, fingerprint)
    scheme = str(where).partition("://")[0]
    if "://" in str(where):
        if scheme not in ("postgresql", "postgres", "milvus"):
            raise ParameterError(
                f"`where` must be a folder, postgresql://... or milvus://..., got {scheme}://. Check the address."
            )
        if read_only:
            raise ParameterError("`read_only` must be False for an engine: it has its own rights for readers.")
        remote = _open_remote(str(where), wanted)
        return _remembering(_fitting(remote, remote.name, wanted), None, remember)
    folder = resolved(where)
    check_plain(folder)
    if read_only and is_older(folder) and not has_database(folder):
        return _fitting(Index.load(folder), str(folder), wanted)
    check_free(folder)
    there = has_database(folder) or is_older(folder)
    if not there and (dimension is None or read_only):
        raise MissingDataError(
            f"`{folder}` must be the folder of an index, there is none. Pass `dimension` to make one.",
            argument="dimension",
        )
    if read_only:
        stored = SQLiteIndex.read(folder)
    else:
        stored = SQLiteIndex.write(folder, wanted)
    checked = _fitting(stored, str(folder), wanted)
    return checked if read_only else _remembering(checked, folder, remember)


def _remembering(index: Any, folder: Path | None, model: str | os.PathLike[str] | None) -> VectorIndex:
    """Note where the model lies: beside the index or not, a folder moves with its neighbors."""
    if model is not None and index.made_by is None:
        there = Path(model).expanduser().resolve()
        path = str(there) if folder is None else Path(os.path.relpath(there, folder)).as_posix()
        try:
            index.remember({"name": there.name, "path": path, "fingerprint": index.fingerprint})
        except BaseException:
            index.close()
            raise
    return index


def model_of(index: VectorIndex, where: str | os.PathLike[str]) -> Path:
    """The folder of the model that made the index at `where`."""
    noted = index.made_by
    path = noted.get("path") if isinstance(noted, dict) else None
    if not isinstance(path, str):
        raise MissingDataError(f"`{where}` does not say which model made it. Name the model (`model=`).")
    there = Path(path) if "://" in str(where) else Path(os.path.normpath(resolved(where) / path))
    if not there.exists():
        raise MissingDataError(
            f"`{where}` was made by the model `{there}`, which is not there. Name the model too (`model=`)."
        )
    return there


def _open_remote(where: str, wanted: Wanted) -> Any:
    if where.startswith("milvus"):
        from nearer.index._milvus import MilvusIndex

        return MilvusIndex.open(where, wanted)
    from nearer.index._postgres import PostgresIndex

    return PostgresIndex.open(where, wanted)


def _fitting(index: VectorIndex, name: str, wanted: Wanted) -> VectorIndex:
    try:
        check_fits(index, name, wanted)
    except BaseException:
        index.close()
        raise
    return index


def check_fits(index: VectorIndex, name: str, wanted: Wanted) -> None:
    """Refuse an index that is not the one that was asked for."""
    dimension, similarity, fingerprint = wanted.dimension, wanted.similarity, wanted.fingerprint
    if dimension is not None and dimension != index.dimension:
        raise ShapeError(f"`dimension` must be {index.dimension}, that of the index `{name}`, got {dimension}.")
    if similarity is not None and similarity != index.similarity:
        raise ParameterError(f"`similarity` must be {index.similarity!r}, that of `{name}`, got {similarity!r}.")
    if fingerprint is not None and index.fingerprint is not None and fingerprint != index.fingerprint:
        raise ParameterError(
            f"`{name}` holds embeddings of another model ({index.fingerprint}), got {fingerprint}. Open it "
            f"with the model that made it, or build an index for this one."
        )
