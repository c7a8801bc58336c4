"""N-pairs: one pair per class, every other class's positive as a negative.

It picks two items of each class, so it has a driver of its own: they are the queries and the database of panels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.exceptions import LabelError, ParameterError
from nearer.losses.pairs._pair_loss import PairLoss
from nearer.losses.pairs._softmax import InfoNCELoss
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Gradient, Pairing, by_panels
from nearer.relations import ClassLabels


class NPairsLoss(PairLoss):
    """(1/N) Σᵢ log(1 + Σ_{j≠i} e^{c(fᵢ·fⱼ⁺ − fᵢ·fᵢ⁺)}) + l2·mean‖f‖², fᵢ and fᵢ⁺ the first two items of class i.

    That is the cross-entropy of the logits c·F F⁺ᵀ with diagonal targets; weights (softmax − I)·c/N. Embeddings
    are not normalised, as in the paper; with `normalize` use a `scale` c of 10 or so. Classes with one item are
    left out; fewer than two classes: 0. For all pairs of larger classes use `InfoNCELoss` or `SupConLoss`.

    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(NPairsLoss(l2=0)(z, torch.tensor([0, 0, 1, 1])).item(), 4)  # log(1 + e^-1)
    0.3133

    `NPairsLoss(l2=0, normalize=True)` gives the number of pytorch-metric-learning's defaults. Reference: Sohn 2016.

    Args:
        scale: c.
        l2: the price of long embeddings.
        normalize: bring embeddings to length one first.
        reduction: "mean" over the pairs or "sum".
        miner: None: the loss chooses its own pairs.
    """

    mineable = False
    one_set = True
    reductions = ("mean", "sum")

    def __init__(
        self,
        *,
        scale: float = 1.0,
        l2: float = 0.002,
        normalize: bool = False,
        reduction: str = "mean",
        miner: Miner | None = None,
    ) -> None:
        super().__init__(reduction=reduction, miner=None, normalize=normalize)
        if miner is not None:
            raise ParameterError("NPairsLoss takes no `miner`: it chooses its own pairs. Use InfoNCELoss.")
        self.scale = check_number(scale, "scale", above=0.0)
        self.l2 = check_number(l2, "l2", minimum=0.0)

    def _chosen(self, positive: Tensor) -> tuple[Tensor, Tensor]:
        """First and second item of each class, from the positives of each item."""
        later = torch.triu(positive, 1)
        # The first item of a class has no positive before it; its first later positive is the second item.
        anchors = (~torch.tril(positive, -1).any(1) & later.any(1)).nonzero()[:, 0]
        return anchors, later[anchors].to(torch.uint8).argmax(1) if len(anchors) else anchors

    def formula(self, panel: Panel) -> Tensor:
        a, p = self._chosen(panel.positive)
        if len(a) < 2:
            return panel.similarity.sum() * 0
        logits = self.scale * panel.similarity[a][:, p]
        total = torch.nn.functional.cross_entropy(logits, torch.arange(len(a), device=a.device), reduction="sum")
        norms = panel.similarity.diagonal()[torch.cat([a, p])].sum()
        return (total + 0.5 * self.l2 * norms) / (len(a) if self.reduction == "mean" else 1)

    def traceable(self, panel: Panel) -> Tensor:
        # As `formula`, with every item in the place of an anchor: one that is none has the weight 0.
        s, later = panel.similarity, torch.triu(panel.positive, 1)
        anchor = ~torch.tril(panel.positive, -1).any(1) & later.any(1)
        partner = later.to(torch.uint8).argmax(1)
        logits = self.scale * s[:, partner]
        total = torch.logsumexp(logits.masked_fill(~anchor[None], -1e30), 1) - logits.diagonal()
        length = s.diagonal()
        terms = torch.where(anchor, total + 0.5 * self.l2 * (length + length[partner]), 0.0)
        count = anchor.sum()
        return torch.where(count < 2, 0.0, terms.sum()) / (count.clamp(min=1) if self.reduction == "mean" else 1)

    def dense_weights(self, panel: Panel) -> Tensor:
        a, p = self._chosen(panel.positive)
        g = torch.zeros_like(panel.similarity)
        if len(a) >= 2:
            s = panel.similarity[a][:, p]
            soft = torch.softmax(self.scale * s, 1) - torch.eye(len(a), dtype=s.dtype, device=s.device)
            g[a[:, None], p[None]] = soft * self.scale / (len(a) if self.reduction == "mean" else 1)
        return g

    def program(self, pairing: Pairing, anchor_values: Tensor | None, gradient: bool) -> Gradient:
        """The chosen pairs as two sets, one positive per query."""
        if not pairing.shared or type(pairing.relation) is not ClassLabels:
            raise LabelError("NPairsLoss needs class labels and takes no `database`. Use InfoNCELoss.")
        z = pairing.queries
        a, p = _first_two(pairing.relation.queries)
        if len(a) < 2:
            return Gradient(z.new_zeros(()), torch.zeros_like(z) if gradient else None)
        numbers = torch.arange(len(a), device=z.device)
        rule = InfoNCELoss(temperature=1 / self.scale)
        pairs = Pairing(z[a], z[p], ClassLabels(numbers, numbers))
        result = by_panels(rule, pairs, reduction=self.reduction, gradient=gradient)
        unit = self.l2 / (len(a) if self.reduction == "mean" else 1)
        both = torch.cat([a, p])
        value = result.value + 0.5 * unit * z[both].square().sum()
        if result.queries is None or result.database is None:
            return Gradient(value, None)
        d_z = torch.zeros_like(z)
        d_z[both] = torch.cat([result.queries, result.database]) + unit * z[both]
        return Gradient(value, d_z)


def _first_two(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the first and second item of every class that has two, in the order of the first."""
    ordered, order = torch.sort(labels, stable=True)
    start = torch.ones_like(ordered, dtype=torch.bool)
    start[1:] = ordered[1:] != ordered[:-1]
    first = start.nonzero()[:, 0]
    first = first[first + 1 < len(labels)]
    first = first[~start[first + 1]]
    a, p = order[first], order[first + 1]
    rank = a.argsort()
    return a[rank], p[rank]
