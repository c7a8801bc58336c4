"""Retrieval scores: how good the list of nearest items is.

For a query of class y the database is sorted by similarity, largest first; equal similarities by index, smallest
first. Items of class y are right. When a set is searched in itself a query does not find itself, by index: a
duplicate of it is an item like any other. Queries without a right item in the database have no score and are left
out. With R = the number of right items of a query, averaged over the queries:

    recall@K       1 if one of the first K is right, else 0
    precision@K    the share of right items among the first K
    R-precision    precision@R
    MAP@R          1/R · Σ_{i ≤ R} precision@i · [item i is right]
    MRR            1 / the place of the first right item

Only the order counts: no score changes when similarities go through an increasing function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice, check_int
from nearer.evaluation._engine._problem import Retrieval, Ties, Unlabeled, prepare
from nearer.evaluation._engine._ranking import rank
from nearer.exceptions import LabelError, ParameterError
from nearer.neighbors._shared import Similarity

RETRIEVAL = ("recall@K", "precision@K", "map@r", "r-precision", "mrr")


def recall_at_k(
    embeddings: Any,
    labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    k: int = 1,
    similarity: Similarity = "euclidean",
    ties: Ties = "index",
    unlabeled: Unlabeled = "error",
) -> float:
    """The share of queries with at least one item of their class among the K most similar.

    `embeddings` (q, d) are searched in `database` (n, d), or in themselves when there is none. With K ≥ n every
    query that has a right item finds it. Exact for every K, in blocks: no q × n array is made.

    >>> recall_at_k([[1, 0], [2, 1], [0, 1], [1, 3]], ["a", "a", "b", "b"], similarity="cosine")
    1.0
    >>> recall_at_k([[1, 0], [1, 0], [1, 0], [1, 0]], ["a", "b", "a", "b"])  # collapsed: ties go by index
    0.25

    Args:
        embeddings: rows to score, (n, d).
        labels: classes of the rows, (n,).
        database: rows to search in, (m, d); None searches each row among the others.
        database_labels: classes of the database, (m,).
        k: how many of the nearest count.
        similarity: "euclidean", "cosine" or "dot".
        ties: how equal similarities are ordered: "index", "optimistic" or "pessimistic".
        unlabeled: what −1 means: "error", "ignore" or "class".
    """
    problem = prepare(embeddings, labels, database, database_labels, similarity=similarity, unlabeled=unlabeled)
    return score_problem(problem, [f"recall@{check_int(k, 'k')}"], ties)[f"recall@{k}"]


def map_at_r(
    embeddings: Any,
    labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    similarity: Similarity = "euclidean",
    ties: Ties = "index",
    unlabeled: Unlabeled = "error",
) -> float:
    """Mean average precision at R: 1/R · Σ_{i ≤ R} precision@i · [item i is right], averaged over the queries.

    1 exactly when the R right items of every query are its R nearest. Related: R-precision, which does not care
    about the order within the first R; MAP@R is never larger.

    >>> points = [[0.0], [1.0], [1.5], [5.0]]
    >>> round(map_at_r(points, ["a", "a", "b", "a"], similarity="euclidean"), 4)  # (1/2 + 1/4 + 1/4) / 3
    0.3333

    Args:
        embeddings: rows to score, (n, d).
        labels: classes of the rows, (n,).
        database: rows to search in, (m, d); None searches each row among the others.
        database_labels: classes of the database, (m,).
        similarity: "euclidean", "cosine" or "dot".
        ties: how equal similarities are ordered: "index", "optimistic" or "pessimistic".
        unlabeled: what −1 means: "error", "ignore" or "class".
    """
    problem = prepare(embeddings, labels, database, database_labels, similarity=similarity, unlabeled=unlabeled)
    return score_problem(problem, ["map@r"], ties)["map@r"]


def parse(name: str) -> tuple[str, int]:
    """The kind of a score and its K, 0 where it has none; an error for a name that is not a retrieval score.

    >>> parse("recall@8"), parse("mrr")
    (('recall', 8), ('mrr', 0))
    """
    match = re.fullmatch(r"(recall|precision)@([1-9][0-9]*)", name)
    if match:
        return match[1], int(match[2])
    return check_choice(name, "scores", RETRIEVAL[2:]), 0


def score_problem(problem: Retrieval, names: Iterable[str], ties: Ties = "index") -> dict[str, float]:
    """The named scores of a prepared problem, in one pass that looks at nothing they do not need."""
    return {name: float(np.mean(each, dtype=np.float64)) for name, each in score_each(problem, names, ties).items()}


def score_each(problem: Retrieval, names: Iterable[str], ties: Ties = "index") -> dict[str, NDArray[Any]]:
    """The same query by query: of every query that has something to find, in their order."""
    check_choice(ties, "ties", get_args(Ties))
    wanted = {name: parse(name) for name in names}
    if not wanted:
        raise ParameterError(
            f"`scores` must name at least one score, got none. Choose from {', '.join(RETRIEVAL)}."
        )
    if not problem.positives.any():
        raise LabelError(
            f"`labels` must give at least one query something to find: none of the {len(problem.queries)} queries "
            f"has another item of its class in the database of {len(problem.database)}. Check that the labels are "
            f"classes and not item numbers."
        )
    kinds = {kind for kind, _ in wanted.values()}
    at_r = bool(kinds & {"map@r", "r-precision"})
    listed = {k for kind, k in wanted.values() if kind == "precision"}
    hit = {k for kind, k in wanted.values() if kind == "recall"}
    # A hit can be read off a list that is kept anyway; otherwise counting is cheaper than keeping a list.
    shallow = (at_r or bool(listed)) and max(hit, default=0) <= max(16, *listed, 0)
    before = "mrr" in kinds or (bool(hit) and not shallow)
    ks: Sequence[int] = sorted(listed if before else listed | hit)
    ranks = rank(problem, ks=ks, at_r=at_r, before=before, ties=ties)
    some, right = problem.answerable, problem.positives[problem.answerable]

    def each(kind: str, k: int) -> NDArray[Any]:
        if kind == "recall" and ranks.before is not None:
            return np.asarray(ranks.before[some] < k)
        if kind == "recall":
            return np.asarray(ranks.profile.hits[k][some] > 0)
        if kind == "precision":
            return np.asarray(ranks.profile.hits[k][some] / k)
        if kind == "map@r":
            return np.asarray(ranks.profile.average[some])
        if kind == "r-precision":
            return np.asarray(ranks.profile.at_r[some] / right)
        return np.asarray(1 / (np.asarray(ranks.before)[some] + 1))

    return {name: each(kind, k) for name, (kind, k) in wanted.items()}
