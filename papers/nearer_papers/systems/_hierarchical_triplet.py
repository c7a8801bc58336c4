"""The hierarchical triplet loss: margins that follow how far apart two classes are in the tree of all classes."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.exceptions import LabelError, ParameterError
from nearer.losses.pairs._row_loss import RowLoss
from nearer.pairwise import Miner, Panel, Terms
from nearer.pairwise._counting import count_row_triplets
from nearer.relations import ClassLabels
from nearer_papers.systems._class_tree import ClassTree

__all__ = ["HierarchicalTripletLoss"]


class HierarchicalTripletLoss(RowLoss):
    """Mean over all triplets of ½[D²_ap − D²_an + α(y_a, y_n)]₊ with α = β + d_H(y_a, y_n) − s_{y_a}.

    d_H and s come from `tree`, which is built from all training embeddings and renewed every epoch; it is part of
    the state. The margin depends on two classes only, so the triplets are counted as in `TripletLoss`, with
    negatives moved up by α/2. Until the tree has had its first `update` every margin is β. Reductions: "tuples"
    (all valid triplets), "active", "mean" over anchors, "sum". No triplet: 0.

    Usage: `loss = HierarchicalTripletLoss()`, `loss.tree.update(all_embeddings, all_labels)` every epoch, and
    `loss(embeddings, labels)`.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> loss = HierarchicalTripletLoss(beta=0.2, reduction="sum")
    >>> round(loss(z, torch.tensor([0, 0, 1])).item(), 4)  # no tree yet: 0.7 + 0.9 as with margin 0.1
    1.6
    >>> loss.tree.update(z, [0, 0, 1])  # d₀ = s₀ = 2, d(0, 1) = 0.6: merged on the lowest level, d_H = d₀
    >>> round(loss(z, torch.tensor([0, 0, 1])).item(), 4)
    1.6

    Reference: Ge et al. 2018, eq 4.

    Args:
        tree: a `ClassTree`; a new one if None.
        beta: β, the smallest margin.
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
    """

    reductions = ("tuples", "active", "mean", "sum")
    untraceable = "its margins are looked up in a tree of classes"

    def __init__(
        self,
        *,
        tree: ClassTree | None = None,
        beta: float = 0.1,
        reduction: str = "tuples",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=miner)
        if tree is not None and not isinstance(tree, ClassTree):
            raise ParameterError(f"`tree` must be a nearer_papers.systems.ClassTree, got {type(tree).__name__}.")
        self.tree = ClassTree() if tree is None else tree
        self.beta = check_number(beta, "beta")

    def _shift(self, panel: Panel) -> Tensor | float:
        """Half of the margin of every pair of a panel, (r, n)."""
        if not self.tree.ready:
            return self.beta / 2
        relation = panel.relation
        if type(relation) is not ClassLabels:
            raise LabelError(
                f"HierarchicalTripletLoss with a tree needs class labels, got {type(relation).__name__}."
            )
        # A margin belongs to two classes: the tree is asked once for each pair of them.
        rows, of_row = torch.unique(relation.queries[panel.anchors], return_inverse=True)
        columns, of_column = torch.unique(relation.database, return_inverse=True)
        table = self.tree.margins(rows, columns, beta=self.beta).to(panel.similarity) / 2
        return table[of_row][:, of_column]

    def value(self, panel: Panel) -> Terms:
        s, alpha = panel.similarity, 2 * self._shift(panel)
        alpha = alpha if isinstance(alpha, Tensor) else torch.full_like(s, alpha)
        squared = 2 - 2 * s
        triplets = panel.positive[:, :, None] & panel.negative[:, None, :]  # (q, n, n): anchor, positive, negative
        hinge = 0.5 * (squared[:, :, None] - squared[:, None, :] + alpha[:, None, :]).relu() * triplets
        counted = hinge > 0 if self.reduction == "active" else triplets
        return Terms(hinge.sum((1, 2)), counted.sum((1, 2)))

    def weigh(self, panel: Panel) -> tuple[Terms, Tensor]:
        moved = torch.where(panel.negative, panel.similarity + self._shift(panel), panel.similarity)
        counts, value, violated = count_row_triplets(panel.chosen(panel.p, panel.n, moved), 0.0, False)
        valid = panel.p.sum(1) * panel.n.sum(1)
        return Terms(value, violated if self.reduction == "active" else valid), counts
