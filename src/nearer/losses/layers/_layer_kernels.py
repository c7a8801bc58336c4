"""Kernels on one layer of representations: a mixture of Gaussians, Laplace, polynomial, moment-generating."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.exceptions import NotFiniteError
from nearer.pairwise._shared import KernelTile, settings_of


def mean_of_pairs(lengths: Tensor) -> float:
    """The mean squared distance of m rows from their squared distances to their mean, (m,)."""
    m = len(lengths)
    return max(2 * float(lengths.sum()) / (m - 1), 1e-12) if m > 1 else 1.0


class Gaussian:
    """k = (1/K) Σ_u e^{−D²/σ_u²}, σ_u² = b·2^{u−⌊K/2⌋}, b the mean squared distance of the batch, or fixed.

    >>> kernel = Gaussian(components=1, bandwidth=2.0).fitted(torch.tensor([[0.0], [1.0]]))
    >>> kernel.tile(slice(0, 1), slice(1, 2)).value.log()
    tensor([[-0.5000]])

    Args:
        components: K, how many bandwidths are mixed.
        bandwidth: b; the mean squared distance of the batch if None.
    """

    __repr__ = settings_of

    def __init__(self, *, components: int = 3, bandwidth: float | None = None) -> None:
        self.components = check_int(components, "components")
        self.bandwidth = None if bandwidth is None else check_number(bandwidth, "bandwidth", above=0.0)

    def fitted(self, x: Tensor) -> _FittedGaussian:
        """With the bandwidth of this batch, which carries no gradient."""
        return _FittedGaussian(x.detach(), self.bandwidth, self.components)


class _FittedGaussian:
    """The widest term is e = e^q, q = −r D²; the next has half its σ², so it is the square of the one before."""

    def __init__(self, x: Tensor, bandwidth: float | None, components: int) -> None:
        self.components = components
        # Distances do not feel a shift, and about the mean they keep their digits.
        self.x = x - x.mean(0) if len(x) else x
        lengths = torch.linalg.vector_norm(self.x, dim=1).square_()
        b = mean_of_pairs(lengths) if bandwidth is None else bandwidth
        self.rate = 2.0 ** (components // 2 - components + 1) / b
        self._lengths = lengths.mul_(-self.rate)
        self._total = torch.zeros_like(x)
        self._sums = torch.zeros_like(lengths)

    def tile(self, rows: slice, columns: slice) -> KernelTile:
        q = torch.addmm(self._lengths[columns], self.x[rows], self.x[columns].t(), alpha=2 * self.rate)
        # Rounding may make the distance of equal rows a little negative.
        e = q.add_(self._lengths[rows, None]).clamp_(max=0).exp_()
        if self.components == 1:
            return KernelTile(e)
        # K k = e (1 + e + e³ + e⁷ + …): the slope is a quotient that stands when every term underflows.
        factor, slope = e + 1, torch.add(e.new_ones(()), e, alpha=2)
        power, term, step = e, e, 2.0
        for _ in range(self.components - 2):
            power, step = power * power, 2 * step
            term = term * power
            factor += term
            slope.add_(term, alpha=step)
        slope.div_(factor)
        return KernelTile(factor.mul_(e), slope=slope, constant=1 / self.components)

    def pull(self, weights: Tensor, rows: slice, columns: slice, *, mirrored: bool) -> None:
        # ∂q_ij/∂x_i = −2r(x_i − x_j): the part with x_i itself waits until all sums are known.
        self._sums[rows].add_(weights.sum(1))
        self._total[rows].addmm_(weights, self.x[columns], alpha=2 * self.rate)
        if mirrored:
            self._sums[columns].add_(weights.sum(0))
            self._total[columns].addmm_(weights.t(), self.x[rows], alpha=2 * self.rate)

    def gradient(self) -> Tensor:
        return self._total.addcmul_(self._sums[:, None], self.x, value=-2 * self.rate)


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
        for column in range(self.x.shape[1]):
            signed = torch.sign(self.x[rows, column, None] - self.x[None, columns, column]).mul_(weights)
            self._total[rows, column] += signed.sum(1)
            if mirrored:
                self._total[columns, column] -= signed.sum(0)

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
