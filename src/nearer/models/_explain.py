"""Why two items are near or far: the squared distance in parts, by column (or pixel) and by learned direction.

For a linear map `z = Wx + b` the parts are exact: with δ = x − y, `‖Wδ‖² = Σⱼ δⱼ (WᵀWδ)ⱼ`, one term per column; a
term may be negative, where a column makes up for others. For a network the squared distance is followed along the
straight line from the item to the query, and each column gets its share of the slope (integrated gradients); what
the sum of the shares misses is stated. Trees have no slope: the columns of the item become those of the query one
after the other, in random orders, and each gets what it changes in the mean (Shapley values, sampled), so that
nothing is missed. By learned direction the parts `(zⱼ − z'ⱼ)²` are always exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.exceptions import ParameterError
from nearer.geometry._shared import Trees, to_sequential

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points along the line. Networks have corners, so evenly spaced ones do as well as a rule for smooth functions.
POINTS = 512
# Orders of the columns in which trees are asked.
ORDERS = 32


@dataclass(frozen=True, eq=False)
class Explanation:
    """A squared distance in parts.

    >>> from nearer.geometry import Mahalanobis
    >>> found = explain_pair(Mahalanobis.from_factor([[2.0], [0.0]]), [[1.0, 5.0]], [[0.0, 0.0]], ("a", "b"))
    >>> found.squared_distance, found.contributions.tolist(), found.exact
    (4.0, [4.0, 0.0], True)
    """

    squared_distance: float
    contributions: NDArray[np.float64]
    """By column (p,), or by pixel (channels, height, width); they sum to the squared distance but for `missing`."""
    directions: NDArray[np.float64]
    """By learned direction (d,); they sum to the squared distance."""
    names: tuple[str, ...]
    """Of the columns; empty for pixels."""
    exact: bool
    """Whether the map is linear, so that the contributions are the distance and not an account of it."""
    missing: float
    """Squared distance minus the sum of the contributions: rounding for a linear map."""

    def top(self, k: int = 10) -> list[tuple[str, float]]:
        """The k columns that count most, by the size of their part."""
        flat = self.contributions.reshape(-1)
        order = np.argsort(-np.abs(flat), kind="stable")[:k].tolist()
        names = self.names or tuple(str(place) for place in np.ndindex(self.contributions.shape))
        return [(names[place], float(flat[place])) for place in order]

    def figure(self) -> Figure:
        """The parts as bars, or as a picture of the pixels."""
        from nearer.reports._explanations import explanation_figure

        return explanation_figure(self.contributions, self.directions, self.names, exact=self.exact)


def explain_pair(encoder: nn.Module, query: Any, item: Any, names: tuple[str, ...] = ()) -> Explanation:
    """The squared distance between one query and one item, in parts, for features (1, p) or images (1, c, h, w).

    An asymmetric pair of maps has contributions of both sides: those of the query, then those of the item.
    """
    x, y = (torch.as_tensor(rows, dtype=torch.float64) for rows in (query, item))
    for given, name in ((x, "query"), (y, "item")):
        if len(given) != 1:
            raise ParameterError(f"`{name}` must be one item, got {len(given)}. Explain them one by one.")
    if hasattr(encoder, "transform_queries"):
        return _explain_two(encoder, x, y, names)
    labels = names or tuple(f"column {place}" for place in range(x.shape[1])) if x.ndim == 2 else ()
    weight = _weight(encoder)
    if weight is not None:
        difference = weight @ (x - y)[0]
        parts = (x - y)[0] * (weight.T @ difference)
        return _made(difference.square(), parts, labels, exact=True)
    apply = _in_double(encoder)
    with torch.no_grad():
        target = apply(y)
        directions = (apply(x) - target)[0].square()
    if any(isinstance(part, Trees) for part in encoder.modules()):
        return _made(directions, _in_turn(apply, target, x[0], y[0]), labels, exact=False)
    parts = _along(lambda rows: (apply(rows) - target).square().sum(), x, y)
    return _made(directions, parts[0], labels, exact=False)


def _explain_two(maps: Any, x: Tensor, y: Tensor, names: tuple[str, ...]) -> Explanation:
    """`‖Uᵀx − Vᵀy‖² = Σ xⱼ (Ue)ⱼ − Σ yⱼ (Ve)ⱼ` with e = Uᵀx − Vᵀy."""
    if not hasattr(maps, "query_factor"):
        raise ParameterError("`encoder` must be linear on both sides to be explained, got two networks.")
    U, V = maps.query_factor.detach().double(), maps.database_factor.detach().double()
    error = x[0] @ U - y[0] @ V
    parts = torch.cat([x[0] * (U @ error), -y[0] * (V @ error)])
    sides = [f"query column {place}" for place in range(len(U))] + [
        f"item column {place}" for place in range(len(V))
    ]
    if len(names) == len(U) == len(V):
        sides = [f"{name} of the {side}" for side in ("query", "item") for name in names]
    return _made(error.square(), parts, tuple(sides), exact=True)


def _made(directions: Tensor, parts: Tensor, names: tuple[str, ...], *, exact: bool) -> Explanation:
    total = float(directions.sum())
    return Explanation(total, parts.numpy(), directions.numpy(), names, exact, total - float(parts.sum()))


def _weight(encoder: nn.Module) -> Tensor | None:
    """The matrix of a linear map (d, p) in double precision, or None."""
    try:
        layers = list(to_sequential(encoder))
    except ParameterError:
        return None
    if len(layers) != 1 or not isinstance(layers[0], nn.Linear):
        return None
    return layers[0].weight.detach().double()


def _in_double(encoder: nn.Module) -> Callable[[Tensor], Tensor]:
    try:
        copied: nn.Module = to_sequential(encoder).double()
    except ParameterError:
        # Not one of ours: as it is, in its own precision.
        return lambda rows: encoder(rows.to(next(encoder.parameters()).dtype)).double()
    return lambda rows: copied(rows)


def _in_turn(apply: Callable[[Tensor], Tensor], target: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """What each column adds to the squared distance when it becomes that of x, in the mean over random orders."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(x), generator=generator)
    parts = torch.zeros_like(x)
    for number in range(ORDERS):
        # Every order and its reverse: what is early in one is late in the other.
        order = order.flip(0) if number % 2 else torch.randperm(len(x), generator=generator)
        steps = y.repeat(len(x) + 1, 1)
        for column_number, column in enumerate(order.tolist()):
            steps[column_number + 1 :, column] = x[column]
        with torch.no_grad():
            distance = (apply(steps) - target).square().sum(dim=1)
        parts[order] += distance.diff() / ORDERS
    return parts


def _along(function: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """(x − y) times the mean slope on the line from y to x."""
    share = ((torch.arange(POINTS, dtype=x.dtype) + 0.5) / POINTS).reshape(-1, *[1] * (x.ndim - 1))
    slopes = []
    for start in range(0, POINTS, 64):
        part = share[start : start + 64]
        at = (y + part * (x - y)).requires_grad_(True)
        slopes.append(torch.autograd.grad(function(at), at)[0])
    return ((x - y) * torch.cat(slopes).mean(dim=0, keepdim=True)).detach()
