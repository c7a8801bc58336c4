"""What is on the map: features, labels, and what a person sees of each item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from nearer._notebook import picture_file
from nearer._plain import Array
from nearer.exceptions import ShapeError

# What a browser draws well; of more items a random part is shown, and the page says so.
MOST_SHOWN = 200_000
HELD_OUT = 0.2


def a_fifth(n: int) -> Array:
    """Which of n items are held out where nothing else says so, (n,), always the same."""
    mask = np.zeros(n, dtype=bool)
    mask[np.random.default_rng(0).permutation(n)[: round(HELD_OUT * n)]] = True
    return mask


class Relearned(NamedTuple):
    """A model's own map, learned again: all items under it, how one more gets there, and the module itself."""

    rows: Array
    embed: Callable[[Any], Array] | None
    encoder: nn.Module
    about: str


@dataclass(frozen=True, eq=False)
class ShownItems:
    """Rows that are looked at and corrected.

    `raw` (n, p) are the features, `learned` (n, d) the embeddings of the model it begins with, by default the
    features. `labels` (n,) are codes of `classes`, −1 for none. Items of `held_out` (n,) are never learned from.

    >>> items = ShownItems(np.eye(4, dtype=np.float32), labels=np.array([0, 0, 1, -1]), classes=("cat", "dog"))
    >>> items.n, items.name(3)
    (4, 'item 3')

    Args:
        raw: features, (n, p).
        labels: class codes, (n,), −1 for none; None for no labels at all.
        classes: names of the codes.
        learned: embeddings of the model, (n, d).
        ids: names of the items, (n,).
        texts: texts, (n,), where the items are texts.
        columns: further columns to color by and to search in, (n,) each.
        images: a function from a position and a side to the picture (h, w) or (h, w, 3) of bytes, at least so large
            where the file is, None for all of its pixels; it returns None for one that cannot be read.
        feature_names: names of the columns of `raw`.
        values: what is shown of those columns, (n, p), where `raw` is scaled.
        held_out: items that are kept for the scores, (n,); None keeps a fifth of them.
        flattered: whether the model has learned from held-out items: what it makes of them proves nothing.
        trained: a word on `held_out` for people.
        embed: a function from a text or a picture to its row, as those of `learned`, or of `raw` without them.
        takes: what `embed` takes, "texts" or "photos".
        learner: what a refit learns from labels (n,), −1 for none; without it, or without labels of two classes, it
            is a linear map of the rows that the session began with.
        title: what people call the data.
        fingerprint: of the data, so that a project is not opened with other data.
        notes: sentences that the page shows.
    """

    raw: Array
    labels: Any = None
    classes: tuple[str, ...] = ()
    learned: Any = None
    ids: Any = None
    texts: Any = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    images: Callable[[int, int | None], Array | None] | None = None
    feature_names: tuple[str, ...] = ()
    values: Any = None
    held_out: Any = None
    flattered: bool = False
    trained: str = ""
    embed: Callable[[Any], Array] | None = None
    takes: str = ""
    learner: Callable[[Array], Relearned] | None = None
    title: str = ""
    fingerprint: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.raw) if self.raw.ndim else 0
        if self.raw.ndim != 2 or not n:
            raise ShapeError(f"`raw` must be features of shape (n, p) with n > 0, got {self.raw.shape}.")
        labels = np.full(n, -1, dtype=np.int64) if self.labels is None else np.asarray(self.labels)
        object.__setattr__(self, "labels", labels.astype(np.int64))
        if self.held_out is None:
            object.__setattr__(self, "held_out", a_fifth(n))
        given = {"labels": self.labels, "held_out": self.held_out, "ids": self.ids, "texts": self.texts}
        for name, values in {**given, "learned": self.learned, "values": self.values, **self.columns}.items():
            if values is not None and len(values) != n:
                raise ShapeError(f"`{name}` must have one entry for each of the {n} items, got {len(values)}.")
        top = int(self.labels.max(initial=-1)) + 1
        if top > len(self.classes):
            object.__setattr__(
                self, "classes", tuple(self.classes) + tuple(map(str, range(len(self.classes), top)))
            )

    @property
    def n(self) -> int:
        """How many items there are."""
        return len(self.raw)

    def name(self, item: int) -> str:
        """What a person calls the item."""
        return f"item {item}" if self.ids is None else str(self.ids[item])

    def shown(self, most: int = MOST_SHOWN) -> ShownItems:
        """At most so many items, drawn at random, with a note where some were left out."""
        if self.n <= most:
            return self
        rows = np.sort(np.random.default_rng(0).permutation(self.n)[:most])
        images = self.images
        note = f"{most:,} of {self.n:,} items are shown, drawn at random."
        return replace(
            self,
            raw=self.raw[rows],
            labels=self.labels[rows],
            learned=None if self.learned is None else self.learned[rows],
            ids=rows.astype(str) if self.ids is None else np.asarray(self.ids)[rows],
            texts=None if self.texts is None else np.asarray(self.texts)[rows],
            values=None if self.values is None else self.values[rows],
            columns={name: np.asarray(values)[rows] for name, values in self.columns.items()},
            images=None if images is None else lambda item, side: images(int(rows[item]), side),
            held_out=self.held_out[rows],
            # It would learn from rows that are not shown.
            learner=None,
            notes=(*self.notes, note),
        )


# The sides that a picture is asked for in: a tile of the grid, a card, a close look.
SIDES = (128, 256, 512)
CROSSED = 64


def photo(items: ShownItems, item: int, side: int | None = None) -> tuple[str, bytes]:
    """The picture of an item as the kind and the content of a file; one that cannot be read is a crossed box."""
    assert items.images is not None
    try:
        found = items.images(item, side)
    except (OSError, ValueError):
        found = None
    return picture_file(_crossed() if found is None else found, side=side)


def _crossed() -> Array:
    box = np.full((CROSSED, CROSSED), 235, dtype=np.uint8)
    line = np.arange(CROSSED)
    for shift in (-1, 0, 1):
        box[line, np.clip(line + shift, 0, CROSSED - 1)] = 170
        box[line, np.clip(CROSSED - 1 - line + shift, 0, CROSSED - 1)] = 170
    return box
