"""Influence on a graph of neighbors: where an answer is wanting, and how far it would carry.

    F ← γ S F + (1 − γ) Y, 40 times            labels spread over the graph, columns brought to one sum
    u = (1 − lead of the largest share) / (1 + mass / median mass)
    ask argmax of u + Su + S²u,  then  u ← u·(1 − 0.9·reach of the pick)

S is the walk on the k nearest neighbors, mass the sum of F over the classes: how well an item is covered by the
labels there are. An item is worth asking that is unsure, far from every label and in the thick of others like it.
Columns are brought to one sum because asking changes how many labels a class has, which says nothing about how
many items it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nearer._validation import as_matrix
from nearer.exceptions import ParameterError, ShapeError
from nearer.neighbors import search

__all__ = ["Spread", "embedded", "pick", "spread", "walk"]

Array = NDArray[Any]
NEIGHBORS, STEPS, GAMMA = 15, 40, 0.95
DAMPING, REACH = 0.9, 3


def embedded(metric: Any, X: Any) -> Array:
    """Rows where they are compared: under a model, an estimator, a function, or as they are (None)."""
    apply = getattr(metric, "transform", metric)
    if metric is not None and (not callable(apply) or isinstance(metric, type)):
        raise ParameterError(
            f"`metric` must be a model, an estimator, a function of rows or None, got a {type(metric).__name__}."
        )
    # A torch module takes tensors, whatever X came as.
    given = as_matrix(X, "X") if isinstance(metric, torch.nn.Module) and apply is metric else X
    rows = X if metric is None else apply(given)
    found: Array = as_matrix(rows, "X", minimum_rows=2).detach().cpu().numpy().astype(np.float32)
    return found


def walk(rows: Array, *, k: int = NEIGHBORS) -> sparse.csr_array:
    """`S = D^{−½} W D^{−½}` of the k nearest neighbors, both ways: (n, n), sparse."""
    k = min(k, len(rows) - 1)
    near = search(rows, k=k, method="auto").indices.numpy()
    place = np.repeat(np.arange(len(rows)), k)
    graph = sparse.csr_array((np.ones(near.size), (place, near.ravel())), shape=(len(rows), len(rows)))
    graph = graph + graph.T
    scale = 1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    made: sparse.csr_array = (sparse.diags_array(scale) @ graph @ sparse.diags_array(scale)).tocsr()
    return made


@dataclass(frozen=True, eq=False)
class Spread:
    """What spread labels say: shares of the classes (n, c), which classes (c,), and what reached the items."""

    shares: Array
    classes: Array
    reach: Array
    """What reached an item of every class before shares were made of it, by the number of its labels: (n, c)."""
    mass: Array
    """What reached an item in all, (n,)."""

    @property
    def lead(self) -> Array:
        """How far the largest share is ahead of the second, (n,); 0 where there is one class or none."""
        if self.shares.shape[1] < 2:
            return np.zeros(len(self.shares))
        two = np.partition(self.shares, -2, axis=1)[:, -2:]
        found: Array = two[:, 1] - two[:, 0]
        return found


def spread(S: sparse.csr_array, labels: Array) -> Spread:
    """Spread labels (n,), −1 for unknown, over the walk S (n, n)."""
    if labels.shape != (S.shape[0],):
        raise ShapeError(f"`labels` must have one entry for each of the {S.shape[0]} rows, got {labels.shape}.")
    known = np.flatnonzero(labels >= 0)
    classes, codes = np.unique(labels[known], return_inverse=True)
    start = np.zeros((len(labels), len(classes)))
    start[known, codes] = 1
    F = start
    for _ in range(STEPS):
        F = GAMMA * (S @ F) + (1 - GAMMA) * start
    mass = F.sum(axis=1)
    shares = F / np.maximum(F.sum(axis=0), 1e-300)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return Spread(shares, classes, F / np.maximum(np.bincount(codes, minlength=len(classes)), 1), mass)


def pick(S: sparse.csr_array, found: Spread, n: int, *, allowed: Array) -> list[int]:
    """The n items, one after the other, whose answer would carry farthest; fewer if fewer are allowed."""
    typical = float(np.median(found.mass))
    need = (1 - found.lead) / (1 + (found.mass / typical if typical > 0 else found.mass))
    need = np.where(allowed, need, 0.0)
    open_ = allowed.copy()
    chosen: list[int] = []
    while len(chosen) < n and open_.any():
        first = S @ need
        worth = np.where(open_, need + first + S @ first, -1.0)
        best = int(worth.argmax())
        chosen.append(best)
        reach = np.zeros(len(need))
        reach[best] = 1.0
        for _ in range(REACH):
            reach = reach + S @ reach
        need = need * (1 - DAMPING * reach / reach.max())
        open_[best] = False
        need[best] = 0.0
    return chosen
