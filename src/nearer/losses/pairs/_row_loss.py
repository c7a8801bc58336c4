"""A loss in which each anchor's part needs only its own row of similarities."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from torch import Tensor

from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise._panels import AllSum, Gradient, Miner, Pairing, Panel, Rows, by_panels, forced_tile
from nearer.pairwise._symmetric import Kernel, by_tiles
from nearer.relations import ClassLabels

__all__ = ["RowLoss", "is_large", "sortable_labels"]

# Below this size one panel is the whole batch, and sorting by class costs more than symmetry saves.
_SMALL = 256


def is_large(pairing: Pairing, small: int = _SMALL) -> bool:
    """Whether the engines that sort by class are worth their overhead."""
    return len(pairing.queries) > (forced_tile() or small)


def sortable_labels(pairing: Pairing, miner: Miner | None, *, small: int = _SMALL) -> Tensor | None:
    """The class labels of a batch that the engines that sort by class can take, or None.

    They need classes, one set, no miner, and a batch that is worth their overhead.
    """
    relation = pairing.relation
    if miner is not None or not pairing.shared or type(relation) is not ClassLabels or not is_large(pairing, small):
        return None
    return relation.queries


class RowLoss(PairLoss):
    """Subclasses write the formula, its weights (`rows`), and, where the weights factor, a fast form (`kernel`)."""

    rowwise = True

    @abstractmethod
    def rows(self, panel: Panel) -> Rows:
        """The value of each anchor and the weight of each pair, in closed form, before the reduction."""

    def kernel(self, bound: float) -> Kernel | None:
        """The factored form for class labels, if it is safe for similarities of at most `bound` in size."""
        return None

    def program(
        self,
        pairing: Pairing,
        anchor_values: Tensor | None,
        gradient: bool,
        *,
        total_anchors: int | None = None,
        all_sum: AllSum | None = None,
    ) -> Gradient:
        """Tiles above the diagonal where the loss factors and the labels are classes, row panels otherwise."""
        found = None if all_sum is not None else self.fast(pairing, gradient)
        if found is not None:
            return found
        return by_panels(
            self,
            pairing,
            reduction=self.reduction,
            miner=self.miner,
            anchor_values=anchor_values,
            gradient=gradient,
            total_anchors=total_anchors,
            all_sum=all_sum,
        )

    def fast(self, pairing: Pairing, gradient: bool) -> Gradient | None:
        """The loss by the symmetric engine, if that serves here."""
        labels = sortable_labels(pairing, self.miner)
        if labels is None:
            return None
        bound = 1.0 if self.normalize else float(pairing.queries.square().sum(1).max())
        kernel = self.kernel(bound)
        return None if kernel is None else by_tiles(kernel, pairing.queries, labels, gradient=gradient)

    def weigh(self, panel: Panel) -> Tensor:
        if self.reduction == "sides":
            return self.rows(replace(panel, scales=None)).weight
        rows = self.rows(panel)
        if self.reduction == "mean":
            return rows.weight / max(len(rows.weight), 1)
        counted = {"active": rows.active, "tuples": rows.valid}.get(self.reduction)
        return rows.weight if counted is None else rows.weight / counted.sum().clamp(min=1)
