"""What a person said, as data: gestures, their history with undo and redo, and the supervision they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearer._checks import check_choice
from nearer._plain import Array
from nearer.exceptions import ParameterError
from nearer.relations import Pairs

KINDS = ("label", "together", "apart", "same", "keep", "drop", "refit")
LONGEST_LABEL = 200
# Pairs of one lasso: all of them up to here, a random part above.
MOST_PAIRS = 2_000


@dataclass(frozen=True)
class Gesture:
    """One thing a person said about items.

    `label`: the items have this label (None takes it away). `together`: they belong together. `apart`: they do
    not, among each other, or with `others` where given. `same`: they are what item `anchor` is. `keep`: their
    labels are right. `drop`: they are not to be learned from. `refit` marks where the metric was learned again.

    >>> Gesture.parse({"kind": "label", "items": [3, 1, 3], "label": " cat "}, n=4)
    Gesture(kind='label', items=(1, 3), label='cat', others=(), anchor=None, key='')

    Args:
        kind: what is said.
        items: positions of the items.
        label: the name of the class.
        others: positions of the other side of `apart`.
        anchor: position of the item that `same` names.
        key: a word of the sender's, so that a gesture that is sent twice counts once.
    """

    kind: str
    items: tuple[int, ...] = ()
    label: str | None = None
    others: tuple[int, ...] = ()
    anchor: int | None = None
    key: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, Any], *, n: int) -> Gesture:
        """A gesture from JSON about n items, checked."""
        if not isinstance(given, Mapping):
            raise ParameterError(f"A gesture must be an object with `kind` and `items`, got {given!r:.80}.")
        kind = given.get("kind")
        check_choice(kind, "kind", KINDS)
        items, others = (_positions(given.get(key, ()), key, n) for key in ("items", "others"))
        anchor = given.get("anchor")
        label = given.get("label")
        if kind not in ("refit",) and not items:
            raise ParameterError(f"`items` must name at least one item for {kind!r}, got none.")
        if kind == "same":
            if not isinstance(anchor, int) or isinstance(anchor, bool) or not 0 <= anchor < n:
                raise ParameterError(f"`anchor` must be an item, 0 to {n - 1}, got {anchor!r}.")
        else:
            anchor = None
        if kind == "label" and label is not None:
            label = _label(label)
        elif kind != "label":
            label = None
        if kind == "together" and len(items) < 2:
            raise ParameterError("`items` must name two items or more to belong together, got one.")
        if kind == "apart" and len(items) < 2 and not others:
            raise ParameterError("`items` must name two items or more to be kept apart, got one.")
        if kind == "apart" and set(items) & set(others):
            raise ParameterError("`others` must not name an item of `items`: nothing is apart from itself.")
        key = given.get("key", "")
        if not isinstance(key, str) or len(key) > 100:
            raise ParameterError(f"`key` must be a word of at most 100 characters, got {key!r:.120}.")
        return cls(str(kind), items, label, others, anchor, key)

    def to_dict(self) -> dict[str, Any]:
        """The gesture as JSON."""
        record: dict[str, Any] = {"kind": self.kind, "items": list(self.items)}
        if self.kind == "label":
            record["label"] = self.label
        if self.others:
            record["others"] = list(self.others)
        if self.anchor is not None:
            record["anchor"] = self.anchor
        if self.key:
            record["key"] = self.key
        return record

    def __str__(self) -> str:
        count = f"{len(self.items):,} item{'s' * (len(self.items) != 1)}"
        others = f" and {len(self.others):,} others" if self.others else ""
        return {
            "label": f"{count}: {self.label}" if self.label is not None else f"{count}: no label",
            "together": f"{count} belong together",
            "apart": f"{count}{others} do not belong together",
            "same": f"{count}: the same as item {self.anchor}",
            "keep": f"{count}: the label is right",
            "drop": f"{count} left out",
            "refit": "refit",
        }[self.kind]


class GestureHistory:
    """Gestures in their order, of which the last ones may be undone.

    >>> history = GestureHistory([Gesture("drop", (0,)), Gesture("drop", (1,))])
    >>> history.undo(), len(history.active), history.redo()
    (Gesture(kind='drop', items=(1,), ...), 1, Gesture(kind='drop', items=(1,), ...))
    """

    def __init__(self, gestures: Iterable[Gesture] = (), done: int | None = None) -> None:
        self.gestures = list(gestures)
        self.done = len(self.gestures) if done is None else done

    @property
    def active(self) -> list[Gesture]:
        """Those that are not undone."""
        return self.gestures[: self.done]

    def add(self, gesture: Gesture) -> None:
        """Say one thing more; what was undone is forgotten."""
        self.gestures = [*self.active, gesture]
        self.done = len(self.gestures)

    def undo(self) -> Gesture | None:
        """Take the last one back."""
        if not self.done:
            return None
        self.done -= 1
        return self.gestures[self.done]

    def redo(self) -> Gesture | None:
        """Say it again."""
        if self.done == len(self.gestures):
            return None
        self.done += 1
        return self.gestures[self.done - 1]

    def to_dict(self) -> dict[str, Any]:
        """The history as JSON."""
        return {"done": self.done, "gestures": [gesture.to_dict() for gesture in self.gestures]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], *, n: int) -> GestureHistory:
        """The history that `to_dict` wrote, about n items."""
        gestures = [Gesture.parse(record, n=n) for record in given["gestures"]]
        done = given["done"]
        if not isinstance(done, int) or not 0 <= done <= len(gestures):
            raise ParameterError(f"`done` must lie between 0 and {len(gestures)}, got {done!r}.")
        return cls(gestures, done)


@dataclass(frozen=True, eq=False)
class Supervision:
    """What data and gestures say together: labels (n,), names of their codes, pairs, and what is left out."""

    labels: Array
    classes: tuple[str, ...]
    together: Array  # (m, 2)
    apart: Array  # (m, 2)
    dropped: Array  # (n,) bool
    confirmed: Array  # (n,) bool: a person has looked at the label

    def pairs(self) -> Pairs:
        """The pairs as a relation; one that was called both is what was said last, which is `apart`."""
        n = len(self.labels)
        both = np.isin(self.together @ [n, 1], np.concatenate([self.apart @ [n, 1], self.apart[:, ::-1] @ [n, 1]]))
        return Pairs(n, positive=self.together[~both], negative=self.apart)


def supervision(gestures: Sequence[Gesture], labels: Array, classes: Sequence[str]) -> Supervision:
    """Labels of the data overlaid by what was said, and the pairs.

    >>> said = [Gesture("label", (2,), "eel"), Gesture("same", (3,), anchor=0), Gesture("together", (2, 4))]
    >>> found = supervision(said, np.array([0, 1, -1, -1, -1]), ("cat", "dog"))
    >>> found.labels.tolist(), found.classes, found.together.tolist()
    ([0, 1, 2, 0, -1], ('cat', 'dog', 'eel'), [[2, 4]])
    """
    codes = np.array(labels, dtype=np.int64)
    names = list(map(str, classes))
    code_of = {name: code for code, name in enumerate(names)}
    dropped, confirmed = np.zeros(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool)
    near: list[Array] = []
    far: list[Array] = []
    for number, gesture in enumerate(gestures):
        items = np.array(gesture.items, dtype=np.int64)
        if gesture.kind == "label":
            if gesture.label is not None and gesture.label not in code_of:
                code_of[gesture.label] = len(names)
                names.append(gesture.label)
            codes[items] = -1 if gesture.label is None else code_of[gesture.label]
            confirmed[items] = gesture.label is not None
        elif gesture.kind == "same":
            assert gesture.anchor is not None
            if codes[gesture.anchor] >= 0:
                codes[items], confirmed[items] = codes[gesture.anchor], True
            else:
                near.append(np.column_stack([items, np.full(len(items), gesture.anchor)])[items != gesture.anchor])
        elif gesture.kind == "together":
            # A chain says as much as all pairs do, because belonging together is transitive.
            near.append(np.column_stack([items[:-1], items[1:]]))
        elif gesture.kind == "apart":
            others = np.array(gesture.others, dtype=np.int64)
            far.append(_all_pairs(items, others, seed=number))
        elif gesture.kind == "keep":
            confirmed[items] = True
        elif gesture.kind == "drop":
            dropped[items] = True
    empty = np.zeros((0, 2), dtype=np.int64)
    together, apart = (np.concatenate([empty, *listed]) for listed in (near, far))
    return Supervision(codes, tuple(names), together, apart, dropped, confirmed)


def _all_pairs(items: Array, others: Array, *, seed: int) -> Array:
    n, m = len(items), len(others)
    total = n * m if m else n * (n - 1) // 2
    if total <= MOST_PAIRS:
        if m:
            return np.column_stack([np.repeat(items, m), np.tile(others, n)])
        first, second = np.triu_indices(n, 1)
        return np.column_stack([items[first], items[second]])
    rng = np.random.default_rng(seed)
    first, second = rng.choice(items, MOST_PAIRS), rng.choice(others if m else items, MOST_PAIRS)
    return np.column_stack([first, second])[first != second]


def _positions(given: Any, name: str, n: int) -> tuple[int, ...]:
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, list | tuple) or not all(
        isinstance(x, int) and not isinstance(x, bool) for x in given
    ):
        raise ParameterError(f"`{name}` must be a list of item numbers, got {given!r:.80}.")
    if given and not 0 <= min(given) <= max(given) < n:
        raise ParameterError(f"`{name}` must lie in 0..{n - 1}, got {min(given)}..{max(given)}.")
    return tuple(sorted(set(given)))


def _label(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ParameterError(f"`label` must be a name, got {given!r:.80}.")
    if len(given) > LONGEST_LABEL:
        raise ParameterError(f"`label` must have at most {LONGEST_LABEL} characters, got {len(given)}.")
    return given.strip()
