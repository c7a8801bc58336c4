"""What a person looks for: words in names, texts, labels and columns, or what is like a text, photo or item."""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._state import State
from nearer.datasets._image_files import load_image
from nearer.exceptions import NearerError, ParameterError

MOST_SIMILAR = 200


class Words:
    """The words of every item in small letters, read when they are first asked for."""

    def __init__(self, items: ShownItems) -> None:
        self.items = items

    def holding(self, text: str, labels: Array, classes: tuple[str, ...]) -> Array:
        """The items whose name, text, label or columns hold the text, whatever its case, in their order."""
        wanted = text.strip().lower()
        if not wanted:
            return np.zeros(0, dtype=np.int64)
        hit = np.fromiter((wanted in one for one in self._lines), dtype=bool, count=self.items.n)
        hit |= np.isin(labels, [code for code, name in enumerate(classes) if wanted in name.lower()])
        if wanted.isdigit() and self.items.ids is None and int(wanted) < self.items.n:
            hit[int(wanted)] = True
        return np.flatnonzero(hit)

    @cached_property
    def _lines(self) -> list[str]:
        fields = [self.items.ids, self.items.texts, *self.items.columns.values()]
        # Digits inside a measured number are no words.
        told = [list(map(str, values)) for values in fields if values is not None and _is_told(values)]
        # No search crosses from one field into the next.
        return [lines.lower() for lines in map("\n".join, zip(*told, strict=True))] or [""] * self.items.n


def _is_told(values: Any) -> bool:
    return np.asarray(values).dtype.kind != "f"


def nearest_items(items: ShownItems, state: State, given: Any) -> tuple[Array, Array]:
    """The 200 items nearest to a text, to a picture or to an item by its number, nearest first, and distances."""
    if isinstance(given, int):
        query = state.rows[given]
    elif state.base.embed is None or isinstance(given, str) != (items.takes == "texts"):
        kind = "texts" if isinstance(given, str) else "photos"
        raise ParameterError(f"`similar` must be given what the model takes, and no encoder here takes {kind}.")
    else:
        query = state.place(_embedded(state.base.embed, given)[None])[0]
    distances = np.linalg.norm(state.rows - query, axis=1)
    order = np.argsort(distances, kind="stable")[:MOST_SIMILAR]
    return order, distances[order]


def _embedded(embed: Callable[[Any], Array], given: Any) -> Array:
    """The row of a text or a picture; an encoder is a program of the user's, which may fail in its own words."""
    try:
        return np.asarray(embed(given), dtype=np.float32)
    except NearerError:
        raise
    except Exception as error:
        raise ParameterError(
            f"The encoder could not embed what was given. It said {type(error).__name__}: {str(error)[:300]}"
        ) from error


def uploaded(text: str) -> Array:
    """The picture of a data address, as the page sends what was dropped on it."""
    found = re.fullmatch(r"data:image/[a-z.+-]{1,20};base64,([A-Za-z0-9+/=]*)", text)
    if found is None:
        raise ParameterError("`photo` must be a picture as a data address, got something else.")
    try:
        content = base64.b64decode(found[1], validate=True)
    except binascii.Error as error:
        raise ParameterError(f"`photo` must be a picture as a data address: {error}.") from error
    with tempfile.NamedTemporaryFile(prefix="nearer-") as file:
        file.write(content)
        file.flush()
        return load_image(file.name)
