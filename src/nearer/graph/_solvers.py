"""Entries of the propagation without approximation: dense, in row blocks, and by a sparse factorisation.

By a sparse factorisation the entries are cheap where the data has few dimensions. On two-dimensional data the
factors stay thin (about a hundred entries per row); on clustered data of many dimensions they fill up, and another
mode is better.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy import sparse
from scipy.sparse.linalg import splu

from nearer.exceptions import ParameterError
from nearer.graph._entries import Entries
from nearer.graph._transition import Transition, solve

DENSE_UP_TO = 15_000


def dense_walk(walk: Transition, gamma: float) -> torch.Tensor:
    """`R = (1 − γ)(I − γQ)⁻¹` as an (n, n) matrix of float64, up to 15,000 items.

    >>> dense_walk(Transition(torch.tensor([[1], [0]])), 0.5).round(decimals=4).tolist()
    [[0.6667, 0.3333], [0.3333, 0.6667]]
    """
    n = walk.n
    if n > DENSE_UP_TO:
        raise ParameterError(
            f"mode 'dense' is for at most {DENSE_UP_TO:,} items, got {n:,}. Use 'local_lowrank' or 'auto'."
        )
    system = torch.zeros(n, n, dtype=torch.float64)
    system.scatter_(1, walk.indices, -gamma / walk.k)
    system.diagonal().add_(1)
    inverse: torch.Tensor = torch.linalg.inv(system)
    # A sum of powers of Q, which has nothing negative; the inverse may round a zero to −1e-19.
    return inverse.mul_(1 - gamma).clamp_min_(0)


def dense_entries(walk: Transition, gamma: float) -> Entries:
    """R_ij and R_ji on the edges, from the inverse.

    >>> dense_entries(Transition(torch.tensor([[1], [0]])), 0.5).forward.round(decimals=4).tolist()
    [[0.3333], [0.3333]]
    """
    whole = dense_walk(walk, gamma)
    rows = torch.arange(walk.n)[:, None]
    return Entries(whole[rows, walk.indices], whole[walk.indices, rows])


def blocked_entries(walk: Transition, gamma: float, *, rtol: float = 1e-4, block: int = 64) -> Entries:
    """R_ij and R_ji on the edges, to a residual of rtol, in O(n²k·iterations) time and O(n·block) memory.

    >>> blocked_entries(Transition(torch.tensor([[1], [0]])), 0.5).forward.round(decimals=4).tolist()
    [[0.3333], [0.3333]]
    """
    return _by_columns(walk, block, lambda right: solve(walk, right, gamma, rtol=rtol, chunk=block))


def sparse_lu_entries(walk: Transition, gamma: float, *, block: int = 256) -> Entries:
    """R_ij and R_ji on the edges, from `I − γQ = LU` and triangular solves for a block of columns at a time.

    >>> sparse_lu_entries(Transition(torch.tensor([[1], [0]])), 0.5).forward.round(decimals=4).tolist()
    [[0.3333], [0.3333]]
    """
    factors = splu((sparse.identity(walk.n, format="csc") - gamma * walk.matrix.tocsc()).tocsc())
    return _by_columns(
        walk, block, lambda right: torch.from_numpy(factors.solve((1 - gamma) * right.double().numpy()))
    )


def _by_columns(walk: Transition, block: int, columns_of: Callable[[torch.Tensor], torch.Tensor]) -> Entries:
    """R_ij and R_ji on the edges, a block of columns of R at a time, from the same columns of the identity."""
    n, k = walk.n, walk.k
    forward, backward = torch.empty(n * k, dtype=torch.float64), torch.empty(n, k, dtype=torch.float64)
    flat = walk.indices.reshape(-1)
    # The edges in the order of the item they lead to: those of one block of columns stand together.
    order = torch.argsort(flat, stable=True)
    starts = torch.searchsorted(flat[order], torch.arange(0, n + block, block))
    for number, first in enumerate(range(0, n, block)):
        last = min(first + block, n)
        right = torch.zeros(n, last - first)
        right[torch.arange(first, last), torch.arange(last - first)] = 1
        columns = columns_of(right).double()
        edges = order[starts[number] : starts[number + 1]]
        forward[edges] = columns[edges // k, flat[edges] - first]
        backward[first:last] = columns[walk.indices[first:last], torch.arange(last - first)[:, None]]
    return Entries(forward.reshape(n, k), backward)
