"""Losses of the softmax family on pairs: SupCon, NT-Xent, InfoNCE, NCA, N-pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._validation import check_number
from nearer.losses.pairs._exponential import ExponentKernel
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise._masked import exponent_is_safe, masked_logsumexp, soft_rows, softplus
from nearer.pairwise._panels import Miner, Panel, Rows
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors

__all__ = ["InfoNCELoss", "NCALoss", "NTXentLoss", "SupConLoss", "info_nce", "nca", "nt_xent", "supcon"]


class SupConLoss(RowLoss):
    """Supervised contrastive: mean over anchors with a positive of −(1/|P|) Σ_P log( e^{s_p/τ} / Σ_{P∪N} e^{s/τ} ).

    Weights: (softmax − 1[P]/|P|)/τ over the whole row. Anchors without a positive add 0 and are not counted
    (reduction "active", the default); "mean" divides by all anchors.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(SupConLoss(temperature=1.0)(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    Related: one positive per anchor makes it InfoNCE. Reference: Khosla et al. 2020, L_out.
    """

    reductions = ("active", "mean", "sum")

    def __init__(self, *, temperature: float = 0.1, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def formula(self, panel: Panel) -> Tensor:
        x = panel.similarity / self.temperature
        everyone = masked_logsumexp(x, panel.positive | panel.negative)
        n_p = panel.positive.sum(1)
        some = n_p > 0
        mean = (x * panel.positive).sum(1)[some] / n_p[some]
        return divide((everyone[some] - mean).sum(), self.reduction, int(some.sum()), len(x))

    def rows(self, panel: Panel) -> Rows:
        x = panel.similarity / self.temperature
        everyone, soft = soft_rows(x, panel.positive | panel.negative, panel.bound / self.temperature)
        n_p = panel.positive.sum(1)
        some = n_p > 0
        share = panel.positive / n_p.clamp(min=1)[:, None].to(x.dtype)
        value = torch.where(some, everyone - (x * share).sum(1), 0.0)
        weight = soft.sub_(share).mul_((some.to(x.dtype) / self.temperature)[:, None])
        return Rows(value, weight, active=some)

    def kernel(self, bound: float) -> SoftmaxKernel | None:
        if not exponent_is_safe(bound / self.temperature):
            return None
        return SoftmaxKernel(self.temperature, self.reduction, _supcon_rows)


class NTXentLoss(RowLoss):
    """Mean over positive pairs of −log( e^{s_p/τ} / (e^{s_p/τ} + Σ_N e^{s_n/τ}) ) = softplus(LSE_N(s/τ) − s_p/τ).

    The other positives of the anchor are not in the denominator. Weights: −σ(·)/τ on positives; the sum over
    the anchor's positives of the softmax shares on negatives. Anchors without a negative add 0.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(NTXentLoss(temperature=1.0)(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    Related: SupCon keeps all positives in the denominator. Exact at any temperature: a log-sum-exp has no wall.
    Reference: Sohn 2016; Chen et al. 2020.
    """

    reductions = ("tuples", "mean", "sum")

    def __init__(self, *, temperature: float = 0.07, reduction: str = "tuples", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def formula(self, panel: Panel) -> Tensor:
        x = panel.similarity / self.temperature
        others = masked_logsumexp(x, panel.negative)[:, None]
        terms = softplus(others - x)[panel.positive & torch.isfinite(others)]
        return divide(terms.sum(), self.reduction, terms.numel(), len(x))

    def rows(self, panel: Panel) -> Rows:
        x = panel.similarity / self.temperature
        others, soft = soft_rows(x, panel.negative, panel.bound / self.temperature)
        p = panel.positive & torch.isfinite(others)[:, None]
        gap = torch.where(p, others[:, None] - x, -torch.inf)
        pull = torch.sigmoid(gap)
        weight = soft.mul_(pull.sum(1)[:, None]).sub_(pull).div_(self.temperature)
        return Rows(softplus(gap).sum(1), weight, valid=p.sum(1))

    def kernel(self, bound: float) -> SoftmaxKernel | None:
        if not exponent_is_safe(bound / self.temperature):
            return None
        return SoftmaxKernel(self.temperature, self.reduction, _nt_xent_rows)


class InfoNCELoss(RowLoss):
    """Mean over anchors of −log( Σ_P e^{s/τ} / Σ_{P∪N} e^{s/τ} ); with one positive the usual InfoNCE.

    Use it on two views: `loss(queries, labels, database=keys, database_labels=labels)` with one label per item.
    Weights: (softmax over all − softmax over positives)/τ. Anchors without a positive are not counted.

    >>> z = torch.eye(2)
    >>> loss = InfoNCELoss(temperature=1.0)
    >>> round(loss(z, torch.arange(2), database=z, database_labels=torch.arange(2)).item(), 4)  # log(1 + e^-1)
    0.3133

    Related: `NCALoss` is the same on −D². Reference: van den Oord et al. 2018.
    """

    reductions = ("active", "mean", "sum")

    def __init__(self, *, temperature: float = 0.07, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.temperature = check_number(temperature, "temperature", above=0.0)

    def formula(self, panel: Panel) -> Tensor:
        x = panel.similarity / self.temperature
        some = panel.positive.any(1)
        gap = masked_logsumexp(x, panel.positive | panel.negative)[some] - masked_logsumexp(x, panel.positive)[some]
        return divide(gap.sum(), self.reduction, int(some.sum()), len(x))

    def rows(self, panel: Panel) -> Rows:
        return _log_share(panel.similarity / self.temperature, 1 / self.temperature, panel, panel.bound)

    def kernel(self, bound: float) -> SoftmaxKernel | None:
        if not exponent_is_safe(bound / self.temperature):
            return None
        return SoftmaxKernel(self.temperature, self.reduction, _log_share_rows)


class NCALoss(RowLoss):
    """Neighbourhood components: mean over anchors of −log Σ_P p_ij, p_ij = softmax_j(−D²_ij/τ).

    Weights by D²: (softmax over positives − softmax over all)/τ. Anchors without a positive are not counted.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(NCALoss()(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-2)
    0.1269

    Related: `InfoNCELoss` with temperature τ/2 on unit vectors. Reference: Goldberger et al. 2004, log form.
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

    def _logits(self, panel: Panel) -> Tensor:
        if panel.squared is None:
            raise TypeError("NCA needs squared distances")
        return panel.squared / -self.temperature

    def formula(self, panel: Panel) -> Tensor:
        x = self._logits(panel)
        some = panel.positive.any(1)
        gap = masked_logsumexp(x, panel.positive | panel.negative)[some] - masked_logsumexp(x, panel.positive)[some]
        return divide(gap.sum(), self.reduction, int(some.sum()), len(x))

    def rows(self, panel: Panel) -> Rows:
        # On unit vectors D² ≤ 4.
        return _log_share(self._logits(panel), -1 / self.temperature, panel, 4 * panel.bound)

    def kernel(self, bound: float) -> SoftmaxKernel | None:
        # On unit vectors −D²/τ = 2s/τ − 2/τ, and the constant cancels.
        if not self.normalize or not exponent_is_safe(2 * bound / self.temperature):
            return None
        return SoftmaxKernel(self.temperature / 2, self.reduction, _log_share_rows)


def divide(total: Tensor, reduction: str, terms: int, anchors: int) -> Tensor:
    """Apply a reduction that counts terms or anchors."""
    return total / {"sum": 1, "mean": max(anchors, 1)}.get(reduction, max(terms, 1))


def _log_share(x: Tensor, slope: float, panel: Panel, bound: float) -> Rows:
    """−log of the positives' share of Σ eˣ; `slope` is ∂x by what the panel holds, at most `bound` in size."""
    everyone, soft = soft_rows(x, panel.positive | panel.negative, bound * abs(slope))
    near, soft_p = soft_rows(x, panel.positive, bound * abs(slope))
    some = torch.isfinite(near)
    value = torch.where(some, everyone - near, 0.0)
    return Rows(value, soft.sub_(soft_p).mul_((some.to(x.dtype) * slope)[:, None]), active=some)


# What a softmax loss makes of an anchor: given Σ_N e^x (n,), the sorted batch and e^x of its positive blocks,
# the value (n,), what is counted (n,), a_i = ∂value/∂(Σ_N e^x) (n,), and ∂value/∂x of the positives.
OnBlock = Callable[[Tensor, Block], Tensor]
ReducePositives = Callable[[OnBlock], Tensor]
SoftmaxRows = Callable[[Tensor, Segments, ReducePositives], tuple[Tensor, Tensor, Tensor, OnBlock]]


@dataclass(frozen=True)
class SoftmaxKernel(ExponentKernel):
    """Σ_N e^{s/τ} in tiles; the rest is one of the functions below."""

    temperature: float
    reduction: str
    finish: SoftmaxRows

    @property
    def exponent(self) -> float:
        return 1 / self.temperature

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        def reduce(function: OnBlock) -> Tensor:
            return segments.reduce_positives(
                embeddings, lambda s, b: (function(s / self.temperature, b) * b.other).sum(2)
            )

        value, counted, outer, inner = self.finish(sums, segments, reduce)
        terms = {"sum": 1.0, "mean": float(segments.n)}.get(self.reduction, max(float(counted.sum()), 1.0))
        unit = 1 / (self.temperature * terms)
        return Factors(value.sum() / terms, outer * unit, lambda s, b: inner(s / self.temperature, b) * unit)


def _supcon_rows(
    sums: Tensor, segments: Segments, reduce: ReducePositives
) -> tuple[Tensor, Tensor, Tensor, OnBlock]:
    others = segments.positives(sums.dtype)
    some = others > 0
    everyone = sums + reduce(lambda x, b: x.exp())
    safe = torch.where(some, everyone, 1.0)
    value = torch.where(some, safe.log() - reduce(lambda x, b: x) / others.clamp(min=1), 0.0)
    outer = some / safe

    def inner(x: Tensor, block: Block) -> Tensor:
        rows = block.rows
        return x.exp() * outer[rows][:, :, None] - (1 / others.clamp(min=1))[rows][:, :, None]

    return value, some, outer, inner


def _nt_xent_rows(
    sums: Tensor, segments: Segments, reduce: ReducePositives
) -> tuple[Tensor, Tensor, Tensor, OnBlock]:
    some = sums > 0
    others = torch.where(some, sums, 1.0)

    def share(x: Tensor, block: Block) -> Tensor:
        return some[block.rows][:, :, None].to(x.dtype) / (x.exp() + others[block.rows][:, :, None])

    value = reduce(lambda x, b: softplus(others[b.rows].log()[:, :, None] - x)) * some
    counted = segments.positives(sums.dtype) * some

    def inner(x: Tensor, block: Block) -> Tensor:
        return -others[block.rows][:, :, None] * share(x, block)

    return value, counted, reduce(share), inner


def _log_share_rows(
    sums: Tensor, segments: Segments, reduce: ReducePositives
) -> tuple[Tensor, Tensor, Tensor, OnBlock]:
    near = reduce(lambda x, b: x.exp())
    some = near > 0
    safe, everyone = torch.where(some, near, 1.0), torch.where(some, near + sums, 1.0)
    value = torch.where(some, everyone.log() - safe.log(), 0.0)
    outer = some / everyone

    def inner(x: Tensor, block: Block) -> Tensor:
        return x.exp() * (outer - some / safe)[block.rows][:, :, None]

    return value, some, outer, inner


supcon = as_function(SupConLoss, "supcon")
nt_xent = as_function(NTXentLoss, "nt_xent")
info_nce = as_function(InfoNCELoss, "info_nce")
nca = as_function(NCALoss, "nca")
