"""How far to trust a learned matrix: on the line from it to the identity, the mixture whose neighbors are best.

A matrix learned from few or random pairs can be worse than no learning. Every learner of a matrix has `blend`, the
share of the identity in `(1 − blend)·s·M + blend·I`, with s such that both parts spread the data equally: 0 is the
published method, 1 the features as they are, "auto" asks the training rows. Distances mix linearly, so all mixtures
cost one pair of distance matrices. What counts as good neighbors depends on the labels that there are:

- a class for every row: right answers of a leave-one-out 3-NN vote (`choose_blend`);
- label sets, distributions, numbers: the error of the mean label of the neighbors (`raml_blend`);
- a class for some rows: agreement with labels that were spread over the graph (`choose_spread_blend`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from nearer._checks import check_number
from nearer.estimators._matrices import Array, factor_psd
from nearer.estimators._scatter import total_scatter
from nearer.neighbors import vote
from nearer.neighbors._shared import k_smallest, squared_distances

AMOUNTS = (0.0, 0.25, 0.5, 0.75, 1.0)
# With labels for some rows only, less learning is often enough: more steps near the identity.
SPREAD_AMOUNTS = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)
_QUERIES, _DATABASE, _K = 1000, 4000, 3
_SPREAD_K, _SPREAD_GAMMA, _SPREAD_ROWS = 10, 0.9, 5000


def _to_spread(matrix: Array, covariance: Array) -> Array:
    """Scale M so that the mean squared distance of the data is the Euclidean one; the zero matrix stays."""
    learned = float(np.einsum("ij,ji->", matrix, covariance))
    euclidean = float(np.trace(covariance))
    if learned <= 0 or euclidean <= 0:
        return matrix
    return matrix * (euclidean / learned)


def mix_with_identity(matrix: Array, covariance: Array, amount: float) -> Array:
    """`(1 − a) s M + a I` with s such that both parts spread data of this covariance equally; a = 0 gives M itself.

    >>> mix_with_identity(np.diag([4.0, 0.0]), np.eye(2), 0.5)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    if amount == 0:
        return matrix
    return (1 - amount) * _to_spread(matrix, covariance) + amount * np.eye(len(matrix))


