"""The angular loss of listed triplets behind a projection L: the angle at the negative is kept below α.

`m = ‖Lᵀ(a − p)‖² − 4tan²α·‖Lᵀ(n − (a + p)/2)‖²` and `J = Σ softplus(m)`. The sign of m does not depend on the
scale of the embeddings, the value does: bring them to length one first. Identical embeddings give m = 0 and no
gradient, whatever L is; watch the mean distance of a batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nearer._checks import check_number


def tangent_weight(angle: float, name: str = "angle") -> float:
    """`4tan²α` for α in degrees, between 0 and 90.

    >>> round(tangent_weight(45), 6)
    4.0
    """
    angle = check_number(angle, name, above=0.0, maximum=89.0)
    return 4 * math.tan(math.radians(angle)) ** 2


def angular_margins(embeddings: Tensor, triplets: Tensor, factor: Tensor | None, weight: float) -> Tensor:
    """m of every triplet, (m,), on the graph of the embeddings (n, d) and of the factor (d, l).

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> angular_margins(z, torch.tensor([[0, 1, 2]]), None, 4.0)
    tensor([-8.])
    """
    z = embeddings if factor is None else embeddings @ factor
    a, p, n = (z[column] for column in triplets.T)
    return (a - p).square().sum(dim=1) - weight * (n - (a + p) / 2).square().sum(dim=1)


def angular_factor_gradient(near: Tensor, far: Tensor, factor: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """J and `∇_L = 2[Aᵀdiag(σ)AL − τBᵀdiag(σ)BL]` in O(m·d·l), for A = a − p and B = n − (a + p)/2, (m, d) each.

    >>> near, far = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> value, gradient = angular_factor_gradient(near, far, torch.tensor([[1.0], [0.0]]), 4.0)
    >>> round(value.item(), 4), gradient.ravel().round(decimals=4).tolist()  # log(1 + e)
    (1.3133, [1.4621..., 0.0])
    """
    close, away = near @ factor, far @ factor
    margins = close.square().sum(dim=1) - weight * away.square().sum(dim=1)
    slope = torch.sigmoid(margins)[:, None]
    gradient = 2 * (near.T @ (slope * close) - weight * (far.T @ (slope * away)))
    return nn.functional.softplus(margins).sum(), gradient
