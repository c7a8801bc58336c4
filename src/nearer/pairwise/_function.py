"""The border to autograd: a program computes a loss and its gradient at once; backward only hands it on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearer.pairwise._panels import Gradient

__all__ = ["Program", "differentiate", "normalize_rows"]

# queries, database (None: the queries themselves), anchor values, whether a gradient is wanted
Program = Callable[[Tensor, Tensor | None, Tensor | None, bool], Gradient]


def normalize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Unit rows z = x/‖x‖ and the inverse norms (n, 1); a zero row stays zero and has the inverse 0.

    >>> normalize_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))[0]
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    inverse = torch.linalg.vector_norm(x, dim=1, keepdim=True).reciprocal().nan_to_num(posinf=0.0)
    return x * inverse, inverse


def _through_norm(d_z: Tensor, z: Tensor, inverse: Tensor) -> Tensor:
    """dx = (dz − z(zᵀdz))/‖x‖; zero for a zero row, where the direction is undefined."""
    along = torch.linalg.vecdot(d_z, z).unsqueeze(1)
    return torch.addcmul(d_z, z, along, value=-1).mul_(inverse)


def _widen(x: Tensor) -> Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


class _Differentiate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        database: Tensor | None,
        anchor_values: Tensor | None,
        program: Program,
        normalize: bool,
    ) -> Tensor:
        need_queries, need_database, need_anchor = ctx.needs_input_grad[:3]
        kind = queries.device.type
        # Exponents of 25 and more overflow in half precision, so autocast must not reach the products below.
        with torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext():
            z = _widen(queries)
            q, q_inverse = normalize_rows(z) if normalize else (z, z)
            d, d_inverse = None, None
            if database is not None:
                wide = _widen(database)
                d, d_inverse = normalize_rows(wide) if normalize else (wide, wide)
            found = program(q, d, anchor_values, need_queries or need_database or need_anchor)
            saved: list[Tensor | None] = [None, None, None]
            if need_queries and found.queries is not None:
                d_q = _through_norm(found.queries, q, q_inverse) if normalize else found.queries
                saved[0] = d_q.to(queries.dtype)
            if need_database and found.database is not None and d is not None and d_inverse is not None:
                d_d = _through_norm(found.database, d, d_inverse) if normalize else found.database
                saved[1] = d_d.to(database.dtype) if database is not None else None
            saved[2] = found.anchor_values if need_anchor else None
        ctx.save_for_backward(*saved)
        return found.value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        grads = [None if saved is None else (saved * upstream).to(saved.dtype) for saved in ctx.saved_tensors]
        return (*grads, None, None)


def differentiate(
    program: Program,
    queries: Tensor,
    database: Tensor | None = None,
    anchor_values: Tensor | None = None,
    *,
    normalize: bool,
) -> Tensor:
    """Run a program on (normalised) embeddings so that `backward` reaches them."""
    result: Tensor = _Differentiate.apply(queries, database, anchor_values, program, normalize)  # type: ignore[no-untyped-call]
    return result
