"""Sums of `(x_i − x_j)(x_i − x_j)ᵀ` over pairs, without a loop over the pairs.

With class labels, `S_c` the scatter of class c about its own mean, `S_t` about the global mean:
`Scat_S = Σ_c n_c S_c` and `Scat_D = n S_t − Σ_c n_c S_c`, in O(n p²).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from nearer.estimators._matrices import Array, symmetric


class PairScatters(NamedTuple):
    """Scatter of the similar and of the dissimilar pairs, and how many pairs each of them sums."""

    similar: Array
    dissimilar: Array
    n_similar: float
    n_dissimilar: float


def _gram(X: Any, weights: Array | None = None) -> Array:
    """`Xᵀ diag(w) X` in float64, row blocks at a time for dense input; sparse input stays sparse."""
    if sparse.issparse(X):
        left = X.astype(np.float64)
        right = left if weights is None else sparse.diags_array(weights) @ left
        return np.asarray((left.T @ right).todense())
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, X.shape[0], 8192):
        block = X[start : start + 8192].astype(np.float64, copy=False)
        scaled = block if weights is None else block * weights[start : start + 8192, None]
        total += block.T @ scaled
    return total


def class_means(X: Any, codes: Array, counts: Array) -> Array:
    """The mean of each class, (c, p)."""
    rows = np.arange(len(codes))
    one_hot = sparse.csr_array((np.ones(len(codes)), (codes, rows)), shape=(len(counts), len(codes)))
    sums = one_hot @ X
    dense = sums.toarray() if sparse.issparse(sums) else np.asarray(sums, dtype=np.float64)
    return dense / counts[:, None]


def total_scatter(X: Any) -> Array:
    """`Σ_i (x_i − x̄)(x_i − x̄)ᵀ`, shape (n, p) -> (p, p).

    >>> total_scatter(np.array([[0.0], [2.0]]))
    array([[2.]])
    """
    return class_scatter(X, np.zeros(X.shape[0], dtype=np.int64))


def class_scatter(X: Any, codes: Array) -> Array:
    """`Σ_c S_c`, the scatter of all classes about their own means; codes are 0..c−1.

    >>> class_scatter(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]))
    array([[2.]])
    """
    counts = np.bincount(codes)
    return _within(X, codes, class_means(X, codes, np.maximum(counts, 1)), None)


def _within(X: Any, codes: Array, means: Array, class_weights: Array | None) -> Array:
    """`Σ_c w_c S_c` about the given means, one weight per class."""
    counts = np.bincount(codes, minlength=len(means)).astype(np.float64)
    per_class = np.ones(len(means)) if class_weights is None else class_weights.astype(np.float64)
    # Equal weights, as of classes of one size, need no product with every row.
    alike = np.ptp(per_class) == 0
    if sparse.issparse(X):
        gram = _gram(X, None if alike else per_class[codes]) * (per_class[0] if alike else 1.0)
        return symmetric(gram - means.T @ (means * (counts * per_class)[:, None]))
    roots = np.sqrt(per_class)
    total = np.zeros((X.shape[1], X.shape[1]))
    # Subtracting the means first keeps all digits when the mean is far larger than the spread.
    for start in range(0, X.shape[0], 8192):
        rows = slice(start, start + 8192)
        block = X[rows] - means[codes[rows]]
        if not alike:
            block *= roots[codes[rows], None]
        total += block.T @ block
    return symmetric(total * (per_class[0] if alike else 1.0))


def label_scatters(X: Any, codes: Array) -> PairScatters:
    """The scatters of all similar and all dissimilar pairs that class codes (n,) define, in O(n p²).

    >>> label_scatters(np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1]))[:2]
    (array([[1.]]), array([[13.]]))
    """
    counts = np.bincount(codes)
    n = len(codes)
    means = class_means(X, codes, np.maximum(counts, 1))
    similar = _within(X, codes, means, counts)
    # What is not inside the classes lies between their means: S_t = Σ S_c + Σ n_c (m_c − m)(m_c − m)ᵀ.
    within = similar / counts[0] if np.ptp(counts) == 0 else _within(X, codes, means, None)
    apart = means - counts @ means / n
    dissimilar = n * (within + apart.T @ (apart * counts[:, None])) - similar
    n_similar = int((counts * (counts - 1) // 2).sum())
    return PairScatters(similar, symmetric(dissimilar), n_similar, n * (n - 1) // 2 - n_similar)


def take_differences(X: Any, left: Array, right: Array) -> Array:
    """Rows `x_left − x_right`, dense float64 (m, p), whatever X is.

    >>> take_differences(np.array([[1.0], [4.0]]), np.array([1]), np.array([0]))
    array([[3.]])
    """
    difference = X[left] - X[right]
    dense = difference.toarray() if sparse.issparse(difference) else difference
    return np.asarray(dense, dtype=np.float64)


def pair_scatters(X: Any, pairs: Array, similar: Array) -> PairScatters:
    """The two scatters of listed pairs: `pairs` (m, 2) are row numbers of X, `similar` (m,) is boolean.

    >>> pair_scatters(np.array([[0.0], [1.0], [3.0]]), np.array([[0, 1], [0, 2]]), np.array([True, False]))[:2]
    (array([[1.]]), array([[9.]]))
    """
    sums = []
    for chosen in (pairs[similar], pairs[~similar]):
        total = np.zeros((X.shape[1], X.shape[1]))
        for start in range(0, len(chosen), 8192):
            delta = take_differences(X, chosen[start : start + 8192, 0], chosen[start : start + 8192, 1])
            total += delta.T @ delta
        sums.append(total)
    return PairScatters(sums[0], sums[1], int(similar.sum()), int((~similar).sum()))
