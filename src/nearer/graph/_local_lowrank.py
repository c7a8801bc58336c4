"""`R` on the edges at scale: the first steps of the walk exactly, all later ones by a matrix of low rank.

`R = (1 − γ)Σ_{t≤T} γᵗQᵗ + E` with `E = γ^{T+1} Q^{T+1} R`. The sum is taken on the edges only. E is smooth, its
entries follow the clusters, and a random projection finds its range: Q^{T+1}R has smoothed what a power step would.
E is applied as this product, never as a difference, which would cancel.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nearer.graph._entries import Entries
from nearer.graph._transition import Transition, solve

OVERSAMPLING = 10
# Where the range lies is seen from a rough solution; the second one gives the numbers.
ROUGH = 0.05


def local_lowrank_entries(
    walk: Transition, gamma: float, *, steps: int | None = None, rank: int = 192, rtol: float = 1e-2, seed: int = 0
) -> Entries:
    """R_ij ≈ S_ij + U_i·B_j on the edges, S the first `steps` steps and UBᵀ of the given rank.

    `steps` None takes 5, or 4 above 50,000 items, where one more would cost most of the time.
    Costs 2(rank + 10) solves and 2n(rank + 10) numbers. The rank that is needed follows the number of clusters;
    data of two or three dimensions needs too much of it. `certify` says which it is.

    >>> found = local_lowrank_entries(Transition(torch.tensor([[1], [0]])), 0.5)
    >>> found.forward.round(decimals=4).tolist()
    [[0.3333], [0.3333]]
    """
    steps = (5 if walk.n <= 50_000 else 4) if steps is None else steps
    forward, backward = _first_steps(walk, gamma, steps)
    left, right = _tail(walk, gamma, steps, rank, rtol, seed)
    block = max(1, (1 << 24) // (walk.k * left.shape[1]))
    for start in range(0, walk.n, block):
        part = slice(start, start + block)
        near = walk.indices[part]
        forward[part] += torch.einsum("nr,nkr->nk", left[part], right[near])
        backward[part] += torch.einsum("nr,nkr->nk", right[part], left[near])
    return Entries(forward.double(), backward.double())


def _first_steps(walk: Transition, gamma: float, steps: int) -> tuple[Tensor, Tensor]:
    """`(1 − γ)Σ_{t≤T} γᵗ Qᵗ` on the edges and on the reversed edges, (n, k) float32 each.

    An entry of Qᵃ⁺ᵇ is a row of Qᵃ times a column of Qᵇ: only half the power is ever formed, and only for the pairs
    that are asked for. Step 2a − 1 and step 2a share the row of Qᵃ.
    """
    n, k = walk.n, walk.k
    forward, backward = np.zeros((n, k), dtype=np.float32), np.zeros((n, k), dtype=np.float32)
    transition = walk.matrix.astype(np.float32)
    power, before = transition, sparse.identity(n, dtype=np.float32, format="csr")
    size = max(1, (1 << 17) // k)
    for a in range(1, (steps + 1) // 2 + 1):
        right = before.T * np.float32(gamma ** (2 * a - 1))
        if 2 * a <= steps:
            right = right + power.T * np.float32(gamma ** (2 * a))
        columns = right.tocsr()
        left = power

        def add(start: int, left: Any = left, columns: Any = columns) -> None:
            part = slice(start, min(start + size, n))
            here = np.repeat(np.arange(part.start, part.stop), k)
            there = walk.indices[part].reshape(-1).numpy()
            for total, first, second in ((forward, here, there), (backward, there, here)):
                met = left[first].multiply(columns[second])
                total[part] += np.asarray(met.sum(axis=1), dtype=np.float32).reshape(-1, k)

        # The products run outside the interpreter's lock, one block in each thread.
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            list(threads.map(add, range(0, n, size)))
        if 2 * a < steps:
            before, power = power, power @ transition
    scale = np.float32(1 - gamma)
    return torch.from_numpy(forward * scale), torch.from_numpy(backward * scale)


def _tail(walk: Transition, gamma: float, steps: int, rank: int, rtol: float, seed: int) -> tuple[Tensor, Tensor]:
    """U and B with `E ≈ UBᵀ`, (n, r) each."""
    width = min(rank + OVERSAMPLING, walk.n)
    generator = torch.Generator().manual_seed(seed)

    def tail(columns: Tensor) -> Tensor:
        solution = solve(walk, columns, gamma, rtol=max(rtol, ROUGH))
        for _ in range(steps + 1):
            solution = walk.forward(solution)
        return solution.mul_(gamma ** (steps + 1))

    def transposed_tail(columns: Tensor) -> Tensor:
        for _ in range(steps + 1):
            columns = walk.backward(columns)
        return solve(walk, columns, gamma, transposed=True, rtol=rtol).mul_(gamma ** (steps + 1))

    left = torch.linalg.qr(tail(torch.randn(walk.n, width, generator=generator))).Q
    return left, transposed_tail(left)
