"""Influence on a graph of neighbors: where an answer is wanting, and how far it would carry.

    F = (1 − γ)(I − γQ)⁻¹ Y                    labels spread over the graph (`graph.class_shares`)
    u = (1 − lead of the largest share) / (1 + mass / median mass)
    ask argmax of u + Su + S²u,  then  u ← u·(1 − 0.9·reach of the pick)

Q and S are the walks on the k nearest neighbors, S scaled on both sides; mass is the sum of F over the classes: how
well an item is covered by the labels there are. An item is worth asking that is unsure, far from every label and in
the thick of others like it. Shares have equal column sums because asking changes how many labels a class has, which
says nothing about how many items it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse

from nearer._plain import Array
from nearer._validation import as_matrix
from nearer.exceptions import ParameterError
from nearer.graph import class_shares
from nearer.graph._shared import ClassShares
from nearer.neighbors import Neighbors, search

NEIGHBORS, GAMMA = 15, 0.95
DAMPING, REACH = 0.9, 3


def embedded(metric: Any, X: Any, name: str = "X", *, minimum_rows: int = 1) -> Array:
    """Rows where they are compared: under a model, an estimator, a function, or as they are (None)."""
    apply = getattr(metric, "transform", metric)
    if metric is not None and (not callable(apply) or isinstance(metric, type)):
        raise ParameterError(
            f"`metric` must be a model, an estimator, a function of rows or None, got a {type(metric).__name__}."
        )
    # A torch module takes tensors, whatever X came as.
    given = as_matrix(X, name) if isinstance(metric, torch.nn.Module) and apply is metric else X
    rows = X if metric is None else apply(given)
    return as_matrix(rows, name, minimum_rows=minimum_rows).detach().cpu().numpy().astype(np.float32)


def graph_of(rows: Array, *, k: int = NEIGHBORS) -> Neighbors:
    """The k nearest neighbors of every row, at most all others."""
    return search(rows, k=min(k, len(rows) - 1), method="auto")


def walk(neighbors: Neighbors) -> sparse.csr_array:
    """`S = D^{−½} W D^{−½}` of a graph of neighbors, both ways: (n, n), sparse."""
    near = neighbors.indices.numpy()
    first = np.repeat(np.arange(len(near)), near.shape[1])
    graph = sparse.csr_array((np.ones(near.size), (first, near.ravel())), shape=(len(near), len(near)))
    graph = graph + graph.T
    scale = 1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    return (sparse.diags_array(scale) @ graph @ sparse.diags_array(scale)).tocsr()


def spread(neighbors: Neighbors, labels: Array) -> ClassShares:
    """Labels (n,), −1 for unknown, spread over a graph of neighbors."""
    return class_shares(neighbors, labels, gamma=GAMMA)


def mass_of(spread: ClassShares) -> Array:
    """What reached an item of all labels, (n,)."""
    return np.asarray(spread.reach.sum(dim=1).numpy())


def pick(S: sparse.csr_array, spread: ClassShares, n: int, *, allowed: Array) -> list[int]:
    """The n items, one after the other, whose answer would carry farthest; fewer if fewer are allowed."""
    mass = mass_of(spread)
    typical = float(np.median(mass))
    # One class alone leads nowhere: nothing says that the others are of it too.
    lead = spread.lead.numpy() if len(spread.classes) > 1 else np.zeros(len(mass))
    need = (1 - lead) / (1 + (mass / typical if typical > 0 else mass))
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
