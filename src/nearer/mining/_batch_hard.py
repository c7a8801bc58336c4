"""One pair of each side for an anchor: the hardest of the batch, or negatives just behind the positive."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, count_row_triplets, hardest


def mine_batch_hard(similarity: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """One positive and one negative per row, the first of equals; an empty side stays empty.

    >>> s = torch.tensor([[0.9, 0.4, 0.5, 0.1]])
    >>> p = torch.tensor([[True, True, False, False]])
    >>> [mask.int().tolist() for mask in mine_batch_hard(s, p, ~p)]
    [[[0, 1, 0, 0]], [[0, 0, 1, 0]]]
    """
    _, p, _, n = hardest(similarity, positive, negative)
    chosen_p, chosen_n = torch.zeros_like(positive), torch.zeros_like(negative)
    chosen_p.scatter_(1, p[:, None], positive.any(1, keepdim=True))
    chosen_n.scatter_(1, n[:, None], negative.any(1, keepdim=True))
    return chosen_p, chosen_n


class BatchHard(Miner):
    """Keep only the hardest positive and the hardest negative of each anchor.

    >>> BatchHard()
    BatchHard()
    """

    def prepare(self, pairing: Pairing) -> Select:
        """Row by row; nothing to know in advance."""
        return _select


def _select(panel: Panel) -> tuple[Tensor, Tensor]:
    return mine_batch_hard(panel.similarity, panel.positive, panel.negative)


def mine_semi_hard(similarity: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """Negatives below the easiest positive, positives above the easiest negative; no margin.

    >>> s = torch.tensor([[0.0, 0.9, 0.4, 0.95, 0.1]])
    >>> p = torch.tensor([[False, True, True, False, False]])
    >>> n = torch.tensor([[False, False, False, True, True]])
    >>> [mask.int().tolist() for mask in mine_semi_hard(s, p, n)]
    [[[0, 1, 1, 0, 0]], [[0, 0, 0, 0, 1]]]
    """
    best = similarity.masked_fill(~positive, -math.inf).amax(1, keepdim=True)
    worst = similarity.masked_fill(~negative, math.inf).amin(1, keepdim=True)
    return positive & (similarity > worst), negative & (similarity < best)


def mine_semi_hard_triplets(
    similarity: Tensor, positive: Tensor, negative: Tensor, *, margin: float = 0.1
) -> tuple[Tensor, Tensor]:
    """The pairs of all triplets with s_ip − λ < s_in < s_ip.

    >>> s = torch.tensor([[0.0, 0.9, 0.4, 0.85, 0.1]])
    >>> p = torch.tensor([[False, True, True, False, False]])
    >>> n = torch.tensor([[False, False, False, True, True]])
    >>> [mask.int().tolist() for mask in mine_semi_hard_triplets(s, p, n, margin=0.1)]
    [[[0, 1, 0, 0, 0]], [[0, 0, 0, 1, 0]]]
    """
    panel = Panel(similarity, positive, negative, slice(0, len(similarity)))
    counts, _, _ = count_row_triplets(panel, margin, True)
    return positive & (counts < 0), negative & (counts > 0)


class SemiHard(Miner):
    """Ñ = {s_in < max_P s}, P̃ = {s_ip > min_N s}: the form released with the pair-weighting paper.

    >>> SemiHard()
    SemiHard()
    """

    def prepare(self, pairing: Pairing) -> Select:
        """Row by row; nothing to know in advance."""
        return lambda panel: mine_semi_hard(panel.similarity, panel.positive, panel.negative)


class SemiHardTriplets(Miner):
    """The pairs that occur in a triplet with s_ip − λ < s_in < s_ip.

    >>> SemiHardTriplets(margin=0.2)
    SemiHardTriplets(margin=0.2)

    Args:
        margin: λ.
    """

    def __init__(self, margin: float = 0.1) -> None:
        self.margin = check_number(margin, "margin", above=0.0)

    def prepare(self, pairing: Pairing) -> Select:
        """Row by row; nothing to know in advance."""

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            return mine_semi_hard_triplets(panel.similarity, panel.positive, panel.negative, margin=self.margin)

        return select
