"""Valid-triplet hard mining: exactly the pairs that occur in a triplet with a positive hinge."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.pairwise import Miner, Near, Panel
from nearer.pairwise._shared import OUT_OF_THE_WAY, Edges, Pairing, Select, hardest


def mine_valid_triplets(
    similarity: Tensor, positive: Tensor, negative: Tensor, *, margin: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Positives below max_N s + λ and negatives above min_P s − λ, row by row; masks (q, n) in, masks out.

    Both are empty together: an anchor without a positive, without a negative, or without a violated triplet
    keeps nothing.

    >>> s = torch.tensor([[0.0, 0.9, 0.4, 0.5, 0.1]])
    >>> p = torch.tensor([[False, True, True, False, False]])
    >>> n = torch.tensor([[False, False, False, True, True]])
    >>> [mask.int().tolist() for mask in mine_valid_triplets(s, p, n, margin=0.1)]
    [[[0, 0, 1, 0, 0]], [[0, 0, 0, 1, 0]]]
    """
    low, _, high, _ = hardest(similarity, positive, negative)
    kept = negative & (similarity > (low - margin)[:, None])
    active = kept.any(1, keepdim=True)
    # The hardest positive belongs to every active anchor, whatever the last digit of high + margin.
    below = (similarity < (high + margin)[:, None]) | (similarity <= low[:, None])
    return positive & active & below, kept


class VTHM(Miner):
    """Keep the pairs that occur in at least one violated triplet of the batch: P̃ = {s_ip < max_N s + λ},
    Ñ = {s_in > min_P s − λ}.

    Related: with RAW this is the multi-similarity miner. Reference: section 5.1 of the pair-weighting paper.

    >>> VTHM(margin=0.1).margin
    0.1

    Args:
        margin: λ, by how much a triplet must be violated to count.
    """

    def __init__(self, margin: float = 0.1) -> None:
        self.margin = check_number(margin, "margin")

    def prepare(self, pairing: Pairing) -> Select:
        """Row by row; nothing to know in advance."""
        return self._select

    def _select(self, panel: Panel) -> tuple[Tensor, Tensor]:
        if panel.bound > 2 or self.margin > OUT_OF_THE_WAY / 8:
            return mine_valid_triplets(panel.similarity, panel.positive, panel.negative, margin=self.margin)
        # The same on unit vectors, where what does not count is far out of the way: four comparisons of numbers.
        near, far = panel.near, panel.far
        low, high = near.amin(1), far.amax(1)
        edge = low - self.margin
        top = torch.maximum(high + self.margin, torch.nextafter(low, low + 1))
        top = torch.where(high > edge, top, -math.inf)
        chosen_p = torch.lt(near, top[:, None], out=torch.empty_like(near))
        return chosen_p, torch.gt(far, edge[:, None], out=torch.empty_like(far))

    def edges(self, near: Near) -> Edges:
        """Negatives above min_P s − λ; then positives below max_N s + λ, of anchors that have such a negative."""

        def choose(s: Tensor, edge: Tensor, high: Tensor) -> Tensor:
            # The hardest positive belongs to every active anchor, whatever the last digit of high + margin.
            return (high > edge) & ((s < high + self.margin) | (s - self.margin <= edge))

        return Edges(near.least() - self.margin, choose)
