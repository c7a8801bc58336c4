"""Who is near whom: the graph of the k nearest neighbours of every item."""

from __future__ import annotations

from typing import Any

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.neighbors import Neighbors, search
from nearer.neighbors._shared import SearchMethod, is_index, unit_rows


def nearest_neighbors(
    embeddings: Any,
    *,
    k: int = 10,
    method: SearchMethod = "auto",
    normalized: bool = True,
    recall: float = 0.95,
    seed: int = 0,
) -> Neighbors:
    """The directed graph of the k nearest neighbours by Euclidean distance: (n, d) -> (n, k) indices and distances.

    With `normalized` the rows are brought to length one first, so that the order is that of the cosine; a row of
    zeros has no direction and is refused. An item is left out of its own neighbours by index: a twin counts. k is
    cut to n − 1. `method`, `recall` and `seed` are those of `nearer.neighbors.search`: "exact", "approximate", or
    "auto", exact up to 60,000 items.

    >>> nearest_neighbors([[0.0], [1.0], [1.0], [5.0]], k=2, normalized=False).indices.tolist()
    [[1, 2], [2, 0], [1, 0], [1, 2]]

    Args:
        embeddings: rows of the graph, (n, d); or an index that holds them, which is asked as it is.
        k: how many neighbors.
        method: "exact", "approximate" or "auto" by size.
        normalized: compare rows of length one.
        recall: share of true neighbors that the approximate search must find.
        seed: of everything that is drawn.
    """
    if is_index(embeddings):
        return search(embeddings, k=min(check_int(k, "k"), max(1, len(embeddings) - 1)))
    x = as_matrix(embeddings, "embeddings", minimum_rows=2).detach()
    wanted = min(check_int(k, "k"), len(x) - 1)
    if normalized:
        x = unit_rows(x.cpu().numpy(), "embeddings")
    return search(x, k=wanted, method=method, recall=recall, seed=seed)
