"""An index of bits: the signs of embeddings, searched with queries that keep their floats.

An item is one bit for each column, thirty-two times less than floats. A search finds candidates by the Hamming
distance to the signs of the query, which one instruction counts, and orders them by the query itself: the inner
product of its floats with the ±1 of the item. The bits of a million items of 128 columns are 16 MB.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._checks import check_int
from nearer._storage import read_folder, write_folder
from nearer._validation import as_matrix
from nearer.exceptions import CorruptFileError, ParameterError
from nearer.index._fields import note_of
from nearer.index._filters import as_condition
from nearer.index._items import Id, Items, is_id
from nearer.index._notes import Metadata
from nearer.index._vector_index import SearchResult, found_items
from nearer.neighbors._shared import load_faiss

Bits = NDArray[np.uint8]
FORMAT, VERSION = "nearer.index.bits", 1
# Candidates for each wanted item; on trained codes 10 find what comparing all of them finds.
CANDIDATES, LEAST = 10, 100


class BitIndex:
    """The signs of embeddings (n, dimension) with ids and metadata; `dimension` is a multiple of 8.

    Similarities are cosines between the query and the ±1 of an item: `q·b / (|q| √d)`. Train for it with
    `losses.BinaryLoss`, or take the signs of `geometry.itq`. `exact=True` in a search compares the floats of the
    query with every item instead of the nearest by Hamming distance.

    >>> index = BitIndex(8)
    >>> east = np.array([9.0, 9, 9, 9, -9, -9, -9, -9])
    >>> index.add([east, -east], ids=["east", "west"])
    ['east', 'west']
    >>> index.search([east + 1], k=1).ids.tolist()
    [['east']]

    Args:
        dimension: bits of an item, a multiple of 8.
    """

    similarity = "cosine"

    def __init__(self, dimension: int) -> None:
        self.dimension = check_int(dimension, "dimension", minimum=8)
        if self.dimension % 8:
            raise ParameterError(f"`dimension` must be a multiple of 8, got {dimension}. Bits come in bytes.")
        self._items = Items()
        self._bits: Bits = np.zeros((0, self.dimension // 8), dtype=np.uint8)
        self._flat: Any = None  # faiss's copy of the bits, made at the first search after a change

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item_id: object) -> bool:
        return is_id(item_id) and item_id in self._items.places

    def __repr__(self) -> str:
        return f"BitIndex({len(self):,} × {self.dimension} bits)"

    @property
    def ids(self) -> list[Id]:
        """The ids of all items, in order of insertion."""
        return list(self._items.ids)

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """How many items there are, or have these metadata values."""
        condition = as_condition(where)
        return len(self) if condition is None else int(self._items.where(condition).sum())

    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None) -> list[Id]:
        """Add the signs of rows (n, dimension), all of them or on an error none; 0 counts as positive."""
        rows = as_matrix(embeddings, "embeddings", columns=self.dimension, minimum_rows=0).detach().cpu().numpy()
        fresh, notes = self._items.checked(len(rows), ids, metadata)
        self._bits = np.concatenate([self._bits, np.packbits(rows >= 0, axis=1)])
        self._items.append(fresh, notes)
        self._flat = None
        return fresh

    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None) -> list[Id]:
        """Add items, or put them in the place of those with the same ids; may be repeated."""
        rows = as_matrix(embeddings, "embeddings", columns=self.dimension, minimum_rows=0)
        fresh, _ = self._items.checked(len(rows), ids, metadata, replacing=True)
        known = [item_id for item_id in fresh if item_id in self._items.places]
        if known:
            self.remove(known)
        return self.add(rows, fresh, metadata)

    def remove(self, ids: Any) -> int:
        """Remove items by id and return how many; on an unknown id nothing is removed."""
        places = sorted(set(self._items.find(ids)))
        kept = np.ones(len(self), dtype=np.bool_)
        kept[places] = False
        self._bits = self._bits[kept]
        self._items.keep(kept)
        self._flat = None
        return len(places)

    def search(
        self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None, exact: bool = False
    ) -> SearchResult:
        """The k most similar items of each query (q, dimension), best first, equal ones in order of insertion."""
        k = check_int(k, "k")
        rows = as_matrix(queries, "queries", columns=self.dimension, minimum_rows=0).detach().cpu().numpy()
        rows = rows.astype(np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not lengths.all():
            raise ParameterError(
                f"`queries` must not hold rows of zeros, which have no direction: row {int(lengths.argmin())}."
            )
        rows = rows / lengths
        condition = as_condition(where)
        allowed = np.arange(len(self)) if condition is None else np.flatnonzero(self._items.where(condition))
        k = min(k, len(allowed))
        values = np.zeros((len(rows), k), dtype=np.float32)
        places = np.zeros((len(rows), k), dtype=np.int64)
        if k and len(rows):
            near = None if exact else self._nearest(rows, allowed, max(LEAST, CANDIDATES * k))
            for number, row in enumerate(rows):
                candidates = allowed if near is None else np.sort(allowed[near[number]])
                scores = self._signs(candidates) @ row / np.float32(np.sqrt(self.dimension))
                best = np.argsort(-scores, kind="stable")[:k]
                values[number], places[number] = scores[best], candidates[best]
        return found_items(self._items, places, values, "cosine")

    def _nearest(
        self, rows: NDArray[np.float32], allowed: NDArray[np.int64], wanted: int
    ) -> NDArray[np.int64] | None:
        """Places in `allowed` of the items whose bits differ least from the signs of each row, (q, c)."""
        if wanted >= len(allowed):
            return None
        flat = self._flat if len(allowed) == len(self) else None
        if flat is None:
            flat = load_faiss().IndexBinaryFlat(self.dimension)
            flat.add(np.ascontiguousarray(self._bits if len(allowed) == len(self) else self._bits[allowed]))
            if len(allowed) == len(self):
                self._flat = flat
        return flat.search(np.packbits(rows >= 0, axis=1), wanted)[1]

    def _signs(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.unpackbits(self._bits[places], axis=1).astype(np.float32) * 2 - 1

    def embeddings(self, ids: Any) -> Tensor:
        """The ±1 of some ids: (n, dimension)."""
        return torch.from_numpy(self._signs(np.array(self._items.find(ids), dtype=np.int64)))

    def metadata(self, ids: Any) -> list[Metadata]:
        """The metadata of some ids, a dictionary for each."""
        return [note_of(self._items.texts[position]) for position in self._items.find(ids)]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `BitIndex.load` reads; the whole of it or nothing."""
        return write_folder(
            path,
            format=FORMAT,
            version=VERSION,
            tensors={"bits": {"bits": torch.from_numpy(self._bits)}},
            documents={"items": {"ids": self._items.ids, "metadata": list(map(note_of, self._items.texts))}},
            metadata={"dimension": self.dimension, "next_id": self._items.next_id},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an index from its folder; every byte is checked first."""
        folder = read_folder(path, format=FORMAT, version=VERSION)
        try:
            made = cls(folder.metadata["dimension"])
            bits = folder.tensors["bits"]["bits"].numpy()
            items = folder.documents["items"]
            fresh, notes = made._items.checked(len(items["ids"]), items["ids"], items["metadata"])
            if bits.dtype != np.uint8 or bits.shape != (len(fresh), made.dimension // 8):
                raise ValueError(f"bits of shape {bits.shape} do not fit {len(fresh)} items")
            made._bits = bits
            made._items.append(fresh, notes)
            made._items.next_id = max(
                made._items.next_id, check_int(folder.metadata["next_id"], "next_id", minimum=0)
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"`{os.fspath(path)}` must hold an index of bits: {error}.") from error
        return made
