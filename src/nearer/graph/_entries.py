"""`R` on the edges of a graph, and the certificate: how far it is from sampled exact columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nearer.graph._transition import Transition, solve


@dataclass(frozen=True, eq=False)
class Entries:
    """For the edge from i to its c-th neighbour j: `forward[i, c] = R_ij`, `backward[i, c] = R_ji`, (n, k) each."""

    forward: Tensor
    backward: Tensor


@dataclass(frozen=True)
class Certificate:
    """Relative errors of R on the edges into sampled items, against columns solved to 1e-8.

    It is a sample: `mean` and `percentile_99` estimate the errors of all edges and bound none of them.
    """

    mean: float
    percentile_99: float
    columns: int
    edges: int

    def __str__(self) -> str:
        return (
            f"relative edge error {self.mean:.2%} in the mean, {self.percentile_99:.2%} at the 99th percentile "
            f"({self.edges:,} edges of {self.columns} exact columns)"
        )


def certify(
    walk: Transition, gamma: float, entries: Entries, *, columns: int | None = None, seed: int = 0
) -> Certificate:
    """Compare entries with `columns` random exact columns of R, 100 of them, or 50 above 200,000 items.

    Errors are relative to the exact entry, or to `(1 − γ)γ/k`, the least that an edge can have, where the walk
    against an edge has less.

    >>> from nearer.graph._solvers import dense_entries
    >>> walk = Transition(torch.tensor([[1], [2], [0]]))
    >>> certify(walk, 0.5, dense_entries(walk, 0.5)).mean < 1e-7
    True
    """
    n, k = walk.n, walk.k
    columns = (100 if n <= 200_000 else 50) if columns is None else columns
    chosen = np.sort(np.random.default_rng(seed).choice(n, min(columns, n), replace=False))
    sources, offsets = walk.incoming
    ends = torch.cat([offsets[1:], torch.tensor([n * k])])
    least = (1 - gamma) * gamma / k
    errors = []
    # Few columns at a time: in float64 they are the largest arrays of the whole computation.
    for start in range(0, len(chosen), 16):
        block = torch.from_numpy(chosen[start : start + 16])
        right = torch.zeros(n, len(block), dtype=torch.float64)
        right[block, torch.arange(len(block))] = 1
        exact = solve(walk, right, gamma, rtol=1e-8)
        for number, j in enumerate(block.tolist()):
            into = sources[offsets[j] : ends[j]]
            at = (walk.indices[into] == j).int().argmax(dim=1)
            pairs = [
                (entries.forward[into, at].double(), exact[into, number]),
                (entries.backward[j].double(), exact[walk.indices[j], number]),
            ]
            errors += [((entry - true).abs() / true.clamp_min(least)).numpy() for entry, true in pairs]
    joined = np.concatenate(errors)
    return Certificate(float(joined.mean()), float(np.quantile(joined, 0.99)), len(chosen), len(joined))
