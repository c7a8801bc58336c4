"""Projections with orthonormal columns, `LᵀL = I`, and the steps that stay on the set of them.

A retraction takes a point `L` (p, d) with `LᵀL = I` and a tangent step `ξ`, and returns a point again with
`R(ξ) = L + ξ + O(‖ξ‖²)`; `R(0) = L`. The one here, by QR, is the cheapest of the usual three, is differentiable,
keeps the dtype and does not drift.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_matrix
from nearer.exceptions import NearerWarning, ParameterError, ShapeError
from nearer.geometry._mahalanobis import LinearMap


def orthonormalize(matrix: Any) -> Tensor:
    """The orthonormal factor of the QR decomposition with a positive diagonal of R: (p, d) -> (p, d), d ≤ p.

    Without the fix of the signs a column may flip from one step to the next.

    >>> orthonormalize([[-2, 1], [0, 5]])
    tensor([[-1.,  0.],
            [ 0.,  1.]])
    """
    m = as_matrix(matrix, "matrix")
    if m.shape[1] > m.shape[0]:
        raise ShapeError(
            f"`matrix` must have at least as many rows as columns, got {tuple(m.shape)}. Transpose it."
        )
    return _signed_q(m)


def tangent_projection(point: Any, gradient: Any) -> Tensor:
    """The part of a gradient that keeps `LᵀL = I` to first order: `G − L sym(LᵀG)`, all of shape (p, d).

    >>> tangent_projection([[1], [0]], [[5], [7]])
    tensor([[0.],
            [7.]])
    """
    L, G = _at(point, gradient, "gradient")
    inner = L.T @ G
    return G - L @ (inner + inner.T) / 2


def qr_retraction(point: Any, step: Any) -> Tensor:
    """`qf(L + ξ)`, the Q factor with a positive diagonal of R: (p, d) -> (p, d).

    >>> qr_retraction([[1], [0]], [[0], [1]])
    tensor([[0.7071],
            [0.7071]])
    """
    L, xi = _at(point, step, "step")
    return _signed_q(L + xi)


class OrthogonalMap(LinearMap):
    """A projection by `L` (p, d) with orthonormal columns, `x ↦ Lᵀx`; random at first.

    A distance sees only `LLᵀ`. With d = p that is the identity, so `L` would have no effect: a warning says so.
    Plain gradient steps leave the set `LᵀL = I`; move along `tangent_projection` and come back by a retraction.

    >>> L = OrthogonalMap(5, 2)
    >>> bool(L.deviation() < 1e-6), L.transform([[1, 2, 3, 4, 5]]).shape
    (True, torch.Size([1, 2]))

    Args:
        in_features: columns p of the input.
        embedding_dim: dimensions d, at most p.
        generator: draws the first columns; torch's own if None.
    """

    def __init__(self, in_features: int, embedding_dim: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        p = check_int(in_features, "in_features")
        d = check_int(embedding_dim, "embedding_dim", maximum=p)
        self.settings: dict[str, Any] = {"in_features": p, "embedding_dim": d}
        self.factor = nn.Parameter(_signed_q(torch.randn(p, d, generator=generator)))  # (p, d)
        # On the meta device the numbers are yet to come, and so is the question what they are good for.
        if not self.factor.is_meta:
            _warn_if_square(p, d)

    @classmethod
    def from_factor(cls, factor: Any) -> OrthogonalMap:
        """The map of a given `L` (p, d) with orthonormal columns, in the precision of `factor`.

        >>> OrthogonalMap.from_factor([[0], [1]]).transform([[3, 4]]).tolist()
        [[4.0]]
        """
        L = as_matrix(factor, "factor").detach()
        off = _deviation(L)
        if off > 1e-4:
            raise ParameterError(
                f"`factor` must have orthonormal columns, LᵀL differs from I by {off:.3g}. "
                f"Pass orthonormalise(factor)."
            )
        with torch.device("meta"):
            linear = cls(*L.shape)
        linear.factor = nn.Parameter(L.clone())
        _warn_if_square(*L.shape)
        return linear

    def matrix(self) -> Tensor:
        """The projection `LLᵀ` (p, p) that distances see."""
        return self.factor @ self.factor.T

    def deviation(self) -> float:
        """How far the columns are from orthonormal: the largest entry of `|LᵀL − I|`."""
        return _deviation(self.factor.detach())


def _warn_if_square(p: int, d: int) -> None:
    if d == p:
        warnings.warn(
            f"`embedding_dim` should be smaller than `in_features`, got {d} for both: a square orthogonal map "
            f"changes no distance and no angle.",
            NearerWarning,
            stacklevel=3,
        )


def _signed_q(matrix: Tensor) -> Tensor:
    q: Tensor
    q, r = torch.linalg.qr(matrix)
    sign = torch.where(torch.diagonal(r) < 0, -1.0, 1.0)
    return q * sign.to(matrix.dtype)


def _deviation(L: Tensor) -> float:
    eye = torch.eye(L.shape[1], dtype=L.dtype, device=L.device)
    return float((L.T @ L - eye).abs().max())


def _at(point: Any, direction: Any, name: str) -> tuple[Tensor, Tensor]:
    L = as_matrix(point, "point")
    xi = as_matrix(direction, name)
    if L.shape != xi.shape:
        raise ShapeError(f"`{name}` must have the shape {tuple(L.shape)} of `point`, got {tuple(xi.shape)}.")
    if L.shape[1] > L.shape[0]:
        raise ShapeError(f"`point` must have at least as many rows as columns, got {tuple(L.shape)}. Transpose it.")
    return L, xi.to(L.dtype)
