"""Relation functions: how different two rows of labels are, and how far a unit sphere can go along.

A function g is met exactly by unit vectors, `‖f_i − f_j‖² = c·g_ij`, if and only if `1 − c·g/2` is positive
semi-definite. For each pairing of labels and function the largest such factor c that holds whatever the labels are:

    classes         L1 of one-hot rows    c = 1       orthogonal directions; dimension at least the classes
    label sets      L1                    c = 4/q     f = (2y − 1)/√q; with q ≥ 5 the plain g is out of reach
    label sets      1 − cosine            c = 2       f = y/‖y‖; an empty set is a direction of its own
    label sets      1 − Jaccard           c = 2       the Jaccard index is a kernel
    distributions   L1                    c = 1       1 − L1/2 is the intersection kernel
    distributions   squared Hellinger     c = 1       f = √p
    distributions   Jensen–Shannon        c = 2/ln 2  ln 2 − JS is a kernel
    distributions   1 − cosine            c = 2       f = p/‖p‖
    distributions   Chebyshev, bounded KL none        brought to [0, 2]: in range, but not met by all at once
    numbers         |y − y'|              c = 4/span  f(u) = sign(y − u) over all thresholds u of the span

Reference: section B2 of the specification; Fuglede, Topsoe (2004) for Jensen–Shannon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._checks import check_choice
from nearer.exceptions import LabelError, ShapeError

# Rows (…, q, K) and columns (…, n, K) -> (…, q, n).
Tiled = Callable[[Tensor, Tensor], Tensor]

_SMOOTHING = 1e-6
_ELEMENTS = 1 << 22


def l1(a: Tensor, b: Tensor) -> Tensor:
    """Σ|a − b|.

    >>> l1(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([[2.]])
    """
    return torch.cdist(a, b, p=1)


def chebyshev(a: Tensor, b: Tensor) -> Tensor:
    """max|a − b|.

    >>> chebyshev(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([[1.]])
    """
    return torch.cdist(a, b, p=math.inf)


def hellinger(a: Tensor, b: Tensor) -> Tensor:
    """Squared Hellinger distance ‖√a − √b‖² of rows that are not negative.

    >>> hellinger(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([[2.]])
    """
    inner: Tensor = a.sqrt() @ b.sqrt().mT
    return (a.sum(-1)[..., :, None] + b.sum(-1)[..., None, :] - 2 * inner).clamp(min=0)


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    """Jensen–Shannon divergence `H((a + b)/2) − H(a)/2 − H(b)/2` in nats, at most ln 2.

    >>> jensen_shannon(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([[0.6931]])
    """
    own, other = torch.special.entr(a).sum(-1), torch.special.entr(b).sum(-1)
    mixed = by_rows(lambda x, y: torch.special.entr((x + y) / 2).sum(-1))(a, b)
    gap: Tensor = mixed - own[..., :, None] / 2 - other[..., None, :] / 2
    return gap.clamp(min=0)


def bounded_kl(a: Tensor, b: Tensor) -> Tensor:
    """Symmetric Kullback–Leibler divergence J, brought to [0, 2) by `2(1 − e^{−J/2})`.

    1e-6 is added to every entry first, so that J is finite.

    >>> bounded_kl(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.5, 0.5]]))
    tensor([[0.]])
    """
    a, b = ((x + _SMOOTHING) / (1 + _SMOOTHING * x.shape[-1]) for x in (a, b))
    own, other = (a * a.log()).sum(-1), (b * b.log()).sum(-1)
    j = own[..., :, None] + other[..., None, :] - a @ b.log().mT - a.log() @ b.mT
    return -2 * torch.expm1(j.clamp(min=0) / -2)


def one_minus_cosine(a: Tensor, b: Tensor) -> Tensor:
    """1 − cos(a, b); two zero rows are equal, a zero row is orthogonal to every other.

    >>> one_minus_cosine(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0]]))
    tensor([[1.],
            [0.]])
    """
    a, b = (torch.cat([x, (x == 0).all(-1, keepdim=True).to(x.dtype)], -1) for x in (a, b))
    a, b = (x / x.norm(dim=-1, keepdim=True) for x in (a, b))
    return (1 - a @ b.mT).clamp(min=0)


def one_minus_jaccard(a: Tensor, b: Tensor) -> Tensor:
    """1 − |A∩B|/|A∪B| of 0/1 rows; two empty sets are equal.

    >>> one_minus_jaccard(torch.tensor([[1.0, 1.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([[0.5000]])
    """
    shared = a @ b.mT
    union = a.sum(-1)[..., :, None] + b.sum(-1)[..., None, :] - shared
    return 1 - torch.where(union > 0, shared / union.clamp(min=1), 1.0)


def by_rows(function: Callable[[Tensor, Tensor], Tensor]) -> Tiled:
    """Tiles from a function of two rows that reduces the last axis, some rows at a time.

    >>> by_rows(lambda a, b: (a - b).abs().sum(-1))(torch.tensor([[1.0]]), torch.tensor([[3.0], [1.0]]))
    tensor([[2., 0.]])
    """

    def tile(a: Tensor, b: Tensor) -> Tensor:
        step = max(1, _ELEMENTS // max(1, b.numel()))
        parts = []
        for part in torch.split(a, step, dim=-2):
            block = function(part[..., :, None, :], b[..., None, :, :])
            expected = (*a.shape[:-2], part.shape[-2], b.shape[-2])
            if not isinstance(block, Tensor) or block.shape != expected:
                came = tuple(block.shape) if isinstance(block, Tensor) else type(block).__name__
                raise ShapeError(
                    f"a relation function must reduce the last axis of two tensors that broadcast, here to "
                    f"{tuple(expected)}, got {came}. An example: lambda a, b: (a - b).abs().sum(-1)."
                )
            parts.append(block)
        return torch.cat(parts, dim=-2) if parts else a.new_zeros((*a.shape[:-1], b.shape[-2]))

    return tile


@dataclass(frozen=True)
class Difference:
    """A relation function g, its largest value, and the squared distance of unit vectors that this value asks for.

    `farthest/largest` is the factor c of the table above.
    """

    between: Tiled
    largest: float
    farthest: float
    attainable: bool = True

    def paired(self, a: Tensor, b: Tensor) -> Tensor:
        """g of row i of a and row i of b, (m, K) twice -> (m,)."""
        step = max(1, _ELEMENTS // max(1, a.shape[1]))
        sides = zip(torch.split(a, step), torch.split(b, step), strict=True)
        return torch.cat([self.between(x[:, None], y[:, None])[:, 0, 0] for x, y in sides])

    def degree(self, a: Tensor, b: Tensor) -> Tensor:
        """1 − g/largest, in [0, 1]: (q, K) and (n, K) -> (q, n)."""
        return (1 - self.between(a, b) / self.largest).clamp(0, 1)


_SETS: dict[str, Callable[[int], Difference]] = {
    "jaccard": lambda q: Difference(one_minus_jaccard, 1.0, 2.0),
    "l1": lambda q: Difference(l1, float(q), 4.0),
    "cosine": lambda q: Difference(one_minus_cosine, 1.0, 2.0),
}
_DISTRIBUTIONS: dict[str, Callable[[int], Difference]] = {
    "l1": lambda q: Difference(l1, 2.0, 2.0),
    "hellinger": lambda q: Difference(hellinger, 2.0, 2.0),
    "jensen_shannon": lambda q: Difference(jensen_shannon, math.log(2), 2.0),
    "kullback_leibler": lambda q: Difference(bounded_kl, 2.0, 2.0, attainable=False),
    "chebyshev": lambda q: Difference(chebyshev, 1.0, 2.0, attainable=q <= 2),
    "cosine": lambda q: Difference(one_minus_cosine, 1.0, 2.0),
}


def find_difference(function: str | Callable[[Tensor, Tensor], Tensor], kind: str, table: Tensor) -> Difference:
    """The relation function of a name, or of a user's own function of two rows.

    `kind` is "sets" or "distributions". A user's function reduces the last axis of two broadcast tensors; its
    largest value is looked up in the table, and it is brought to [0, 2].

    >>> find_difference("l1", "sets", torch.eye(5)).farthest
    4.0
    """
    if not callable(function):
        known = _SETS if kind == "sets" else _DISTRIBUTIONS
        return known[check_choice(function, "function", known)](table.shape[1])
    between = by_rows(function)
    return Difference(between, largest_observed(between, table), 2.0, attainable=False)


def largest_observed(between: Tiled, table: Tensor) -> float:
    """The largest g between two rows of a table, and proof that g is finite and not negative; 1.0 if all are 0.

    >>> largest_observed(l1, torch.tensor([[0.0], [1.0], [3.0]]))
    3.0
    """
    rows = torch.unique(table, dim=0)
    top = 0.0
    for part in torch.split(rows, 256):
        tile = between(part, rows)
        if not bool(torch.isfinite(tile).all()) or bool((tile < 0).any()):
            raise LabelError("a relation function must give finite numbers that are not negative, got others.")
        top = max(top, float(tile.max()))
    return top if top > 0 else 1.0
