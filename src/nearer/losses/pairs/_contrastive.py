"""Contrastive losses: positives are pulled together, negatives pushed beyond a margin; by cosine or distance."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.losses.pairs._distances import lengths, root, tile_lengths
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms


class ContrastiveLoss(RowLoss):
    """Contrastive loss on similarities: Σ_P (1 − s) + Σ_N [s − threshold]₊.

    Weights: −1 on every positive, 1[s > threshold] on negatives. Reductions: "sides" (default: mean over the
    positives plus mean over the active negatives), "active", "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(ContrastiveLoss(reduction="sum")(z, torch.tensor([0, 0, 1])).item(), 4)  # 2·1 + 2·(0.1 + 0.3)
    2.8

    pytorch-metric-learning's `ContrastiveLoss()` is `DistanceContrastiveLoss()`; this one is its
    `ContrastiveLoss(pos_margin=1, neg_margin=0.5, distance=CosineSimilarity())`.

    Related: `DistanceContrastiveLoss`; RAW with a hard threshold. Reference: eq 5 of the pair-weighting paper,
    with 1 added per positive pair so that the value is never negative.

    Args:
        threshold: the similarity below which a negative costs nothing.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("sides", "active", "mean", "sum")

    def __init__(self, *, threshold: float = 0.5, reduction: str = "sides", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.threshold = check_number(threshold, "threshold")

    def value(self, panel: Panel) -> Terms:
        s = panel.similarity
        pull, push = (1 - s) * panel.positive, (s - self.threshold).relu() * panel.negative
        count = torch.stack([panel.positive.sum(1), (push > 0).sum(1)], 1)
        return Terms(torch.stack([pull.sum(1), push.sum(1)], 1), count)

    def weigh(self, panel: Panel) -> tuple[Terms, tuple[Tensor, Tensor]]:
        s, p = panel.similarity, panel.p
        hot = torch.gt(s, self.threshold, out=torch.empty_like(s)).mul_(panel.n)
        # Only sums over the anchors are asked for, and four sums of everything are faster than those of rows.
        n_p, n_n = p.sum().item(), hot.sum().item()
        pull, push = n_p - (s * p).sum().item(), (s * hot).sum().item() - self.threshold * n_n
        return Terms(s.new_tensor([[pull, push]]), s.new_tensor([[n_p, n_n]])), (-p, hot)

    def statistic(self, bound: float) -> Statistic:
        def tile(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            hot = torch.gt(s, self.threshold, out=spare)
            return s.sub_(self.threshold).mul_(hot), hot

        def head(far: Far, near: Near) -> Terms:
            value = torch.stack([near.sum(lambda s: 1 - s), far.sum], 1)
            return Terms(value, torch.stack([near.count, far.count], 1))

        def quiet(s: Tensor) -> bool:
            return float(s.amax()) <= self.threshold

        return Statistic(tile, head, quiet=quiet, linear=True, counts=True)


class SquaredContrastiveLoss(RowLoss):
    """Σ_P D² + w·Σ_N [m − D²]₊ on unit vectors, D² = 2 − 2s.

    Weights: −2 on positives that are not yet in one place, 2w·1[D² < m] on negatives. Reductions: "sides" (default:
    each sum divided by its own terms that are not zero), "active", "mean" over anchors, "sum". No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> round(SquaredContrastiveLoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # 2 + 10·(0.2 + 0.6)/2
    6.0

    Related: `ContrastiveLoss` is half of it with w = 1. Reference: Yuan et al. 2017 (HDC), with the
    constants of the released layers.

    Args:
        margin: m, the squared distance at which a negative costs nothing.
        negative_weight: w.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("sides", "active", "mean", "sum")

    def __init__(
        self,
        *,
        margin: float = 1.0,
        negative_weight: float = 10.0,
        reduction: str = "sides",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", above=0.0, maximum=4.0)
        self.negative_weight = check_number(negative_weight, "negative_weight", above=0.0)

    def value(self, panel: Panel) -> Terms:
        squared = 2 - 2 * panel.similarity
        apart = panel.positive & (squared > _tiny(squared))
        push = (self.margin - squared).relu() * panel.negative * self.negative_weight
        sides = torch.stack([(squared * apart).sum(1), push.sum(1)], 1)
        return Terms(sides, torch.stack([apart.sum(1), (push > 0).sum(1)], 1))

    def weigh(self, panel: Panel) -> tuple[Terms, tuple[Tensor, Tensor]]:
        squared = torch.mul(panel.similarity, -2).add_(2)
        apart = torch.gt(squared, _tiny(squared), out=torch.empty_like(squared)).mul_(panel.p)
        hot = torch.lt(squared, self.margin, out=torch.empty_like(squared)).mul_(panel.n)
        count = torch.stack([apart.sum(1), hot.sum(1)], 1)
        push = (self.margin * count[:, 1] - torch.linalg.vecdot(squared, hot)) * self.negative_weight
        sides = torch.stack([torch.linalg.vecdot(squared, apart), push], 1)
        return Terms(sides, count), (apart.mul_(-2), hot.mul_(2 * self.negative_weight))

    def statistic(self, bound: float) -> Statistic:
        threshold, slope = 1 - self.margin / 2, 2 * self.negative_weight

        def tile(s: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            hot = torch.gt(s, threshold, out=spare).mul_(slope)
            return s.sub_(threshold).mul_(hot), hot

        def head(far: Far, near: Near) -> Terms:
            def apart(s: Tensor) -> Tensor:
                return (2 - 2 * s > _tiny(s)).to(s.dtype)

            pull = near.sum(lambda s: (2 - 2 * s) * apart(s))
            return Terms(torch.stack([pull, far.sum], 1), torch.stack([near.tally(apart), far.count], 1))

        def quiet(s: Tensor) -> bool:
            return float(s.amax()) <= threshold

        return Statistic(tile, head, quiet=quiet, linear=True, counts=True)


def _tiny(values: Tensor) -> float:
    """What 2 − 2s of two equal unit vectors may differ from 0."""
    return 4 * float(torch.finfo(values.dtype).eps)


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
