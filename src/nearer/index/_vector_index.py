"""What every index can do, wherever it lives, and what a search returns."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nearer._plain import Floats, Positions
from nearer.exceptions import NearerError
from nearer.index._fields import note_of
from nearer.index._items import Id, Items
from nearer.index._notes import Metadata
from nearer.neighbors._shared import Similarity

# Queries that a notebook shows.
SHOWN = 10


class Hit(NamedTuple):
    """One found item."""

    id: Id
    similarity: float
    metadata: Metadata


@dataclass(frozen=True)
class SearchResult:
    """The found items, one row per query, best first: ids, similarities and metadata of shape (q, k).

    `ids` is an array of int64, or of text (dtype object). `result[i]` is the list of hits of query i.

    >>> from nearer.index import Index
    >>> index = Index(1)
    >>> _ = index.add([[0.0], [1.0]], ids=["zero", "one"])
    >>> result = index.search([[0.9]], k=1)
    >>> result.ids.tolist(), result[0][0].id
    ([['one']], 'one')
    """

    ids: NDArray[Any]
    similarities: Floats
    metadata: list[list[Metadata]]
    similarity: Similarity

    @property
    def distances(self) -> Floats:
        """Down = closer: the Euclidean distance, 1 − cosine, or minus the inner product."""
        return 1 - self.similarities if self.similarity == "cosine" else -self.similarities

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, query: int) -> list[Hit]:
        row = zip(self.ids[query].tolist(), self.similarities[query].tolist(), self.metadata[query], strict=True)
        return [Hit(*hit) for hit in row]

    def __iter__(self) -> Iterator[list[Hit]]:
        return (self[query] for query in range(len(self)))

    def _repr_html_(self) -> str:
        """What a notebook shows: the hits of the first queries with their metadata, and photos that are on disk."""
        from nearer._notebook import html_table

        hits = [
            (query, rank, hit) for query in range(min(len(self), SHOWN)) for rank, hit in enumerate(self[query], 1)
        ]
        names = list(dict.fromkeys(name for _, _, hit in hits for name in hit.metadata or {}))
        drawn = {number: seen for number, (_, _, hit) in enumerate(hits) if (seen := _photo(hit.metadata))}
        rows = [
            [
                *([drawn.get(number, "")] if drawn else []),
                *(query, rank, hit.id, -hit.similarity if self.similarity == "euclidean" else hit.similarity),
                *((hit.metadata or {}).get(name, "") for name in names),
            ]
            for number, (query, rank, hit) in enumerate(hits)
        ]
        near = "distance" if self.similarity == "euclidean" else self.similarity
        rest = [f"{SHOWN} of {len(self):,} queries"] if len(self) > SHOWN else []
        return html_table([*([""] if drawn else []), "query", "rank", "id", near, *names], rows, foot=rest)


def found_items(items: Items, places: Positions, values: Floats, similarity: Similarity) -> SearchResult:
    """What is at some places (q, k) of the items of an index."""
    ids: NDArray[Any] = np.empty(places.size, dtype=object if items.named else np.int64)
    ids[:] = [items.ids[place] for place in places.reshape(-1).tolist()]
    notes = [[note_of(items.texts[place]) for place in row] for row in places.tolist()]
    return SearchResult(ids.reshape(places.shape), values, notes, similarity)


def _photo(metadata: Metadata) -> str | None:
    """A small picture of the file that an item names, None where there is none to see."""
    from nearer._notebook import picture
    from nearer.datasets._image_files import IMAGES, load_image

    name = (metadata or {}).get("file")
    # A name may be too long, or have a character that none has.
    with contextlib.suppress(NearerError, OSError, ValueError):
        if isinstance(name, str) and name.lower().endswith(IMAGES) and Path(name).is_file():
            return picture(load_image(name, enough=96), Path(name).name)
    return None


class VectorIndex(ABC):
    """What every index can do: the same ids, similarities and order from each, and closed at the end of a `with`.

    `similarity`, `dimension`, `fingerprint` (of the model that made the embeddings, or None) and `made_by` (the
    name of that model and where it lies, or None) say what is in it.

    >>> from nearer.index import Index
    >>> index: VectorIndex = Index(2)
    >>> index.dimension, index.similarity
    (2, 'euclidean')
    """

    dimension: int
    similarity: Similarity
    fingerprint: str | None
    made_by: dict[str, Any] | None

    @abstractmethod
    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None) -> list[Id]:
        """Add new items: all of them, or on an error none."""

    @abstractmethod
    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None) -> list[Id]:
        """Add items or put them in the place of those with the same ids; may be repeated."""

    @abstractmethod
    def remove(self, ids: Any) -> int:
        """Remove known items."""

    @abstractmethod
    def search(self, queries: Any, k: int = 10, *, where: Any = None) -> SearchResult:
        """The k most similar items of each query, equal ones in order of insertion."""

    @abstractmethod
    def count(self, where: Any = None) -> int:
        """How many items there are, or have these metadata values."""

    @abstractmethod
    def embeddings(self, ids: Any) -> Tensor:
        """The stored rows of known items."""

    @abstractmethod
    def metadata(self, ids: Any) -> list[dict[str, Any]]:
        """The metadata of known items."""

    @property
    @abstractmethod
    def ids(self) -> list[Id]:
        """All ids, in order of insertion."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, item_id: object) -> bool: ...

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()
