"""Kernels on one layer of representations: Gaussian mixture, Laplace, polynomial, moment-generating."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._validation import check_int, check_number
from nearer.exceptions import NotFiniteError

__all__ = ["Gaussian", "Laplace", "MomentGenerating", "Polynomial", "mean_squared_distance"]

# exp of more does not fit into single precision.
LARGEST = 80.0


def mean_squared_distance(x: Tensor) -> Tensor:
    """b = 2(m Σ‖x‖² − ‖Σx‖²)/(m(m−1)): the mean of ‖x_i − x_j‖² over i ≠ j, without any pair.

    >>> mean_squared_distance(torch.tensor([[0.0], [2.0], [4.0]])).item()
    8.0
    """
    m = len(x)
    if m < 2:
        return x.new_ones(())
    # Centred first: the difference of two large sums would lose digits.
    centred = x - x.mean(0)
    return (2 * centred.square().sum() / (m - 1)).clamp_min(1e-12)


class Gaussian:
    """k = (1/K) Σ_u e^{−D²/σ_u²}, σ_u² = b·2^{u−⌊K/2⌋}, b the mean squared distance of the batch, or fixed.

    >>> kernel = Gaussian(components=1, bandwidth=2.0).fitted(torch.zeros(2, 1))
    >>> kernel.values(torch.zeros(1, 1), torch.ones(1, 1))[0]
    tensor([[-0.5000]])
    """

    def __init__(self, *, components: int = 3, bandwidth: float | None = None) -> None:
        self.components = check_int(components, "components")
        self.bandwidth = None if bandwidth is None else check_number(bandwidth, "bandwidth", above=0.0)

    def fitted(self, x: Tensor) -> _FittedGaussian:
        """With the bandwidth of this batch, which carries no gradient."""
        b = mean_squared_distance(x.detach()) if self.bandwidth is None else x.new_tensor(self.bandwidth)
        powers = torch.arange(self.components, device=x.device) - self.components // 2
        return _FittedGaussian(1 / (b * 2.0 ** powers.to(x.dtype)))


class _FittedGaussian:
    def __init__(self, rates: Tensor) -> None:
        self.rates = rates.tolist()

    def values(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        d = (
            torch.addmm(y.square().sum(1)[None, :], x, y.t(), alpha=-2)
            .add_(x.square().sum(1)[:, None])
            .clamp_(min=0)
        )
        if len(self.rates) == 1:
            return d.mul_(-self.rates[0]), d.new_full((), -self.rates[0]).expand_as(d)
        # Each σ² is twice the one before, so each exponential is the square of the next.
        last = (d * -self.rates[-1]).exp_()
        terms = [last]
        for _ in self.rates[1:]:
            terms.append(terms[-1] * terms[-1])
        total = torch.stack(terms).sum(0)
        slope = sum(-rate * term for rate, term in zip(reversed(self.rates), terms, strict=True))
        # Far pairs underflow to 0 in every term: their log is very negative and their slope that of the widest.
        safe = total > 0
        log = torch.where(safe, (total / len(terms)).log(), -d * self.rates[-1])
        return log, torch.where(safe, slope / total, -self.rates[-1])

    def pull(self, weights: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        by_x = 2 * (weights.sum(1)[:, None] * x - weights @ y)
        by_y = 2 * (weights.sum(0)[:, None] * y - weights.t() @ x)
        return by_x, by_y


class Laplace:
    """k = e^{−‖x − y‖₁/σ}, σ the mean L1 distance of the batch, or fixed. No matrix product does it."""

    def __init__(self, *, bandwidth: float | None = None) -> None:
        self.bandwidth = None if bandwidth is None else check_number(bandwidth, "bandwidth", above=0.0)

    def fitted(self, x: Tensor) -> _FittedLaplace:
        """With the bandwidth of this batch: the mean over i ≠ j, one coordinate at a time by sorting."""
        if self.bandwidth is not None or len(x) < 2:
            return _FittedLaplace(self.bandwidth or 1.0)
        m = len(x)
        ranks = 2 * torch.arange(m, dtype=x.dtype, device=x.device) - (m - 1)
        total = 2 * (x.detach().sort(0).values * ranks[:, None]).sum() / (m * (m - 1))
        return _FittedLaplace(float(total.clamp_min(1e-12)))


class _FittedLaplace:
    def __init__(self, bandwidth: float) -> None:
        self.rate = 1 / bandwidth

    def values(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        log = torch.cdist(x, y, p=1.0).mul_(-self.rate)
        return log, log.new_full((), -self.rate).expand_as(log)

    def pull(self, weights: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        by_x, by_y = torch.empty_like(x), torch.empty_like(y)
        # One coordinate at a time: (a, b) memory, never (a, b, d).
        for place in range(x.shape[1]):
            signed = torch.sign(x[:, place, None] - y[None, :, place]) * weights
            by_x[:, place], by_y[:, place] = signed.sum(1), -signed.sum(0)
        return by_x, by_y


class Polynomial:
    """k = (xᵀy + 1)^p; unbounded, so keep its weight small. A negative base counts as 0."""

    def __init__(self, *, degree: int = 2) -> None:
        self.degree = check_int(degree, "degree")

    def fitted(self, x: Tensor) -> _FittedProduct:
        """Nothing depends on the batch."""
        return _FittedProduct(self.degree)


class MomentGenerating:
    """k = e^{xᵀy}; unbounded: long rows are an error, normalise such a layer first."""

    def fitted(self, x: Tensor) -> _FittedProduct:
        """Refuse a batch on which it would overflow."""
        longest = float(x.detach().square().sum(1).max()) if len(x) else 0.0
        if longest > LARGEST:
            raise NotFiniteError(
                f"The moment-generating kernel must have rows of squared length up to {LARGEST:g}, got "
                f"{longest:.3g}: e^x would overflow. Normalise this layer, or use a Gaussian."
            )
        return _FittedProduct(None)


class _FittedProduct:
    def __init__(self, degree: int | None) -> None:
        self.degree = degree

    def values(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        s = x @ y.t()
        if self.degree is None:
            return s, s.new_ones(()).expand_as(s)
        base = (s + 1).clamp_min(1e-12)
        return self.degree * base.log(), self.degree / base * (s > -1)

    def pull(self, weights: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return weights @ y, weights.t() @ x
