"""Kernels on one layer of representations beside the Gaussian: Laplace, polynomial, moment-generating."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.exceptions import NotFiniteError
from nearer.pairwise._shared import KernelTile, settings_of

__all__ = ["Laplace", "MomentGenerating", "Polynomial"]

# exp of more does not fit into single precision.
LARGEST = 80.0


class Laplace:
    """k = e^{−‖x − y‖₁/σ}, σ the mean L1 distance of the batch, or fixed. No matrix product does it.

    >>> kernel = Laplace(bandwidth=1.0).fitted(torch.tensor([[0.0], [1.0]]))
    >>> kernel.tile(slice(0, 1), slice(1, 2)).value.log()
    tensor([[-1.]])

    Args:
        bandwidth: σ; the mean L1 distance of the batch if None.
    """

    __repr__ = settings_of

    def __init__(self, *, bandwidth: float | None = None) -> None:
        self.bandwidth = None if bandwidth is None else check_number(bandwidth, "bandwidth", above=0.0)

    def fitted(self, x: Tensor) -> _FittedLaplace:
        """With the bandwidth of this batch: the mean over i ≠ j, one coordinate at a time by sorting."""
        if self.bandwidth is not None or len(x) < 2:
            return _FittedLaplace(x, self.bandwidth or 1.0)
        m = len(x)
        ranks = 2 * torch.arange(m, dtype=x.dtype, device=x.device) - (m - 1)
        total = 2 * (x.detach().sort(0).values * ranks[:, None]).sum() / (m * (m - 1))
        return _FittedLaplace(x, float(total.clamp_min(1e-12)))


class _FittedLaplace:
    def __init__(self, x: Tensor, bandwidth: float) -> None:
        self.x, self.rate = x, 1 / bandwidth
        self._total = torch.zeros_like(x)

    def tile(self, rows: slice, columns: slice) -> KernelTile:
        return KernelTile(torch.cdist(self.x[rows], self.x[columns], p=1.0).mul_(-self.rate).exp_())

    def pull(self, weights: Tensor, rows: slice, columns: slice, *, mirrored: bool) -> None:
        # One coordinate at a time: (a, b) memory, never (a, b, d).
        for place in range(self.x.shape[1]):
            signed = torch.sign(self.x[rows, place, None] - self.x[None, columns, place]).mul_(weights)
            self._total[rows, place] += signed.sum(1)
            if mirrored:
                self._total[columns, place] -= signed.sum(0)

    def gradient(self) -> Tensor:
        return self._total.mul_(-self.rate)


class Polynomial:
    """k = (xᵀy + 1)^p; unbounded, so keep its weight small. Rows that point apart can be alike again.

    With `clamped` a negative base counts as 0, which is another kernel: such rows are then as unlike as can be.

    >>> far = torch.tensor([[3.0], [-1.0]])
    >>> kernels = Polynomial(), Polynomial(clamped=True)
    >>> [float(one.fitted(far).tile(slice(0, 1), slice(1, 2)).value) for one in kernels]
    [4.0, 0.0]

    Args:
        degree: p.
        clamped: whether a negative base counts as 0.
    """

    __repr__ = settings_of

    def __init__(self, *, degree: int = 2, clamped: bool = False) -> None:
        self.degree = check_int(degree, "degree")
        self.clamped = clamped

    def fitted(self, x: Tensor) -> _FittedPolynomial:
        """Refuse a batch on which it would overflow."""
        longest = float(x.detach().square().sum(1).max()) if len(x) else 0.0
        if self.degree * math.log1p(longest) > LARGEST:
            raise NotFiniteError(
                f"The polynomial kernel of degree {self.degree} must have rows of squared length up to "
                f"{math.expm1(LARGEST / self.degree):.3g}, got {longest:.3g}: it would overflow. Normalise this "
                f"layer, or use a Gaussian."
            )
        return _FittedPolynomial(x, self.degree, self.clamped)


class MomentGenerating:
    """k = e^{xᵀy}; unbounded: long rows are an error, normalise such a layer first.

    >>> kernel = MomentGenerating().fitted(torch.tensor([[1.0], [0.5]]))
    >>> kernel.tile(slice(0, 1), slice(1, 2)).log
    tensor([[0.5000]])
    """

    __repr__ = settings_of

    def fitted(self, x: Tensor) -> _FittedMoments:
        """Refuse a batch on which it would overflow."""
        longest = float(x.detach().square().sum(1).max()) if len(x) else 0.0
        if longest > LARGEST:
            raise NotFiniteError(
                f"The moment-generating kernel must have rows of squared length up to {LARGEST:g}, got "
                f"{longest:.3g}: e^x would overflow. Normalise this layer, or use a Gaussian."
            )
        return _FittedMoments(x)


class _FittedProduct:
    """A kernel of the inner product alone: its gradient is a matrix product with the rows."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self._total = torch.zeros_like(x)

    def pull(self, weights: Tensor, rows: slice, columns: slice, *, mirrored: bool) -> None:
        self._total[rows].addmm_(weights, self.x[columns])
        if mirrored:
            self._total[columns].addmm_(weights.t(), self.x[rows])

    def gradient(self) -> Tensor:
        return self._total


class _FittedPolynomial(_FittedProduct):
    def __init__(self, x: Tensor, degree: int, clamped: bool) -> None:
        super().__init__(x)
        self.degree, self.clamped = degree, clamped

    def tile(self, rows: slice, columns: slice) -> KernelTile:
        base = self.x[rows] @ self.x[columns].t() + 1
        if self.clamped:
            base = base.clamp_min_(0)
        # The engine wants the slope of log k, p/base; beside a base of 0 lies one with the same product k · slope.
        beside = torch.where(base.abs() < 1e-12, 1e-12, base)
        return KernelTile((base if self.clamped else beside) ** self.degree, slope=self.degree / beside)


class _FittedMoments(_FittedProduct):
    def tile(self, rows: slice, columns: slice) -> KernelTile:
        return KernelTile(None, log=self.x[rows] @ self.x[columns].t())
