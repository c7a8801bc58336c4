"""Stochastic descent with orthonormal columns, without the moments of Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from nearer._checks import check_number
from nearer.geometry._orthogonal import tangent_projection
from nearer.training._riemannian import OrthonormalOptimizer


class RiemannianSGD(OrthonormalOptimizer):
    """Stochastic descent on `LᵀL = I`: project the gradient, add momentum, retract.

    >>> import torch
    >>> from nearer.geometry._orthogonal import orthonormalize
    >>> L = torch.nn.Parameter(orthonormalize(torch.tensor([[1.0], [1.0]])))
    >>> optimizer = RiemannianSGD([L], lr=0.1)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     L[0].square().sum().backward()
    ...     optimizer.step()
    >>> L.detach().abs().round(decimals=3).ravel().tolist()
    [0.0, 1.0]

    Args:
        parameters: matrices with orthonormal columns.
        lr: learning rate.
        momentum: share of the last step that is kept.
    """

    def __init__(self, parameters: Iterable[Any], *, lr: float = 0.01, momentum: float = 0.0) -> None:
        check_number(momentum, "momentum", minimum=0.0, maximum=0.999)
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    def _direction(self, point: Tensor, slope: Tensor, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        if group["momentum"]:
            before = state.get("velocity")
            carried = 0 if before is None else group["momentum"] * tangent_projection(point, before)
            slope = state["velocity"] = carried + slope
        return slope
