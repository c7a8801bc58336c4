"""From the terms of anchors to one number: the only table of reductions."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from nearer.pairwise._rule import Terms

# "sum"; "mean" over anchors; over the terms that are not zero; over all terms; each side over its own active terms
Reduction = Literal["sum", "mean", "active", "tuples", "sides"]


def divisor(reduction: str, anchors: int, count: float | Tensor) -> Any:
    """What a sum is divided by; at least 1, so that nothing gives 0.

    >>> divisor("sum", 4, 9), divisor("mean", 4, 9), divisor("active", 4, 9), divisor("tuples", 4, 0)
    (1.0, 4.0, 9.0, 1.0)
    """
    if reduction == "sum":
        return 1.0
    count = anchors if reduction == "mean" else count
    return count.clamp(min=1) if isinstance(count, Tensor) else float(max(count, 1))


def shares(reduction: str, anchors: int, terms: Terms) -> list[float]:
    """What each column of the terms is multiplied by."""
    columns = 1 if terms.value.ndim == 1 else terms.value.shape[1]
    if reduction in ("sum", "mean"):
        return [1 / divisor(reduction, anchors, 0)] * columns
    counts = _counts(terms, reduction)
    if reduction == "sides":
        return [1 / divisor(reduction, anchors, count) for count in counts.tolist()]
    return [1 / divisor(reduction, anchors, float(counts.sum()))] * columns


def _counts(terms: Terms, reduction: str) -> Tensor:
    if terms.count is None:
        raise TypeError(f"reduction {reduction!r} needs terms with a count")
    return terms.count.sum(0)


def reduce(terms: Terms, reduction: str, anchors: int) -> Tensor:
    """The value of a loss from the terms of all its anchors, by tensors alone.

    >>> import torch
    >>> reduce(Terms(torch.tensor([1.0, 2.0, 0.0]), torch.tensor([True, True, False])), "active", 3)
    tensor(1.5000)
    """
    total = terms.value.sum(0)
    if reduction in ("sum", "mean"):
        return total.sum() / divisor(reduction, anchors, 0)
    counts = _counts(terms, reduction)
    return (total / divisor(reduction, anchors, counts if reduction == "sides" else counts.sum())).sum()


def joined(total: Tensor, columns: list[float]) -> Tensor:
    """The sums of the columns (one number, or one for each), each with its share."""
    return total * columns[0] if total.ndim == 0 else torch.dot(total, total.new_tensor(columns))
