"""Margin loss: distances are compared with a boundary β that is learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nearer._checks import check_choice, check_int, check_number
from nearer.exceptions import LabelError
from nearer.losses.pairs._distances import lengths, root, tile_lengths
from nearer.losses.pairs._pair_loss import check_range
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Far, Miner, Near, Panel, Statistic, Terms
from nearer.relations import ClassLabels, PartialLabels, Relation


class MarginLoss(RowLoss):
    """(Σ_P [α + D − β]₊ + Σ_N [α + β − D]₊ + ν Σᵢ βᵢ) / #(terms that are not zero), D Euclidean on unit vectors.

    β is a parameter: one number, plus one per class if `n_classes` is given (βᵢ belongs to the anchor's class).
    Give it to the optimiser, usually with a larger learning rate. `over="triplets"` counts each pair once for
    every triplet it is in. Reduction "active" is the formula above; "mean" and "sum" are as everywhere.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(MarginLoss(beta=1.0)(z, torch.tensor([0, 0])).item(), 4)  # 0.2 + √2 − 1
    0.6142

    Usually with the miner `DistanceWeighted`. `over="triplets"` gives the number of pytorch-metric-learning's
    defaults. Reference: Wu et al. 2017.

    Args:
        alpha: half the width of the band around the boundary.
        beta: the boundary to begin with.
        n_classes: one more boundary for each of so many classes; none if None.
        nu: the price of large boundaries.
        over: "pairs", or "triplets" to count a pair once for every triplet it is in.
        reduction: "active" as above, "mean" over anchors, or "sum".
        miner: which pairs count; all of them if None.

    Attributes:
        beta: the boundary, a parameter: the optimizer must get it.
        beta_class: what is added to it for every class, (n_classes,), a parameter; None without `n_classes`.
    """

    distance = True
    reductions = ("active", "mean", "sum")

    def __init__(
        self,
        *,
        alpha: float = 0.2,
        beta: float = 1.2,
        n_classes: int | None = None,
        nu: float = 0.0,
        over: str = "pairs",
        reduction: str = "active",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        self.alpha = check_number(alpha, "alpha", minimum=0.0)
        self.beta = nn.Parameter(torch.tensor(check_number(beta, "beta", above=0.0)))
        self.n_classes = None if n_classes is None else check_int(n_classes, "n_classes")
        self.beta_class = None if self.n_classes is None else nn.Parameter(torch.zeros(self.n_classes))
        self.nu = check_number(nu, "nu", minimum=0.0)
        self.over = check_choice(over, "over", ["pairs", "triplets"])

    def anchor_values(self, relation: Relation) -> Tensor:
        if self.beta_class is None:
            return self.beta.expand(relation.n_queries)
        if not isinstance(relation, (ClassLabels, PartialLabels)):
            raise LabelError("`n_classes` needs class labels: β belongs to the anchor's class.")
        labels = relation.queries
        check_range(labels, len(self.beta_class), "a boundary each")
        return self.beta + self.beta_class[labels]

    def _multiples(self, positives: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
        """How often a positive and a negative of each anchor count, from how many there are of each."""
        if self.over == "triplets":
            return negatives, positives
        return torch.ones_like(positives), torch.ones_like(negatives)

    def value(self, panel: Panel) -> Terms:
        d, beta = root(panel.measured()), _boundaries(panel)
        far = (d - beta[:, None] + self.alpha).relu() * panel.positive
        near = (beta[:, None] - d + self.alpha).relu() * panel.negative
        m_p, m_n = self._multiples(panel.positive.sum(1, dtype=d.dtype), panel.negative.sum(1, dtype=d.dtype))
        count = m_p * (far > 0).sum(1) + m_n * (near > 0).sum(1)
        return Terms(m_p * far.sum(1) + m_n * near.sum(1) + self.nu * beta, count)

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        (d, inverse_d), beta = lengths(panel.measured()), _boundaries(panel)
        m_p, m_n = self._multiples(panel.p.sum(1), panel.n.sum(1))
        p = torch.gt(d, (beta - self.alpha)[:, None], out=torch.empty_like(d)).mul_(panel.p)
        n = torch.lt(d, (beta + self.alpha)[:, None], out=torch.empty_like(d)).mul_(panel.n)
        n_p, n_n = m_p * p.sum(1), m_n * n.sum(1)
        slope = p.mul_(m_p[:, None]).sub_(n.mul_(m_n[:, None]))
        value = torch.linalg.vecdot(slope, d) + (self.alpha - beta) * n_p + (self.alpha + beta) * n_n
        terms = Terms(value + self.nu * beta, n_p + n_n, n_n - n_p + self.nu)
        return terms, slope.mul_(inverse_d).mul_(0.5)

    def statistic(self, bound: float) -> Statistic | None:
        if self.beta_class is not None:
            return None  # a tile has one boundary
        edge = float(self.beta.detach()) + self.alpha

        def tile(scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
            d, inverse_d = tile_lengths(scaled, spare)
            near = d.neg_().add_(edge).clamp_(min=0)
            return near, torch.threshold_(inverse_d, 1 / edge, 0.0)

        def head(far: Far, near: Near) -> Terms:
            beta = near.anchor_values
            assert beta is not None
            beta = beta.to(far.sum.dtype)
            m_p, m_n = self._multiples(near.count, near.negatives)

            def excess(squared: Tensor, own: Tensor) -> Tensor:
                return (root(squared) - own + self.alpha).relu()

            # β is in every active term of a negative, once: the value is in the sum, the slope is their number.
            push = far.sum + (beta - beta.detach()) * far.count
            pulling = near.tally(lambda squared, own: excess(squared, own) > 0, beta)
            value = m_p * near.sum(excess, beta) + m_n * push + self.nu * beta
            return Terms(value, m_p * pulling + m_n * far.count)

        def quiet(scaled: Tensor) -> bool:
            return float(scaled.amin()) >= edge**2 - 2

        return Statistic(tile, head, scale=-2.0, quiet=quiet, linear=True, counts=True, distance=True)


def _boundaries(panel: Panel) -> Tensor:
    if panel.anchor_values is None:
        raise TypeError("the margin loss needs its boundaries")
    return panel.anchor_values.to(panel.similarity.dtype)
