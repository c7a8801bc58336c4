"""The one function that finds nearest neighbors, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nearer._checks import check_choice, check_int, check_number, check_rectangle
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry import normalize
from nearer.neighbors._cells import cell_neighbors
from nearer.neighbors._exact import Similarity, exact_neighbors, has_faiss
from nearer.neighbors._through_index import check_alike, is_index, through_index

SearchMethod = Literal["auto", "exact", "approximate"]

# Up to here comparing a table with itself takes a minute at most; above, cells are searched.
EXACT_UP_TO = 60_000


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The k nearest rows of every query, nearest first, equal ones by the number of the row.

    `distances` go down as rows come closer: the Euclidean distance, or minus the similarity for "cosine" and "dot".
    `recall` is the measured share of the true neighbors among those found, 1.0 when the search was exact.

    >>> from nearer.neighbors import search
    >>> search([[0.0]], [[3.0], [1.0], [2.0]], k=2).indices.tolist()
    [[1, 2]]
    """

    indices: Tensor  # (q, k) int64; −1 where there are fewer than k rows to find
    distances: Tensor  # (q, k); ∞ there
    recall: float = 1.0

    @property
    def n(self) -> int:
        """How many queries there are."""
        return int(self.indices.shape[0])

    @property
    def k(self) -> int:
        """How many neighbors each has."""
        return int(self.indices.shape[1])


def search(
    queries: Any,
    database: Any = None,
    k: int = 10,
    *,
    own: Any = None,
    similarity: Similarity = "euclidean",
    method: SearchMethod = "exact",
    recall: float = 0.95,
    seed: int = 0,
) -> Neighbors:
    """The k nearest rows of the database (n, d) for each query (q, d); without a database, among the queries.

    Args:
        queries: rows to search for, (q, d); dense of any float type, or a scipy sparse matrix; or an index alone.
        database: rows to search in, (n, d). None takes the queries, and leaves each out of its own neighbors. An
            index (`nearer.index`) is asked as it is, by its own similarity; a row is an item's place in its ids.
        k: how many; columns beyond the rows that exist hold −1 and ∞.
        own: (q,) the row of the database that is left out for each query, −1 for none. Twins of it count.
        similarity: "euclidean", "cosine" or "dot".
        method: "exact" compares all pairs in blocks, never with a q×n array; "approximate" looks into the nearest
            cells of a k-means partition until `recall` is measured; "auto" is exact up to 60,000 rows, and above
            where faiss is missing.
        recall: the share of true neighbors that the approximate search must find on 200 of the queries.
        seed: of the k-means and of the sample; the exact search has no randomness.

    Equal distances, in the precision of the queries, are ordered by row: the answer is that of a stable sort.

    >>> search([[0.0], [1.0], [1.0], [5.0]], k=2).indices.tolist()
    [[1, 2], [2, 0], [1, 0], [1, 2]]
    >>> search([[0.0]], np.ones((1000, 1)), 3).indices.tolist()
    [[0, 1, 2]]
    """
    check_choice(similarity, "similarity", get_args(Similarity))
    check_choice(method, "method", get_args(SearchMethod))
    wanted = check_int(k, "k")
    if is_index(queries) or is_index(database):
        index = queries if database is None else database
        if not is_index(index) or (database is not None and is_index(queries)):
            raise ParameterError("`queries` must be rows, or an index alone: `search(index)`.")
        check_alike(index, similarity)
        rows = None if database is None else _as_rows(queries, "queries")
        mine = None if own is None or rows is None else _as_own(own, len(rows), len(index))
        values, positions, measured = through_index(rows, index, wanted, mine)
        return Neighbors(torch.from_numpy(positions), torch.from_numpy(0.0 - values), measured)
    asking = _as_rows(queries, "queries")
    rows = asking if database is None or database is queries else _as_rows(database, "database")
    if asking.shape[1] != rows.shape[1]:
        raise ShapeError(f"`database` must have the {asking.shape[1]} columns of `queries`, got {rows.shape[1]}.")
    if database is None and own is None:
        own = np.arange(asking.shape[0])
    left_out = None if own is None else _as_own(own, asking.shape[0], rows.shape[0])
    if rows is not asking and rows.dtype != asking.dtype:
        wide = np.promote_types(rows.dtype, asking.dtype)
        rows, asking = rows.astype(wide), asking.astype(wide)
    if similarity == "cosine":
        same = rows is asking
        rows = unit_rows(rows, "database")
        asking = rows if same else unit_rows(asking, "queries")
    share = check_number(recall, "recall", above=0, maximum=1)
    start = check_int(seed, "seed", minimum=0)
    if method == "approximate" or (method == "auto" and rows.shape[0] > EXACT_UP_TO and has_faiss()):
        if similarity != "euclidean" or sparse.issparse(rows) or sparse.issparse(asking):
            raise ParameterError(
                f"`method` 'approximate' must have dense rows and similarity='euclidean', got {similarity!r} and "
                f"{'sparse' if sparse.issparse(rows) else 'dense'} rows. Bring rows to length one for the cosine, "
                f"or pass method='exact'."
            )
        values, positions, measured = cell_neighbors(asking, rows, wanted, own=left_out, recall=share, seed=start)
    else:
        values, positions = exact_neighbors(asking, rows, wanted, similarity=similarity, own=left_out)
        measured = 1.0
    # Not −0.0 for a distance of zero.
    return Neighbors(torch.from_numpy(positions), torch.from_numpy(0.0 - values), measured)


def _as_rows(value: Any, name: str) -> Any:
    if sparse.issparse(value):
        return value.tocsr() if value.dtype.kind == "f" else value.tocsr().astype(np.float64)
    return np.ascontiguousarray(as_matrix(value, name).detach().cpu().numpy())


def _as_own(own: Any, q: int, n: int) -> Any:
    numbers = check_rectangle(own, "own")
    if numbers.shape != (q,) or numbers.dtype.kind not in "iu":
        raise ShapeError(f"`own` must hold one row number for each of the {q} queries, got shape {numbers.shape}.")
    if q and not -1 <= int(numbers.min()) <= int(numbers.max()) < n:
        raise ShapeError(
            f"`own` must hold row numbers below {n}, or -1, got {int(numbers.min())} to {int(numbers.max())}."
        )
    return numbers.astype(np.int64)


def unit_rows(rows: Any, name: str) -> Any:
    """Rows of length one to search among, (n, p), dense or sparse; a row of zeros has no direction and is refused.

    Scores and losses leave a row of zeros as it is, where its cosine with everything is 0. A search cannot: every
    item would be as near as every other.

    >>> unit_rows(np.array([[3.0, 4.0]]), "queries")
    array([[0.6, 0.8]])
    """
    if sparse.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    else:
        lengths = np.abs(rows).max(axis=1)
    if (lengths == 0).any():
        raise ParameterError(
            f"`{name}` must have a direction in every row, got {int((lengths == 0).sum())} rows of zeros, the "
            f"first at {int(np.flatnonzero(lengths == 0)[0])}. Drop them, or compare by the Euclidean distance."
        )
    if sparse.issparse(rows):
        return sparse.diags_array(1 / lengths).astype(rows.dtype) @ rows
    return normalize(rows).numpy()
