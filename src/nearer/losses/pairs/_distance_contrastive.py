"""The contrastive loss on Euclidean distances."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.losses.pairs._distances import lengths, root, tile_lengths
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms

__all__ = ["DistanceContrastiveLoss"]


class DistanceContrastiveLoss(RowLoss):
    """Contrastive loss on Euclidean distances D: Σ_P [D − m⁺]₊ + Σ_N [m⁻ − D]₊, or half their squares.

    Coincident points get no gradient. No pair: 0. At the defaults the number of pytorch-metric-learning's
    `ContrastiveLoss`.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(DistanceContrastiveLoss(reduction="sum")(z, torch.tensor([0, 0])).item(), 4)  # 2·√2
    2.8284

    Args:
        positive_margin: positives nearer than this cost nothing.
        negative_margin: negatives farther than this cost nothing.
        power: 1 is the plain hinge, 2 the classical form ½D², ½[m⁻ − D]₊².
        reduction: as `ContrastiveLoss`, over active terms.
        miner: which pairs count; all of them if None.
        normalize: distances of unit vectors, or of the embeddings as they are.
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
        hinge = excess.relu()
        return hinge if self.power == 1 else 0.5 * hinge.square()

    def value(self, panel: Panel) -> Terms:
        d = root(panel.measured())
        pull = self._cost(d - self.positive_margin) * panel.positive
        push = self._cost(self.negative_margin - d) * panel.negative
        sides = torch.stack([pull.sum(1), push.sum(1)], 1)
        return Terms(sides, torch.stack([(pull > 0).sum(1), (push > 0).sum(1)], 1))

    def weigh(self, panel: Panel) -> tuple[Terms, tuple[Tensor, Tensor]]:
        d, half = lengths(panel.measured())
        half.mul_(0.5)
        p = torch.gt(d, self.positive_margin, out=torch.empty_like(d)).mul_(panel.p)
        n = torch.lt(d, self.negative_margin, out=torch.empty_like(d)).mul_(panel.n)
        count = torch.stack([p.sum(1), n.sum(1)], 1)
        if self.power == 1:
            pull = torch.linalg.vecdot(d, p) - self.positive_margin * count[:, 0]
            push = self.negative_margin * count[:, 1] - torch.linalg.vecdot(d, n)
        else:
            far, near = (d - self.positive_margin).mul_(p), (self.negative_margin - d).mul_(n)
            pull, push = 0.5 * far.square().sum(1), 0.5 * near.square().sum(1)
            p, n = far, near
        return Terms(torch.stack([pull, push], 1), count), (p.mul_(half), n.mul_(half).neg_())

    def statistic(self, bound: float) -> Statistic | None:
        if not self.normalize:
            return None
        margin = self.negative_margin

        def tile(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            d, inverse_d = tile_lengths(scaled, spare)
            near = d.neg_().add_(margin).clamp_(min=0)
            if self.power == 2:
                inverse_d.mul_(near)
                return near.square_().mul_(0.5), inverse_d
            return near, torch.threshold_(inverse_d, 1 / margin, 0.0)  # D < margin, that is 1/D > 1/margin

        def head(far: Far, near: Near) -> Terms:
            pull = near.sum(lambda squared: self._cost(root(squared) - self.positive_margin))
            pulling = near.tally(lambda squared: squared.sqrt() > self.positive_margin)
            return Terms(torch.stack([pull, far.sum], 1), torch.stack([pulling, far.count], 1))

        def quiet(scaled: Tensor) -> bool:
            return float(scaled.amin()) >= margin**2 - 2

        return Statistic(tile, head, scale=-2.0, quiet=quiet, linear=True, counts=True, distance=True)
