"""An index as a folder: vectors and structure as tensors, ids and metadata as JSON.

The graph of an HNSW index takes long to build and is stored; the cells of an IVF index are found again from their
centres in a moment. faiss's own file format is not used: its reader trusts the file.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nearer._checks import check_int, check_number
from nearer._storage import Folder, read_folder, write_folder
from nearer.exceptions import CorruptFileError
from nearer.index._approximate import restore
from nearer.index._kinds import HNSW, IVF, IVFPQ, Exact, Kind, Recall

if TYPE_CHECKING:
    from nearer.index._index import Index

__all__: list[str] = []

FORMAT = "nearer.index"
VERSION = 1
KINDS: dict[str, type[Kind]] = {kind.__name__: kind for kind in (Exact, HNSW, IVF, IVFPQ)}


def save(index: Index, path: str | os.PathLike[str]) -> Path:
    """Write an index without gaps as a folder; the whole of it or nothing."""
    tensors = {
        "vectors": {"vectors": torch.from_numpy(index._vectors), "offset": torch.from_numpy(index._offset)},
    }
    metadata: dict[str, Any] = {
        "dimension": index.dimension,
        "similarity": index.similarity,
        "kind": type(index.kind).__name__,
        "settings": asdict(index.kind),
        "items": len(index),
        "next_id": index._items.next_id,
    }
    if index._structure is not None:
        tensors["structure"] = index._structure.tensors()
        metadata["trained_on"] = index._structure.trained_on
        metadata["recall"] = None if index.recall is None else asdict(index.recall)
    return write_folder(
        path,
        format=FORMAT,
        version=VERSION,
        tensors=tensors,
        documents={"items": {"ids": index._items.ids, "metadata": index._items.metadata}},
        metadata=metadata,
    )


def load(cls: type[Index], path: str | os.PathLike[str]) -> Index:
    """Read an index from its folder."""
    content = read_folder(path, format=FORMAT, version=VERSION)
    try:
        return _assemble(cls, content)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RuntimeError) as error:
        raise CorruptFileError(
            f"`{os.fspath(path)}` must hold an index whose parts fit together: {error}. "
            f"Save it again, or update nearer if a newer one wrote it."
        ) from error


def _assemble(cls: type[Index], content: Folder) -> Index:
    about, listed = content.metadata, content.documents["items"]
    kind = KINDS[about["kind"]](**about["settings"])
    vectors = content.tensors["vectors"]["vectors"].numpy()
    offset = content.tensors["vectors"]["offset"].numpy()
    n = check_int(about["items"], "items", minimum=0)
    # Compared before anything is made of that size: the number alone could ask for all memory.
    if vectors.ndim != 2 or vectors.shape[1] != about["dimension"]:
        raise CorruptFileError(f"the vectors must have {about['dimension']!r} columns, got shape {vectors.shape}")
    index = cls(about["dimension"], similarity=about["similarity"], kind=kind)
    if vectors.shape != (n, index.dimension) or vectors.dtype != np.float32 or not np.isfinite(vectors).all():
        raise CorruptFileError(f"the vectors must be {n} × {index.dimension} finite float32, got {vectors.shape}")
    if offset.shape != (index.dimension,) or offset.dtype != np.float32 or not np.isfinite(offset).all():
        raise CorruptFileError(f"the offset must be {index.dimension} finite float32, got {offset.shape}")
    ids, _ = index._items.checked(n, listed["ids"], None)
    notes = listed["metadata"]
    if not isinstance(notes, list) or len(notes) != n or not all(isinstance(note, dict) for note in notes):
        raise CorruptFileError(f"the metadata must be {n} dictionaries")
    index._items.append(ids, notes)
    next_id = check_int(about["next_id"], "next_id", minimum=-(1 << 63), maximum=1 << 63)
    index._items.next_id = max(index._items.next_id, next_id)
    index._buffer, index._offset = vectors, offset
    index._alive = np.ones(n, dtype=np.bool_)
    index._longest = float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max(initial=0.0)))
    if "structure" in content.tensors and not isinstance(kind, Exact):
        index._structure = restore(
            kind,
            vectors,
            content.tensors["structure"],
            similarity=index.similarity,
            trained_on=check_int(about["trained_on"], "trained_on", minimum=0),
        )
        index._structure.recall = None if about["recall"] is None else _recall(**about["recall"])
    return index


def _recall(value: Any, k: Any, queries: Any, size: Any) -> Recall:
    counts = (check_int(k, "k"), check_int(queries, "queries", minimum=0), check_int(size, "size", minimum=0))
    return Recall(check_number(value, "value", minimum=0, maximum=1), *counts)
