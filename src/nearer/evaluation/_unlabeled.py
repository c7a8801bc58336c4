"""How good embeddings are where nothing is labelled: whether they collapsed, and how alike two encoders are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.evaluation._result import Evaluation
from nearer.exceptions import ShapeError
from nearer.neighbors import search
from nearer.neighbors._shared import Similarity


def evaluate_unlabeled(
    embeddings: Any,
    other: Any = None,
    *,
    k: int = 10,
    similarity: Similarity = "cosine",
    sample: int = 10_000,
    seed: int = 0,
) -> Evaluation:
    """Scores of embeddings (n, d) without labels, and their agreement with those of another encoder, (n, d').

    - "effective-rank": e to the entropy of the singular values of the centred rows, from 1 (all on a line) to d;
      divided by d it is "rank-share". A low share means that directions have collapsed (RankMe, Garrido et al.,
      2023, who do not centre).
    - "mean-cosine": the mean cosine of two rows. Near 1 the rows lie in a narrow cone, and a fixed threshold means
      nothing.
    - "hubness": the skewness of how often a row is among the k nearest of others; 0 without hubs, above about 1.5
      a few items are found by everybody (Radovanović et al., 2010). "never-found" is the share of rows that nobody
      has among the k.
    - "twins": the share of rows with an equal other row.
    - "agreement": with `other`, the mean share of the k nearest rows that both have.

    These say what is broken, not what is good: no number here tells whether the neighbors mean what they should.

    >>> rows = [[1, 0], [0, 1], [-1, 0], [0, -1.0]]
    >>> print(evaluate_unlabeled(rows, k=1))
    score             value
    effective-rank   2.0000
    rank-share       1.0000
    mean-cosine     -0.3333
    hubness          0.0000
    never-found      0.5000
    twins            0.0000
    rows 4, asked 4, dimension 2
    similarity cosine, k 1

    Args:
        embeddings: rows, (n, d).
        other: the same items by another encoder, (n, d').
        k: neighbors.
        similarity: "euclidean", "cosine" or "dot".
        sample: of more rows so many are drawn, and searched among themselves.
        seed: of the sample.
    """
    every = as_matrix(embeddings, "embeddings", minimum_rows=3)
    rows = every.detach().cpu().numpy()
    drawn = np.arange(len(rows))
    if len(rows) > check_int(sample, "sample", minimum=3):
        drawn = np.sort(np.random.default_rng(check_int(seed, "seed", minimum=0)).permutation(len(rows))[:sample])
    rows = _in_range(rows[drawn])
    k = check_int(k, "k", maximum=len(rows) - 1)
    near = search(rows, None, k, similarity=similarity).indices.numpy()
    times = np.bincount(near.ravel(), minlength=len(rows)).astype(np.float64)
    rank, dimension = _effective_rank(rows), rows.shape[1]
    scores = {
        "effective-rank": rank,
        "rank-share": rank / dimension,
        "mean-cosine": _mean_cosine(rows),
        "hubness": _skewness(times),
        "never-found": float((times == 0).mean()),
        "twins": 1 - len(np.unique(rows, axis=0)) / len(rows),
    }
    if other is not None:
        beside = _in_range(as_matrix(other, "other").detach().cpu().numpy())
        if len(beside) != len(every):
            raise ShapeError(f"`other` must hold the same {len(every)} items, got {len(beside)} rows.")
        theirs = search(beside[drawn], None, k, similarity=similarity).indices.numpy()
        scores["agreement"] = float((near[:, :, None] == theirs[:, None, :]).any(axis=2).mean())
    counts = {"rows": len(every), "asked": len(rows), "dimension": dimension}
    lower = frozenset({"mean-cosine", "hubness", "never-found", "twins"})
    return Evaluation(scores, {"similarity": similarity, "k": k}, counts, lower)


def _in_range(rows: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Rows whose products are numbers: where they are not, divided by a constant, which no score sees."""
    largest = float(np.abs(rows).max())
    return rows / largest if largest and not 1e-15 < largest < 1e15 else rows


def _effective_rank(rows: NDArray[np.floating[Any]]) -> float:
    """e^H of the singular values, each divided by their sum; 1 where all rows are equal."""
    centered = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    if len(rows) > rows.shape[1]:
        values = np.sqrt(np.linalg.eigvalsh(centered.T @ centered).clip(min=0))
    else:
        values = np.linalg.svd(centered, compute_uv=False)
    total = values.sum()
    if total <= 1e-12 * max(1.0, float(np.abs(rows).max())):
        return 1.0
    shares = values[values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _mean_cosine(rows: NDArray[np.floating[Any]]) -> float:
    """Of all pairs of two rows, from the length of the sum of the unit rows."""
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    unit = rows / np.where(lengths > 0, lengths, 1)[:, None]
    n = len(rows)
    return float((np.square(unit.sum(axis=0)).sum() - np.count_nonzero(lengths)) / (n * (n - 1)))


def _skewness(values: NDArray[np.float64]) -> float:
    centered = values - values.mean()
    deviation = np.sqrt(np.square(centered).mean())
    return float(np.power(centered, 3).mean() / deviation**3) if deviation > 0 else 0.0
