"""Contrastive losses: pull positives, push negatives beyond a threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nearer._validation import check_int, check_number
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise._panels import Miner, Panel, Rows
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors

__all__ = ["ContrastiveLoss", "DistanceContrastiveLoss", "contrastive", "distance_contrastive"]


class ContrastiveLoss(RowLoss):
    """Contrastive loss on similarities: Σ_P (1 − s) + Σ_N [s − threshold]₊.

    Weights: −1 on every positive, 1[s > threshold] on negatives. Reductions: "sides" (default: mean over the
    positives plus mean over the active negatives), "active", "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(ContrastiveLoss(reduction="sum")(z, torch.tensor([0, 0, 1])).item(), 4)  # 2·1 + 2·(0.1 + 0.3)
    2.8

    Related: `DistanceContrastiveLoss`; RAW with a hard threshold. Reference: eq 5 of the pair-weighting paper,
    with 1 added per positive pair so that the value is never negative.
    """

    reductions = ("sides", "active", "mean", "sum")

    def __init__(self, *, threshold: float = 0.5, reduction: str = "sides", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.threshold = check_number(threshold, "threshold")

    def formula(self, panel: Panel) -> Tensor:
        s, p, n = panel.similarity, panel.positive, panel.negative
        pull = (1 - s)[p]
        push = (s - self.threshold).clamp(min=0)[n]
        return two_sides(pull, push, pull.numel(), int((push > 0).sum()), self.reduction, len(s))

    def rows(self, panel: Panel) -> Rows:
        s = panel.similarity
        hot = panel.negative & (s > self.threshold)
        n_p, n_n = panel.positive.sum(1, dtype=s.dtype), hot.sum(1, dtype=s.dtype)
        up, un = panel.scales or side_scales(n_p, n_n)
        weight = hot.to(s.dtype).mul_(un).sub_(panel.positive.to(s.dtype), alpha=up)
        value = (weight * s).sum(1) + up * n_p - (un * self.threshold) * n_n
        return Rows(value, weight, active=n_p + n_n, sides=(n_p, n_n))

    def kernel(self, bound: float) -> PointKernel:
        threshold = self.threshold

        def push(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            hot = torch.gt(s, threshold, out=spare)
            return s.sub_(threshold).mul_(hot), hot

        return PointKernel(
            push=push,
            pull=lambda s: (1 - s, torch.ones_like(s), torch.full_like(s, -1.0)),
            quiet=lambda s: float(s.amax()) <= threshold,
            reduction=self.reduction,
        )


class DistanceContrastiveLoss(RowLoss):
    """Contrastive loss on Euclidean distances D: Σ_P [D − m⁺]₊ + Σ_N [m⁻ − D]₊, or half their squares.

    `power` 1 is the plain hinge, 2 the classical form ½D², ½[m⁻ − D]₊². Coincident points get no gradient.
    Reductions as `ContrastiveLoss`, over active terms. No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(DistanceContrastiveLoss(reduction="sum")(z, torch.tensor([0, 0])).item(), 4)  # 2·√2
    2.8284
    """

    distance = True
    reductions = ("sides", "active", "mean", "sum")

    def __init__(
        self,
        *,
        positive_margin: float = 0.0,
        negative_margin: float = 1.0,
        power: int = 1,
        reduction: str = "sides",
        miner: Miner | None = None,
        normalize: bool = True,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner, normalize=normalize)
        self.positive_margin = check_number(positive_margin, "positive_margin", minimum=0.0)
        self.negative_margin = check_number(negative_margin, "negative_margin", above=0.0)
        self.power = check_int(power, "power", minimum=1, maximum=2)

    def _cost(self, excess: Tensor) -> Tensor:
        hinge = excess.clamp(min=0)
        return hinge if self.power == 1 else 0.5 * hinge.square()

    def formula(self, panel: Panel) -> Tensor:
        d = root(panel.squared)
        pull = self._cost((d - self.positive_margin)[panel.positive])
        push = self._cost((self.negative_margin - d)[panel.negative])
        return two_sides(
            pull, push, int((pull > 0).sum()), int((push > 0).sum()), self.reduction, len(panel.similarity)
        )

    def rows(self, panel: Panel) -> Rows:
        d, inverse_d = lengths(panel.squared)
        p = panel.positive & (d > self.positive_margin)
        n = panel.negative & (d < self.negative_margin)
        n_p, n_n = p.sum(1, dtype=d.dtype), n.sum(1, dtype=d.dtype)
        up, un = panel.scales or side_scales(n_p, n_n)
        slope = p.to(d.dtype).mul_(up).sub_(n.to(d.dtype), alpha=un)
        if self.power == 1:
            value = (slope * d).sum(1) - (up * self.positive_margin) * n_p + (un * self.negative_margin) * n_n
        else:
            excess = torch.where(p, d - self.positive_margin, self.negative_margin - d)
            value = 0.5 * (slope.abs() * excess.square()).sum(1)
            slope *= excess
        return Rows(value, slope.mul_(inverse_d).mul_(0.5), active=n_p + n_n, sides=(n_p, n_n))

    def kernel(self, bound: float) -> PointKernel | None:
        if not self.normalize:
            return None
        margin, squares = self.negative_margin, self.power == 2

        def push(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            d, inverse_d = tile_lengths(scaled, spare)
            near = d.neg_().add_(margin).clamp_(min=0)
            if squares:
                inverse_d.mul_(near)
                return near.square_().mul_(0.5), inverse_d
            return near, torch.threshold_(inverse_d, 1 / margin, 0.0)  # D < margin, that is 1/D > 1/margin

        def pull(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            d = (2 - 2 * s).clamp_(min=0).sqrt_()
            far = (d - self.positive_margin).clamp_(min=0)
            hot = (far > 0).to(s.dtype)
            return (0.5 * far.square() if squares else far), hot, -(far if squares else hot) * inverse(d)

        return PointKernel(
            push=push,
            pull=pull,
            quiet=lambda scaled: float(scaled.amin()) >= margin**2 - 2,
            reduction=self.reduction,
            scale=-2.0,
        )


@dataclass(frozen=True)
class PointKernel:
    """A loss that is a sum over pairs of a function of the pair alone."""

    push: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # tile, spare -> (value, ∂/∂s) of negatives
    pull: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]  # -> (value, active, ∂/∂s) of positives
    quiet: Callable[[Tensor], bool]  # whether no negative of a tile is active
    reduction: str
    scale: float = 1.0
    one_pass: bool = True

    @property
    def counts(self) -> bool:
        return self.reduction in ("sides", "active")

    def nothing(self, scaled: Tensor) -> bool:
        return self.quiet(scaled)

    def tile(self, scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        return self.push(scaled, spare)

    def negative_factors(self, segments: Segments, dtype: torch.dtype) -> Tensor:
        return torch.ones(segments.n, device=segments.codes.device, dtype=dtype)

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        pulled = segments.reduce_positives(embeddings, lambda s, b: (self.pull(s)[0] * b.other).sum(2)).sum()
        up = un = 1.0
        if self.reduction == "mean":
            up = un = 1.0 / segments.n
        elif self.reduction in ("sides", "active"):
            pulling = segments.reduce_positives(embeddings, lambda s, b: (self.pull(s)[1] * b.other).sum(2))
            n_p, n_n = float(pulling.sum()), active
            up, un = 1 / max(n_p, 1.0), 1 / max(n_n, 1.0)
            if self.reduction == "active":
                up = un = 1 / max(n_p + n_n, 1.0)

        def positive(s: Tensor, block: Block) -> Tensor:
            return self.pull(s)[2] * up

        return Factors(up * pulled + un * sums.sum(), sums, positive, negative_scale=un)


def two_sides(pull: Tensor, push: Tensor, n_p: int, n_n: int, reduction: str, anchors: int) -> Tensor:
    """Reduce the terms of both sides; an empty side counts nothing."""
    if reduction == "sides":
        return pull.sum() / max(n_p, 1) + push.sum() / max(n_n, 1)
    total = pull.sum() + push.sum()
    return total / {"sum": 1, "mean": max(anchors, 1), "active": max(n_p + n_n, 1)}[reduction]


def root(squared: Tensor | None) -> Tensor:
    """D from D², with gradient 0 instead of ∞ at coincident points."""
    if squared is None:
        raise TypeError("a distance loss needs squared distances")
    zero = squared <= 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def lengths(squared: Tensor | None) -> tuple[Tensor, Tensor]:
    """D and 1/D from D², with 0 for the inverse at coincident points; not for autograd."""
    if squared is None:
        raise TypeError("a distance loss needs squared distances")
    d = squared.sqrt()
    return d, torch.where(squared > 1e-18, d.reciprocal(), 0.0)


def tile_lengths(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
    """D and 1/D of a tile that holds −2s of unit vectors, in place; 1/D is 0 at coincident points.

    ∂/∂s = −(1/D)·∂/∂D.
    """
    squared = scaled.add_(2)
    tiny = 4 * torch.finfo(scaled.dtype).eps  # what 2 − 2s of two equal vectors may differ from 0
    if float(squared.amin()) > tiny:
        inverse_d = torch.rsqrt(squared, out=spare)
    else:
        same = squared <= tiny
        squared.masked_fill_(same, 0.0)
        inverse_d = torch.rsqrt(squared, out=spare).masked_fill_(same, 0.0)
    return squared.mul_(inverse_d), inverse_d


def side_scales(n_p: Tensor, n_n: Tensor) -> tuple[float, float]:
    """1/number of active terms of each side, where the rows are the whole batch."""
    return 1 / max(float(n_p.sum()), 1.0), 1 / max(float(n_n.sum()), 1.0)


def inverse(d: Tensor) -> Tensor:
    """1/D, and 0 at coincident points."""
    return torch.where(d > 1e-9, 1 / d, 0.0)


contrastive: Callable[..., Any] = as_function(ContrastiveLoss, "contrastive")
distance_contrastive: Callable[..., Any] = as_function(DistanceContrastiveLoss, "distance_contrastive")
