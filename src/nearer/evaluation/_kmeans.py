"""k-means by scikit-learn, set up so that a seed decides the result: centred data, one thread, several starts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nearer._checks import check_int
from nearer._validation import Array, as_matrix

__all__ = ["CLUSTERER", "Clustering", "kmeans"]


CLUSTERER = "scikit-learn k-means"
"""What evaluations say their clusters were made by."""
# Ten starts for up to ten clusters, one from a hundred on: one start is enough where there are many clusters, and
# the time stays about the same.
STARTS, CLUSTERS_IN_ALL_STARTS = 10, 100
# Points × clusters up to which k-means++ draws the starts. Its greedy form looks at all points for every cluster:
# for 60,000 points and 10,000 clusters that takes many times as long as the steps that follow.
SEEDED = 100_000_000
# Rows that are widened to float64 at a time.
BLOCK = 8192


@dataclass(frozen=True, eq=False)
class Clustering:
    """The result of k-means."""

    assignments: Array  # (n,) int64 in 0..k−1
    centers: Array  # (k, d) in the dtype of the data; the mean of the points assigned to it
    inertia: float  # Σ_i ‖x_i − c_{a_i}‖²


def kmeans(embeddings: Any, k: int, *, seed: int = 0) -> Clustering:
    """Group points around k centres: minimise Σ_i ‖x_i − c_{a_i}‖².

    `embeddings` has shape (n, d), with n ≥ k. The clusters are those of `sklearn.cluster.KMeans` with greedy
    k-means++, the best of min(10, 100/k) starts; beyond n·k = 10⁸ centres start at random points, which is faster
    and finds worse ones. The result is the same for the same seed, whatever the number of threads. Fewer than k
    different points leave clusters empty; the centre of an empty cluster is the mean of all.

    >>> result = kmeans([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> result.assignments[0] == result.assignments[1] != result.assignments[2] == result.assignments[3]
    np.True_
    >>> sorted(result.centers.ravel().tolist()), result.inertia
    ([0.5, 10.5], 1.0)

    Args:
        embeddings: points, (n, d).
        k: clusters.
        seed: draws the starts.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    matrix = as_matrix(embeddings, "embeddings").detach().cpu().numpy()
    k = check_int(k, "k", minimum=1, maximum=len(matrix))
    random = np.random.RandomState(np.random.PCG64(check_int(seed, "seed", minimum=0)))
    mean = matrix.mean(axis=0, dtype=np.float64)
    starts = max(1, min(STARTS, CLUSTERS_IN_ALL_STARTS // k))
    # Threads of scikit-learn add up partial sums in the order in which they finish, which changes the last digits.
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        # Fewer different points than clusters; the docstring says what happens then.
        warnings.simplefilter("ignore", ConvergenceWarning)
        init = "k-means++" if len(matrix) * k <= SEEDED else "random"
        learner = KMeans(k, init=init, n_init=starts, random_state=random, copy_x=False)
        assignments = learner.fit(_centered(matrix, mean)).labels_.astype(np.int64)
    return _result(matrix, mean, assignments, k)


def _centered(matrix: Array, mean: Array) -> Array:
    """The data around their mean as float32, the largest entry near 1 so that no square leaves its range."""
    starts = range(0, len(matrix), BLOCK)
    scale = max(float(np.abs(matrix[start : start + BLOCK] - mean).max()) for start in starts)
    rows = np.empty(matrix.shape, dtype=np.float32)
    for start in starts:
        rows[start : start + BLOCK] = (matrix[start : start + BLOCK] - mean) / (scale if scale > 0 else 1.0)
    return rows


def _result(matrix: Array, mean: Array, assignments: Array, k: int) -> Clustering:
    """Centres and inertia in float64, from the data as they came."""
    blocks = [slice(start, start + BLOCK) for start in range(0, len(matrix), BLOCK)]
    total = torch.zeros(k, matrix.shape[1], dtype=torch.float64)
    for block in blocks:
        total.index_add_(0, torch.from_numpy(assignments[block]), torch.from_numpy(matrix[block] - mean))
    centers = total.numpy() / np.maximum(np.bincount(assignments, minlength=k), 1)[:, None]
    inertia = 0.0
    for block in blocks:
        difference = matrix[block] - mean - centers[assignments[block]]
        inertia += float(np.einsum("ij,ij->", difference, difference))
    return Clustering(assignments, (centers + mean).astype(matrix.dtype), inertia)
