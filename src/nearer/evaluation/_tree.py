"""How bad the mistakes of a retrieval are, where classes have a taxonomy."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.evaluation._result import Evaluation
from nearer.exceptions import LabelError, ShapeError
from nearer.neighbors import search
from nearer.neighbors._shared import Similarity
from nearer.relations import Tree


def evaluate_tree(
    embeddings: Any,
    paths: Any,
    database: Any = None,
    database_paths: Any = None,
    *,
    k: int = 10,
    similarity: Similarity = "euclidean",
) -> Evaluation:
    """Score embeddings (q, d) by a taxonomy: how far from a query in the tree its neighbors are.

    - "recall@1, level l": the share of queries whose nearest item has the same ancestor at level l, 1 the
      coarsest;
    - "mistake": of queries whose nearest item is of another leaf, the mean number of levels up to their common
      ancestor, from 1 to the depth of the tree; lower is better, 0 without a mistake;
    - "hierarchical-precision@k": the shared levels of the k nearest items, summed and divided by the largest sum
      that any k items of the database could have (Barz, Denzler, 2019).

    Queries whose leaf no other item has are left out and counted, as in `evaluate`.

    >>> points = [[0.0], [0.1], [1.0], [1.3], [1.2], [1.4]]
    >>> paths = ["bird/gull", "bird/gull", "bird/tern", "bird/tern", "fish/cod", "fish/cod"]
    >>> print(evaluate_tree(points, paths, k=1))
    score                      value
    recall@1, level 1         0.3333
    recall@1, level 2         0.3333
    mistake                   2.0000
    hierarchical-precision@1  0.3333
    queries 6, excluded 0, database 6, levels 2
    similarity euclidean, search itself

    Args:
        embeddings: rows to score, (q, d).
        paths: their paths from the root, as `relations.Tree` takes them.
        database: rows to search in, (n, d); None searches each row among the others.
        database_paths: paths of the database.
        k: neighbors of the hierarchical precision.
        similarity: "euclidean", "cosine" or "dot".
    """
    rows = as_matrix(embeddings, "embeddings")
    if (database is None) != (database_paths is None):
        raise ShapeError("`database` must come with `database_paths`, and without it there must be none.")
    tree = Tree(paths, database_paths)
    searched = rows if database is None else as_matrix(database, "database")
    for name, number, expected in (
        ("paths", tree.n_queries, len(rows)),
        ("database_paths", tree.n_database, len(searched)),
    ):
        if number != expected:
            raise ShapeError(f"`{name}` must have one path for each of the {expected} rows, got {number}.")
    others = len(searched) - (database is None)
    if others < 1:
        raise LabelError("There must be an item to find for every query, got one row alone.")
    k = check_int(k, "k", maximum=others)
    near = search(rows, None if database is None else searched, k, similarity=similarity).indices.numpy()
    queries, items = (side.cpu().numpy().astype(np.int64) for side in (tree.queries, tree.database))
    sizes = np.bincount(items.ravel(), minlength=int(queries.max()) + 1)[queries] - (database is None)
    asked = sizes[:, -1] > 0
    if not asked.any():
        raise LabelError("`paths` must have a leaf with another item to find, got leaves of one item alone.")
    shared = (queries[asked, None, :] == items[near[asked]]).sum(axis=2)  # (q, k)
    levels, nearest = queries.shape[1], shared[:, 0]
    scores = {f"recall@1, level {level}": float((nearest >= level).mean()) for level in range(1, levels + 1)}
    wrong = nearest < levels
    scores["mistake"] = float((levels - nearest[wrong]).mean()) if wrong.any() else 0.0
    # Items that share at least l levels are those of the query's node there: the largest sum counts each by itself.
    scores[f"hierarchical-precision@{k}"] = float(
        (shared.sum(axis=1) / np.minimum(sizes[asked], k).sum(axis=1)).mean()
    )
    return Evaluation(
        scores,
        {"similarity": similarity, "search": "itself" if database is None else "database"},
        {"queries": len(shared), "excluded": len(rows) - len(shared), "database": len(searched), "levels": levels},
        frozenset({"mistake"}),
    )
