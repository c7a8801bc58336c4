"""What a retrieval score is computed from: checked, comparable vectors and the classes of both sides.

Every score of this folder asks the same question, "which items of the database come first for this query?".
`prepare` turns whatever the user passed into a `Retrieval` that the rest of the folder can trust: vectors in which
a larger value means closer, class codes, and the number of items that each query could find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
from torch import Tensor

from nearer._checks import check_choice
from nearer._plain import Array
from nearer._validation import as_array, as_labels, as_matrix, encode_labels
from nearer.exceptions import LabelError, NotFiniteError, ShapeError
from nearer.neighbors._shared import Similarity

Ties = Literal["index", "pessimistic", "optimistic"]
Unlabeled = Literal["error", "ignore", "class"]

UNLABELED = -1


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Queries, database and classes, ready to be ranked.

    The value of item j for query i is `queries[i] · database[j] − penalty[j]`; larger is closer. For the cosine
    both sides have unit length and there is no penalty; for the Euclidean distance the penalty is ½‖x_j‖², which
    orders items as −½‖x_i − x_j‖² does.
    """

    queries: Array  # (q, d) float32 or float64
    database: Array  # (n, d), the same object as `queries` when the set is searched in itself
    penalty: Array | None  # (n,)
    query_codes: Array  # (q,) int64
    database_codes: Array  # (n,) int64
    itself: Array | None  # (q,) int64: where each query stands in the database, None for two separate sets
    positives: Array  # (q,) int64: items of the query's class, the query itself not counted
    unlabeled: int  # rows that were left out because their label is -1

    @property
    def symmetric(self) -> bool:
        """Whether the queries are the database, row by row, so that one tile serves both of its sides."""
        return self.queries is self.database

    @property
    def answerable(self) -> Array:
        """(q,) bool: the queries for which the database holds something to find."""
        return cast(Array, self.positives > 0)

    @property
    def excluded(self) -> int:
        """The number of queries without another item of their class."""
        return int(np.count_nonzero(self.positives == 0))

    def subset(self, rows: Array) -> Retrieval:
        """The same question for some of the queries, in any order."""
        return replace(
            self,
            queries=self.queries[rows],
            query_codes=self.query_codes[rows],
            itself=None if self.itself is None else self.itself[rows],
            positives=self.positives[rows],
        )


def prepare(
    embeddings: Any,
    labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    similarity: Similarity = "euclidean",
    unlabeled: Unlabeled = "error",
) -> Retrieval:
    """Check the input of a retrieval score and bring it into the form that is ranked.

    Without a `database` the set is searched in itself. float32 stays float32 and float64 stays float64, except
    that Euclidean distances are compared in float64 unless all rows have unit length: near points would otherwise
    differ by less than the rounding of ‖x‖².

    >>> problem = prepare([[1, 0], [0, 2], [3, 0]], ["a", "b", "a"])
    >>> problem.positives.tolist(), problem.excluded
    ([1, 0, 1], 1)
    """
    check_choice(similarity, "similarity", get_args(Similarity))
    check_choice(unlabeled, "unlabeled", get_args(Unlabeled))
    if (database is None) != (database_labels is None):
        missing, given = (
            ("database_labels", "database") if database_labels is None else ("database", "database_labels")
        )
        raise ShapeError(f"`{missing}` must be given with `{given}`. Pass both, or neither to search one set.")
    rows = _numbers(as_matrix(embeddings, "embeddings"))
    other, names, items = rows, ["labels"], [labels]
    if database is not None:
        other = _numbers(as_matrix(database, "database", columns=rows.shape[1]))
        names, items = ["labels", "database_labels"], [labels, database_labels]
    codes, known = class_codes(items, names, [len(rows), len(other)][: len(names)], unlabeled=unlabeled)
    left_out = sum(int(np.count_nonzero(~mask)) for mask in known)
    if left_out:
        rows = rows[known[0]]
        other = rows if database is None else other[known[1]]
    query_codes, database_codes = codes[0], codes[-1]
    count = np.bincount(database_codes, minlength=int(max(query_codes.max(), database_codes.max())) + 1)
    positives = count[query_codes] - (1 if database is None else 0)
    queries, database_rows, penalty = _comparable(rows, other, similarity)
    itself = np.arange(len(rows)) if database is None else None
    return Retrieval(queries, database_rows, penalty, query_codes, database_codes, itself, positives, left_out)


