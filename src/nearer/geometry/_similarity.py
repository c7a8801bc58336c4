"""Similarities (up = closer) and distances (down = closer) between every query and every database item.

All of them are differentiable, take `database=None` for "the queries themselves", and return shape (q, n);
no query or no item gives an empty matrix. They hold the whole matrix: for large batches use `nearer.pairwise`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nearer._validation import as_matrix

# Entries of (pairs, features) that a direct recomputation holds at once: 32 MB in double precision.
BLOCK = 1 << 22
# Entries of the matrix that are worked on while they are in the cache.
TILE = 1 << 17


def normalize(embeddings: Any) -> Tensor:
    """Rows of length one, `z = x / ‖x‖`; a row of zeros stays zero and gets a zero gradient.

    `embeddings` (n, d) -> (n, d). Neither overflows nor underflows: rows of 1e30 and 1e-30 work in float32.

    >>> normalize([[3, 4], [0, 0]])
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])

    Args:
        embeddings: rows, (n, d).
    """
    x = as_matrix(embeddings, "embeddings", minimum_rows=0)
    # Direction does not depend on scale, so the scale is a constant for the gradient as well.
    scale = x.detach().abs().amax(dim=1, keepdim=True)
    nonzero = scale > 0
    scaled = x / torch.where(nonzero, scale, 1.0)
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return torch.where(nonzero, scaled / torch.where(nonzero, length, 1.0), 0.0)


def cosine_similarity(queries: Any, database: Any = None) -> Tensor:
    """The cosine of the angle, `s_ij = q_i·x_j / (‖q_i‖ ‖x_j‖)`; a row of zeros has similarity 0 to everything.

    `queries` (q, d), `database` (n, d) -> (q, n). Rounding may give 1 + 1e-7: clamp before an arc cosine.

    >>> cosine_similarity([[2, 0]], [[5, 0], [0, 1], [-1, 0]])
    tensor([[ 1.,  0., -1.]])

    Args:
        queries: rows, (q, d).
        database: rows, (n, d); the queries themselves if None.
    """
    a, b = _pair(queries, database)
    first = normalize(a)
    return first @ (first if b is a else normalize(b)).T


def dot_product(queries: Any, database: Any = None) -> Tensor:
    """The inner product, `s_ij = q_i·x_j`.

    `queries` (q, d), `database` (n, d) -> (q, n).

    >>> dot_product([[1, 2]], [[3, 4]])
    tensor([[11.]])
    """
    a, b = _pair(queries, database)
    return a @ b.T


def squared_euclidean_distance(queries: Any, database: Any = None) -> Tensor:
    """The squared distance, `D²_ij = ‖q_i − x_j‖²`, never negative and exactly 0 for equal rows.

    `queries` (q, d), `database` (n, d) -> (q, n). Computed as ‖q‖² + ‖x‖² − 2q·x about the mean of the database,
    and where that would lose half of the digits, from the difference of the two rows.

    >>> squared_euclidean_distance([[0, 0]], [[3, 4], [0, 0]])
    tensor([[25.,  0.]])
    """
    a, b = _pair(queries, database)
    return _SquaredDistance.apply(a, b)  # type: ignore[no-untyped-call]


def euclidean_distance(queries: Any, database: Any = None) -> Tensor:
    """The distance, `D_ij = ‖q_i − x_j‖`; coincident rows have distance 0 and pass no gradient (never 1/√0).

    `queries` (q, d), `database` (n, d) -> (q, n).

    >>> euclidean_distance([[0, 0]], [[3, 4], [0, 0]])
    tensor([[5., 0.]])

    Args:
        queries: rows, (q, d).
        database: rows, (n, d); the queries themselves if None.
    """
    squared = squared_euclidean_distance(queries, database)
    apart = squared > 0
    return torch.where(apart, torch.sqrt(torch.where(apart, squared, 1.0)), 0.0)


def _pair(queries: Any, database: Any) -> tuple[Tensor, Tensor]:
    a = as_matrix(queries, "queries", minimum_rows=0)
    if database is None:
        return a, a
    b = as_matrix(database, "database", columns=a.shape[1], minimum_rows=0)
    wide = torch.promote_types(a.dtype, b.dtype)
    return a.to(wide), b.to(wide)


class _SquaredDistance(torch.autograd.Function):
    """D² with dQ = 2(diag(G1)Q − GX), dX = 2(diag(Gᵀ1)X − GᵀQ), near pairs summed from their differences."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        # Distances do not change under a shift; about the mean the squares are small and cancel less.
        center = b.mean(dim=0) if len(b) else b.new_zeros(b.shape[1])
        u, v = a - center, b - center
        size_u, size_v = u.square().sum(dim=1), v.square().sum(dim=1)
        squared = torch.empty(len(a), len(b), dtype=a.dtype, device=a.device)
        near = torch.empty(len(a), len(b), dtype=torch.bool, device=a.device)
        # Rounding is about eps·size, so below √eps·size half of the digits would be gone.
        lost = torch.finfo(a.dtype).eps ** 0.5
        rows = max(1, TILE // max(1, len(b)))
        for start in range(0, len(a), rows):
            part = slice(start, start + rows)
            size = size_u[part, None] + size_v
            tile = torch.addmm(size, u[part], v.T, alpha=-2.0, out=squared[part])
            # Written with `not`, so that an overflow to NaN is recomputed as well.
            torch.logical_not(tile > size.mul_(lost), out=near[part])
        for i, j in _blocks(near, a.shape[1]):
            squared[i, j] = (a[i] - b[j]).square().sum(dim=1)
        ctx.save_for_backward(a, b, near)
        return squared

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (g,) = gradients
        a, b, near = ctx.saved_tensors
        far = torch.where(near, 0.0, g)
        center = b.detach().mean(dim=0) if len(b) else b.new_zeros(b.shape[1])
        u, v = a - center, b - center
        to_a = 2 * (far.sum(dim=1, keepdim=True) * u - far @ v)
        to_b = 2 * (far.sum(dim=0)[:, None] * v - far.T @ u)
        for i, j in _blocks(near, a.shape[1]):
            pull = 2 * g[i, j, None] * (a[i] - b[j])
            to_a = to_a.index_add(0, i, pull)
            to_b = to_b.index_add(0, j, -pull)
        return to_a, to_b


def _blocks(near: Tensor, features: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The marked pairs (i, j), as many at a time as fit a block."""
    rows = max(1, BLOCK // max(1, near.shape[1] * features))
    for start in range(0, len(near), rows):
        i, j = near[start : start + rows].nonzero(as_tuple=True)
        if len(i):
            yield i + start, j
