"""Embeddings as every index keeps them: single precision, checked, of length one for the cosine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.exceptions import NotFiniteError, ParameterError
from nearer.index._exact import Floats, Similarity
from nearer.index._items import Id
from nearer.index._notes import Notes

# Squares of anything longer do not fit into single precision.
LONGEST = 1e18
# Columns of an embedding; a forged number must not ask for all memory.
WIDEST = 1 << 20
CHUNK = 1 << 16


class Change(NamedTuple):
    """Checked items that are to go in, and the point that is subtracted from their rows."""

    ids: list[Id]
    notes: Notes
    rows: Floats
    offset: Floats


def checked_lengths(given: NDArray[np.floating], similarity: Similarity, name: str) -> NDArray[np.float64]:
    """The length of each row; those that cannot be compared are refused."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("nd,nd->n", given, given, dtype=np.float64))
    if similarity == "cosine":
        if bool((lengths == 0).any()):
            raise ParameterError(
                f"`{name}` must not hold rows of zeros, which have no direction: row {int(lengths.argmin())}. "
                f"Drop them, or use similarity='euclidean'."
            )
    elif len(lengths) and not float(lengths.max()) < LONGEST:
        raise NotFiniteError(
            f"`{name}` must have lengths below {LONGEST:g} for single precision, got {float(lengths.max()):g}. "
            f"Scale the features."
        )
    return lengths


def center_of(given: NDArray[np.floating], name: str) -> Floats:
    """What to subtract: distances do not change under a shift, but far from the origin they lose their digits."""
    lengths = checked_lengths(given, "euclidean", name)
    center = given.mean(axis=0, dtype=np.float64)
    spread = float(np.square(lengths).mean() - center @ center)
    far = float(center @ center) > 100 * spread
    return (center if far else np.zeros_like(center)).astype(np.float32)


def kept_rows(
    given: NDArray[np.floating], lengths: NDArray[np.float64] | None, similarity: Similarity, offset: Floats
) -> Floats:
    """Rows in single precision, about the offset or of length one; without `lengths` they are in it already."""
    if lengths is None:
        # Double precision between would give the same: it has more than twice the digits.
        return np.subtract(given, offset, dtype=np.float32)
    kept = np.empty(given.shape, dtype=np.float32)
    for start in range(0, len(given), CHUNK):
        part = slice(start, start + CHUNK)
        wide = given[part].astype(np.float64)
        kept[part] = wide / lengths[part, None] if similarity == "cosine" else wide - offset
    return kept
