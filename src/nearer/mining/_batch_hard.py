"""Batch-hard mining: the least similar positive and the most similar negative of each anchor."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, hardest

__all__ = ["BatchHard", "mine_batch_hard"]


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
