"""The random walk on a graph of neighbours, `Q_ij = 1/k` for j among the k nearest of i, and solves with it.

`R = (1 − γ)(I − γQ)⁻¹` is where a walk ends that starts at i and goes on with probability γ: `R ≥ 0`, `R1 = 1`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_tensor
from nearer.exceptions import ParameterError, ShapeError

# From here on most of a float64 solve is done in float32, which is several times faster.
REFINED_ABOVE = 20_000


def check_gamma(gamma: Any) -> float:
    """A probability of going on, above 0 and below 1.

    >>> check_gamma(0.99)
    0.99
    """
    number = check_number(gamma, "gamma", above=0.0)
    if number >= 1:
        raise ParameterError(f"`gamma` must be below 1, got {number}: at 1 the system has no solution.")
    return number


class Transition:
    """`Q` of a graph of neighbours (n, k): row-stochastic, directed, not symmetric, and never dense.

    >>> walk = Transition(torch.tensor([[1], [2], [0]]))
    >>> walk.forward(torch.tensor([[1.0], [2.0], [3.0]])).ravel().tolist()
    [2.0, 3.0, 1.0]
    """

    def __init__(self, indices: Any) -> None:
        near = as_tensor(indices, "indices")
        if near.ndim != 2 or near.shape[1] == 0 or near.is_floating_point():
            raise ShapeError(
                f"`indices` must be integers of shape (n, k), got {near.dtype} {tuple(near.shape)}. "
                f"Pass nearest_neighbors(...).indices."
            )
        if near.min() < 0 or near.max() >= len(near):
            raise ShapeError(
                f"`indices` must lie between 0 and {len(near) - 1}, got {int(near.min())} to {int(near.max())}."
            )
        self.indices = near.to(torch.int64).contiguous()
        self.n, self.k = (int(size) for size in near.shape)

    def forward(self, columns: Tensor) -> Tensor:
        """`QV`, (n, c) -> (n, c)."""
        if columns.dtype == torch.float32:
            summed: Tensor = torch.nn.functional.embedding_bag(self.indices, columns, mode="sum")
            return summed.div_(self.k)
        return torch.from_numpy(np.asarray(self.matrix @ columns.numpy()))

    def backward(self, columns: Tensor) -> Tensor:
        """`QᵀV`, (n, c) -> (n, c)."""
        if columns.dtype == torch.float32:
            sources, offsets = self.incoming
            summed: Tensor = torch.nn.functional.embedding_bag(sources, columns, offsets, mode="sum")
            return summed.div_(self.k)
        return torch.from_numpy(np.asarray(self.transposed @ columns.numpy()))

    @cached_property
    def incoming(self) -> tuple[Tensor, Tensor]:
        """Who points at each item: the sources one item after the other, and where each begins."""
        flat = self.indices.reshape(-1)
        order = torch.argsort(flat, stable=True)
        counts = torch.bincount(flat, minlength=self.n)
        return order // self.k, counts.cumsum(0) - counts

    @cached_property
    def matrix(self) -> Any:
        """Q as a scipy CSR matrix with sorted columns."""
        shape = (self.n, self.n)
        starts = np.arange(0, self.n * self.k + 1, self.k)
        values = np.full(self.n * self.k, 1 / self.k)
        result = sparse.csr_matrix((values, self.indices.reshape(-1).numpy(), starts), shape=shape)
        result.sort_indices()
        return result

    @cached_property
    def transposed(self) -> Any:
        """Qᵀ as a scipy CSR matrix."""
        return self.matrix.T.tocsr()


def solve(
    walk: Transition,
    right: Tensor,
    gamma: float,
    *,
    transposed: bool = False,
    rtol: float = 1e-6,
    max_iter: int = 200,
    chunk: int = 32,
) -> Tensor:
    """`(1 − γ)(I − γQ)⁻¹ V`, or with Qᵀ: (n, c) -> (n, c), column by column to a residual of rtol·‖v‖.

    Block BiCGSTAB with its own numbers for every column; conjugate gradients would be wrong, Q is not symmetric.
    Columns that break down are finished by `x ← γQx + (1 − γ)v`, which always converges. A column of zeros is 0.

    >>> walk = Transition(torch.tensor([[1], [0]]))
    >>> solve(walk, torch.tensor([[1.0], [0.0]]).double(), 0.5).ravel().round(decimals=6).tolist()
    [0.666667, 0.333333]
    """
    step = walk.backward if transposed else walk.forward
    solution = torch.empty_like(right)
    for start in range(0, right.shape[1], chunk):
        part = right[:, start : start + chunk] * (1 - gamma)
        if part.dtype == torch.float64 and walk.n > REFINED_ABOVE:
            solution[:, start : start + chunk] = _refined(step, part, gamma, rtol, max_iter)
        else:
            solution[:, start : start + chunk] = _bicgstab(step, part, gamma, rtol, max_iter)
    return solution


def _refined(step: Any, b: Tensor, gamma: float, rtol: float, max_iter: int) -> Tensor:
    """float64 accuracy from float32 solves: solve for what is missing, again and again."""
    x, missing = torch.zeros_like(b), b
    size = torch.linalg.vector_norm(b, dim=0)
    for _ in range(8):
        # Columns of one length, so that float32 has the digits of the missing part and not of the whole.
        scale = torch.linalg.vector_norm(missing, dim=0)
        if bool((scale <= rtol * size).all()):
            return x
        unit = (missing / torch.where(scale > 0, scale, 1.0)).float()
        x += _bicgstab(step, unit, gamma, max(1e-3, rtol), max_iter).double() * scale
        missing = b - x + gamma * step(x)
    return _by_walking(step, b, gamma, rtol * size)


def _bicgstab(step: Any, b: Tensor, gamma: float, rtol: float, max_iter: int) -> Tensor:
    def apply(v: Tensor) -> Tensor:
        moved: Tensor = step(v)
        return torch.sub(v, moved, alpha=gamma, out=moved)

    def ratio(a: Tensor, c: Tensor, live: Tensor) -> Tensor:
        good = live & (c != 0) & torch.isfinite(a) & torch.isfinite(c)
        return torch.where(good, a / torch.where(good, c, 1.0), 0.0)

    target = rtol * torch.linalg.vector_norm(b, dim=0)
    x = b.clone()
    r = b - apply(x)
    shadow, p = r.clone(), r.clone()
    rho = (shadow * r).sum(dim=0)
    live = torch.linalg.vector_norm(r, dim=0) > target
    for _ in range(max_iter):
        if not live.any():
            break
        v = apply(p)
        alpha = ratio(rho, (shadow * v).sum(dim=0), live)
        s = r - alpha * v
        t = apply(s)
        omega = ratio((t * s).sum(dim=0), t.square().sum(dim=0), live)
        # A column that is done has alpha = omega = 0 and stays as it is: s is its r.
        x.addcmul_(p, alpha).addcmul_(s, omega)
        r = s.addcmul_(t, -omega)
        fresh = (shadow * r).sum(dim=0)
        beta = ratio(fresh, rho, live) * ratio(alpha, omega, live)
        p.addcmul_(v, -omega).mul_(beta).add_(r)
        rho = fresh
        # The residual of the recursion drifts from the true one in float32; what it calls done is checked below.
        live = live & (torch.linalg.vector_norm(r, dim=0) > target) & ((alpha != 0) | (omega != 0))
    residual = b - apply(x)
    # Nothing gets below the rounding of x itself, which is up to 1/(1 − γ) times as large as b.
    floor = 8 * torch.finfo(b.dtype).eps * torch.linalg.vector_norm(x, dim=0)
    rough = ~(torch.linalg.vector_norm(residual, dim=0) <= 2 * torch.maximum(target, floor))
    if rough.any():
        x[:, rough] = _by_walking(step, b[:, rough], gamma, target[rough])
    return x


def _by_walking(step: Any, b: Tensor, gamma: float, target: Tensor) -> Tensor:
    """The Neumann series: slow, and certain. `x − before` is the residual of `before`."""
    x = b.clone()
    eps = torch.finfo(b.dtype).eps
    for _ in range(int(np.ceil(np.log(1e-16) / np.log(gamma))) + 1):
        before, x = x, gamma * step(x) + b
        # Below its own rounding the difference stays as it is for ever.
        least = torch.maximum(target, 4 * eps * torch.linalg.vector_norm(x, dim=0))
        if bool((torch.linalg.vector_norm(x - before, dim=0) <= least).all()):
            break
    return x