def mixture_neighbors(
    rows: Array, matrix: Array, amounts: Sequence[float], *, k: int, queries: int
) -> Array | None:
    """The k nearest other rows of the first `queries` rows (n, p) under every mixture: (len(amounts), queries, k).

    None when all rows are equal.

    >>> mixture_neighbors(np.array([[0.0, 0], [1, 9], [2, 1]]), np.diag([1.0, 0.0]), (0.0, 1.0), k=1, queries=1)
    array([[[1]],
    <BLANKLINE>
           [[2]]])
    """
    centered = rows.astype(np.float64)
    centered -= centered.mean(axis=0)
    unit = np.sqrt(np.square(centered).sum(axis=1).mean())
    if unit == 0:
        return None
    # float32 is enough to rank neighbors once the data has unit spread, and twice as fast.
    plain = (centered / unit).astype(np.float32)
    scaled = _to_spread(matrix, total_scatter(centered))
    learned = (centered @ factor_psd(scaled).T / unit).astype(np.float32)
    result = np.empty((len(amounts), queries, k), dtype=np.int64)
    step = max(1, min(250, (1 << 22) // len(rows)))
    for start in range(0, queries, step):
        part = slice(start, min(start + step, queries))
        first = squared_distances(learned[part], learned)
        second = squared_distances(plain[part], plain)
        block = np.arange(part.stop - start)
        for number, amount in enumerate(amounts):
            distance = (1 - amount) * first + amount * second
            distance[block, block + start] = np.inf
            result[number, part] = k_smallest(distance, k)
    return result


def _sample(X: Any, most: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """At most so many random rows, as a dense array, and their numbers."""
    n = X.shape[0]
    numbers = np.arange(n) if n <= most else rng.permutation(n)[:most]
    rows = X[numbers]
    return (rows.toarray() if sparse.issparse(rows) else rows), numbers


def choose_blend(X: Any, codes: Array, matrix: Array, rng: np.random.RandomState) -> float:
    """The amount of identity, one of 0, ¼, ½, ¾, 1, with the best leave-one-out 3-NN vote on the training rows.

    At most 1,000 rows vote among at most 4,000. A lead of the learned matrix that is smaller than half the standard
    deviation of the errors does not count.

    >>> X = np.array([[0, 0], [0, 9], [0, -7], [1, 1], [1, 8], [1, -8.0]])
    >>> choose_blend(X, np.array([0, 0, 0, 1, 1, 1]), np.diag([1.0, 0.0]), np.random.RandomState(0)) < 0.5
    True
    """
    if X.shape[0] <= _K:
        return 0.0
    rows, numbers = _sample(X, _DATABASE, rng)
    asked = min(_QUERIES, len(rows))
    near = mixture_neighbors(rows, matrix, AMOUNTS, k=_K, queries=asked)
    if near is None:
        return 0.0
    codes = codes[numbers]
    right = np.array([(vote(codes[each]) == codes[:asked]).sum() for each in near])
    # The learned matrix has seen these rows, so a lead within half a standard deviation of the errors is no lead.
    enough = right.max() - 0.5 * np.sqrt(max(asked - right.max(), 0))
    return max(amount for amount, count in zip(AMOUNTS, right, strict=True) if count >= enough)


def spread_agreement(
    X: Array,
    codes: Array,
    matrix: Array,
    amounts: Sequence[float] = SPREAD_AMOUNTS,
    *,
    hidden: Array | None = None,
) -> Array:
    """How good the neighbors under every mixture are if only some rows (codes ≥ 0) have a class: (len(amounts),).

    The given labels are spread over the graph of the rows as they are, once; A is the share of rows whose nearest
    neighbor under the mixture has the same spread label. It trusts the features that were given, so it sees harm
    better than gain. S is the same share with labels spread over the graph of the mixture itself, which sees gain
    and has no guard against harm. The value is `A + S`.

    A learner that is trained on spread labels is judged by `hidden`, the codes of labelled rows that it was not
    shown: A is then of labels spread from the hidden ones, and S, with half the weight, the share of hidden labels
    that `codes`, spread over the graph of the mixture, get right.

    >>> X = np.array([[0, 0], [0, 9], [0, -7], [1, 1], [1, 8], [1, -8.0]])
    >>> spread_agreement(X, np.array([0, 0, -1, 1, 1, -1]), np.diag([1.0, 0.0]), (0.0, 1.0)).shape
    (2,)
    """
    n = len(X)
    near = mixture_neighbors(X, matrix, amounts, k=1, queries=n)
    if near is None:
        return np.zeros(len(amounts))
    covariance = total_scatter(X - X.mean(axis=0)) / n
    spread = _spread(X, codes if hidden is None else hidden)
    result = np.empty(len(amounts))
    for number, amount in enumerate(amounts):
        nearest = near[number, :, 0]
        result[number] = _agreeing(spread, nearest)
        mapped = X @ factor_psd(mix_with_identity(matrix, covariance, amount)).T
        own = _spread(mapped, codes)
        if hidden is None:
            result[number] += _agreeing(own, nearest)
        else:
            asked = hidden >= 0
            result[number] += float((own[asked] == hidden[asked]).mean()) / 2
    return result


def _spread(rows: Array, codes: Array) -> Array:
    # Late: a metric in closed form from class labels needs neither a graph nor PyTorch.
    import torch

    from nearer.graph import class_shares, nearest_neighbors

    graph = nearest_neighbors(torch.from_numpy(np.ascontiguousarray(rows)), k=_SPREAD_K, normalized=False)
    return class_shares(graph, codes, gamma=_SPREAD_GAMMA).pseudo_labels.numpy()


def _agreeing(labels: Array, nearest: Array) -> float:
    # Rows that no label reaches agree with nobody.
    return float(((labels[nearest] == labels) & (labels >= 0)).mean())


def choose_spread_blend(X: Array, codes: Array, matrix: Array, rng: np.random.RandomState) -> float:
    """The amount of identity by `spread_agreement` (see `step_back`). Without any label it is 0.

    On more than 5,000 rows all labelled and a random part of the unlabelled ones decide.

    >>> X = np.array([[0, 0], [0, 9], [0, -7], [1, 1], [1, 8], [1, -8.0]])
    >>> choose_spread_blend(X, np.full(6, -1), np.eye(2), np.random.RandomState(0))
    0.0
    """
    if not (codes >= 0).any() or len(X) < 3:
        return 0.0
    numbers = judged_rows(codes, rng)
    return step_back(SPREAD_AMOUNTS, spread_agreement(X[numbers], codes[numbers], matrix))


def judged_rows(codes: Array, rng: np.random.RandomState) -> Array:
    """All labelled rows, and at most so many random others that it is 5,000 together."""
    free = np.flatnonzero(codes < 0)
    known = np.flatnonzero(codes >= 0)
    most = max(0, _SPREAD_ROWS - len(known))
    if len(free) > most:
        free = rng.permutation(free)[:most]
    return np.sort(np.concatenate([known, free]))


def step_back(amounts: Sequence[float], score: Array) -> float:
    """The largest of the amounts (ascending) with the highest score, and one further: the best of several is lucky.

    >>> step_back((0.0, 0.5, 1.0), np.array([3.0, 2.0, 2.0])), step_back((0.0, 0.5, 1.0), np.ones(3))
    (0.5, 1.0)
    """
    best = int(np.flatnonzero(score >= score.max() - 1e-12)[-1])
    return amounts[min(best + 1, len(amounts) - 1)]


def halves(codes: Array, rng: np.random.RandomState) -> Array:
    """0 or 1 for every labelled row (codes ≥ 0), every class divided evenly at random; −1 for the others.

    >>> sorted(halves(np.array([3, -1, 3]), np.random.RandomState(0)).tolist())
    [-1, 0, 1]
    """
    result = np.full(len(codes), -1, dtype=np.int64)
    for code in np.unique(codes[codes >= 0]):
        members = rng.permutation(np.flatnonzero(codes == code))
        result[members] = np.arange(len(members)) % 2
    return result


def check_blend(blend: float | str) -> float | None:
    """The amount that was asked for, or None for "auto"."""
    return None if blend == "auto" else check_number(blend, "blend", minimum=0, maximum=1)


def resolve_blend(
    blend: float | str, X: Any, codes: Array | None, matrix: Array, rng: np.random.RandomState
) -> float:
    """A number as it is, "auto" by `choose_blend` when there are labels and 0 when there are none."""
    asked = check_blend(blend)
    if asked is not None:
        return asked
    return 0.0 if codes is None else choose_blend(X, codes, matrix, rng)
