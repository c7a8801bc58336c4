"""One call for everything: which scores, on what, by which rules.

`evaluate` computes retrieval and clustering scores of embeddings, `evaluate_multilabel` and `evaluate_distribution`
the scores of predictions. All return an `Evaluation`, and compute only what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_matrix
from nearer.evaluation import _clustering as clustering
from nearer.evaluation import _distribution as distribution
from nearer.evaluation import _multilabel as multilabel
from nearer.evaluation import _retrieval as retrieval
from nearer.evaluation._clustering import CLUSTERERS, Effort
from nearer.evaluation._engine._problem import Ties, Unlabeled, prepare
from nearer.evaluation._paired import check_sample, score_sample
from nearer.evaluation._result import Evaluation
from nearer.exceptions import ParameterError
from nearer.neighbors._shared import Similarity

DEFAULT_SCORES = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r", "r-precision", "nmi")

CLUSTERING: dict[str, Callable[[Any, Any], float]] = {
    "nmi": clustering.nmi,
    "ami": clustering.ami,
    "ari": clustering.ari,
    "purity": clustering.purity,
    "f1": clustering.pairwise_f1,
}
NAMES = (*retrieval.RETRIEVAL, *CLUSTERING)


def evaluate(
    embeddings: Any,
    labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    scores: Sequence[str] = DEFAULT_SCORES,
    similarity: Similarity = "euclidean",
    ties: Ties = "index",
    unlabeled: Unlabeled = "error",
    sample: int | float | None = None,
    seed: int = 0,
    effort: Effort = "quick",
) -> Evaluation:
    """Score embeddings (q, d) with labels (q,), searched in themselves or in a `database` (n, d) with its labels.

    `scores` may name "recall@K" and "precision@K" for any K, "map@r", "r-precision", "mrr", and for a k-means
    clustering with as many clusters as classes "nmi", "ami", "ari", "purity" and "f1" (pairs). Clusters are made of
    the `embeddings` alone, on the unit sphere when the similarity is the cosine; `seed` is theirs. `effort` "quick"
    is one k-means from random points, "thorough" the better one of `kmeans`, which takes several times as long;
    compare scores of one effort only, which the settings of the result name (clusterer).

    Items are ordered by similarity, then by index; `ties="pessimistic"` puts every wrong item of equal similarity
    first, `"optimistic"` last. Queries without another item of their class are left out and counted. Labels may be
    any integers or names; −1 means unlabelled, which is an error unless `unlabeled` says "ignore" (leave those
    rows out) or "class" (−1 is a class like any other).

    >>> points = [[1, 0], [2, 1], [0, 1], [1, 3], [9, 9]]
    >>> print(evaluate(points, ["a", "a", "b", "b", "c"], scores=["recall@1", "map@r"], similarity="cosine"))
    score      value
    recall@1  0.7500
    map@r     0.7500
    queries 4, excluded 1, unlabeled 0, database 5, classes 3, dimension 2
    similarity cosine, ties index, unlabeled error, search itself

    Of very many rows `sample` asks some of the queries, in the whole database: so many of them drawn at random
    (2000), or as many as it takes for every retrieval score to be known to this much (0.002, the half of a 95 %
    interval). The result then has `intervals`. Clustering scores are always of all rows; with a sample they are
    left out unless they are named.

    Args:
        embeddings: rows to score, (n, d).
        labels: classes of the rows, (n,).
        database: rows to search in, (m, d); None searches each row among the others.
        database_labels: classes of the database, (m,).
        scores: which scores, by name.
        similarity: "euclidean", "cosine" or "dot".
        ties: how equal similarities are ordered: "index", "optimistic" or "pessimistic".
        unlabeled: what −1 means: "error", "ignore" or "class".
        sample: how many queries to ask, or how exact the scores must be (below 1); None asks all.
        seed: of the clustering and of the sample.
        effort: of the k-means: "quick" or "thorough".
    """
    names = [scores] if isinstance(scores, str) else list(scores)
    wanted = check_sample(sample)
    if wanted is not None and scores is DEFAULT_SCORES:
        names = [name for name in names if name not in CLUSTERING]
    if not names:
        raise ParameterError(f"`scores` must name at least one score, got none. Choose from {', '.join(NAMES)}.")
    asked = list(dict.fromkeys(_known(name) for name in names))
    seed = check_int(seed, "seed", minimum=0)
    check_choice(ties, "ties", get_args(Ties))
    check_choice(effort, "effort", get_args(Effort))
    problem = prepare(embeddings, labels, database, database_labels, similarity=similarity, unlabeled=unlabeled)
    values: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    queries = len(problem.queries) - problem.excluded
    lists = [name for name in asked if name not in CLUSTERING]
    if lists and wanted is not None:
        values, intervals, queries = score_sample(problem, lists, ties, wanted, seed)
    elif lists:
        values = retrieval.score_problem(problem, lists, ties)
    groups = [name for name in asked if name in CLUSTERING]
    classes = np.unique(problem.query_codes)
    if groups:
        clusters = clustering.clusters(problem.queries, len(classes), seed, effort)
        values |= {name: CLUSTERING[name](problem.query_codes, clusters) for name in groups}
    settings: dict[str, Any] = {
        "similarity": similarity,
        "ties": ties,
        "unlabeled": unlabeled,
        "search": "itself" if database is None else "database",
    }
    if groups:
        settings["clusterer"] = CLUSTERERS[effort]
    if wanted is not None:
        settings["sample"] = wanted
    if groups or wanted is not None:
        settings["seed"] = seed
    counts = {
        "queries": queries,
        "excluded": problem.excluded,
        "unlabeled": problem.unlabeled,
        "database": len(problem.database),
        "classes": len(classes),
        "dimension": problem.queries.shape[1],
    }
    return Evaluation({name: values[name] for name in asked}, settings, counts, intervals=intervals)


def _known(name: str) -> str:
    """The name itself when it is a score; otherwise an error that suggests one."""
    if name in CLUSTERING:
        return name
    try:
        retrieval.parse(name)
    except ParameterError:
        check_choice(name, "scores", NAMES)
        raise ParameterError(
            f"`scores` must give a number for K, got {name!r}. Write for example 'recall@8'."
        ) from None
    return name


def evaluate_multilabel(
    scores: Any,
    targets: Any,
    predictions: Any = None,
    *,
    threshold: float = 0.5,
    ties: multilabel.TieRule = "index",
) -> Evaluation:
    """All multi-label scores of label scores (n, q) against 0/1 targets (n, q).

    `predictions` (n, q) are needed for the Hamming loss; without them a label is predicted when its score is at
    least `threshold`. Instances whose labels are all relevant or all irrelevant are left out where a score is not
    defined for them, and counted.

    >>> print(evaluate_multilabel([[0.9, 0.2, 0.7], [0.1, 0.6, 0.3]], [[1, 0, 0], [1, 1, 1]]))
    score               value
    hamming-loss       0.5000
    ranking-loss       0.0000
    one-error          0.0000
    coverage           1.0000
    average-precision  1.0000
    instances 2, left out 1, labels 3
    ties index

    Args:
        scores: predicted degrees, (n, q).
        targets: 0/1 matrix, (n, q).
        predictions: predicted 0/1 matrix; None takes the scores at the threshold.
        threshold: from which score a label is predicted.
        ties: how equal similarities are ordered: "index", "optimistic" or "pessimistic".
    """
    threshold = check_number(threshold, "threshold")
    if predictions is None:
        predictions = as_matrix(scores, "scores").detach().cpu().numpy() >= threshold
    values = {
        "hamming-loss": multilabel.hamming_loss(predictions, targets),
        "ranking-loss": multilabel.ranking_loss(scores, targets, ties=ties),
        "one-error": multilabel.one_error(scores, targets, ties=ties),
        "coverage": multilabel.coverage(scores, targets, ties=ties),
        "average-precision": multilabel.average_precision(scores, targets, ties=ties),
    }
    keep = multilabel.ranked(targets)
    counts = {
        "instances": len(keep),
        "left out": int(np.count_nonzero(~keep)),
        "labels": as_matrix(scores, "scores").shape[1],
    }
    return Evaluation(values, {"ties": ties}, counts, frozenset(set(values) - {"average-precision"}))


def evaluate_distribution(predicted: Any, targets: Any, *, smoothing: float = 1e-6) -> Evaluation:
    """All label-distribution scores of predicted distributions (n, q) against the true ones (n, q).

    >>> print(evaluate_distribution([[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]]))
    score         value
    chebyshev     0.0000
    clark         0.0000
    canberra      0.0000
    kl            0.0000
    cosine        1.0000
    intersection  1.0000
    instances 1, labels 3
    smoothing 1e-06

    Args:
        predicted: distributions, (n, q).
        targets: the true ones, (n, q).
        smoothing: added to every entry of both sides for the divergence.
    """
    scores = {
        "chebyshev": distribution.chebyshev(predicted, targets),
        "clark": distribution.clark(predicted, targets),
        "canberra": distribution.canberra(predicted, targets),
        "kl": distribution.kullback_leibler(predicted, targets, smoothing=smoothing),
        "cosine": distribution.cosine(predicted, targets),
        "intersection": distribution.intersection(predicted, targets),
    }
    n, q = as_matrix(predicted, "predicted").shape
    lower = frozenset({"chebyshev", "clark", "canberra", "kl"})
    return Evaluation(scores, {"smoothing": smoothing}, {"instances": n, "labels": q}, lower)