def class_codes(
    labels: list[Any], names: list[str], sizes: Sequence[int | None], *, unlabeled: Unlabeled
) -> tuple[list[Array], list[Array]]:
    """Codes 0..c−1 of one or more label arrays, common to all of them, and the mask of the rows that are kept.

    Integers are compared as int64, never through a float; names as strings. −1 marks a row without a label.
    """
    arrays: list[Array] = []
    for value, name, size in zip(labels, names, sizes, strict=True):
        raw = value.detach().cpu() if isinstance(value, Tensor) else as_array(value, name)
        if not isinstance(raw, Tensor) and raw.dtype.kind in "OUS":
            codes, classes = encode_labels(raw, name, n=size)
            text = np.asarray(classes)
            if text.dtype.kind == "O" and all(isinstance(item, (int, np.integer)) for item in text):
                text = text.astype(np.int64)
            arrays.append(text[codes.numpy()])
        else:
            arrays.append(as_labels(raw, name, n=size).numpy())
    if len({array.dtype.kind == "i" for array in arrays}) > 1:
        raise LabelError(
            "`labels` and `database_labels` must be of one kind, got numbers in one and names in the other. "
            "Use the same classes on both sides."
        )
    known = [np.ones(len(array), dtype=bool) for array in arrays]
    if arrays[0].dtype.kind == "i" and unlabeled != "class":
        known = [array != UNLABELED for array in arrays]
        for mask, name in zip(known, names, strict=True):
            if unlabeled == "error" and not mask.all():
                raise LabelError(
                    f"`{name}` must be known for a score, got {np.count_nonzero(~mask)} rows marked -1 "
                    f"(unlabelled). Pass unlabeled='ignore' to leave them out, or unlabeled='class' if -1 is one "
                    f"of the classes."
                )
            if not mask.any():
                raise LabelError(f"`{name}` must hold at least one known label, got only -1 (unlabelled).")
    kept = [array[mask] for array, mask in zip(arrays, known, strict=True)]
    _, joint = np.unique(np.concatenate(kept), return_inverse=True)
    return np.split(joint.astype(np.int64), np.cumsum([len(array) for array in kept])[:-1]), known


def unit_rows(rows: Array) -> Array:
    """Rows of length one, as `geometry.normalize` makes them, but divided in float64 whatever their type.

    A zero row stays zero, so that its cosine with everything is 0.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    result = np.empty_like(rows)
    for start in range(0, len(rows), 8192):
        # Dividing by the largest entry first keeps the squares of very large or small rows in range.
        part = rows[start : start + 8192].astype(np.float64)
        largest = np.abs(part).max(axis=1, keepdims=True)
        part /= np.where(largest > 0, largest, 1)
        length = np.sqrt(np.einsum("ij,ij->i", part, part))[:, None]
        result[start : start + 8192] = part / np.where(length > 0, length, 1)
    return result


def _numbers(matrix: Tensor) -> Array:
    return np.ascontiguousarray(matrix.detach().cpu().numpy())


def _comparable(rows: Array, other: Array, similarity: Similarity) -> tuple[Array, Array, Array | None]:
    """Both sides in one dtype, in which no product can overflow, and the penalty of each database item."""
    same = rows is other
    dtype = np.result_type(rows, other)
    if similarity == "cosine":
        queries = unit_rows(rows.astype(dtype, copy=False))
        return queries, queries if same else unit_rows(other.astype(dtype, copy=False)), None
    if similarity == "euclidean":
        squares = [np.einsum("ij,ij->i", side, side, dtype=np.float64) for side in (rows, other)]
        if dtype == np.float32 and all(np.abs(each - 1).max() < 1e-4 for each in squares):
            # On the unit sphere nothing cancels and float32 is as good here as it is for the cosine.
            return rows, other, (squares[1] / 2).astype(np.float32)
        queries = rows.astype(np.float64)
        database = queries if same else other.astype(np.float64)
        # Distances do not change when all points move together, and small numbers keep more digits. A shift by
        # whole numbers leaves integer data integer, so that equal distances stay exactly equal.
        shift = np.round(database.mean(axis=0))
        queries -= shift
        if not same:
            database -= shift
        _check_products(queries, database)
        return queries, database, np.einsum("ij,ij->i", database, database) / 2
    if not _products_fit(_largest(rows, other), rows.shape[1], float(np.finfo(np.float32).max)):
        dtype = np.dtype(np.float64)
    queries = rows.astype(dtype, copy=False)
    database = queries if same else other.astype(dtype, copy=False)
    _check_products(queries, database)
    return queries, database, None


def _largest(*arrays: Array) -> float:
    return max(float(np.abs(array).max()) for array in arrays)


def _products_fit(largest: float, columns: int, limit: float) -> bool:
    """Whether no sum of `columns` products can leave the range, with room for the penalty."""
    return bool(largest < np.sqrt(limit / (4 * columns)))


def _check_products(queries: Array, database: Array) -> None:
    largest = _largest(queries, database)
    if not _products_fit(largest, queries.shape[1], float(np.finfo(queries.dtype).max)):
        raise NotFiniteError(
            f"`embeddings` must be small enough for their products to be finite, got entries up to {largest:.3g}. "
            f"Divide them by a constant: no rank score depends on it."
        )
