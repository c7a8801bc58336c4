"""Triplets inside neighbourhoods: the half of the neighbours with the larger affinity against the other half."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_tensor, check_finite
from nearer.exceptions import ShapeError
from nearer.neighbors import Neighbors


def mine_neighborhood(neighbors: Neighbors, affinity: Any) -> Tensor:
    """Triplets (anchor, positive, negative) of row numbers from affinities (n, k) of the edges: (m, 3).

    The neighbours of an anchor are put in the order of falling affinity, equal ones by distance, then by index;
    with h = ⌊k/2⌋ the r-th of the first h goes with the r-th of the last h. An odd k leaves its middle neighbour
    out. Every row is an anchor, of h triplets.

    >>> near = Neighbors(torch.tensor([[1, 2], [0, 2], [1, 0]]), torch.ones(3, 2))
    >>> mine_neighborhood(near, [[0.1, 0.9], [0.5, 0.5], [0.7, 0.2]]).tolist()
    [[0, 2, 1], [1, 0, 2], [2, 1, 0]]

    Reference: Dutta, Harandi, Sekhar (2021), whose text calls both halves positives.
    """
    weight = as_tensor(affinity, "affinity")
    if tuple(weight.shape) != (neighbors.n, neighbors.k):
        raise ShapeError(
            f"`affinity` must have the shape {(neighbors.n, neighbors.k)} of the neighbours, got "
            f"{tuple(weight.shape)}."
        )
    check_finite(weight, "affinity")
    # The columns stand in the order of distance and index, and a stable sort keeps that among equals.
    near = neighbors.indices.gather(1, weight.sort(dim=1, descending=True, stable=True).indices)
    half = neighbors.k // 2
    positive, negative = near[:, :half], near[:, neighbors.k - half :]
    anchors = torch.arange(neighbors.n, device=weight.device)[:, None].expand_as(positive)
    return torch.stack([anchors, positive, negative], dim=2).reshape(-1, 3)


def mine_signed(
    distance: Tensor,
    affinity: Tensor,
    *,
    threshold: float = 0.3,
    per_anchor: int = 5,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Triplets of a batch from the sign of affinities: positives above `threshold`, nearest negatives.

    `distance` and `affinity` (n, n). For every anchor up to `per_anchor` random positives, the farthest first,
    go with its nearest negatives (affinity below 0), the nearest first: (m, 3). Unlike halves of a neighbourhood, a
    positive is never taken for a negative because all neighbours are positives.

    >>> affinity = torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    >>> mine_signed(torch.ones(3, 3), affinity, per_anchor=1).tolist()
    [[0, 1, 2], [1, 0, 2]]

    Args:
        distance: between the items, (n, n).
        affinity: of the items, (n, n); its sign is used.
        threshold: positives have an affinity above it.
        per_anchor: at most so many triplets for each anchor.
        generator: where random numbers come from; torch's own if None.
    """
    n = len(distance)
    h = min(check_int(per_anchor, "per_anchor"), n)
    own = torch.eye(n, dtype=torch.bool, device=affinity.device)
    is_positive, is_negative = (affinity > threshold) & ~own, (affinity < 0) & ~own
    drawn, positive = (
        torch.rand(n, n, generator=generator).to(affinity.device).masked_fill(~is_positive, -1.0).topk(h, dim=1)
    )
    # Absent positives are drawn as -1 and must stay behind those that are there.
    far = distance.gather(1, positive).masked_fill(drawn < 0, -1.0)
    order = far.argsort(dim=1, descending=True, stable=True)
    positive, valid = positive.gather(1, order), far.gather(1, order) >= 0
    near, negative = distance.masked_fill(~is_negative, torch.inf).topk(h, dim=1, largest=False)
    valid &= torch.isfinite(near)
    anchor = torch.arange(n, device=affinity.device)[:, None].expand(n, h)
    return torch.stack([anchor[valid], positive[valid], negative[valid]], dim=1)
