"""The whole matrix `R` by one inverse: exact, O(n³) time, 8n² bytes twice. For a few thousand items."""

from __future__ import annotations

import torch

from nearer.exceptions import ParameterError
from nearer.graph._entries import Entries
from nearer.graph._transition import Transition

__all__ = ["DENSE_UP_TO", "dense_entries", "dense_walk"]

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
