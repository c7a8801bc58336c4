"""Log-sum-exp, softmax and extremes over the chosen entries of each row; empty rows are defined, never NaN."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG2E = math.log2(math.e)


def masked_logsumexp(x: Tensor, mask: Tensor) -> Tensor:
    """log Σ_{mask} eˣ of each row, −∞ for an empty row; safe under autograd.

    >>> masked_logsumexp(torch.zeros(2, 3), torch.tensor([[True, True, False], [False] * 3])).exp()
    tensor([2., 0.])
    """
    some = mask.any(1)
    filled = torch.where(some[:, None], x.masked_fill(~mask, -math.inf), 0.0)
    return torch.where(some, torch.logsumexp(filled, 1), -math.inf)


def softplus(x: Tensor) -> Tensor:
    """log(1 + eˣ), exact to the last digit for every x (torch's own is x itself from 20 on).

    >>> softplus(torch.tensor([-math.inf, 0.0, 1000.0]))
    tensor([0.0000e+00, 6.9315e-01, 1.0000e+03])
    """
    return torch.logaddexp(x, x.new_zeros(()))


def exponent_is_safe(largest: float) -> bool:
    """Whether sums of e^{±largest} stay normal float32 numbers: no row maximum is needed then.

    >>> exponent_is_safe(75.0), exponent_is_safe(200.0)
    (True, False)
    """
    return largest <= 76.0  # e^76 times 65,536 terms is still below the largest float32


def soft_rows(s: Tensor, mask: Tensor, factor: float = 1.0, *, largest: float = math.inf) -> tuple[Tensor, Tensor]:
    """(log Σ eˣ, softmax) of x = factor·s over the chosen entries of each row; an empty row gives −∞ and zeros.

    `mask` is 1 and 0. `largest` bounds |x| if that is known: without a row maximum the work is less than half.
    """
    if exponent_is_safe(largest):
        soft = torch.mul(s, factor * LOG2E).exp2_().mul_(mask)
        total = soft.sum(1, keepdim=True)
        return total.log().view(-1), soft.div_(total.clamp_(min=torch.finfo(s.dtype).tiny))
    filled = (s * factor).masked_fill_(mask == 0, -math.inf)
    lse = torch.logsumexp(filled, 1)
    return lse, (filled - lse.clamp(min=torch.finfo(s.dtype).min)[:, None]).exp_()


def soft_rows_with_zero(
    s: Tensor, mask: Tensor, factor: float = 1.0, shift: float = 0.0, *, largest: float = math.inf
) -> tuple[Tensor, Tensor]:
    """As `soft_rows` of x = factor·(s − shift) with one more logit 0: log(1 + Σ eˣ); an empty row gives zeros."""
    if exponent_is_safe(largest):
        soft = torch.mul(s, factor * LOG2E).exp2_().mul_(mask)
        unit = math.exp(factor * shift)
        total = soft.sum(1, keepdim=True)
        return (total / unit).log1p_().view(-1), soft.div_(total.add_(unit))
    filled = ((s - shift) * factor).masked_fill_(mask == 0, -math.inf)
    lse = torch.logsumexp(filled, 1)
    lse = torch.logaddexp(lse, torch.zeros_like(lse))
    return lse, (filled - lse[:, None]).exp_()


def hardest(similarity: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Least similar positive and most similar negative of each row, with their columns; ties go to the first.

    An empty side gives +∞ and −∞, columns 0.
    """
    low, p = similarity.masked_fill(~positive, math.inf).min(1)
    high, n = similarity.masked_fill(~negative, -math.inf).max(1)
    return low, p, high, n
