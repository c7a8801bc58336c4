"""What the engines behind a connection share: the same checks, similarities and order as an index in memory.

An engine finds candidates, a few more than k, in its own single-precision arithmetic. Their similarities are
computed again in double precision from the rows that come with them, and equal ones are ordered by when they were
inserted. Where the last candidate is as near as the k-th could be, more are fetched, so that ties are never cut by
accident.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nearer._checks import check_choice, check_int
from nearer._plain import Floats
from nearer._validation import as_matrix
from nearer.exceptions import CorruptFileError, LostWorkerError, ParameterError
from nearer.index._fields import Kinds, kinds_from
from nearer.index._filters import Condition, as_condition, check_condition
from nearer.index._items import Id, Items, as_ids, check_next_id, is_id
from nearer.index._kinds import kind_from
from nearer.index._notes import Metadata
from nearer.index._rows import Change, checked_lengths, kept_rows
from nearer.index._vector_index import SearchResult, VectorIndex
from nearer.neighbors._shared import Similarity, best_first, similarities

ROUNDING = 2.0**-24


class Candidates(NamedTuple):
    """What an engine found for one query, in any order: `more` tells whether it may have left something out."""

    ids: list[Id]
    metadata: list[Metadata]
    order: list[int]
    rows: Floats
    more: bool


class RemoteIndex(VectorIndex):
    """An index in an engine; one connection, used by one thread at a time."""

    def __init__(self, name: str, about: Mapping[str, Any]) -> None:
        self.name = name
        self.dimension: int = about["dimension"]
        self.similarity: Similarity = about["similarity"]
        self.kind = kind_from(about)
        self.fingerprint: str | None = about["fingerprint"]
        self.made_by: dict[str, Any] | None = about.get("model")
        self._kinds: Kinds = {}  # of the fields, as far as they were seen
        self._one_at_a_time = threading.RLock()

    def __repr__(self) -> str:
        kind = f"{len(self):,} × {self.dimension}, {self.similarity}, {self.kind}"
        return f"{type(self).__name__}({self.name}, {kind})"

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, item_id: object) -> bool:
        return is_id(item_id) and bool(self._known([item_id if isinstance(item_id, str) else int(item_id)]))

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None) -> SearchResult:
        """As `Index.search`: the k most similar items of each query, equal ones in order of insertion."""
        wanted = check_int(k, "k")
        rows = self._kept(as_matrix(queries, "queries", columns=self.dimension, minimum_rows=0), "queries")
        condition = self._condition(where)
        answers: list[tuple[Candidates, Floats, Any]] = []
        with self._one_at_a_time:
            # Two more tell whether the border cuts through a tie; more would only have to be sent.
            fetch = wanted + 2 + wanted // 8
            for query, candidates in zip(rows, self._candidates(rows, fetch, condition), strict=True):
                number = fetch
                values, places = self._ranked(query, candidates)
                while candidates.more and self._is_cut(query, candidates.rows, values, wanted):
                    number *= 8
                    candidates = next(iter(self._candidates(query[None], number, condition)))
                    values, places = self._ranked(query, candidates)
                answers.append((candidates, values[:wanted], places[:wanted]))
        ids = [[candidates.ids[position] for position in places] for candidates, _, places in answers]
        shape = len(rows), len(ids[0]) if ids else 0
        named = bool(shape[1]) and isinstance(ids[0][0], str)
        table = np.array(ids, dtype=object if named else np.int64).reshape(shape)
        best = np.array([values for _, values, _ in answers], dtype=np.float32).reshape(shape)
        notes = [[candidates.metadata[position] for position in places] for candidates, _, places in answers]
        return SearchResult(table, best, notes, self.similarity)

    def embeddings(self, ids: Any) -> Tensor:
        """The stored rows of known items, (n, dimension)."""
        rows = np.array(self._of("embedding", ids), dtype=np.float32)
        return torch.from_numpy(rows.reshape(-1, self.dimension))

    def fields(self) -> dict[str, set[str]]:
        """As `Index.fields`."""
        with self._one_at_a_time:
            return {name: set(kinds) for name, kinds in kinds_from(self._about()["fields"]).items()}

    def metadata(self, ids: Any) -> list[Metadata]:
        """The metadata of known items, a dictionary for each."""
        return self._of("metadata", ids)

    def _of(self, column: str, ids: Any) -> list[Any]:
        wanted = as_ids(ids, "ids")
        with self._one_at_a_time:
            stored = self._column(column, wanted)
        _check_known(wanted, stored)
        return [stored[item_id] for item_id in wanted]

    def _condition(self, where: Mapping[str, Any] | None) -> Condition | None:
        """A condition whose fields the index has; where they are not known yet, the engine is asked."""
        condition = as_condition(where)
        if condition is not None:
            try:
                check_condition(condition, self._kinds)
            except ParameterError:
                # The fields of the metadata that were ever put in.
                self._kinds = kinds_from(self._about()["fields"])
                if self._kinds or len(self):
                    check_condition(condition, self._kinds)
        return condition

    def _change(
        self,
        embeddings: Any,
        ids: Any,
        metadata: Any,
        about: Mapping[str, Any],
        *,
        named: bool | None,
        replacing: bool = False,
    ) -> Change:
        """Checked items; known ids are left to the engine, which must refuse or replace them in one step."""
        rows = as_matrix(embeddings, "embeddings", columns=self.dimension, minimum_rows=0)
        if replacing and ids is None:
            raise ParameterError("`ids` must be given: upsert replaces the items that have them.")
        items = Items()
        items.next_id, items.fields.kinds = about["next_id"], kinds_from(about["fields"])
        if named is not None:
            items.ids = ["" if named else 0]  # of which kind the ids of the engine are
        fresh, notes = items.checked(len(rows), ids, metadata)
        return Change(fresh, notes, self._kept(rows, "embeddings"), np.zeros(self.dimension, dtype=np.float32))

    def _kept(self, rows: Tensor, name: str) -> Floats:
        given = rows.detach().cpu().numpy()
        lengths = checked_lengths(given, self.similarity, name)
        return kept_rows(given, lengths, self.similarity, np.zeros(self.dimension, dtype=np.float32))

    def _ranked(self, query: Floats, candidates: Candidates) -> tuple[Floats, list[int]]:
        if not candidates.ids:
            return np.empty(0, dtype=np.float32), []
        values = similarities(
            query[None], candidates.rows, np.arange(len(candidates.ids))[None], similarity=self.similarity
        )
        # Two writers of an engine without transactions can give out one place twice: then the ids decide.
        places = sorted(range(len(candidates.ids)), key=lambda at: (candidates.order[at], str(candidates.ids[at])))
        rank = np.empty((1, len(places)), dtype=np.int64)
        rank[0, places] = np.arange(len(places))
        ranked, inserted = best_first(values, rank)
        return ranked[0], [places[number] for number in inserted[0].tolist()]

    def _is_cut(self, query: Floats, rows: Floats, values: Floats, k: int) -> bool:
        """Whether something that the engine left out could belong to the first k."""
        if len(values) < k:
            return True
        length = float(np.linalg.norm(query.astype(np.float64)))
        kth, last = float(values[k - 1]), float(values[-1])
        slack = 4 * (self.dimension + 8) * ROUNDING
        if self.similarity == "euclidean":
            return last**2 <= kth**2 + slack * (2 * length - kth) ** 2
        longest = float(np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64).max()))
        return last >= kth - slack * length * longest

    @abstractmethod
    def _candidates(self, queries: Floats, fetch: int, where: Condition | None) -> list[Candidates]:
        """About `fetch` nearest items of each query, or all that there are."""

    @abstractmethod
    def remember(self, model: dict[str, Any]) -> None:
        """Note which model makes the embeddings."""

    @property
    def next_id(self) -> int:
        """The number that the next item without an id gets."""
        return int(self._about()["next_id"])

    @abstractmethod
    def number_from(self, next_id: int) -> None:
        """Give out no number below this one: the index that this is a copy of has given it out."""

    @abstractmethod
    def _about(self) -> dict[str, Any]:
        """What the engine has noted about the index, checked."""

    @abstractmethod
    def _known(self, ids: Sequence[Id]) -> set[Id]:
        """Which of these ids are there."""

    @abstractmethod
    def _column(self, name: str, ids: Sequence[Id]) -> dict[Id, Any]:
        """The "embedding" or the "metadata" of these ids, as far as they are there."""


def checked_about(about: Any, name: str) -> dict[str, Any]:
    """What an engine has noted about an index, as far as it is one: anybody with rights there can have changed it.

    >>> checked_about({"dimension": 0}, "items")
    Traceback (most recent call last):
    ...
    nearer.exceptions.CorruptFileError: What the engine has noted about the index 'items' was changed: ...
    """
    try:
        if not isinstance(about, dict):
            raise TypeError(f"it must be a dictionary, got {type(about).__name__}")
        check_int(about["dimension"], "dimension", maximum=1 << 20)
        check_next_id(about["next_id"])
        check_choice(about["similarity"], "similarity", ["cosine", "dot", "euclidean"])
        if not isinstance(about["fingerprint"], str | None):
            raise TypeError(f"`fingerprint` must be text, got {about['fingerprint']!r}")
        kind_from(about)
        about.setdefault("fields", {})
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"What the engine has noted about the index {name!r} was changed: {str(error).rstrip('.')}. Take it "
            f"from a backup, or build the index again under another name."
        ) from error
    return about


def _check_known(wanted: Sequence[Id], known: Any) -> None:
    for item_id in wanted:
        if item_id not in known:
            raise ParameterError(f"`ids` must be in the index, {item_id!r} is not.")


def already_there(item_id: object) -> ParameterError:
    """The error for an id that an engine has."""
    return ParameterError(
        f"`ids` must be new and different, {item_id!r} is already in the index. Remove it first, or upsert."
    )


def lost(engine: str, name: str, error: BaseException) -> LostWorkerError:
    """The error for an engine that does not answer; it may be asked again."""
    reason = " ".join(str(error).split())[:200].rstrip(". ")
    return LostWorkerError(
        f"{engine} must answer for the index {name!r}, and does not: {reason}. What was confirmed is there; "
        f"this call may have been done. See whether the engine runs, and repeat the call (an upsert can be "
        f"repeated; look before you repeat an add)."
    )
