"""Descent on the set of matrices with orthonormal columns, `LᵀL = I`: whole problems and stochastic steps.

`riemannian_conjugate_gradient` is the optimiser of the semi-supervised paper (the defaults of Manopt, written out).
`RiemannianAdam` is a torch optimiser for parameters that start with orthonormal columns, such as the factor of
`OrthogonalMap`; after any number of steps the columns still are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from nearer._checks import check_int, check_number
from nearer.exceptions import ParameterError
from nearer.geometry._shared import orthonormalize, qr_retraction, tangent_projection

SUFFICIENT, CONTRACTION, MOST_EVALUATIONS = 0.5, 0.5, 10


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    point: Tensor
    value: float
    values: tuple[float, ...]
    """The cost at the start and after every iteration."""


def riemannian_conjugate_gradient(
    cost_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    *,
    max_iter: int = 10,
    tol: float = 1e-6,
    min_step: float = 1e-10,
) -> Descent:
    """Minimise a function of L (p, d) with `LᵀL = I` by conjugate gradients: at most `max_iter` iterations.

    `cost_and_gradient` gives the cost and its plain gradient. Gradient `G − L sym(LᵀG)`, transport by projection,
    QR retraction, `β = max(0, ⟨g⁺, y⟩/⟨y, Td⟩)` with `y = g⁺ − Tg` (Hestenes and Stiefel), restart along −g when
    the direction does not descend. Line search: Armijo with c = ½, halved at most ten times, first step 1/‖d‖, then
    twice the last step, or the last one when it took exactly two evaluations. No step raises the cost.

    >>> K = torch.diag(torch.tensor([3.0, 2.0, 1.0]))
    >>> found = riemannian_conjugate_gradient(lambda L: ((L * (K @ L)).sum(), 2 * K @ L),
    ...                                       torch.tensor([[0.6], [0.0], [0.8]]), max_iter=50)
    >>> round(found.value, 4)  # the smallest eigenvalue of K on what the start can see
    1.0

    Reference: Absil, Mahony, Sepulchre (2008), ch. 8; Boumal et al. (2014).
    """
    check_int(max_iter, "max_iter", minimum=0)
    point = orthonormalize(start.detach())
    cost, gradient = cost_and_gradient(point)
    slope = tangent_projection(point, gradient)
    direction = -slope
    values = [float(cost)]
    step: float | None = None
    for _ in range(max_iter):
        size = float(torch.linalg.vector_norm(slope))
        if size < tol:
            break
        descent = float((slope * direction).sum())
        if descent >= 0:
            direction, descent = -slope, -(size**2)
        length = float(torch.linalg.vector_norm(direction))
        step = 1 / length if step is None else step
        fresh, value, step, proposed = _search(cost_and_gradient, point, direction, values[-1], descent, step)
        if step * length < min_step:
            break
        cost, gradient = cost_and_gradient(fresh)
        slope_there = tangent_projection(fresh, gradient)
        change = slope_there - tangent_projection(fresh, slope)
        carried = tangent_projection(fresh, direction)
        below = float((change * carried).sum())
        beta = max(0.0, float((slope_there * change).sum()) / below) if below != 0 else 0.0
        direction = beta * carried - slope_there
        point, slope, step = fresh, slope_there, proposed
        values.append(value)
    return Descent(point, values[-1], tuple(values))


def _search(
    cost_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]],
    point: Tensor,
    direction: Tensor,
    value: float,
    descent: float,
    step: float,
) -> tuple[Tensor, float, float, float]:
    """A point along the direction, its cost, the step that led there (0 for none), and the next first step."""
    for evaluation in range(1, MOST_EVALUATIONS + 1):
        fresh = qr_retraction(point, step * direction)
        cost = float(cost_and_gradient(fresh)[0])
        if cost <= value + SUFFICIENT * step * descent or evaluation == MOST_EVALUATIONS:
            break
        step *= CONTRACTION
    if not cost <= value:
        return point, value, 0.0, step
    return fresh, cost, step, step if evaluation == 2 else 2 * step


class OrthonormalOptimizer(Optimizer):
    """What optimisers with orthonormal columns share: checks, the projected gradient, the way back to the set."""

    def __init__(self, parameters: Iterable[Any], defaults: dict[str, Any]) -> None:
        check_number(defaults["lr"], "lr", above=0.0)
        try:
            super().__init__(parameters, defaults)
        except (TypeError, ValueError, KeyError) as error:
            raise ParameterError(f"`parameters` must be tensors or groups of them: {error}.") from error
        for group in self.param_groups:
            for point in group["params"]:
                if point.ndim != 2 or point.shape[1] > point.shape[0]:
                    raise ParameterError(
                        f"parameters must be matrices with at least as many rows as columns, got "
                        f"{tuple(point.shape)}. Give other parameters to an optimiser of torch.optim."
                    )
                eye = torch.eye(point.shape[1], dtype=point.dtype, device=point.device)
                off = float((point.detach().T @ point.detach() - eye).abs().max())
                if off > 1e-4:
                    raise ParameterError(
                        f"parameters must start with orthonormal columns, LᵀL differs from I by {off:.3g}. Start "
                        f"from orthonormalise(matrix)."
                    )

    def _direction(self, point: Tensor, slope: Tensor, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        """Where to go against, from the slope in the tangent space; `state["count"]` is the number of the step."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step for every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for point in group["params"]:
                if point.grad is None:
                    continue
                state = self.state[point]
                state["count"] = state.get("count", 0) + 1
                slope = tangent_projection(point, point.grad)
                step = -group["lr"] * self._direction(point, slope, group, state)
                # In double precision: the matrices are small, and rounding would add up over thousands of steps.
                point.copy_(qr_retraction(point.double(), step.double()).to(point.dtype))
        return loss


class RiemannianAdam(OrthonormalOptimizer):
    """Adam on `LᵀL = I`: the first moment is carried by projection, the second is one number per matrix.

    A number per entry would turn the step out of the tangent space, and has no meaning on the set.

    >>> L = torch.nn.Parameter(orthonormalize(torch.tensor([[1.0], [1.0]])))
    >>> optimizer = RiemannianAdam([L], lr=0.05)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     L[0].square().sum().backward()
    ...     optimizer.step()
    >>> bool(L[0].abs() < 0.01)
    True

    Reference: Bécigneul, Ganea (2019).

    Args:
        parameters: matrices with orthonormal columns.
        lr: learning rate.
        betas: of the two moments.
    """

    def __init__(
        self, parameters: Iterable[Any], *, lr: float = 0.01, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        for beta in betas:
            check_number(beta, "betas", minimum=0.0, maximum=0.99999)
        super().__init__(parameters, {"lr": lr, "betas": betas})

    def _direction(self, point: Tensor, slope: Tensor, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        first, second = group["betas"]
        before = state.get("mean")
        carried = 0 if before is None else first * tangent_projection(point, before)
        mean: Tensor = carried + (1 - first) * slope
        state["mean"] = mean
        state["spread"] = second * state.get("spread", 0.0) + (1 - second) * float(slope.square().mean())
        scale = math.sqrt(state["spread"] / (1 - second ** state["count"])) + 1e-12
        correction = (1 - first ** state["count"]) * scale
        return mean / float(correction)
