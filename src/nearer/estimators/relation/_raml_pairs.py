"""The pairs that relation alignment learns from, and sums over them without a matrix of differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse

from nearer.estimators._matrices import Array, symmetric
from nearer.estimators._sampling import near_pairs
from nearer.estimators.neighbors._near import nearest_rows
from nearer.exceptions import LabelError, ShapeError
from nearer.relations import ClassLabels, PartialLabels
from nearer.relations._shared import GradedRelation, TableRelation, relation_of

_BLOCK = 1 << 12
_ROWS_AT_LEAST = 10_000
_FEW_ENTRIES = 1 << 23  # of X: mapping all rows at once then stays below 64 MB


def table_relation(
    y: Any, *, kind: str, function: str | Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> TableRelation:
    """The relation of the labels of all rows; relation alignment has no use for rows without one.

    >>> type(table_relation([0, 0, 1], kind="auto", function="auto")).__name__
    'ClassLabels'
    """
    relation = relation_of(y, kind=kind, function=function)
    if isinstance(relation, PartialLabels):
        raise LabelError(
            f"`y` must give every row a label, got {int((relation.queries == -1).sum())} rows with -1. Drop them, "
            f"use a semi-supervised learner, or pass kind='classes' if -1 is a class."
        )
    return relation


def choose_pairs(
    X: Array, relation: TableRelation, *, k: int, random: int, max_pairs: int, rng: np.random.RandomState
) -> Array:
    """Pairs (m, 2) of rows: each row with its nearest rows and with `random` rows drawn at random.

    With classes the nearest are k of the same and k of other classes, otherwise k whatever their labels. A pair
    found from both sides is listed once. More than `max_pairs` are cut to a random choice; of a table with far more
    rows than that takes (and more than 10,000) only some rows are asked and answer, so that a million rows cost no
    more than as many as the pairs need. A metric of p columns has p(p + 1)/2 numbers to learn, however many rows.

    >>> from nearer.relations import Numbers
    >>> X = np.array([[0.0], [1.0], [5.0]])
    >>> rng = np.random.RandomState(0)
    >>> choose_pairs(X, Numbers([0.0, 0.5, 2.5]), k=1, random=0, max_pairs=9, rng=rng).tolist()
    [[0, 1], [1, 2]]
    """
    codes = relation.queries.numpy() if isinstance(relation, ClassLabels) else None
    enough = max(max_pairs // max((k if codes is None else 2 * k) + random, 1), _ROWS_AT_LEAST)
    drawn = _draw_rows(len(X), codes, enough, k, rng) if len(X) > enough else np.arange(len(X))
    X, n = X[drawn] if len(drawn) < len(X) else X, len(drawn)
    parts = []
    if codes is not None:
        codes = codes[drawn]
        parts.append(near_pairs(X, codes, k, rng)[0] if k else np.empty((0, 2), dtype=np.int64))
    elif k:
        near = nearest_rows(X, X, min(k, n - 1), own=np.arange(n))
        parts.append(np.column_stack([np.repeat(np.arange(n), near.shape[1]), near.ravel()]))
    if random:
        left = np.repeat(np.arange(n), random)
        right = (left + 1 + (rng.random_sample(len(left)) * (n - 1)).astype(np.int64)) % n
        parts.append(np.column_stack([left, right]))
    if not parts:
        raise LabelError(
            "`n_neighbors` and `n_random` must not both be 0: without pairs there is nothing to learn from."
        )
    pairs = np.sort(np.concatenate(parts), axis=1)
    listed = np.unique(pairs[:, 0] * n + pairs[:, 1])
    if len(listed) > max_pairs:
        listed = np.sort(rng.permutation(listed)[:max_pairs])
    return drawn[np.column_stack([listed // n, listed % n])]


def _draw_rows(n: int, codes: Array | None, count: int, k: int, rng: np.random.RandomState) -> Array:
    """About `count` of n rows in their order: at random, or whole classes where these would lose their hits."""
    order = rng.permutation(n)
    if codes is not None:
        group = np.unique(codes, return_inverse=True)[1]
        classes = int(group.max()) + 1
        if count < 2 * (k + 1) * classes:
            order = order[np.argsort(rng.permutation(classes)[group[order]], kind="stable")]
    return np.sort(order[:count])


def pair_targets(relation: TableRelation, pairs: Array) -> Array:
    """How far apart each pair should be, g = farthest·(1 − degree), (m,).

    >>> pair_targets(ClassLabels([0, 0, 1]), np.array([[0, 1], [0, 2]]))
    array([0., 2.])
    """
    left, right = (torch.from_numpy(side.copy()) for side in pairs.T)
    if isinstance(relation, GradedRelation):
        difference = relation.difference
        g = difference.paired(relation.queries[left], relation.queries[right])
        return g.double().numpy() * (relation.farthest / relation.largest)
    return 2.0 * (relation.queries[left] != relation.queries[right]).double().numpy()


class PairSums:
    """`⟨M, T_p⟩` of every pair and `Σ_p w_p T_p`, with `T_p = Δ_pΔ_pᵀ`, and no matrix of all differences.

    Rows X (n, p) and pairs (m, 2) of row numbers; pairs of equal rows add nothing. With few rows against pairs,
    `Σ w_p T_p = Xᵀ(diag(W1) − W)X` costs O(n p² + m p); otherwise differences are formed in blocks, O(m p²).

    >>> sums = PairSums(np.array([[0.0], [1.0], [3.0]]), np.array([[0, 1], [0, 2]]))
    >>> sums.distances(np.eye(1)), sums.scatter(np.ones(2))
    (array([1., 9.]), array([[10.]]))
    """

    def __init__(self, X: Array, pairs: Array) -> None:
        if len(pairs) < 2:
            raise ShapeError(f"relation alignment must see at least two pairs of different rows, got {len(pairs)}.")
        self.X, self.pairs = X, pairs
        self.size = X.shape[1]
        self.few_rows = 2 * len(X) <= len(pairs) and X.size <= _FEW_ENTRIES

    def __len__(self) -> int:
        return len(self.pairs)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Differences `x_i − x_j`, some pairs at a time."""
        for start in range(0, len(self.pairs), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(self.pairs)))
            yield part, self.X[self.pairs[part, 0]] - self.X[self.pairs[part, 1]]

    def distances(self, matrix: Array) -> Array:
        """`Δ_pᵀ M Δ_p`, (m,)."""
        result = np.empty(len(self.pairs))
        matrix = matrix.astype(self.X.dtype, copy=False)
        mapped = self.X @ matrix if self.few_rows else None
        for part, delta in self.blocks():
            if mapped is None:
                turned = delta @ matrix
            else:
                turned = mapped[self.pairs[part, 0]] - mapped[self.pairs[part, 1]]
            result[part] = np.einsum("ij,ij->i", turned, delta)
        return result

    def scatter(self, weights: Array) -> Array:
        """`Σ_p w_p Δ_pΔ_pᵀ`, (p, p)."""
        if self.few_rows:
            n, (left, right) = len(self.X), self.pairs.T
            between = sparse.coo_array((weights, (left, right)), shape=(n, n)).tocsr()
            own = np.bincount(left, weights, n) + np.bincount(right, weights, n)
            return symmetric(self.X.T @ (self.X * own[:, None] - between @ self.X - between.T @ self.X))
        total = np.zeros((self.size, self.size))
        for part, delta in self.blocks():
            total += delta.T @ (delta * weights[part, None].astype(delta.dtype))
        return symmetric(total)

    def apply(self, matrix: Array, *, centered: bool) -> Array:
        """`Σ_p (⟨M, T_p⟩ − mean) T_p`, or without the mean, in one sweep over the pairs; (p, p)."""
        if self.few_rows:
            q = self.distances(matrix)
            return self.scatter(q - q.mean() if centered else q)
        total = np.zeros((self.size, self.size))
        sum_of = 0.0
        small = matrix.astype(self.X.dtype, copy=False)
        for _, delta in self.blocks():
            q = np.einsum("ij,ij->i", delta @ small, delta)
            total += delta.T @ (delta * q[:, None])
            sum_of += float(q.sum(dtype=np.float64))
        if centered:
            total -= self.mean_scatter() * sum_of
        return symmetric(total)

    def mean_scatter(self) -> Array:
        """The mean of all T_p, (p, p), computed once."""
        if not hasattr(self, "_mean"):
            self._mean = self.scatter(np.ones(len(self.pairs))) / len(self.pairs)
        return self._mean
