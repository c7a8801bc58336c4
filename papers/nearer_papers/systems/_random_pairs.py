"""Random mining: some positives and some negatives of each anchor, drawn uniformly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_int
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, fresh_seed, uniform


class RandomPairs(Miner):
    """At most `positives` and `negatives` pairs of each anchor, without replacement; None keeps a side whole.

    The draws belong to pairs, not to tiles: the same whatever the tile size or the sharding.

    >>> RandomPairs(negatives=5)
    RandomPairs(positives=None, negatives=5)

    Args:
        positives: at most so many of each anchor; all if None.
        negatives: at most so many of each anchor; all if None.
        generator: draws them; torch's own if None.
    """

    def __init__(
        self,
        *,
        positives: int | None = None,
        negatives: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.positives = None if positives is None else check_int(positives, "positives", minimum=0)
        self.negatives = None if negatives is None else check_int(negatives, "negatives", minimum=0)
        self.generator = generator

    def prepare(self, pairing: Pairing) -> Select:
        """One seed for the batch."""
        seed = fresh_seed(self.generator)

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            columns = torch.arange(panel.similarity.shape[1], device=panel.similarity.device)
            lots = uniform(seed, panel.numbers[:, None], columns[None])
            return (
                _smallest(lots, panel.positive, self.positives),
                _smallest(lots, panel.negative, self.negatives),
            )

        return select


def _smallest(lots: Tensor, mask: Tensor, count: int | None) -> Tensor:
    """The `count` entries of each row's mask with the smallest lots."""
    if count is None or count >= mask.shape[1]:
        return mask
    if count == 0:
        return torch.zeros_like(mask)
    edge = lots.masked_fill(~mask, math.inf).kthvalue(count, dim=1, keepdim=True)[0]
    return mask & (lots <= edge)
