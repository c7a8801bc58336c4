"""Lifted structure losses: the published one on distances, and the general one on similarities."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_choice, check_number
from nearer.exceptions import ParameterError
from nearer.losses.pairs._distances import inverse, root
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import (
    Gradient,
    Pairing,
    exponent_is_safe,
    exponential,
    iterate_panels,
    masked_logsumexp,
    soft_rows,
)


class LiftedStructureLoss(PairLoss):
    """The original: ½ mean over positive pairs of [ log(Σ_{Nᵢ} e^{a−D_ik} + Σ_{Nⱼ} e^{a−D_jl}) + D_ij ]₊².

    D is Euclidean, on raw embeddings by default. A pair whose two items have no negative is skipped.
    O(n²): with ℓᵢ = log Σ_{Nᵢ} e^{a−D}, the inner logarithm is logaddexp(ℓᵢ, ℓⱼ).

    >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 9.0]])
    >>> round(LiftedStructureLoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # −7.3 + 1 < 0
    0.0

    `normalize=True` gives the number of pytorch-metric-learning's defaults.

    Related: `GeneralizedLiftedLoss`. Reference: Oh Song et al. 2016, eq 4.

    Args:
        margin: a, the distance at which a negative begins to weigh less.
        normalize: whether rows are brought to length one first.
        miner: which pairs count; all of them if None.
    """

    distance = True
    reductions = ("mean",)
    one_set = True

    def __init__(self, *, margin: float = 1.0, normalize: bool = False, miner: Miner | None = None) -> None:
        super().__init__(reduction="mean", miner=miner, normalize=normalize)
        self.margin = check_number(margin, "margin")

    def _pairs(self, d: Tensor, positive: Tensor, own: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """[J]₊ of each ordered positive pair, and how many are valid."""
        j = torch.logaddexp(own[:, None], other[None, :]) + d
        valid = positive & torch.isfinite(j)
        return torch.where(valid, j, 0.0).relu(), valid.sum()

    def formula(self, panel: Panel) -> Tensor:
        d = root(panel.measured())
        far = masked_logsumexp(self.margin - d, panel.negative)
        hinge, count = self._pairs(d, panel.positive, far, far)
        # Both orders of a pair are there, and the mean over either is the same.
        return 0.5 * hinge.square().sum() / count.clamp(min=1)

    def dense_weights(self, panel: Panel) -> Tensor:
        d = root(panel.measured())
        far, soft = soft_rows(self.margin - d, panel.n)
        hinge, count = self._pairs(d, panel.positive, far, far)
        share = hinge * _first(far, far)
        c = share.sum(1) + (hinge - share).sum(0)
        return 0.5 * inverse(d) * (hinge - c[:, None] * soft) / count.clamp(min=1)

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Three passes: log-sum-exp of each row, positive pairs, gradient."""
        if not pairing.shared:
            raise ParameterError(
                "LiftedStructureLoss needs the negatives of both ends of a pair, so it takes no `database`. Use "
                "GeneralizedLiftedLoss."
            )
        z = pairing.queries
        select = None if self.miner is None else self.miner.prepare(pairing)
        far = z.new_full((len(z),), -math.inf)
        for panel in iterate_panels(pairing, distance=True, select=select):
            far[panel.anchors] = soft_rows(self.margin - root(panel.measured()), panel.n)[0]
        total, count = z.new_zeros((2,))
        c = torch.zeros_like(far)
        for panel in iterate_panels(pairing, distance=True, select=select):
            own = far[panel.anchors]
            hinge, n = self._pairs(root(panel.measured()), panel.positive, own, far)
            share = hinge * _first(own, far)
            total, count = total + 0.5 * hinge.square().sum(), count + n
            c[panel.anchors] += share.sum(1)
            c += (hinge - share).sum(0)
        scale = 1 / max(float(count), 1.0)
        if not gradient:
            return Gradient(total * scale, None)
        d_z = torch.zeros_like(z)
        for panel in iterate_panels(pairing, distance=True, select=select):
            d = root(panel.measured())
            hinge, _ = self._pairs(d, panel.positive, far[panel.anchors], far)
            soft = soft_rows(self.margin - d, panel.n)[1]
            add_distance_gradient(d_z, 0.5 * scale * inverse(d) * (hinge - c[panel.anchors, None] * soft), z, panel)
        return Gradient(total * scale, d_z)


def _first(own: Tensor, other: Tensor) -> Tensor:
    """σ(ℓᵢ − ℓⱼ): the share of the first item in logaddexp(ℓᵢ, ℓⱼ); ½ where both are empty."""
    low = torch.finfo(own.dtype).min / 4
    return torch.sigmoid(own.clamp(min=low)[:, None] - other.clamp(min=low)[None, :])


def add_distance_gradient(d_z: Tensor, weight: Tensor, z: Tensor, panel: Panel) -> None:
    """Add the gradient of Σ weight·D² over a panel of a batch against itself."""
    q = z[panel.anchors]
    d_z[panel.anchors] += 2 * (weight.sum(1)[:, None] * q - weight @ z)
    d_z += 2 * (weight.sum(0)[:, None] * z - weight.T @ q)


class GeneralizedLiftedLoss(RowLoss):
    """(1/m) Σᵢ [ log Σ_P e^{−s} + log Σ_N e^{s+λ} ]₊; anchors without a positive or without a negative add 0.

    Weights of an active anchor: −softmax_P(−s)/m on positives, +softmax_N(s)/m on negatives.
    `variant="as_printed"` is eq 9 as the pair-weighting paper prints it, [ log Σ_P e^{−s} − log Σ_N e^{λ−s} ]₊:
    there λ lowers the loss and the easiest negatives weigh most.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> loss = GeneralizedLiftedLoss(margin=1.5)
    >>> round(loss(z, torch.tensor([0, 0, 1])).item(), 4)  # two anchors with −1 + 1.5, over three
    0.3333

    Related: RAW with α = β = 1 adds 1 inside each logarithm instead of the hinge. Reference: Hermans et al. 2017.

    Args:
        margin: λ.
        variant: "correct", or "as_printed" for the formula of the paper.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        variant: str = "correct",
        reduction: str = "mean",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin")
        self.variant = check_choice(variant, "variant", ["correct", "as_printed"])

    @property
    def _sign(self) -> float:
        """Of s in the exponent of a negative, and of the negatives' logarithm."""
        return -1.0 if self.variant == "as_printed" else 1.0

    def value(self, panel: Panel) -> Terms:
        s, sign = panel.similarity, self._sign
        pull = masked_logsumexp(-s, panel.positive)
        push = masked_logsumexp(sign * s + self.margin, panel.negative)
        both = panel.positive.any(1) & panel.negative.any(1)
        return Terms(torch.where(both, pull + sign * push, 0.0).relu())

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        s, sign = panel.similarity, self._sign
        pull, w_p = soft_rows(s, panel.p, -1.0, largest=panel.bound)
        push, w_n = soft_rows(s, panel.n, sign, largest=panel.bound)
        both = torch.isfinite(pull) & torch.isfinite(push)
        value = torch.where(both, pull + sign * (push + self.margin), 0.0).clamp_(min=0)
        # ∂x_n/∂s is +1 where the sign is +1 and −1 where it is −1: the product is +1 either way.
        return Terms(value), w_n.sub_(w_p).mul_((value > 0)[:, None])

    def statistic(self, bound: float) -> Statistic | None:
        if self.variant == "as_printed" or not exponent_is_safe(bound):
            return None

        def head(far: Far, near: Near) -> Terms:
            both = (near.count > 0) & (far.sum > 0)
            pull = torch.where(both, near.sum(lambda s: torch.exp(-s)), 1.0).log()
            push = torch.where(both, far.sum, 1.0).log() + self.margin
            return Terms(torch.where(both, pull + push, 0.0).relu())

        return exponential(1.0, head)
