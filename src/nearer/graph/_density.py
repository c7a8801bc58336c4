"""How crowded it is around an item: where walks on the graph spend their time, its peaks, and Parzen's density."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_matrix
from nearer.graph._knn import Neighbors
from nearer.graph._transition import Transition


def stationary_distribution(neighbors: Neighbors, *, tol: float = 1e-12, max_iter: int = 10_000) -> Tensor:
    """The share of time that a walk on the graph spends at every item, `π = Qᵀπ`, from a uniform start; (n,).

    The walk stays where it is half of the time, which changes nothing in the end and lets cycles settle. A graph
    in several parts keeps in each the mass that flows into it. Items that nobody points at get 0.

    >>> near = Neighbors(torch.tensor([[1], [2], [1]]), torch.ones(3, 1))
    >>> stationary_distribution(near).round(decimals=6).tolist()
    [0.0, 0.5, 0.5]
    """
    walk = Transition(neighbors.indices)
    share = torch.full((walk.n, 1), 1 / walk.n, dtype=torch.float64)
    for _ in range(max_iter):
        fresh = (share + walk.backward(share)) / 2
        change = float((fresh - share).abs().sum())
        share = fresh
        if change <= tol:
            break
    result = share[:, 0]
    # Half of a mass per step never quite reaches zero.
    return torch.where(result > 1e-9 / walk.n, result, 0.0)


def find_modes(neighbors: Neighbors) -> Tensor:
    """The items with at least the stationary share of all items they point at or are pointed at by; their indices.

    >>> find_modes(Neighbors(torch.tensor([[1], [2], [1]]), torch.ones(3, 1))).tolist()
    [1, 2]

    Args:
        neighbors: the graph, from `nearest_neighbors`.
    """
    share = stationary_distribution(neighbors)
    highest = share[neighbors.indices].amax(dim=1)
    sources = torch.arange(neighbors.n).repeat_interleave(neighbors.k)
    highest = highest.scatter_reduce(0, neighbors.indices.reshape(-1), share[sources], "amax")
    # Rounding of the power steps must not decide between equal neighbours.
    return (share >= highest * (1 - 1e-9)).nonzero()[:, 0]


def parzen_density(rows: Any, *, width: float, block: int = 2048) -> Tensor:
    """`Σ_j exp(−‖x_i − x_j‖²/2σ²)` divided by its maximum, (n, d) -> (n,): 1 where it is most crowded.

    Sums are of logarithms, so that a small σ does not underflow; the item itself counts. O(n²) time, in blocks.

    >>> parzen_density([[0.0], [0.0], [9.0]], width=1.0).tolist()
    [1.0, 1.0, 0.5]
    """
    x = as_matrix(rows, "rows").detach().double()
    sigma = check_number(width, "width", above=0.0)
    centered = x - x.mean(dim=0)
    size = centered.square().sum(dim=1)
    logs = []
    for start in range(0, len(x), block):
        part = slice(start, start + block)
        squared = (size[part, None] + size - 2 * centered[part] @ centered.T).clamp_min(0)
        # Rounding must not move an item away from itself.
        squared.diagonal(start).zero_()
        logs.append(torch.logsumexp(-squared / (2 * sigma**2), dim=1))
    joined = torch.cat(logs)
    # Equal crowds are equal up to rounding; keep it below one.
    return torch.exp((joined - joined.max()).clamp_min(-math.inf))
