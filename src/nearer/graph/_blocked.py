"""`R` on the edges by solving for every column, a block at a time, and keeping the entries on the edges."""

from __future__ import annotations

import torch

from nearer.graph._entries import Entries
from nearer.graph._transition import Transition, solve

__all__ = ["blocked_entries"]


def blocked_entries(walk: Transition, gamma: float, *, rtol: float = 1e-4, block: int = 64) -> Entries:
    """R_ij and R_ji on the edges, to a residual of rtol, in O(n²k·iterations) time and O(n·block) memory.

    >>> blocked_entries(Transition(torch.tensor([[1], [0]])), 0.5).forward.round(decimals=4).tolist()
    [[0.3333], [0.3333]]
    """
    n, k = walk.n, walk.k
    forward, backward = torch.empty(n * k, dtype=torch.float64), torch.empty(n, k, dtype=torch.float64)
    flat = walk.indices.reshape(-1)
    order = torch.argsort(flat, stable=True)
    starts = torch.searchsorted(flat[order], torch.arange(0, n + block, block))
    for number, first in enumerate(range(0, n, block)):
        last = min(first + block, n)
        right = torch.zeros(n, last - first)
        right[torch.arange(first, last), torch.arange(last - first)] = 1
        columns = solve(walk, right, gamma, rtol=rtol, chunk=block)
        edges = order[starts[number] : starts[number + 1]]
        forward[edges] = columns[edges // k, flat[edges] - first].double()
        backward[first:last] = columns[walk.indices[first:last], torch.arange(last - first)[:, None]].double()
    return Entries(forward.reshape(n, k), backward)
