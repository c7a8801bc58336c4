"""How far to trust a learned matrix: the mixture with the Euclidean distance that votes best.

A matrix learned from few or random pairs can be worse than no learning. On the straight line from the learned
matrix (brought to the spread of the data) to the identity, distances mix linearly, so a handful of mixtures cost
one pair of distance matrices. The mixture with the most right answers in a leave-one-out 3-NN vote wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from nearer._validation import check_number
from nearer.estimators._matrices import Array, factor_psd
from nearer.estimators._scatter import total_scatter
from nearer.estimators.neighbors._near import leave_one_out_votes, squared_distances

__all__ = ["choose_blend", "mix_with_identity"]

_CANDIDATES = (0.0, 0.25, 0.5, 0.75, 1.0)
_QUERIES, _DATABASE, _K = 1000, 4000, 3


def _to_spread(matrix: Array, covariance: Array) -> Array:
    """Scale M so that the mean squared distance of the data is the Euclidean one; the zero matrix stays."""
    learned = float(np.einsum("ij,ji->", matrix, covariance))
    euclidean = float(np.trace(covariance))
    if learned <= 0 or euclidean <= 0:
        return matrix
    result: Array = matrix * (euclidean / learned)
    return result


def mix_with_identity(matrix: Array, covariance: Array, amount: float) -> Array:
    """`(1 − a) s M + a I` with s such that both parts spread data of this covariance equally; a = 0 gives M itself.

    >>> mix_with_identity(np.diag([4.0, 0.0]), np.eye(2), 0.5)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    if amount == 0:
        return matrix
    result: Array = (1 - amount) * _to_spread(matrix, covariance) + amount * np.eye(len(matrix))
    return result


def choose_blend(X: Any, codes: Array, matrix: Array, rng: np.random.RandomState) -> float:
    """The amount of identity, one of 0, ¼, ½, ¾, 1, with the best leave-one-out 3-NN vote on the training rows.

    At most 1,000 rows vote among at most 4,000. A lead of the learned matrix that
    is smaller than half the standard deviation of the errors does not count.

    >>> X = np.array([[0, 0], [0, 9], [0, -7], [1, 1], [1, 8], [1, -8.0]])
    >>> choose_blend(X, np.array([0, 0, 0, 1, 1, 1]), np.diag([1.0, 0.0]), np.random.RandomState(0)) < 0.5
    True
    """
    n = X.shape[0]
    if n <= _K:
        return 0.0
    rows = np.arange(n) if n <= _DATABASE else rng.permutation(n)[:_DATABASE]
    sample = X[rows]
    dense = (sample.toarray() if sparse.issparse(sample) else sample).astype(np.float64)
    dense -= dense.mean(axis=0)
    scaled = _to_spread(matrix, total_scatter(dense))
    unit = np.sqrt(np.square(dense).sum(axis=1).mean())
    if unit == 0:
        return 0.0
    # float32 is enough to rank neighbours once the data has unit spread, and twice as fast.
    plain = (dense / unit).astype(np.float32)
    learned = (dense @ factor_psd(scaled).T / unit).astype(np.float32)
    codes = codes[rows]
    n_classes = int(codes.max()) + 1
    right = np.zeros(len(_CANDIDATES))
    for start in range(0, min(_QUERIES, len(rows)), 250):
        stop = min(start + 250, _QUERIES, len(rows))
        first = squared_distances(learned[start:stop], learned)
        second = squared_distances(plain[start:stop], plain)
        own = np.arange(stop - start)
        first[own, own + start] = np.inf
        for place, amount in enumerate(_CANDIDATES):
            distance = first if amount == 0 else (1 - amount) * first + amount * second if amount < 1 else second
            distance[own, own + start] = np.inf
            near = np.argpartition(distance, _K - 1, axis=1)[:, :_K]
            right[place] += (leave_one_out_votes(codes[near], n_classes) == codes[start:stop]).sum()
    # The learned matrix has seen these rows, so a lead within half a standard deviation of the errors is no lead.
    asked = min(_QUERIES, len(rows))
    enough = right.max() - 0.5 * np.sqrt(max(asked - right.max(), 0))
    return max(amount for amount, count in zip(_CANDIDATES, right, strict=True) if count >= enough)


def resolve_blend(
    blend: float | str, X: Any, codes: Array | None, matrix: Array, rng: np.random.RandomState
) -> float:
    """A number as it is, "auto" by `choose_blend` when there are labels and 0 when there are none."""
    if blend == "auto":
        return 0.0 if codes is None else choose_blend(X, codes, matrix, rng)
    return check_number(blend, "blend", minimum=0, maximum=1)
