"""`R` on the edges by a sparse factorisation: exact, and cheap where the data has few dimensions.

On two-dimensional data the factors stay thin (about a hundred entries per row); on clustered data of many
dimensions they fill up, and another mode is better.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu

from nearer.graph._entries import Entries
from nearer.graph._transition import Transition

__all__ = ["sparse_lu_entries"]


def sparse_lu_entries(walk: Transition, gamma: float, *, block: int = 256) -> Entries:
    """R_ij and R_ji on the edges, from `I − γQ = LU` and triangular solves for a block of columns at a time.

    >>> sparse_lu_entries(Transition(torch.tensor([[1], [0]])), 0.5).forward.round(decimals=4).tolist()
    [[0.3333], [0.3333]]
    """
    n, k = walk.n, walk.k
    factors = splu((sparse.identity(n, format="csc") - gamma * walk.matrix.tocsc()).tocsc())
    forward, backward = np.empty(n * k), np.empty((n, k))
    neighbors = walk.indices.numpy()
    flat = neighbors.reshape(-1)
    # The edges in the order of the item they lead to: those of one block of columns stand together.
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(0, n + block, block))
    for number, first in enumerate(range(0, n, block)):
        last = min(first + block, n)
        right = np.zeros((n, last - first))
        right[np.arange(first, last), np.arange(last - first)] = 1 - gamma
        columns = factors.solve(right)
        edges = order[starts[number] : starts[number + 1]]
        forward[edges] = columns[edges // k, flat[edges] - first]
        backward[first:last] = columns[neighbors[first:last], np.arange(last - first)[:, None]]
    return Entries(torch.from_numpy(forward.reshape(n, k)), torch.from_numpy(backward))
