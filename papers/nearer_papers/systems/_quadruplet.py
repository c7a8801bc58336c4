"""Quadruplet losses: a positive pair against negative pairs that need not share an item with it.

They sort all positive pairs of the batch, which no row can do, so they go over the panels by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.exceptions import LabelError, ParameterError
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise import Miner, Panel
from nearer.pairwise._counting import count_row_triplets
from nearer.pairwise._panels import iterate_panels, nothing
from nearer.pairwise._reduce import divisor
from nearer.pairwise._rule import Gradient, Pairing
from nearer.relations import ClassLabels

__all__ = ["QuadrupletLoss", "TwoTermQuadrupletLoss"]


class QuadrupletLoss(PairLoss):
    """All positive pairs against all negative pairs: [s_kl − s_ij + λ]₊, by default the mean over the violated.

    Weights are counts: −#{(k,l) : s_kl > s_ij − λ} on a positive pair, +#{(i,j) : s_ij < s_kl + λ} on a negative
    one. One sort of the positives and a binary search for every negative: O(n² log n). Reductions: "active",
    "tuples" (all quadruplets), "sum". No pair on one side: 0.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> loss = QuadrupletLoss(margin=0.1, reduction="tuples")
    >>> round(loss(z, torch.tensor([0, 0, 1])).item(), 4)  # mean of 0.7 and 0.9
    0.8

    Reference: Law et al. 2013.

    Args:
        margin: λ.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("active", "tuples", "sum")

    def __init__(self, *, margin: float = 0.1, reduction: str = "active", miner: Miner | None = None) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.margin = check_number(margin, "margin", minimum=0.0)

    def formula(self, panel: Panel) -> Tensor:
        s_p, s_n = panel.similarity[panel.positive], panel.similarity[panel.negative]
        hinge = (s_n[None, :] - s_p[:, None] + self.margin).relu()
        terms = int((hinge > 0).sum()) if self.reduction == "active" else hinge.numel()
        return hinge.sum() / divisor(self.reduction, len(panel.similarity), terms)

    def traceable(self, panel: Panel) -> Tensor:
        s, positive, negative = panel.similarity.detach(), panel.positive, panel.negative
        # What does not count is sorted to the end, where no search reaches it.
        rising = [s.masked_fill(~mask, torch.inf).view(-1).sort()[0] for mask in (positive, negative)]
        below = torch.searchsorted(rising[0] - self.margin, s.contiguous())
        above = negative.sum() - torch.searchsorted(rising[1], s - self.margin, right=True)
        weight = (below * negative - above * positive).to(s.dtype)
        violated = (below * negative).sum()
        value = (weight * panel.similarity).sum() + self.margin * violated.to(s.dtype)
        return value / divisor(
            self.reduction, len(s), violated if self.reduction == "active" else positive.sum() * negative.sum()
        )

    def _scale(self, violated: float, pairs: float) -> float:
        return 1 / divisor(self.reduction, 0, violated if self.reduction == "active" else pairs)

    def _counts(self, s: Tensor, edges: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
        """Of each entry: positives it violates as a negative, and negatives that violate it as a positive."""
        below = torch.searchsorted(edges, s.contiguous())
        # Positive pairs that are equal have equal counts, so the first of them will do.
        return below.to(s.dtype), above[torch.searchsorted(edges, s - self.margin).clamp(max=len(above) - 1)]

    def dense_weights(self, panel: Panel) -> Tensor:
        s = panel.similarity
        edges = (s[panel.positive] - self.margin).sort()[0]
        if not len(edges):
            return torch.zeros_like(s)
        above = _negatives_above(edges, s[panel.negative])
        low, high = self._counts(s, edges, above)
        scale = self._scale(float(above.sum()), len(edges) * float(panel.negative.sum()))
        return (low * panel.negative - high * panel.positive) * scale

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Three passes: collect the positives, count the negatives above each, weigh."""
        q, d = pairing.queries, pairing.database
        select = None if self.miner is None else self.miner.prepare(pairing)
        found = [panel.similarity[panel.positive] for panel in iterate_panels(pairing, select=select)]
        edges = (torch.cat(found).sort()[0] if found else q.new_zeros(0)) - self.margin
        if not len(edges):
            return nothing(pairing)
        above = torch.zeros_like(edges, dtype=torch.float64)
        value, n_negative = torch.zeros((2,), dtype=torch.float64, device=q.device)
        for panel in iterate_panels(pairing, select=select):
            s = panel.similarity[panel.negative]
            above += _negatives_above(edges, s)
            value += (torch.searchsorted(edges, s) * s.double()).sum()
            n_negative += len(s)
        value -= (above * edges.double()).sum()  # s − (s_p − λ), summed over the violated
        scale = self._scale(float(above.sum()), len(edges) * float(n_negative))
        if not gradient:
            return Gradient((value * scale).to(q.dtype), None)
        above = above.to(q.dtype)
        d_q, d_d = torch.zeros_like(q), torch.zeros_like(d)
        for panel in iterate_panels(pairing, select=select):
            low, high = self._counts(panel.similarity, edges, above)
            w = (low * panel.negative - high * panel.positive) * scale
            d_q[panel.anchors] = w @ d
            d_d += w.T @ q[panel.anchors]
        value = (value * scale).to(q.dtype)
        return Gradient(value, d_q + d_d) if pairing.shared else Gradient(value, d_q, d_d)


def _negatives_above(edges: Tensor, s: Tensor) -> Tensor:
    """#{s > edge} for each of the sorted edges, float64."""
    histogram = torch.bincount(torch.searchsorted(edges, s), minlength=len(edges) + 1).double()
    return histogram.flip(0).cumsum(0).flip(0)[1:]


class TwoTermQuadrupletLoss(PairLoss):
    """Mean over triplets of [D²_ap − D²_an + α₁]₊ plus mean over quadruplets of [D²_ap − D²_kl + α₂]₊.

    In the second term k and l have different classes, neither of them the class of a and p. Means are over all
    valid tuples ("tuples") or over the violated ones ("active"). Unit vectors, class labels. An empty term is 0.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> TwoTermQuadrupletLoss()(z, torch.tensor([0, 0, 1, 2])).item()
    0.0

    Related: `TripletLoss` with margin α₁/2 is the first term over 2; `QuadrupletLoss` also pairs a positive pair
    with negatives that share an item with it. Reference: Chen et al. 2017.

    Args:
        first_margin: α₁, of triplets.
        second_margin: α₂, of quadruplets.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    mineable = False
    reductions = ("tuples", "active")
    untraceable = "it sorts the positive pairs of every class by themselves"

    def __init__(
        self,
        *,
        first_margin: float = 1.0,
        second_margin: float = 0.5,
        reduction: str = "tuples",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.first_margin = check_number(first_margin, "first_margin", minimum=0.0)
        self.second_margin = check_number(second_margin, "second_margin", minimum=0.0)
        if self.second_margin >= self.first_margin:
            raise ParameterError("`second_margin` must be smaller than `first_margin`: its negatives are easier.")
        if miner is not None:
            raise ParameterError(
                "TwoTermQuadrupletLoss takes no `miner`: its second term is made of all negatives."
            )

    def formula(self, panel: Panel) -> Tensor:
        s, p, n = panel.similarity, panel.positive, panel.negative
        first = 2 * (s[:, None, :] - s[:, :, None] + self.first_margin / 2).relu()
        first = first[p[:, :, None] & n[:, None, :]]
        a, _ = p.nonzero(as_tuple=True)
        k, l = n.nonzero(as_tuple=True)
        second = 2 * (s[n][None, :] - s[p][:, None] + self.second_margin / 2).relu()
        second = second[n[a][:, k] & n[a][:, l]]
        parts = [
            term.sum() / max(int((term > 0).sum()) if self.reduction == "active" else term.numel(), 1)
            for term in (first, second)
        ]
        return parts[0] + parts[1]

    def dense_weights(self, panel: Panel) -> Tensor:
        # Two items have the same class exactly when they have the same positives.
        same = panel.positive | torch.eye(len(panel.similarity), dtype=torch.bool, device=panel.positive.device)
        second = _SecondTerm([panel], same.to(torch.uint8).argmax(1), self.second_margin / 2)
        second.count(panel)
        g, _, violated, valid = self._first(panel)
        scale = self._scales(float(violated), float(valid), second)
        return 2 * (g * scale[0] + second.weigh(panel, symmetric=True) * scale[1])

    def _first(self, panel: Panel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The first term of a panel: signed counts, hinge sum, violated and valid triplets."""
        g, value, violated = count_row_triplets(panel, self.first_margin / 2, False)
        valid = (panel.p.sum(1) * panel.n.sum(1)).sum()
        return g, value.sum(), violated.sum(), valid

    def _scales(self, violated: float, valid: float, second: _SecondTerm) -> tuple[float, float]:
        first, others = (violated, second.violated()) if self.reduction == "active" else (valid, second.tuples())
        # Of an empty second term only the rounding of sums that cancel is left: 0, not that residue over 1.
        return 1 / max(first, 1.0), 1 / others if others > 0 else 0.0

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Three passes: collect the positives, count, weigh."""
        if not pairing.shared or type(pairing.relation) is not ClassLabels:
            raise LabelError("TwoTermQuadrupletLoss needs class labels and takes no `database`.")
        z, labels = pairing.queries, pairing.relation.queries
        second = _SecondTerm(iterate_panels(pairing), labels, self.second_margin / 2)
        totals = z.new_zeros(3, dtype=torch.float64)
        for panel in iterate_panels(pairing):
            second.count(panel)
            totals += torch.stack([part.double() for part in self._first(panel)[1:]])
        scale = self._scales(float(totals[1]), float(totals[2]), second)
        value = (2 * (totals[0] * scale[0] + second.value() * scale[1])).to(z.dtype)
        if not gradient:
            return Gradient(value, None)
        d_z = torch.zeros_like(z)
        for panel in iterate_panels(pairing):
            w = 2 * (self._first(panel)[0] * scale[0] + second.weigh(panel) * scale[1])
            d_z[panel.anchors] += w @ z
            d_z += w.T @ z[panel.anchors]
        return Gradient(value, d_z)


class _SecondTerm:
    """Counts of [s_kl − s_ap + λ]₊ over positive pairs (a, p) and negative pairs (k, l) of two other classes.

    All negative pairs are counted with one sorted list of edges s_ap − λ; those that touch the class of (a, p) are
    taken off again with a sorted list per class.
    """

    def __init__(self, panels: Iterable[Panel], labels: Tensor, margin: float) -> None:
        _, self.codes, self.sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        self.margin = margin
        found, owner = [], []
        for panel in panels:
            found.append(panel.similarity[panel.positive] - margin)
            owner.append(self.codes[panel.anchors][panel.positive.nonzero()[:, 0]])
        edges, order = torch.cat(found).sort()
        self.edges = edges
        self.of_class = [edges[torch.cat(owner)[order] == code] for code in range(len(self.sizes))]
        self.above = torch.zeros_like(edges, dtype=torch.float64)
        self.touching = [torch.zeros_like(own, dtype=torch.float64) for own in self.of_class]
        self.pushed = edges.new_zeros((), dtype=torch.float64)

    def _below(self, panel: Panel) -> tuple[Tensor, Tensor]:
        """Edges below each similarity: of all classes, and of the row's class."""
        s = panel.similarity.contiguous()
        own = torch.empty_like(s, dtype=torch.int64)
        for rows, code in self._classes(panel):
            own[rows] = torch.searchsorted(self.of_class[code], s[rows])
        return torch.searchsorted(self.edges, s), own

    def _classes(self, panel: Panel) -> Iterator[tuple[Tensor, int]]:
        """The rows of a panel, class by class."""
        codes = self.codes[panel.anchors]
        for code in codes.unique().tolist():
            yield (codes == code).nonzero()[:, 0], code

    def count(self, panel: Panel) -> None:
        """Add a panel's negatives to the counts of every positive pair, and their part of the value."""
        everything, own = self._below(panel)
        s, negative = panel.similarity, panel.negative
        self.above += _negatives_above(self.edges, s[negative])
        for rows, code in self._classes(panel):
            self.touching[code] += _negatives_above(self.of_class[code], s[rows][negative[rows]])
        # S is symmetric, so taking the row's class twice equals taking the row's and the column's class once.
        self.pushed += ((everything - 2 * own)[negative] * s[negative].double()).sum()

    def value(self) -> float:
        """Σ [s_kl − s_ap + λ]₊ once all panels are counted."""
        touching = sum(float(count @ own.double()) for count, own in zip(self.touching, self.of_class, strict=True))
        return float(self.pushed - self.above @ self.edges.double()) + 2 * touching

    def violated(self) -> float:
        """Quadruplets with a positive hinge."""
        return float(self.above.sum()) - 2 * sum(float(count.sum()) for count in self.touching)

    def tuples(self) -> float:
        """Valid quadruplets."""
        n, sizes = float(self.sizes.sum()), self.sizes.double()
        negatives = n**2 - sizes.square().sum()
        return float((sizes * (sizes - 1) * (negatives - 2 * sizes * (n - sizes))).sum())

    def weigh(self, panel: Panel, *, symmetric: bool = False) -> Tensor:
        """Signed counts of a panel; with `symmetric` the exact ones, otherwise equal after adding the transpose."""
        s = panel.similarity
        everything, own = self._below(panel)
        touched = own + own.T if symmetric else 2 * own
        # What equal positive pairs share is the count above the first of them.
        high = torch.zeros_like(s, dtype=torch.float64)
        for rows, code in self._classes(panel):
            i, j = panel.positive[rows].nonzero(as_tuple=True)
            edge = s[rows][i, j] - self.margin
            first, inside = (torch.searchsorted(edges, edge) for edges in (self.edges, self.of_class[code]))
            high[rows[i], j] = self.above[first] - 2 * self.touching[code][inside]
        return ((everything - touched) * panel.negative - high).to(s.dtype)
