"""Losses of the softmax family on pairs beside SupCon: NT-Xent, InfoNCE, NCA."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.pairwise._shared import exponent_is_safe, exponential, masked_logsumexp, soft_rows, softplus


class NTXentLoss(RowLoss):
    """Mean over positive pairs of −log( e^{s_p/τ} / (e^{s_p/τ} + Σ_N e^{s_n/τ}) ) = softplus(LSE_N(s/τ) − s_p/τ).

    The other positives of the anchor are not in the denominator. Weights: −σ(·)/τ on positives; the sum over
    the anchor's positives of the softmax shares on negatives. Anchors without a negative add 0.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(NTXentLoss(temperature=1.0)(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    Related: SupCon keeps all positives in the denominator. Exact at any temperature: a log-sum-exp has no wall.
    Reference: Sohn 2016; Chen et al. 2020.

    Args:
        temperature: what similarities are divided by; smaller looks at fewer pairs.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    small = 256
    reductions = ("tuples", "mean", "sum")

    def __init__(self, *, temperature: float = 0.07, reduction: str = "tuples", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def value(self, panel: Panel) -> Terms:
        x = panel.similarity / self.temperature
        others = masked_logsumexp(x, panel.negative)
        pairs = panel.positive & torch.isfinite(others)[:, None]
        gap = torch.where(pairs, torch.where(torch.isfinite(others), others, 0.0)[:, None] - x, -torch.inf)
        return Terms(softplus(gap).sum(1), pairs.sum(1))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        scale = 1 / self.temperature
        others, soft = soft_rows(panel.similarity, panel.n, scale, largest=panel.bound * scale)
        some = torch.isfinite(others).to(soft.dtype)
        p = panel.p * some[:, None]
        gap = (others.nan_to_num_(neginf=0.0)[:, None] - panel.similarity * scale).masked_fill_(p == 0, -torch.inf)
        pull = torch.sigmoid(gap)
        weight = soft.mul_(pull.sum(1)[:, None]).sub_(pull).mul_(scale)
        return Terms(softplus(gap).sum(1), p.sum(1)), weight

    def statistic(self, bound: float) -> Statistic | None:
        if not exponent_is_safe(bound / self.temperature):
            return None

        def head(far: Far, near: Near) -> Terms:
            some = far.sum > 0
            others = torch.where(some, far.sum, 1.0).log()
            value = near.sum(lambda s, other: softplus(other - s / self.temperature), others)
            return Terms(value * some, near.count * some)

        return exponential(1 / self.temperature, head)


class InfoNCELoss(RowLoss):
    """Mean over anchors of −log( Σ_P e^{s/τ} / Σ_{P∪N} e^{s/τ} ); with one positive the usual InfoNCE.

    Use it on two views: `loss(queries, labels, database=keys, database_labels=labels)` with one label per item.
    Weights: (softmax over all − softmax over positives)/τ. Anchors without a positive are not counted.

    >>> z = torch.eye(2)
    >>> loss = InfoNCELoss(temperature=1.0)
    >>> round(loss(z, torch.arange(2), database=z, database_labels=torch.arange(2)).item(), 4)  # log(1 + e^-1)
    0.3133

    Related: `NCALoss` is the same on −D². Reference: van den Oord et al. 2018.

    Args:
        temperature: what similarities are divided by; smaller looks at fewer pairs.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("active", "mean", "sum")

    def __init__(self, *, temperature: float = 0.07, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def value(self, panel: Panel) -> Terms:
        return _log_share(panel.similarity / self.temperature, panel)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        return _share_weights(panel.similarity, 1 / self.temperature, panel, panel.bound)

    def statistic(self, bound: float) -> Statistic | None:
        return _share_statistic(bound, 1 / self.temperature)


class NCALoss(RowLoss):
    """Neighbourhood components: mean over anchors of −log Σ_P p_ij, p_ij = softmax_j(−D²_ij/τ).

    Weights by D²: (softmax over positives − softmax over all)/τ. Anchors without a positive are not counted.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(NCALoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-2)
    0.1269

    Related: `InfoNCELoss` with temperature τ/2 on unit vectors. Reference: Goldberger et al. 2004, log form.

    Args:
        temperature: τ, what squared distances are divided by.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
        normalize: whether rows are brought to length one first.
    """

    distance = True
    reductions = ("active", "mean", "sum")

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        reduction: str = "active",
        miner: Miner | None = None,
        normalize: bool = True,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner, normalize=normalize)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def value(self, panel: Panel) -> Terms:
        return _log_share(panel.measured() / -self.temperature, panel)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        # On unit vectors D² ≤ 4.
        return _share_weights(panel.measured(), -1 / self.temperature, panel, 4 * panel.bound)

    def statistic(self, bound: float) -> Statistic | None:
        # On unit vectors −D²/τ = 2s/τ − 2/τ, and the constant cancels.
        return _share_statistic(bound, 2 / self.temperature) if self.normalize else None


def _log_share(x: Tensor, panel: Panel) -> Terms:
    """−log of the positives' share of Σ eˣ."""
    some = panel.positive.any(1)
    total = torch.where(some, masked_logsumexp(x, panel.positive | panel.negative), 0.0)
    return Terms(total - torch.where(some, masked_logsumexp(x, panel.positive), 0.0), some)


def _share_weights(values: Tensor, factor: float, panel: Panel, bound: float) -> tuple[Terms, Tensor]:
    """The same with its weights, for x = factor·values, |values| at most `bound`."""
    largest = bound * abs(factor)
    total, soft = soft_rows(values, panel.p + panel.n, factor, largest=largest)
    near, soft_p = soft_rows(values, panel.p, factor, largest=largest)
    some = torch.isfinite(near)
    weight = soft.sub_(soft_p).mul_((some.to(soft.dtype) * factor)[:, None])
    return Terms(torch.where(some, total - near, 0.0), some), weight


def _share_statistic(bound: float, factor: float) -> Statistic | None:
    if not exponent_is_safe(bound * factor):
        return None

    def head(far: Far, near: Near) -> Terms:
        some = near.count > 0
        mass = near.sum(lambda s: torch.exp(s * factor))
        total = torch.where(some, mass + far.sum, 1.0)
        return Terms(total.log() - torch.where(some, mass, 1.0).log(), some)

    return exponential(factor, head)
