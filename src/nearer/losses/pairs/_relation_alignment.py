"""Relation alignment: squared distances that equal what a relation asks for, pair by pair."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from nearer._checks import check_choice, check_number
from nearer.exceptions import NearerWarning
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Rule, Terms
from nearer.pairwise._shared import Gradient, Pairing, Prepared, by_panels, iterate_panels
from nearer.relations import Relation

REACH = 4.0  # the largest squared distance of two unit vectors


class RelationAlignmentLoss(RowLoss):
    """Mean over the known pairs of (D² − g)², D² = 2 − 2s on the unit sphere, g = c·(1 − degree).

    `labels` are classes or any relation: label sets, distributions, numbers, listed pairs. `scale` sets c:
    "attainable" (default) the largest that unit vectors can meet for the relation, "none" the relation function as
    printed, "max" 4, a number times the function as printed. "affine" compares `aD² + b` with g instead, with the
    best b and the best a ≥ 1 for the batch, so that D² may be a smaller and shifted copy. A c above 4 is out of
    reach, and said so once.

    Weights: −4(D² − g) per pair. Reductions: "tuples" (default, the mean over pairs), "mean" over anchors, "sum".
    `miner=LargestErrors(0.5)` keeps the pairs that are worst. No pair: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> RelationAlignmentLoss()(z, torch.tensor([0, 1, 1])).item()  # orthogonal classes are what is asked for
    0.0

    Related: with classes, a regression to similarity 1 or 0. Reference: Zhu et al. 2018; Gu, HRAML, eq 5 without
    the factor ¼.

    Args:
        scale: c: "attainable", "none", "max", "affine" or a number.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("tuples", "mean", "sum")

    def __init__(
        self, *, scale: float | str = "attainable", reduction: str = "tuples", miner: Miner | None = None
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        if isinstance(scale, str):
            self.scale: float | str = check_choice(scale, "scale", ["attainable", "none", "max", "affine"])
        else:
            self.scale = check_number(scale, "scale", above=0.0)
        self._warned = False

    def value(self, panel: Panel) -> Terms:
        squared, target, pairs = self._compared(panel)
        slope: Tensor | float = 1.0
        offset: Tensor | float = 0.0
        if self.scale == "affine":
            slope, offset = (part.to(squared.dtype) for part in _line(moments(squared.detach(), target, pairs)))
        errors = (slope * squared + offset - target).square() * pairs
        return Terms(errors.sum(1), pairs.sum(1))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        # A panel that is the whole batch, as in `weights`: the line is that of the panel.
        squared, target, pairs = self._compared(panel)
        line = best_line(moments(squared, target, pairs)) if self.scale == "affine" else Line()
        return _weigh(squared, target, pairs, line)

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        line = Line()
        miner: Miner | None = self.miner
        if self.scale == "affine":
            # The line must be known before the first weight is used: one pass only for its moments.
            select = None if miner is None else miner.prepare(pairing)
            sums = torch.zeros(5, dtype=torch.float64, device=pairing.queries.device)
            for panel in iterate_panels(pairing, select=select):
                sums += moments(*self._compared(panel))
            line = best_line(pairing.all_sum(sums))
            miner = None if select is None else Prepared(select)
        return by_panels(_Aligned(self, line), pairing, reduction=self.reduction, miner=miner, gradient=gradient)

    def _compared(self, panel: Panel) -> tuple[Tensor, Tensor, Tensor]:
        """(D², g, which pairs count) of a panel."""
        s, relation = panel.similarity, panel.relation
        pairs = panel.positive | panel.negative
        unit = unit_of(relation, self.scale)
        if unit > REACH + 1e-6 and not self._warned:
            self._warned = True
            warnings.warn(
                f"the squared distance of unit vectors is at most {REACH:g}, and the relation asks for {unit:g}: "
                f"these targets cannot be met. Use scale='attainable'.",
                NearerWarning,
                stacklevel=2,
            )
        if relation is None:
            apart = panel.negative.to(s.dtype)
        else:
            apart = 1 - relation.degrees(panel.anchors)[0].to(device=s.device, dtype=s.dtype)
        return 2 - 2 * s, apart * unit, pairs


def unit_of(relation: Relation | None, scale: float | str) -> float:
    """The squared distance that degree 0 asks for.

    >>> unit_of(None, "attainable"), unit_of(None, 0.5)
    (2.0, 1.0)
    """
    largest, farthest = (2.0, 2.0) if relation is None else (relation.largest, relation.farthest)
    if isinstance(scale, str):
        return {"none": largest, "max": REACH}.get(scale, farthest)
    return scale * largest


@dataclass(frozen=True)
class Line:
    """`slope·D² + offset` is compared with g."""

    slope: float = 1.0
    offset: float = 0.0


def moments(squared: Tensor, target: Tensor, pairs: Tensor) -> Tensor:
    """Σ1, ΣD², Σg, ΣD⁴, ΣD²g over the pairs, in float64."""
    some = pairs.double()
    d, g = squared.double() * some, target.double() * some
    return torch.stack([some.sum(), d.sum(), g.sum(), d.square().sum(), (d * g).sum()])


def best_line(sums: Tensor) -> Line:
    """The least-squares line from D² to g whose slope is at least 1.

    >>> best_line(moments(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]), torch.tensor([True, True])))
    Line(slope=2.0, offset=1.0)
    """
    return Line(*(float(part) for part in _line(sums)))


def _line(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Its slope and offset; 1 and 0 where there is no pair."""
    count, d, g, dd, dg = sums.unbind()
    some = count.clamp(min=1)
    variance = dd - d * d / some
    steep = variance > 1e-12 * dd.clamp(min=1e-300)
    slope = torch.where(steep, (dg - d * g / some) / torch.where(steep, variance, 1.0), 1.0).clamp(min=1)
    return slope, (g - slope * d) / some


@dataclass(frozen=True)
class _Aligned(Rule):
    loss: RelationAlignmentLoss
    line: Line

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        return _weigh(*self.loss._compared(panel), self.line)


def _weigh(squared: Tensor, target: Tensor, pairs: Tensor, line: Line) -> tuple[Terms, Tensor]:
    error = (line.slope * squared).add_(line.offset).sub_(target).mul_(pairs)
    return Terms(error.square().sum(1), pairs.sum(1)), error.mul_(-4 * line.slope)
