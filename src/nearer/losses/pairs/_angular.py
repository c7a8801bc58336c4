"""Angular losses: the angle at the negative of a triplet is kept below a bound.

A term needs the rows of both ends of a positive pair, so these losses go over the panels by positive pairs; classes
of one size go over the tiles of a walk.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy

import torch
from torch import Tensor, nn

from nearer._checks import check_choice, check_number
from nearer.exceptions import ParameterError
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import (
    Gradient,
    Pairing,
    angular_by_tiles,
    divisor,
    forced_tile,
    iterate_panels,
    masked_logsumexp,
    soft_rows_with_zero,
    softplus,
    sortable,
)
from nearer.relations import Relation, Triplets

_CHUNK = 1 << 20


class _PositivePairLoss(PairLoss):
    """Losses of f_apn = 4t²(s_an + s_pn) − 2(1+t²)s_ap, t = tan α, over the negatives of each positive pair (a, p).

    s_an + s_pn = (z_a + z_p)·z_n: a positive pair is one query against the batch, so memory is O(chunk·n).
    """

    reductions = ("tuples", "mean", "sum")
    one_set = True

    def __init__(self, *, angle: float, reduction: str, miner: Miner | None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        # Beyond 70° the exponents of float32 would need a running maximum, and nobody has used such angles.
        self.angle = check_number(angle, "angle", above=0.0, maximum=70.0)
        tangent = math.tan(math.radians(self.angle)) ** 2
        self.push, self.pull = 4 * tangent, 2 * (1 + tangent)

    @abstractmethod
    def terms(self, f: Tensor, negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the pairs' rows f (m, n): value (m,), slope ∂value/∂f (m, n), number of terms (m,)."""

    @abstractmethod
    def term_formula(self, f: Tensor, negative: Tensor) -> tuple[Tensor, int]:
        """The sum over pairs and their negatives by the printed formula, and how many terms there are."""

    def _of_pairs(self, panel: Panel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The dense similarities, both ends of the positive pairs, and f of each pair."""
        s = _square(panel.similarity)
        a, p = panel.positive.nonzero(as_tuple=True)
        return s, a, p, self.push * (s[a] + s[p]) - self.pull * s[a, p][:, None]

    def formula(self, panel: Panel) -> Tensor:
        s, a, _, f = self._of_pairs(panel)
        total, count = self.term_formula(f, panel.negative[a])
        return total / divisor(self.reduction, len(s), count)

    def dense_weights(self, panel: Panel) -> Tensor:
        s, a, p, f = self._of_pairs(panel)
        _, slope, count = self.terms(f, panel.negative[a])
        g = torch.zeros_like(s)
        g.index_add_(0, a, self.push * slope).index_add_(0, p, self.push * slope)
        g.index_put_((a, p), -self.pull * slope.sum(1), accumulate=True)
        return g / divisor(self.reduction, len(s), int(count.sum()))

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Positive pairs in chunks, each a query against the batch."""
        if not pairing.shared:
            raise ParameterError(_NO_DATABASE)
        z = pairing.queries
        select = None if self.miner is None else self.miner.prepare(pairing)
        total, count = z.new_zeros((2,), dtype=torch.float64)
        d_z = torch.zeros_like(z)
        step = max(1, (forced_tile() or _CHUNK // max(len(z), 1)))
        for panel in iterate_panels(pairing, select=select):
            rows, columns = panel.positive.nonzero(as_tuple=True)
            for part in range(0, len(rows), step):
                row, p = rows[part : part + step], columns[part : part + step]
                a = row + panel.anchors.start
                query = z[a] + z[p]
                s_ap = panel.similarity[row, p]
                f = (query @ z.T).mul_(self.push).sub_(self.pull * s_ap[:, None])
                value, slope, n = self.terms(f, panel.negative[row])
                total += value.sum()
                count += n.sum()
                if gradient:
                    towards = -self.pull * slope.sum(1, keepdim=True)
                    slope *= self.push
                    d_query = slope @ z
                    d_z += slope.T @ query
                    d_z.index_add_(0, a, d_query + towards * z[p])
                    d_z.index_add_(0, p, d_query + towards * z[a])
        scale = 1 / divisor(self.reduction, len(z), int(count))
        return Gradient((total * scale).to(z.dtype), d_z.mul_(scale) if gradient else None)


def _square(similarity: Tensor) -> Tensor:
    if similarity.shape[0] != similarity.shape[1]:
        raise ParameterError(_NO_DATABASE)
    return similarity


class AngularLoss(_PositivePairLoss):
    """N-pair angular loss: mean over positive pairs (a, p) of log(1 + Σ_N e^{f_apn}).

    f_apn = 4tan²α·(s_an + s_pn) − 2(1 + tan²α)·s_ap on unit vectors, α in degrees. Both orders of a pair count.
    Positive pairs without a negative add 0 and are counted.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(AngularLoss(angle=45)(z, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + e^-4)
    0.0181

    Often added to `NPairsLoss` with weight 2. `AngularLoss(angle=40)` gives pytorch-metric-learning's number for
    embeddings of length one; that library leaves the negatives at their length. Reference: Wang et al. 2017.

    Args:
        angle: α in degrees.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    # Python names the class of the constructor where a keyword is misspelt.
    def __init__(self, *, angle: float = 45.0, reduction: str = "tuples", miner: Miner | None = None) -> None:
        super().__init__(angle=angle, reduction=reduction, miner=miner)

    def term_formula(self, f: Tensor, negative: Tensor) -> tuple[Tensor, int]:
        return softplus(masked_logsumexp(f, negative)).sum(), len(f)

    def terms(self, f: Tensor, negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value, slope = soft_rows_with_zero(f, negative)
        return value, slope, torch.ones_like(value)

    def traceable(self, panel: Panel) -> Tensor:
        # Σ_n e^{push(s_an + s_pn)} of all pairs is a product of two matrices; 70° keep it within single precision.
        s, positive = _square(panel.similarity), panel.positive
        e = torch.exp(self.push * s)
        total = (e * panel.negative) @ e.T
        some = total > 0  # a pair without a negative adds log(1 + 0), and the logarithm of 0 has no slope
        others = torch.where(some, torch.where(some, total, 1.0).log(), -torch.inf)
        value = torch.where(positive, softplus(others - self.pull * s), 0.0).sum()
        return value / divisor(self.reduction, len(s), positive.sum())

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """For class labels of equal sizes e^{f} factors over tiles; otherwise by positive pairs."""
        if self.miner is None and pairing.shared and sortable(pairing, small=24):
            factored = angular_by_tiles(pairing, self.push, self.pull, self.reduction, gradient)
            if factored is not None:
                return factored
        return super().program(pairing, anchor_values, gradient)


class AngularTripletLoss(_PositivePairLoss):
    """Triplet form: cost(m) with m = ‖a − p‖² − 4tan²α·‖n − (a + p)/2‖², cost a hinge or softplus.

    On unit vectors m = 2 − 6tan²α + f_apn. Over all triplets of the labels, or over exactly those of
    `relations.Triplets`; mean over triplets. Identical embeddings give m = 0: log 2 each, and no gradient.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> AngularTripletLoss(angle=45, cost="hinge")(z, torch.tensor([0, 0, 1])).item()  # [0 − 4·2]₊
    0.0

    The semi-supervised method adds an orthogonal L. Reference: Wang et al. 2017; Dutta et al. 2021.

    Args:
        angle: α in degrees.
        cost: "softplus" or "hinge".
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    def __init__(
        self,
        *,
        angle: float = 45.0,
        cost: str = "softplus",
        reduction: str = "tuples",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(angle=angle, reduction=reduction, miner=miner)
        self.cost = check_choice(cost, "cost", ["softplus", "hinge"])
        self.shift = 2 - 1.5 * self.push

    def term_formula(self, f: Tensor, negative: Tensor) -> tuple[Tensor, int]:
        m = (f + self.shift)[negative]
        return (softplus(m) if self.cost == "softplus" else m.relu()).sum(), m.numel()

    def terms(self, f: Tensor, negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        m = f + self.shift
        if self.cost == "softplus":
            value, slope = softplus(m), torch.sigmoid(m)
        else:
            value, slope = m.clamp(min=0), (m > 0).to(m.dtype)
        return (value * negative).sum(1), slope.mul_(negative), negative.sum(1)

    cubic = True

    def traceable(self, panel: Panel) -> Tensor:
        triplets = self._triplets(panel.relation)
        if triplets is not None:
            return self.formula(panel)
        s = _square(panel.similarity)
        m = self.push * (s[:, None, :] + s[None, :, :]) - self.pull * s[:, :, None] + self.shift  # [a, p, n]
        counted = panel.positive[:, :, None] & panel.negative[:, None, :]
        cost = softplus(m) if self.cost == "softplus" else m.relu()
        value = torch.where(counted, cost, 0.0).sum()
        return value / divisor(self.reduction, len(s), counted.sum())

    def formula(self, panel: Panel) -> Tensor:
        triplets = self._triplets(panel.relation)
        if triplets is None:
            return super().formula(panel)
        f = self._of_similarities(panel.similarity, triplets)
        total, count = self.term_formula(f, torch.ones_like(f, dtype=torch.bool))
        return total / divisor(self.reduction, len(panel.similarity), count)

    def dense_weights(self, panel: Panel) -> Tensor:
        triplets = self._triplets(panel.relation)
        if triplets is None:
            return super().dense_weights(panel)
        s = panel.similarity
        f = self._of_similarities(s, triplets)
        slope = self.terms(f[:, None], torch.ones_like(f, dtype=torch.bool)[:, None])[1][:, 0]
        a, p, n = triplets.T
        g = torch.zeros_like(s)
        for pair, factor in (((a, n), self.push), ((p, n), self.push), ((a, p), -self.pull)):
            g.index_put_(pair, factor * slope, accumulate=True)
        return g / divisor(self.reduction, len(s), len(f))

    def of_triplets(self, queries: Tensor, database: Tensor | None, triplets: Tensor, dense: bool) -> Tensor:
        """Exactly these, as with `relations.Triplets`."""
        if database is not None:
            raise ParameterError(_NO_DATABASE)
        twin = copy(self)
        twin.miner = None
        listed = Triplets(len(queries), triplets)
        return twin.dense(queries, listed) if dense else twin(queries, listed)

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Listed triplets are gathered; labels go by positive pairs."""
        triplets = self._triplets(pairing.relation)
        if triplets is not None:
            return self._listed(pairing.queries, triplets, gradient)
        return super().program(pairing, anchor_values, gradient)

    def _triplets(self, relation: Relation | None) -> Tensor | None:
        """The triplets (m, 3) that are taken as listed; a miner chooses from their pairs instead."""
        return relation.triplets if isinstance(relation, Triplets) and self.miner is None else None

    def _of_similarities(self, s: Tensor, triplets: Tensor) -> Tensor:
        a, p, n = triplets.to(s.device).T
        return self.push * (s[a, n] + s[p, n]) - self.pull * s[a, p]

    def _listed(self, z: Tensor, triplets: Tensor, gradient: bool) -> Gradient:
        """O(triplets·d): each listed triplet once, no crossing of positives with other negatives."""
        a, p, n = (z[column] for column in triplets.T)
        query = a + p
        f = self.push * (query * n).sum(1) - self.pull * (a * p).sum(1)
        value, slope, _ = self.terms(f[:, None], torch.ones_like(f, dtype=torch.bool)[:, None])
        scale = 1 / divisor(self.reduction, len(z), len(f))
        if not gradient:
            return Gradient(value.sum() * scale, None)
        d_z = torch.zeros_like(z)
        d_query = self.push * slope * n
        for column, d in zip(
            triplets.T,
            (d_query - self.pull * slope * p, d_query - self.pull * slope * a, self.push * slope * query),
            strict=True,
        ):
            d_z.index_add_(0, column, d * scale)
        return Gradient(value.sum() * scale, d_z)


_NO_DATABASE = "angular losses need the row of the positive too, so they take no `database`. Use TripletLoss."


def tangent_weight(angle: float, name: str = "angle") -> float:
    """`4tan²α` for α in degrees, between 0 and 90.

    >>> round(tangent_weight(45), 6)
    4.0
    """
    angle = check_number(angle, name, above=0.0, maximum=89.0)
    return 4 * math.tan(math.radians(angle)) ** 2


def angular_margins(embeddings: Tensor, triplets: Tensor, factor: Tensor | None, weight: float) -> Tensor:
    """m of every triplet, (m,), on the graph of the embeddings (n, d) and of the factor (d, l).

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> angular_margins(z, torch.tensor([[0, 1, 2]]), None, 4.0)
    tensor([-8.])
    """
    z = embeddings if factor is None else embeddings @ factor
    a, p, n = (z[column] for column in triplets.T)
    return (a - p).square().sum(dim=1) - weight * (n - (a + p) / 2).square().sum(dim=1)


def angular_factor_gradient(near: Tensor, far: Tensor, factor: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """J and `∇_L = 2[Aᵀdiag(σ)AL − τBᵀdiag(σ)BL]` in O(m·d·l), for A = a − p and B = n − (a + p)/2, (m, d) each.

    >>> near, far = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> value, gradient = angular_factor_gradient(near, far, torch.tensor([[1.0], [0.0]]), 4.0)
    >>> round(value.item(), 4), gradient.ravel().round(decimals=4).tolist()  # log(1 + e)
    (1.3133, [1.4621..., 0.0])
    """
    close, away = near @ factor, far @ factor
    margins = close.square().sum(dim=1) - weight * away.square().sum(dim=1)
    slope = torch.sigmoid(margins)[:, None]
    gradient = 2 * (near.T @ (slope * close) - weight * (far.T @ (slope * away)))
    return nn.functional.softplus(margins).sum(), gradient
