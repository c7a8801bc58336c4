"""Embeddings as every index keeps them: single precision, checked, of length one for the cosine."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer._plain import Floats, Positions
from nearer.exceptions import NotFiniteError, ParameterError
from nearer.index._items import Id
from nearer.index._notes import Notes
from nearer.neighbors._shared import Similarity, exact_neighbors

# Squares of anything longer do not fit into single precision.
LONGEST = 1e18
# Columns of an embedding; a forged number must not ask for all memory.
WIDEST = 1 << 20
CHUNK = 1 << 16
SIGN, ALL = 1 << 63, (1 << 64) - 1


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


def exact_search(
    queries: Floats,
    vectors: Floats,
    k: int,
    *,
    similarity: Similarity,
    longest: float | None = None,
) -> tuple[Floats, Positions]:
    """The k most similar `vectors` (n, d) of each query (q, d): similarities and positions, (q, min(k, n)) each.

    The most similar comes first; equal similarities in order of position, as in every search of `nearer.neighbors`.
    For "cosine" all rows must have length one. `longest` is the length of the longest vector, if it is known.

    >>> line = np.array([[0], [1], [3], [1]], dtype=np.float32)
    >>> exact_search(line[:1], line, 3, similarity="euclidean")[1].tolist()
    [[0, 1, 3]]
    """
    return exact_neighbors(queries, vectors, min(k, len(vectors)), similarity=similarity, longest=longest)


def checksums(ids: Sequence[Id | None], texts: Sequence[str | None], rows: Floats) -> list[int]:
    """A number for each item that changes with any bit of it, as SQLite keeps numbers: 64 bits with a sign.

    The sum, modulo 2^64, of an odd number for each column times the 32 bits in it, and of one more times the crc32
    of id and metadata. An odd factor never makes a changed bit vanish.
    """
    factors, last = _factors(rows.shape[1])
    totals = np.dot(np.ascontiguousarray(rows).view("<u4"), factors).tolist()
    sums = []
    for item_id, text, total in zip(ids, texts, totals, strict=True):
        # Another beginning for numbers, or the id 7 and the text "7" would have one sum.
        head = zlib.crc32(f"{item_id}\0{text}".encode(), isinstance(item_id, int))
        sums.append((total + head * last + SIGN & ALL) - SIGN)
    return sums


@functools.cache
def _factors(n: int) -> tuple[NDArray[np.uint64], int]:
    """n odd numbers of 64 bits and one more, the same everywhere: the steps of splitmix64."""
    state = np.arange(1, n + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    odd = (state ^ (state >> np.uint64(31))) | np.uint64(1)
    return odd[:-1], int(odd[-1])
