"""Margin loss: distances are compared with a boundary β that is learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nearer._validation import check_choice, check_int, check_number
from nearer.exceptions import LabelError
from nearer.losses.pairs._contrastive import inverse, lengths, root, tile_lengths
from nearer.losses.pairs._pair_loss import as_function
from nearer.losses.pairs._row_loss import RowLoss
from nearer.losses.pairs._softmax import divide
from nearer.pairwise._panels import Gradient, Miner, Pairing, Panel, Rows
from nearer.pairwise._segments import Block, Segments
from nearer.pairwise._symmetric import Factors
from nearer.relations import ClassLabels, PartialLabels, Relation

__all__ = ["MarginLoss", "margin"]


class MarginLoss(RowLoss):
    """(Σ_P [α + D − β]₊ + Σ_N [α + β − D]₊ + ν Σᵢ βᵢ) / #(terms that are not zero), D Euclidean on unit vectors.

    β is a parameter: one number, plus one per class if `n_classes` is given (βᵢ belongs to the anchor's class).
    Give it to the optimiser, usually with a larger learning rate. `over="triplets"` counts each pair once for
    every triplet it is in. Reduction "active" is the formula above; "mean" and "sum" are as everywhere.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(MarginLoss(beta=1.0)(z, torch.tensor([0, 0])).item(), 4)  # 0.2 + √2 − 1
    0.6142

    Usually with the miner `DistanceWeighted`. Reference: Wu et al. 2017.
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
        classes = 0 if n_classes is None else check_int(n_classes, "n_classes")
        self.beta_class = nn.Parameter(torch.zeros(classes)) if classes else None
        self.nu = check_number(nu, "nu", minimum=0.0)
        self.over = check_choice(over, "over", ["pairs", "triplets"])

    def anchor_values(self, relation: Relation) -> Tensor:
        if self.beta_class is None:
            return self.beta.expand(relation.n_queries)
        if not isinstance(relation, (ClassLabels, PartialLabels)):
            raise LabelError("`n_classes` needs class labels: β belongs to the anchor's class.")
        labels = relation.queries
        if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= len(self.beta_class)):
            raise LabelError(
                f"labels must lie in 0..{len(self.beta_class) - 1} for the {len(self.beta_class)} boundaries, got "
                f"{int(labels.min())}..{int(labels.max())}."
            )
        return self.beta + self.beta_class[labels]

    def _multiples(self, panel: Panel, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """How often a positive and a negative of each anchor count."""
        n_p, n_n = panel.positive.sum(1, dtype=dtype), panel.negative.sum(1, dtype=dtype)
        return (n_n, n_p) if self.over == "triplets" else (torch.ones_like(n_p), torch.ones_like(n_n))

    def _excess(self, panel: Panel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        d = root(panel.squared)
        if panel.anchor_values is None:
            raise TypeError("margin loss needs its boundaries")
        beta = panel.anchor_values.to(d.dtype)
        far = (d - beta[:, None] + self.alpha).clamp(min=0)
        near = (beta[:, None] - d + self.alpha).clamp(min=0)
        return d, beta, far, near

    def formula(self, panel: Panel) -> Tensor:
        _, beta, far, near = self._excess(panel)
        m_p, m_n = self._multiples(panel, far.dtype)
        far, near = far * panel.positive, near * panel.negative
        total = (m_p * far.sum(1) + m_n * near.sum(1)).sum() + self.nu * beta.sum()
        terms = (m_p * (far > 0).sum(1) + m_n * (near > 0).sum(1)).sum()
        return divide(total, self.reduction, int(terms), len(far))

    def rows(self, panel: Panel) -> Rows:
        if panel.anchor_values is None:
            raise TypeError("margin loss needs its boundaries")
        d, inverse_d = lengths(panel.squared)
        beta = panel.anchor_values.to(d.dtype)
        p = panel.positive & (d > (beta - self.alpha)[:, None])
        n = panel.negative & (d < (beta + self.alpha)[:, None])
        m_p, m_n = self._multiples(panel, d.dtype)
        n_p, n_n = m_p * p.sum(1), m_n * n.sum(1)
        slope = p * m_p[:, None] - n * m_n[:, None]
        value = (slope * d).sum(1) + (self.alpha - beta) * n_p + (self.alpha + beta) * n_n + self.nu * beta
        return Rows(value, slope.mul_(inverse_d).mul_(0.5), active=n_p + n_n, anchor_weight=n_n - n_p + self.nu)

    def fast(self, pairing: Pairing, gradient: bool) -> Gradient | None:
        if self.beta_class is not None or (self.over == "triplets" and not _equal_classes(pairing.relation)):
            return None
        return super().fast(pairing, gradient)

    def kernel(self, bound: float) -> MarginKernel:
        return MarginKernel(self, float(self.beta.detach()))


def _equal_classes(relation: Relation) -> bool:
    if not isinstance(relation, ClassLabels):
        return False
    sizes = torch.unique(relation.queries, return_counts=True)[1]
    return bool((sizes == sizes[0]).all())


@dataclass(frozen=True)
class MarginKernel:
    """One boundary for all anchors: a sum over pairs of a function of the pair."""

    loss: MarginLoss
    beta: float
    scale: float = -2.0
    one_pass: bool = True
    counts: bool = True

    def nothing(self, scaled: Tensor) -> bool:
        return float(scaled.amin()) >= (self.beta + self.loss.alpha) ** 2 - 2

    def tile(self, scaled: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        d, inverse_d = tile_lengths(scaled, spare)
        edge = self.beta + self.loss.alpha
        near = d.neg_().add_(edge).clamp_(min=0)
        return near, torch.threshold_(inverse_d, 1 / edge, 0.0)

    def _multiples(self, segments: Segments) -> tuple[float, float]:
        if self.loss.over == "pairs":
            return 1.0, 1.0
        size = float(segments.sizes[0])
        return segments.n - size, size - 1

    def negative_factors(self, segments: Segments, dtype: torch.dtype) -> Tensor:
        return torch.full((segments.n,), self._multiples(segments)[1], dtype=dtype, device=segments.codes.device)

    def factors(self, sums: Tensor, active: float, segments: Segments, embeddings: Tensor) -> Factors:
        loss, (m_p, m_n) = self.loss, self._multiples(segments)

        def excess(s: Tensor) -> tuple[Tensor, Tensor]:
            d = (2 - 2 * s).clamp_(min=0).sqrt_()
            return d, (d - self.beta + loss.alpha).clamp_(min=0)

        pulled = segments.reduce_positives(embeddings, lambda s, b: (excess(s)[1] * b.other).sum(2)).sum()
        pulling = segments.reduce_positives(embeddings, lambda s, b: ((excess(s)[1] > 0) * b.other).sum(2)).sum()
        n_p, n_n = m_p * float(pulling), m_n * active
        total = m_p * pulled + m_n * sums.sum() + loss.nu * segments.n * self.beta
        scale = 1 / {"sum": 1.0, "mean": float(segments.n)}.get(loss.reduction, max(n_p + n_n, 1.0))

        def positive(s: Tensor, block: Block) -> Tensor:
            d, far = excess(s)
            return (far > 0) * inverse(d) * (-m_p * scale)

        # One boundary serves all anchors, so only the sum of these matters.
        slope = ((n_n - n_p) / segments.n + loss.nu) * scale
        return Factors(total * scale, sums, positive, scale, torch.full_like(sums, slope))


margin = as_function(MarginLoss, "margin")
