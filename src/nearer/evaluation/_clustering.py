"""How well a grouping of the items agrees with their classes: NMI, AMI, purity and pairwise F1.

Every score takes two groupings of the same n items, classes and clusters, whose names do not matter. All four
depend on the counts n_ij of items of class i in cluster j only; for the empty and for trivial groupings each
docstring says what is returned.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch

from nearer._checks import check_choice, check_int
from nearer._plain import Array
from nearer._validation import as_matrix
from nearer.evaluation._engine._problem import class_codes
from nearer.evaluation._engine._tiles import one_thread
from nearer.exceptions import ShapeError


@dataclass(frozen=True, eq=False)
class _Counts:
    """The table of classes and clusters, without its zeros."""

    n: int
    joint: Array  # (m,) int64: the entries n_ij > 0
    rows: Array  # (m,) int64: i of each entry
    columns: Array  # (m,) int64: j of each entry
    classes: Array  # (c,) int64: items of each class
    clusters: Array  # (k,) int64: items of each cluster


def _count(labels: Any, clusters: Any) -> _Counts:
    (mine,), _ = class_codes([labels], ["labels"], [None], unlabeled="class")
    size = len(mine)
    if size == 0:
        raise ShapeError("`labels` must have at least one entry, got none. A score of nothing has no value.")
    (theirs,), _ = class_codes([clusters], ["clusters"], [size], unlabeled="class")
    width = int(theirs.max()) + 1
    pairs, joint = np.unique(mine * width + theirs, return_counts=True)
    rows, columns = np.divmod(pairs, width)
    return _Counts(size, joint, rows, columns, np.bincount(mine), np.bincount(theirs))


def _entropy(counts: Array, n: int) -> float:
    share = counts / n
    return float(-(share @ np.log(share)))


def _information(counts: _Counts) -> float:
    """I = Σ_ij n_ij/n · log(n·n_ij / (n_i·n_j)), in nats."""
    share = counts.joint / counts.n
    expected = np.log(counts.classes[counts.rows] / counts.n) + np.log(counts.clusters[counts.columns] / counts.n)
    return max(float(share @ (np.log(share) - expected)), 0.0)


def nmi(labels: Any, clusters: Any) -> float:
    """Normalised mutual information, 2 I(classes; clusters) / (H(classes) + H(clusters)), in [0, 1].

    `labels` and `clusters` have shape (n,). 1 when the groupings are the same up to names, and also when both are
    a single group (0/0 := 1); 0 when one of them alone is a single group.

    >>> nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> nmi([0, 0, 1, 1], [0, 1, 0, 1])
    0.0

    Args:
        labels: classes of the items, (n,).
        clusters: clusters of the items, (n,).
    """
    counts = _count(labels, clusters)
    total = _entropy(counts.classes, counts.n) + _entropy(counts.clusters, counts.n)
    return 1.0 if total == 0 else min(2 * _information(counts) / total, 1.0)


def ami(labels: Any, clusters: Any) -> float:
    """Mutual information adjusted for chance, (I − E[I]) / (½(H(classes) + H(clusters)) − E[I]), at most 1.

    E[I] is the mean over all ways to deal the items that keep the sizes of the groups: 0 is what chance gives,
    where NMI grows with the number of clusters. 1 for equal groupings, trivial ones included.

    >>> ami([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> round(ami([0, 0, 1, 1], [0, 1, 2, 3]), 6) + 0.0
    0.0

    Args:
        labels: classes of the items, (n,).
        clusters: clusters of the items, (n,).
    """
    counts = _count(labels, clusters)
    if len(counts.joint) == len(counts.classes) == len(counts.clusters):
        return 1.0
    expected = _expected_information(counts)
    mean = (_entropy(counts.classes, counts.n) + _entropy(counts.clusters, counts.n)) / 2
    difference = mean - expected
    # Zero in exact arithmetic for groupings of singletons; the sign is kept, the size is that of rounding.
    if abs(difference) < np.finfo(np.float64).eps:
        difference = np.copysign(np.finfo(np.float64).eps, difference)
    return float((_information(counts) - expected) / difference)


def _expected_information(counts: _Counts) -> float:
    """E[I] for random groupings with these sizes (hypergeometric counts).

    It depends on pairs of sizes only, and there are at most about √(2n) different sizes on each side.
    """
    from scipy.special import gammaln

    n = counts.n
    sizes_a, many_a = np.unique(counts.classes, return_counts=True)
    sizes_b, many_b = np.unique(counts.clusters, return_counts=True)
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    total = 0.0
    for a, times_a in zip(sizes_a.tolist(), many_a.tolist(), strict=True):
        for b, times_b in zip(sizes_b.tolist(), many_b.tolist(), strict=True):
            joint = np.arange(max(1, a + b - n), min(a, b) + 1)
            log_probability = (
                log_factorial[a]
                + log_factorial[b]
                + log_factorial[n - a]
                + log_factorial[n - b]
                - log_factorial[n]
                - log_factorial[joint]
                - log_factorial[a - joint]
                - log_factorial[b - joint]
                - log_factorial[n - a - b + joint]
            )
            # In logarithms: the product of two sizes may be larger than an integer holds.
            value = joint / n * (np.log(joint) + np.log(n) - np.log(a) - np.log(b))
            total += times_a * times_b * float(value @ np.exp(log_probability))
    return total


def purity(labels: Any, clusters: Any) -> float:
    """The share of items that belong to the most frequent class of their cluster, Σ_j max_i n_ij / n.

    1 when every cluster holds one class only, which n clusters of one item reach trivially.

    >>> purity(["a", "a", "b", "b"], [0, 0, 0, 1])
    0.75

    Args:
        labels: classes of the items, (n,).
        clusters: clusters of the items, (n,).
    """
    counts = _count(labels, clusters)
    largest = np.zeros(len(counts.clusters), dtype=np.int64)
    np.maximum.at(largest, counts.columns, counts.joint)
    return int(largest.sum()) / counts.n


def ari(labels: Any, clusters: Any) -> float:
    """The Rand index adjusted for chance: pairs together in both, less those of chance; 0 is chance, 1 the same.

    (TP − E) / (½(A + B) − E) with A pairs in one class, B in one cluster, E = AB over all pairs. 1 for equal
    groupings, trivial ones included.

    >>> ari([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> round(ari([0, 0, 1, 1], [0, 1, 0, 1]), 6)
    -0.5

    Args:
        labels: classes of the items, (n,).
        clusters: clusters of the items, (n,).
    """
    counts = _count(labels, clusters)
    both, mine, theirs = (
        int((sizes * (sizes - 1)).sum()) for sizes in (counts.joint, counts.classes, counts.clusters)
    )
    chance = mine * theirs / max(counts.n * (counts.n - 1), 1)
    most = (mine + theirs) / 2
    return 1.0 if both == mine == theirs else (both - chance) / (most - chance)


def pairwise_f1(labels: Any, clusters: Any) -> float:
    """F1 of the pairs put together: 2·TP / (pairs in one class + pairs in one cluster).

    TP counts the pairs of items that share both class and cluster. 1 when neither side has any pair.

    >>> pairwise_f1([0, 0, 1, 1], [0, 0, 0, 1])
    0.4

    Args:
        labels: classes of the items, (n,).
        clusters: clusters of the items, (n,).
    """
    counts = _count(labels, clusters)
    together = [int((sizes * (sizes - 1)).sum()) for sizes in (counts.joint, counts.classes, counts.clusters)]
    return 2 * together[0] / (together[1] + together[2]) if together[1] + together[2] else 1.0


Effort = Literal["quick", "thorough"]
CLUSTERERS: dict[Effort, str] = {"quick": "k-means from random points", "thorough": "scikit-learn k-means"}
"""What evaluations say their clusters were made by."""
# Rounds of the quick form at most; with few items a cluster nothing moves after a handful.
ROUNDS = 20
# Ten starts for up to ten clusters, one from a hundred on: one start is enough where there are many clusters, and
# the time stays about the same.
STARTS, CLUSTERS_IN_ALL_STARTS = 10, 100
# Points × clusters up to which k-means++ draws the starts. Its greedy form looks at all points for every cluster:
# for 60,000 points and 10,000 clusters that takes many times as long as the steps that follow.
SEEDED = 100_000_000
# Rows that are compared with all centres at a time.
ASSIGNED = 1024
# Rows that are widened to float64 at a time.
BLOCK = 8192


@dataclass(frozen=True, eq=False)
class Clustering:
    """The result of k-means."""

    assignments: Array  # (n,) int64 in 0..k−1
    centers: Array  # (k, d) in the dtype of the data; the mean of the points assigned to it
    inertia: float  # Σ_i ‖x_i − c_{a_i}‖²


def kmeans(embeddings: Any, k: int, *, seed: int = 0, effort: Effort = "thorough") -> Clustering:
    """Group points around k centres: minimise Σ_i ‖x_i − c_{a_i}‖².

    `embeddings` has shape (n, d), with n ≥ k. "thorough" clusters are those of `sklearn.cluster.KMeans` with greedy
    k-means++, the best of min(10, 100/k) starts; beyond n·k = 10⁸ centres start at random points, which is faster
    and finds worse ones. "quick" is one start from random points and at most 20 rounds, in which a cluster that has
    become empty goes on from the point that is farthest from its centre. The result is the same for the same seed,
    whatever the number of threads. Fewer than k different points leave clusters empty; the centre of an empty
    cluster is the mean of all.

    >>> result = kmeans([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> result.assignments[0] == result.assignments[1] != result.assignments[2] == result.assignments[3]
    np.True_
    >>> sorted(result.centers.ravel().tolist()), result.inertia
    ([0.5, 10.5], 1.0)

    Args:
        embeddings: points, (n, d).
        k: clusters.
        seed: draws the starts.
        effort: "thorough" or "quick".
    """
    matrix = as_matrix(embeddings, "embeddings").detach().cpu().numpy()
    k = check_int(k, "k", minimum=1, maximum=len(matrix))
    check_choice(effort, "effort", get_args(Effort))
    return _result(matrix, clusters(matrix, k, check_int(seed, "seed", minimum=0), effort), k)


def clusters(matrix: Array, k: int, seed: int, effort: Effort) -> Array:
    """The cluster of each row, (n,), and nothing else of `kmeans`."""
    random = np.random.RandomState(np.random.PCG64(seed))
    return (_quickly if effort == "quick" else _thoroughly)(_centered(matrix), k, random)


def _thoroughly(rows: Array, k: int, random: np.random.RandomState) -> Array:
    """The clusters of scikit-learn."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    starts = max(1, min(STARTS, CLUSTERS_IN_ALL_STARTS // k))
    # Threads of scikit-learn add up partial sums in the order in which they finish, which changes the last digits.
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        # Fewer different points than clusters; the docstring says what happens then.
        warnings.simplefilter("ignore", ConvergenceWarning)
        init = "k-means++" if len(rows) * k <= SEEDED else "random"
        learner = KMeans(k, init=init, n_init=starts, random_state=random, copy_x=False)
        return learner.fit(rows).labels_.astype(np.int64)


def _quickly(rows: Array, k: int, random: np.random.RandomState) -> Array:
    """Lloyd's rounds from k random points.

    A point whose centre stayed where it was looks at the centres that moved alone: with few items in a cluster most
    centres stay after a few rounds.
    """
    centers = rows[random.permutation(len(rows))[:k]]
    owner, best = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.float32)
    moved = touched = np.ones(k, dtype=bool)
    lengths = np.einsum("ij,ij->i", rows, rows)
    with one_thread():  # products by more threads differ in their last digits
        for _ in range(ROUNDS):
            before = owner.copy()
            for start in range(0, len(rows), ASSIGNED):
                block = np.arange(start, min(start + ASSIGNED, len(rows)))
                again = moved[owner[block]]
                _assign(rows, block[again], centers, None, owner, best)
                _assign(rows, block[~again], centers, moved.nonzero()[0], owner, best)
            changed = before != owner
            touched[before[changed]] = touched[owner[changed]] = True
            following = _means(rows, owner, centers, touched, lengths - 2 * best)
            moved, touched = (following != centers).any(axis=1), np.zeros(k, dtype=bool)
            centers = following
            if not moved.any():
                break
    return owner


def _assign(rows: Array, which: Array, centers: Array, places: Array | None, owner: Array, best: Array) -> None:
    """Give some rows to the nearest of all centres, or to one of `places` that is nearer than the one they have."""
    near = centers if places is None else centers[places]
    if not len(which) or not len(near):
        return
    score = torch.mm(torch.from_numpy(rows[which]), torch.from_numpy(near).T).numpy()
    score -= 0.5 * np.einsum("ij,ij->i", near, near)  # the largest is the nearest
    top = score.argmax(axis=1)
    value = score[np.arange(len(which)), top]
    if places is not None:
        better = value > best[which]
        which, value, top = which[better], value[better], places[top[better]]
    owner[which], best[which] = top, value


def _means(rows: Array, owner: Array, centers: Array, touched: Array, far: Array) -> Array:
    """The centres with those of `touched` clusters renewed; an empty one goes to one of the points that are far."""
    counts = np.bincount(owner, minlength=len(centers))
    following = centers.copy()
    members = touched[owner].nonzero()[0]
    members = members[owner[members].argsort(kind="stable")]
    if len(members):
        names, starts = np.unique(owner[members], return_index=True)
        following[names] = np.add.reduceat(rows[members], starts, axis=0) / counts[names, None]
    empty = (counts == 0).nonzero()[0]
    if len(empty):
        farthest = (-far).argsort(kind="stable")[: len(empty)]
        farthest = farthest[far[farthest] > 1e-5]  # of entries up to 1: less is rounding, a point at its centre
        following[empty[: len(farthest)]] = rows[farthest]
    return following


def _centered(matrix: Array) -> Array:
    """The data around their mean as float32, the largest entry near 1 so that no square leaves its range."""
    mean = matrix.mean(axis=0, dtype=np.float64)
    starts = range(0, len(matrix), BLOCK)
    scale = max(float(np.abs(matrix[start : start + BLOCK] - mean).max()) for start in starts)
    rows = np.empty(matrix.shape, dtype=np.float32)
    for start in starts:
        rows[start : start + BLOCK] = (matrix[start : start + BLOCK] - mean) / (scale if scale > 0 else 1.0)
    return rows


def _result(matrix: Array, assignments: Array, k: int) -> Clustering:
    """Centres and inertia in float64, from the data as they came."""
    mean = matrix.mean(axis=0, dtype=np.float64)
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
