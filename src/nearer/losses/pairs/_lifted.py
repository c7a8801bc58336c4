"""The original lifted structure loss, by positive pairs.

A positive pair needs the negatives of both of its ends, so a row is not enough: it goes over the panels by itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.exceptions import ParameterError
from nearer.losses.pairs._distances import inverse, root
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Gradient, Pairing, iterate_panels, masked_logsumexp, soft_rows

__all__ = ["LiftedStructureLoss"]


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
