"""A loss in which each anchor's part needs only its own row of similarities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from nearer.losses.pairs._pair_loss import PairLoss
from nearer.pairwise import Panel, Rule, Terms
from nearer.pairwise._shared import Gradient, Pairing, by_panels, by_statistic, reduce, shares, sortable


class RowLoss(PairLoss, Rule):
    """A pair loss that is a rule: `value` is the printed formula, `weigh` and `statistic` are there for speed.

    >>> class Pull(RowLoss):
    ...     reductions = ("mean",)
    ...     def value(self, panel):
    ...         return Terms(((1 - panel.similarity) * panel.positive).sum(1))
    >>> Pull(reduction="mean")(torch.eye(2), torch.tensor([0, 0])).item()  # two items of one class at right angles
    1.0

    Args:
        reduction: what the sum is divided by; the first of `reductions` is the default.
        miner: which pairs count; all of them if None.
        normalize: whether rows are brought to length one first.
    """

    rowwise = True
    small: int = 384  # up to so many anchors a batch is one panel; above, its statistic is faster

    @abstractmethod
    def value(self, panel: Panel) -> Terms:
        """The printed formula, one number per anchor, differentiable by autograd."""

    def formula(self, panel: Panel) -> Tensor:
        return reduce(self.value(panel), self.reduction, len(panel.similarity))

    def by_weight(self, panel: Panel) -> Tensor:
        """The value with the hand-written weights as its slopes: Σ G·(s − s₀) has them and is zero."""
        with torch.no_grad():
            terms, weight = self.weigh(panel)
        assert isinstance(weight, Tensor)  # of two columns only losses that have no use for this make weights
        moved = panel.similarity - panel.similarity.detach()
        return reduce(Terms(terms.value + (weight * moved).sum(1), terms.count), self.reduction, len(moved))

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """Tiles where the loss has a statistic and the labels are classes, row panels otherwise."""
        asked: dict[str, Any] = {"reduction": self.reduction, "miner": self.miner}
        asked |= {"anchor_values": anchor_values, "gradient": gradient}
        if sortable(pairing, small=self.small):
            statistic = self.statistic(1.0 if pairing.unit else _largest(pairing))
            result = None if statistic is None else by_statistic(statistic, pairing, **asked)
            if result is not None:
                return result
        return by_panels(self, pairing, **asked)

    def dense_weights(self, panel: Panel) -> Tensor:
        terms, weight = self.weigh(panel)
        columns = shares(self.reduction, len(panel.similarity), terms)
        if isinstance(weight, tuple):
            return torch.mul(weight[0], columns[0]).add_(weight[1], alpha=columns[1])
        return weight * columns[0]


def _largest(pairing: Pairing) -> float:
    """No similarity is larger than the product of the largest lengths; alike in all processes of a joint batch."""
    queries = pairing.queries if pairing.offset is None else pairing.database
    lengths = [torch.linalg.vector_norm(side, dim=1).amax() for side in (queries, pairing.database)]
    return float(lengths[0] * lengths[1])
