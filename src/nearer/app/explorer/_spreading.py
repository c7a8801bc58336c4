"""What neighbors say: labels spread over a graph of nearest items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearer.neighbors import search

__all__ = ["lead_of", "random_walk", "spread_labels"]

Array = NDArray[Any]
NEIGHBORS, STEPS, SPREADING = 15, 40, 0.95


def random_walk(rows: Array) -> sparse.csr_matrix:
    """The walk S (n, n) from an item to its neighbors, rows of sum one."""
    k = min(NEIGHBORS, len(rows) - 1)
    if k < 1:
        return sparse.csr_matrix((len(rows), len(rows)))
    found = search(rows, k=k)
    near, distances = found.indices.numpy(), found.distances.numpy()
    scale = np.maximum(distances[:, -1:], 1e-12)
    weight = np.exp(-np.square(distances / scale))
    place = np.repeat(np.arange(len(rows)), k)
    graph = sparse.csr_matrix((weight.ravel(), (place, near.ravel())), shape=(len(rows), len(rows)))
    graph = graph + graph.T
    total = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-12)
    return sparse.diags_array(1 / total) @ graph


def spread_labels(walk: Any, labels: Array) -> tuple[Array, Array, Array]:
    """The classes (c,), the share of each in every item (n, c), and how much of any label reaches it (n,).

    F ← 0.95·S F + 0.05·Y, forty times; every class has the same mass in all, so that none wins by its labels alone.

    >>> walk = sparse.csr_matrix(np.array([[0, 1.0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    >>> spread_labels(walk, np.array([3, -1, 7, -1]))[1].round(2).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    known = np.flatnonzero(labels >= 0)
    classes, codes = np.unique(labels[known], return_inverse=True)
    spread = np.zeros((len(labels), len(classes)))
    if len(classes):
        start = np.zeros_like(spread)
        start[known, codes] = 1
        spread = start
        for _ in range(STEPS):
            spread = SPREADING * (walk @ spread) + (1 - SPREADING) * start
    shares = spread / np.maximum(spread.sum(axis=0), 1e-12)
    total = shares.sum(axis=1, keepdims=True)
    return classes, shares / np.maximum(total, 1e-12), spread.sum(axis=1)


def lead_of(shares: Array) -> Array:
    """By how much the largest share of each item exceeds the second, (n,)."""
    if shares.shape[1] < 2:
        return np.zeros(len(shares))
    top = np.partition(shares, shares.shape[1] - 2, axis=1)
    lead: Array = top[:, -1] - top[:, -2]
    return lead
