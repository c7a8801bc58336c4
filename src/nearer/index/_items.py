"""The ids and the metadata of the items in an index, in order of insertion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nearer._validation import as_array
from nearer.exceptions import ParameterError, ShapeError
from nearer.index._fields import Fields
from nearer.index._filters import Condition, check_condition, matching
from nearer.index._notes import Notes, as_notes

Id = int | str


class Items:
    """A list of (id, metadata) that can be looked up by id. Ids are all whole numbers or all text."""

    def __init__(self) -> None:
        self.ids: list[Id] = []
        self.texts: list[str] = []
        self.fields = Fields()
        self.places: dict[Id, int] = {}
        # Numbers that were given out once are not given out again, or a stale id would name another item.
        self.next_id = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def named(self) -> bool:
        """Whether the ids are text."""
        return bool(self.ids) and isinstance(self.ids[0], str)

    def checked(self, n: int, ids: Any, metadata: Any, *, replacing: bool = False) -> tuple[list[Id], Notes]:
        """The ids and metadata of n new items; raises before anything is changed. `replacing` allows known ids."""
        if ids is None:
            if self.named:
                raise ParameterError(
                    "`ids` must be given: the ids of this index are text and cannot be numbered on."
                )
            if self.next_id + n > 1 << 63:
                raise ParameterError("`ids` must be given: the numbers of 64 bits are used up.")
            fresh: list[Id] = list(range(self.next_id, self.next_id + n))
        else:
            fresh = as_ids(ids, "ids")
        if len(fresh) != n:
            raise ShapeError(f"`ids` must have one entry for each of the {n} rows, got {len(fresh)}.")
        if fresh and self.ids and type(fresh[0]) is not type(self.ids[0]):
            raise ParameterError(
                f"`ids` must be {_kind(self.ids[0])} like those already in the index, got {_kind(fresh[0])}."
            )
        if len(set(fresh)) < n or not (replacing or self.places.keys().isdisjoint(fresh)):
            self._name_the_repeated(fresh, replacing=replacing)
        return fresh, as_notes(metadata, n, self.fields.kinds)

    def _name_the_repeated(self, fresh: list[Id], *, replacing: bool) -> None:
        seen: set[Id] = set()
        for item_id in fresh:
            known = item_id in self.places and not replacing
            if known or item_id in seen:
                where = "is already in the index. Remove it first, or upsert" if known else "comes twice. Drop one"
                raise ParameterError(f"`ids` must be new and different, {item_id!r} {where}.")
            seen.add(item_id)

    def append(self, ids: list[Id], notes: Notes) -> None:
        """Take items that were checked."""
        self.places.update(zip(ids, range(len(self.ids), len(self.ids) + len(ids)), strict=True))
        self.ids += ids
        self.texts += notes.texts
        self.fields.kinds = notes.kinds
        if ids and isinstance(ids[0], int):
            self.next_id = max(self.next_id, 1 + max(item_id for item_id in ids if isinstance(item_id, int)))

    def find(self, ids: Any) -> list[int]:
        """The positions of known ids; the first unknown one is named."""
        positions = []
        for item_id in as_ids(ids, "ids"):
            if item_id not in self.places:
                raise ParameterError(f"`ids` must be in the index, {item_id!r} is not.")
            positions.append(self.places[item_id])
        return positions

    def forget(self, positions: Iterable[int]) -> None:
        """Drop ids and metadata, but leave the places of the others as they are."""
        for position in positions:
            del self.places[self.ids[position]]
            self.texts[position] = ""

    def kept(self, marked: NDArray[np.bool_]) -> Items:
        """A copy of the marked positions, in order."""
        other = Items()
        other.next_id, other.fields.kinds = self.next_id, self.fields.kinds
        other.ids, other.texts = self.ids, self.texts
        other.keep(marked)
        return other

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Close the gaps: only the marked positions stay, in order."""
        self.ids = [entry for entry, stays in zip(self.ids, kept, strict=True) if stays]
        self.texts = [entry for entry, stays in zip(self.texts, kept, strict=True) if stays]
        self.fields.keep(kept)
        self.places = {entry: position for position, entry in enumerate(self.ids)}

    def where(self, condition: Condition) -> NDArray[np.bool_]:
        """Which positions a condition holds for; an index without items answers everything with nothing."""
        if self.ids:
            check_condition(condition, self.fields.kinds)
        return matching(condition, lambda name: self.fields.column(name, self.texts), len(self.ids))


def check_next_id(value: Any) -> int:
    """The next number to give out; one more than the largest of 64 bits where all are used up."""
    if type(value) is not int or not -(2**63) <= value <= 2**63:
        raise ValueError(f"the next id must be a whole number of 64 bits, got {value!r}")
    return value


def is_id(value: object) -> TypeGuard[Id]:
    """Whether something may be an id at all: a list cannot even be looked up."""
    return isinstance(value, int | np.integer | str) and not isinstance(value, bool)


def as_ids(value: Any, name: str) -> list[Id]:
    """A list of ids from any sequence: whole numbers of 64 bits, or text."""
    if isinstance(value, str | bytes) or not (hasattr(value, "__iter__") or isinstance(value, Tensor)):
        raise ParameterError(f"`{name}` must be a list of ids, got {value!r}. Write [{value!r}].")
    values = as_array(value, name).ravel().tolist() if isinstance(value, Tensor | np.ndarray) else list(value)
    kinds = set(map(type, values))
    # A million ids of one plain type are looked at together.
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return values
    if kinds == {str} and _is_text("".join(values)):
        return values
    ids: list[Id] = []
    for value_id in values:
        if isinstance(value_id, str) and _is_text(value_id):
            ids.append(str(value_id))
        elif (
            isinstance(value_id, int | np.integer)
            and not isinstance(value_id, bool)
            and -(2**63) <= value_id < 2**63
        ):
            ids.append(int(value_id))
        else:
            raise ParameterError(f"`{name}` must be whole numbers of 64 bits or text, got {value_id!r}.")
        if type(ids[-1]) is not type(ids[0]):
            raise ParameterError(
                f"`{name}` must be all whole numbers or all text, got {ids[0]!r} and {value_id!r}."
            )
    return ids


def _is_text(value: str) -> bool:
    """Half of a surrogate pair is no character: it could be added, and then the index could not be saved."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _kind(item_id: Id) -> str:
    return "text" if isinstance(item_id, str) else "whole numbers"
