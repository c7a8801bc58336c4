"""Lifted structure: the generalised form, by rows, and the original, by positive pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._validation import check_choice, check_number
from nearer.exceptions import ParameterError
from nearer.losses.pairs._contrastive import inverse, root
from nearer.losses.pairs._exponential import ExponentKernel
from nearer.losses.pairs._pair_loss import PairLoss, as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise._masked import exponent_is_safe, masked_logsumexp, soft_rows
from nearer.pairwise._panels import AllSum, Gradient, Miner, Pairing, Panel, Rows, iterate_panels
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors

__all__ = ["GeneralizedLiftedLoss", "LiftedStructureLoss", "generalized_lifted", "lifted_structure"]


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

    def _sides(self, s: Tensor) -> tuple[Tensor, Tensor, float]:
        """Exponents of positives and negatives, and the sign of the negative logarithm."""
        if self.variant == "as_printed":
            return -s, self.margin - s, -1.0
        return -s, s + self.margin, 1.0

    def formula(self, panel: Panel) -> Tensor:
        x_p, x_n, sign = self._sides(panel.similarity)
        pull, push = masked_logsumexp(x_p, panel.positive), masked_logsumexp(x_n, panel.negative)
        both = panel.positive.any(1) & panel.negative.any(1)
        total = (pull[both] + sign * push[both]).clamp(min=0).sum()
        return total / max(len(x_p), 1) if self.reduction == "mean" else total

    def rows(self, panel: Panel) -> Rows:
        x_p, x_n, sign = self._sides(panel.similarity)
        largest = panel.bound + abs(self.margin)
        pull, w_p = soft_rows(x_p, panel.positive, largest)
        push, w_n = soft_rows(x_n, panel.negative, largest)
        both = torch.isfinite(pull) & torch.isfinite(push)
        value = torch.where(both, pull + sign * push, 0.0).clamp_(min=0)
        # ∂x_n/∂s is +1 where the sign is +1 and −1 where it is −1: the product is +1 either way.
        return Rows(value, w_n.sub_(w_p).mul_((value > 0)[:, None]))

    def kernel(self, bound: float) -> LiftedKernel | None:
        if self.variant == "as_printed" or not exponent_is_safe(bound + abs(self.margin)):
            return None
        return LiftedKernel(self.margin, self.reduction)


@dataclass(frozen=True)
class LiftedKernel(ExponentKernel):
    """Σ_N e^s in tiles."""

    margin: float
    reduction: str

    @property
    def exponent(self) -> float:
        return 1.0

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        m = segments.n if self.reduction == "mean" else 1

        def pull(s: Tensor, block: Block) -> Tensor:
            return torch.exp(-s) * block.other

        near = segments.reduce_positives(embeddings, lambda s, b: pull(s, b).sum(2))
        both = (near > 0) & (sums > 0)
        value = torch.where(both, near.log() + sums.log() + self.margin, 0.0).clamp_(min=0)
        on = (value > 0).to(sums.dtype) / m
        w_p = torch.where(both, on / near, 0.0)
        w_n = torch.where(both, on / sums, 0.0)
        return Factors(value.sum() / m, w_n, lambda s, b: pull(s, b).mul_(-w_p[b.rows][:, :, None]))


class LiftedStructureLoss(PairLoss):
    """The original: ½ mean over positive pairs of [ log(Σ_{Nᵢ} e^{a−D_ik} + Σ_{Nⱼ} e^{a−D_jl}) + D_ij ]₊².

    D is Euclidean, on raw embeddings by default. A pair whose two items have no negative is skipped.
    O(n²): with ℓᵢ = log Σ_{Nᵢ} e^{a−D}, the inner logarithm is logaddexp(ℓᵢ, ℓⱼ).

    >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 9.0]])
    >>> round(LiftedStructureLoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # −7.3 + 1 < 0
    0.0

    Related: `GeneralizedLiftedLoss`. Reference: Oh Song et al. 2016, eq 4.
    """

    distance = True
    reductions = ("mean",)

    def __init__(self, *, margin: float = 1.0, normalize: bool = False, miner: Miner | None = None) -> None:
        super().__init__(reduction="mean", miner=miner, normalize=normalize)
        self.margin = check_number(margin, "margin")

    def _pairs(self, d: Tensor, positive: Tensor, own: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """[J]₊ of each ordered positive pair, and how many are valid."""
        j = torch.logaddexp(own[:, None], other[None, :]) + d
        valid = positive & torch.isfinite(j)
        return torch.where(valid, j, 0.0).clamp(min=0), valid.sum()

    def formula(self, panel: Panel) -> Tensor:
        d = root(panel.squared)
        far = masked_logsumexp(self.margin - d, panel.negative)
        hinge, count = self._pairs(d, panel.positive, far, far)
        # Both orders of a pair are there, and the mean over either is the same.
        return 0.5 * hinge.square().sum() / count.clamp(min=1)

    def weigh(self, panel: Panel) -> Tensor:
        d = root(panel.squared)
        far, soft = soft_rows(self.margin - d, panel.negative)
        hinge, count = self._pairs(d, panel.positive, far, far)
        share = hinge * _first(far, far)
        c = share.sum(1) + (hinge - share).sum(0)
        return 0.5 * inverse(d) * (hinge - c[:, None] * soft) / count.clamp(min=1)

    def program(
        self,
        pairing: Pairing,
        anchor_values: Tensor | None,
        gradient: bool,
        *,
        total_anchors: int | None = None,
        all_sum: AllSum | None = None,
    ) -> Gradient:
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
            far[panel.anchors] = soft_rows(self.margin - root(panel.squared), panel.negative)[0]
        total, count = z.new_zeros((2,))
        c = torch.zeros_like(far)
        for panel in iterate_panels(pairing, distance=True, select=select):
            own = far[panel.anchors]
            hinge, n = self._pairs(root(panel.squared), panel.positive, own, far)
            share = hinge * _first(own, far)
            total, count = total + 0.5 * hinge.square().sum(), count + n
            c[panel.anchors] += share.sum(1)
            c += (hinge - share).sum(0)
        scale = 1 / max(float(count), 1.0)
        if not gradient:
            return Gradient(total * scale, None)
        d_z = torch.zeros_like(z)
        for panel in iterate_panels(pairing, distance=True, select=select):
            d = root(panel.squared)
            hinge, _ = self._pairs(d, panel.positive, far[panel.anchors], far)
            soft = soft_rows(self.margin - d, panel.negative)[1]
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


generalized_lifted = as_function(GeneralizedLiftedLoss, "generalized_lifted")
lifted_structure = as_function(LiftedStructureLoss, "lifted_structure")
