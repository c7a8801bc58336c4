"""An index: embeddings with ids and metadata, searched exactly or approximately, saved as a folder."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._checks import check_choice, check_int
from nearer._plain import Floats, Positions
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError
from nearer.index._approximate import SMALL, Structure, build, recall_of, warn_if_poor
from nearer.index._fields import note_of
from nearer.index._filters import Condition, as_condition
from nearer.index._items import Id, Items, is_id
from nearer.index._kinds import HNSW, IVF, IVFPQ, Exact, Recall, SearchKind
from nearer.index._notes import Metadata
from nearer.index._rows import LONGEST, WIDEST, Change, center_of, checked_lengths, exact_search, kept_rows
from nearer.index._vector_index import SearchResult, VectorIndex, found_items
from nearer.neighbors._shared import Similarity

# Share of removed items above which a structure is built again without them.
STALE = 0.25
# Removed items that an exact search steps over without a thought.
GAPS = 64


class Index(VectorIndex):
    """Embeddings (n, dimension) with ids and metadata, and the search over them.

    `similarity` is "euclidean" (minus the distance), "cosine" (rows are kept at length one) or "dot". Vectors are
    kept in single precision. Adding and removing is for one thread at a time; searching for any number of them.

    >>> index = Index(2)
    >>> index.add([[1, 0], [0, 1], [1, 1]], ids=["east", "north", "between"])
    ['east', 'north', 'between']
    >>> index.search([[2, 1]], k=2).ids.tolist()
    [['between', 'east']]

    Args:
        dimension: columns of an embedding.
        similarity: "euclidean", "cosine" or "dot".
        kind: `Exact`, `IVF`, `IVFPQ` or `HNSW`; exact if None.
    """

    def __init__(
        self, dimension: int, *, similarity: Similarity = "euclidean", kind: SearchKind | None = None
    ) -> None:
        self._set(dimension, similarity, kind)
        self._auto = False  # the kind is chosen by the size
        # The recall that a build reaches by itself with more probes; None leaves the settings as they are.
        self._target: float | None = None
        self.fingerprint: str | None = None
        self.made_by: dict[str, Any] | None = None

    def _set(self, dimension: int, similarity: Similarity, kind: SearchKind | None) -> None:
        """Begin empty."""
        self.dimension = check_int(dimension, "dimension", maximum=WIDEST)
        check_choice(similarity, "similarity", ["cosine", "dot", "euclidean"])
        self.similarity: Similarity = similarity
        self.kind: SearchKind = Exact() if kind is None else kind
        if not isinstance(self.kind, Exact | HNSW | IVF | IVFPQ):
            raise ParameterError(f"`kind` must be Exact(), HNSW(...), IVF(...) or IVFPQ(...), got {kind!r}.")
        self._items = Items()
        self._buffer: Floats = np.empty((0, self.dimension), dtype=np.float32)
        self._alive: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._removed = 0
        self._offset: Floats = np.zeros(self.dimension, dtype=np.float32)
        self._longest = 0.0
        self._structure: Structure | None = None

    def close(self) -> None:
        """Nothing to give back; indexes in folders and data bases have."""

    def __len__(self) -> int:
        return len(self._items) - self._removed

    def __contains__(self, item_id: object) -> bool:
        return is_id(item_id) and item_id in self._items.places

    def __repr__(self) -> str:
        measured = f", {self.recall}" if self.recall is not None else ""
        return f"Index({len(self):,} × {self.dimension}, {self.similarity}, {self.kind}{measured})"

    @property
    def ids(self) -> list[Id]:
        """The ids of all items, in order of insertion."""
        return list(self._items.places)

    @property
    def next_id(self) -> int:
        """The number that the next item without an id gets."""
        return self._items.next_id

    @property
    def recall(self) -> Recall | None:
        """The recall of the approximate structure, measured with held-out items at its build; None if exact."""
        return None if self._structure is None else self._structure.recall

    def add(self, embeddings: Any, ids: Any = None, metadata: Any = None) -> list[Id]:
        """Add rows (n, dimension) and return their ids; all of them or, on an error, none.

        Without `ids` the items are numbered on. `metadata` is a list of JSON dictionaries, a dictionary of columns
        or a DataFrame. No rows change nothing.

        >>> Index(2).add([[3, 4]], metadata={"name": ["five"]})
        [0]
        """
        change = self._change(embeddings, ids, metadata)
        self._take(change)
        return change.ids

    def upsert(self, embeddings: Any, ids: Any, metadata: Any = None) -> list[Id]:
        """Add rows (n, dimension), in the place of those with the same ids; all of them or, on an error, none.

        A replaced item counts as inserted now. The same call may be repeated: it changes nothing but the order.

        >>> index = Index(1)
        >>> _ = index.add([[1], [2]])
        >>> index.upsert([[5]], [0]), len(index), index.embeddings([0]).tolist()
        ([0], 2, [[5.0]])
        """
        change = self._change(embeddings, ids, metadata, replacing=True)
        self._take(change)
        return change.ids

    def _change(self, embeddings: Any, ids: Any, metadata: Any, *, replacing: bool = False) -> Change:
        """Everything that can be wrong with new items is found here, before anything is changed."""
        given, lengths = self._given(embeddings)
        if replacing and ids is None:
            raise ParameterError("`ids` must be given: upsert replaces the items that have them.")
        fresh, notes = self._items.checked(len(given), ids, metadata, replacing=replacing)
        first = bool(fresh) and not self._items.ids and self.similarity == "euclidean"
        offset = center_of(given, "embeddings") if first else self._offset
        return Change(fresh, notes, kept_rows(given, lengths, self.similarity, offset), offset)

    def _given(self, embeddings: Any) -> tuple[NDArray[np.floating], NDArray[np.float64] | None]:
        """Checked rows, and their lengths if they are needed."""
        plain = type(embeddings) is np.ndarray and embeddings.dtype == np.float32 and self.similarity != "cosine"
        fits = plain and embeddings.ndim == 2 and embeddings.shape[1] == self.dimension
        # One row at a time is how a service adds: what is right already is not converted. Rows of which one is not
        # finite have no finite length.
        if fits and np.vdot(embeddings, embeddings) < LONGEST**2:
            return embeddings, None
        given = as_matrix(embeddings, "embeddings", columns=self.dimension, minimum_rows=0).detach().cpu().numpy()
        return given, checked_lengths(given, self.similarity, "embeddings")

    def _take(self, change: Change) -> None:
        """Put checked items in, after those that they replace have gone."""
        fresh, notes, numbers, offset = change
        if not fresh:
            return
        known = [self._items.places[item_id] for item_id in fresh if item_id in self._items.places]
        if known:
            self._drop(sorted(known))
        start = len(self._items)
        end = start + len(fresh)
        if not start:
            self._offset = offset
        if end > len(self._buffer):
            # Half as much again, so that adding one by one does not copy everything each time.
            self._make_room(end if not start else max(end, start + start // 2))
        self._buffer[start:end] = numbers
        self._longest = max(self._longest, _longest(numbers))
        self._alive = self._longer_alive(end)
        self._items.append(fresh, notes)
        self._extend_structure(start)

    def _longer_alive(self, end: int) -> NDArray[np.bool_]:
        """The marks of all items, the new ones alive; with room for more, or each add would copy all of them."""
        start, room = len(self._alive), self._alive.base
        if not isinstance(room, np.ndarray) or room.dtype != np.bool_ or len(room) < end:
            room = np.ones(max(end, start + start // 2), dtype=np.bool_)
            room[:start] = self._alive
        room[start:end] = True
        return room[:end]

    def _make_room(self, rows: int) -> None:
        room = np.empty((rows, self.dimension), dtype=np.float32)
        room[: len(self._items)] = self._vectors
        self._buffer = room

    def remove(self, ids: Any) -> int:
        """Remove items by id and return how many; on an unknown id nothing is removed.

        They are marked; when there are too many of them, the index closes the gaps.

        >>> index = Index(1, similarity="dot")
        >>> _ = index.add([[1], [2], [3]])
        >>> index.remove([1]), index.ids
        (1, [0, 2])
        """
        positions = sorted(set(self._items.find(ids)))
        self._drop(positions)
        return len(positions)

    def _drop(self, positions: list[int]) -> None:
        if not positions:
            return
        self._items.forget(positions)
        # A new array: a search that has begun goes on with the old one.
        alive = self._alive.copy()
        alive[positions] = False
        self._alive = alive
        self._removed += len(positions)
        if self._closes(0):
            self._close_gaps()

    def _closes(self, more: int) -> bool:
        """Whether the gaps are closed when so many more items are removed."""
        removed, n = self._removed + more, len(self._items)
        # An exact search fetches as many more as there are gaps, so they must stay few.
        return removed > (max(GAPS, n // 50) if self._structure is None else STALE * n) or removed == n

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """How many items there are, or have these metadata values.

        >>> index = Index(1)
        >>> _ = index.add([[1], [2]], metadata={"odd": [True, False]})
        >>> index.count(), index.count({"odd": True})
        (2, 1)
        """
        condition = as_condition(where)
        return len(self) if condition is None else int((self._alive & self._items.where(condition)).sum())

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None) -> SearchResult:
        """The k most similar items of each query (q, dimension), best first.

        Equal similarities come in order of insertion. With fewer than k items the result has fewer columns, down
        to none. An approximate index computes the similarities of what it found exactly, and falls back to exact
        search where it found fewer than k items or where a condition leaves less than half of them.

        `where` keeps only items whose metadata fit: `{"color": "red", "year": {"$gte": 2000}}`, with $in, $nin,
        $ne, $gt, $gte, $lt, $lte, $and and $or. Values keep their kind, and a field that no item has is an error.

        >>> index = Index(1, similarity="euclidean")
        >>> _ = index.add([[1], [5], [6]], metadata={"odd": [True, True, False]})
        >>> index.search([[4]], k=9).distances.tolist(), index.search([[4]], where={"odd": False})[0]
        ([[1.0, 2.0, 3.0]], [Hit(id=2, similarity=-2.0, metadata={'odd': False})])
        """
        k = check_int(k, "k")
        rows = as_matrix(queries, "queries", columns=self.dimension, minimum_rows=0)
        values, positions = self._search(self._numbers(rows, "queries"), k, as_condition(where))
        return found_items(self._items, positions, values, self.similarity)

    def embeddings(self, ids: Any) -> Tensor:
        """The stored vectors of some ids, in single precision and for "cosine" of length one: (n, dimension)."""
        return torch.from_numpy(self._buffer[self._items.find(ids)] + self._offset)

    def fields(self) -> dict[str, set[str]]:
        """The fields that the metadata have, and the kinds of their values: text, numbers, truth values ...

        >>> index = Index(1)
        >>> _ = index.add([[1]], metadata=[{"year": 1999}])
        >>> index.fields()
        {'year': {'numbers'}}
        """
        return {name: set(kinds) for name, kinds in self._items.fields.kinds.items()}

    def metadata(self, ids: Any) -> list[Metadata]:
        """The metadata of some ids, a dictionary for each."""
        return [note_of(self._items.texts[position]) for position in self._items.find(ids)]

    def recall_estimate(self, queries: Any, *, k: int = 10) -> Recall:
        """The share of the true k nearest that this index finds for given queries; 1 for an exact index.

        Pass queries that are not in the index: a graph finds the neighbours of its own items more easily than
        those of new ones.

        >>> index = Index(1)
        >>> _ = index.add([[1], [-1]])
        >>> index.recall_estimate([[2]]).value
        1.0
        """
        k = min(check_int(k, "k"), len(self))
        numbers = self._numbers(as_matrix(queries, "queries", columns=self.dimension), "queries")
        if k == 0:
            raise ParameterError("The index must hold an item before its recall can be measured, it is empty.")
        true, _ = self._search_exactly(numbers, k, self._alive)
        return Recall(recall_of(self._search(numbers, k, None)[0], true), k, len(numbers), len(self))

    def rebuild(self) -> None:
        """Build the structure again from the items that are left, and measure its recall.

        It happens by itself when a quarter of the items is gone; an exact index only closes its gaps.
        """
        self._close_gaps()

    def compacted(self) -> Index:
        """A copy in memory without gaps, with a structure of its own."""
        other = Index(self.dimension, similarity=self.similarity, kind=self.kind)
        other.fingerprint, other.made_by = self.fingerprint, self.made_by
        other._auto, other._target = self._auto, self._target
        other._offset, other._longest = self._offset, self._longest
        other._items, other._buffer = self._items.kept(self._alive), self._vectors[self._alive]
        other._alive = np.ones(len(other._items), dtype=np.bool_)
        other._close_gaps()
        return other

    def _close_gaps(self) -> None:
        if self._removed:
            self._buffer = self._vectors[self._alive]
            self._items.keep(self._alive)
            self._alive = np.ones(len(self._items), dtype=np.bool_)
            self._removed = 0
        self._structure = None
        if not isinstance(self.kind, Exact) and len(self._items) >= SMALL:
            self._structure = build(self.kind, self._vectors, similarity=self.similarity, target=self._target)
            self.kind = self._structure.kind
            warn_if_poor(self.kind, self._structure.recall)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `Index.load` and `open_index` read: this index, whole, in the place of an older one.

        It is one transaction of its database: a reader sees the older index or this one, and so does everybody
        after a kill or on a full disk. Removed items are not written.
        """
        from nearer.index._saving import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Index:
        """Read an index from its folder into memory; every item is compared with its checksum.

        >>> import tempfile
        >>> index = Index(2)
        >>> _ = index.add([[3, 4]], ids=["a"])
        >>> Index.load(index.save(tempfile.mkdtemp() + "/index"))
        Index(1 × 2, euclidean, Exact())
        """
        from nearer.index._saving import load

        return load(cls(1), path)

    @property
    def _vectors(self) -> Floats:
        return self._buffer[: len(self._items)]

    def _numbers(self, rows: Tensor, name: str) -> Floats:
        """Checked queries as the index keeps its rows."""
        given = rows.detach().cpu().numpy()
        return kept_rows(given, checked_lengths(given, self.similarity, name), self.similarity, self._offset)

    def _search(self, queries: Floats, k: int, where: Condition | None) -> tuple[Floats, Positions]:
        allowed = self._alive if where is None else self._alive & self._items.where(where)
        left = int(allowed.sum())
        k = min(k, left)
        if self._structure is None or 2 * left < len(self) or k == 0:
            return self._search_exactly(queries, k, allowed)
        every = None if left == len(allowed) else allowed
        values, positions = self._structure.search(queries, self._vectors, k, every)
        short = (positions < 0).any(axis=1)
        if short.any():
            values[short], positions[short] = self._search_exactly(queries[short], k, allowed)
        return values, positions

    def _search_exactly(self, queries: Floats, k: int, allowed: NDArray[np.bool_]) -> tuple[Floats, Positions]:
        vectors = self._buffer[: len(allowed)]
        gaps = len(allowed) - int(allowed.sum())
        if gaps <= GAPS or (k and 50 * gaps <= len(allowed) and gaps <= 4 * (GAPS + k)):
            # A copy without the gaps costs more than a few more candidates.
            values, positions = exact_search(
                queries, vectors, k + gaps, similarity=self.similarity, longest=self._longest
            )
            return (values, positions) if not gaps else _without(values, positions, allowed, k)
        places = np.flatnonzero(allowed)
        values, numbers = exact_search(
            queries, vectors[places], k, similarity=self.similarity, longest=self._longest
        )
        return values, places[numbers]

    def _extend_structure(self, start: int) -> None:
        structure, n = self._structure, len(self._items)
        if isinstance(self.kind, Exact) or (structure is None and n < SMALL):
            return
        if structure is None or (isinstance(self.kind, IVF | IVFPQ) and n >= 4 * structure.trained_on):
            self._close_gaps()
            return
        due = n - start >= 100 and (structure.recall is None or n >= 2 * structure.recall.size)
        structure.add(self._vectors, np.arange(start, n), measure=due)
        if due:
            warn_if_poor(self.kind, structure.recall)


def _without(values: Floats, positions: Positions, allowed: NDArray[np.bool_], k: int) -> tuple[Floats, Positions]:
    """The first k allowed ones of each row; there are at least k in each."""
    order = np.argsort(~allowed[positions], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(positions, order, axis=1)


def _longest(numbers: Floats) -> float:
    if len(numbers) == 1:
        wide = numbers.astype(np.float64)
        return math.sqrt(np.vdot(wide, wide))
    return math.sqrt(np.einsum("nd,nd->n", numbers, numbers, dtype=np.float64).max())
