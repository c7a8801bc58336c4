"""HDC: heads at increasing depth of one network, the deeper ones learning from harder pairs only.

encoder = CascadeHeads(network, ["2", "5", "8"], images[:2])
EncoderStep(encoder, HDCLoss(), optimiser, data)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_labels, as_tensor
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry._similarity import normalize
from nearer.losses.layers._jrs import tapped
from nearer.losses.pairs._contrastive import SquaredContrastiveLoss
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.mining._hardest_fraction import threshold
from nearer.pairwise._panels import iterate_panels
from nearer.pairwise._rule import Miner, Pairing, Panel, Select, inner_settings
from nearer_papers.systems._linear_start import start_linear

__all__ = ["CascadeHeads", "HDCLoss"]


class CascadeHeads(nn.Module):
    """Unit vectors from several layers of any network, side by side: (n, ...) -> (n, K·d).

    z = [u(A₁h₁ + b₁), …, u(A_K h_K + b_K)] with h_k the output of the k-th named layer (a map is averaged over its
    places) and u(x) = x/‖x‖. `example` is a batch of one item or more; it only tells how wide the layers are. What
    the network returns at its end is not used unless the last layer is named.

    >>> network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU())
    >>> heads = CascadeHeads(network, ["1", "3"], torch.zeros(1, 6), embedding_dim=5)
    >>> heads(torch.rand(3, 6)).shape
    torch.Size([3, 10])

    Reference: Yuan, Yang, Zhang 2017, figure 2.

    Args:
        network: any network.
        layers: the names of the layers that get a head.
        example: a batch of one item or more, which tells how wide the layers are.
        embedding_dim: the width of each head.
        generator: draws the first weights of the heads; torch's own if None.
    """

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        example: Any,
        *,
        embedding_dim: int = 128,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.layers = list(layers)
        self.embedding_dim = check_int(embedding_dim, "embedding_dim")
        was_training = network.training
        network.eval()  # or batch normalisation would learn from the example
        try:
            with torch.no_grad():
                widths = [layer.shape[1] for layer in self._tap(as_tensor(example, "example"))]
        finally:
            network.train(was_training)
        self.heads = nn.ModuleList(nn.Linear(width, self.embedding_dim) for width in widths)
        start_linear(self.heads, generator)

    def forward(self, items: Any) -> Tensor:
        found = self._tap(items)
        return torch.cat([normalize(head(row)) for head, row in zip(self.heads, found, strict=True)], dim=1)

    def _tap(self, items: Any) -> list[Tensor]:
        with tapped(self.network, self.layers) as found:
            self.network(items)
        silent = [name for name, row in zip(self.layers, found, strict=True) if row is None]
        if silent:
            raise ParameterError(f"`layers` must take part in the forward pass of the network, got {silent}.")
        return found


class HDCLoss(nn.Module):
    """Σ_k of the squared contrastive loss of head k on the hardest fraction f_k of its positive and negative pairs.

    `embeddings` (n, K·d) are the heads side by side, as `CascadeHeads` gives them, K = number of `fractions`. With
    `selection` "cascade" (published) head k chooses among the pairs that head k − 1 kept, by its own distances;
    with "independent" (released layers) each head ranks all pairs. ⌈f·count⌉ pairs of each side are kept, at least
    one; ties with the last one stay. Nothing to choose from gives 0.

    >>> one = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> loss = HDCLoss(fractions=(1.0, 0.5))
    >>> round(loss(torch.cat([one, one], dim=1), torch.tensor([0, 0, 1])).item(), 4)  # 6 + (2 + 10·0.6)
    14.0

    Reference: Yuan, Yang, Zhang 2017.

    Args:
        fractions: f_k, the share of pairs that head k sees.
        margin: the squared distance at which a negative costs nothing.
        negative_weight: weight of negatives.
        selection: "cascade" takes the hardest of what the head before kept, "independent" of all pairs.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        *,
        fractions: Sequence[float] = (1.0, 0.5, 0.2),
        margin: float = 1.0,
        negative_weight: float = 10.0,
        selection: str = "cascade",
    ) -> None:
        super().__init__()
        if len(fractions) == 0:
            raise ParameterError("`fractions` must have one number for each head, got none.")
        self.fractions = tuple(check_number(one, "fractions", above=0.0, maximum=1.0) for one in fractions)
        self.selection = check_choice(selection, "selection", ["cascade", "independent"])
        self.margin, self.negative_weight = margin, negative_weight
        SquaredContrastiveLoss(margin=margin, negative_weight=negative_weight)  # checks the two

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of the heads' embeddings (n, K·d) with class labels (n,)."""
        z = check_embeddings(embeddings, "embeddings")
        y = as_labels(labels, "labels", n=len(z))
        heads = len(self.fractions)
        if z.shape[1] % heads:
            raise ShapeError(
                f"`embeddings` must have a multiple of {heads} columns, one part for each of the fractions, got "
                f"{z.shape[1]}."
            )
        total, earlier = z.new_zeros((), dtype=torch.float64 if z.dtype == torch.float64 else torch.float32), None
        for part, fraction in zip(z.chunk(heads, dim=1), self.fractions, strict=True):
            level = _Level(fraction, earlier if self.selection == "cascade" else None)
            one = SquaredContrastiveLoss(margin=self.margin, negative_weight=self.negative_weight, miner=level)
            total = total + one(part, y)
            earlier = level
        return total


class _Level(Miner):
    """A miner: the hardest fraction of the pairs that the level before kept; its bounds stay for the next level."""

    def __init__(self, fraction: float, earlier: _Level | None) -> None:
        self.fraction, self.earlier = fraction, earlier
        self.rows = torch.empty(0)
        self.highest: float | Tensor = 0.0
        self.lowest: float | Tensor = 0.0

    def prepare(self, pairing: Pairing) -> Select:
        """Find the two thresholds among the pairs that came through."""
        self.rows = pairing.queries.detach()

        def hardness(positive: bool) -> Iterator[tuple[Tensor, Tensor]]:
            for panel in iterate_panels(pairing):
                p, n = self._passed(panel.anchors, panel.positive, panel.negative)
                yield (-panel.similarity, p) if positive else (panel.similarity, n)

        if self.fraction == 1.0:
            self.highest, self.lowest = math.inf, -math.inf
        else:
            bound = self.rows.new_tensor(1 + 1e-4)
            self.highest = -threshold(lambda: hardness(True), bound, self.fraction)
            self.lowest = threshold(lambda: hardness(False), bound, self.fraction)

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            p, n = self._passed(panel.anchors, panel.positive, panel.negative)
            return p & (panel.similarity <= self.highest), n & (panel.similarity >= self.lowest)

        return select

    def _passed(self, anchors: slice, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs of some anchors that every level before this one kept; their similarities are formed again."""
        level = self.earlier
        while level is not None:
            s = level.rows[anchors] @ level.rows.T
            positive, negative = positive & (s <= level.highest), negative & (s >= level.lowest)
            level = level.earlier
        return positive, negative
