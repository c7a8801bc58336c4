"""The pairs that a relation is worst served by: the largest |D² − g|, from near or from far."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.mining._hardest_fraction import threshold
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, iterate_panels

__all__ = ["LargestErrors"]


class LargestErrors(Miner):
    """Keep the ⌈fraction·count⌉ known pairs of the batch with the largest |2 − 2s − farthest·(1 − degree)|.

    For graded relations, where no side is positive or negative; with classes it keeps the worst of both together.
    Pairs that tie with the last one kept are kept too.

    >>> LargestErrors(0.25)
    LargestErrors(fraction=0.25)

    Reference: the difficult pairs that HRAML names; OHEM (Shrivastava et al. 2016).

    Args:
        fraction: share of the known pairs.
    """

    def __init__(self, fraction: float = 0.5) -> None:
        self.fraction = check_number(fraction, "fraction", above=0.0, maximum=1.0)

    def prepare(self, pairing: Pairing) -> Select:
        """Find the smallest error that is kept."""
        whole = pairing.joint()

        def errors() -> Iterator[Tensor]:
            for panel in iterate_panels(whole):
                yield error(panel, whole)[panel.positive | panel.negative]

        bound = 2 + 2 * float(whole.queries.norm(dim=1).max() * whole.database.norm(dim=1).max())
        bound += whole.relation.farthest
        lowest = threshold(errors, bound, self.fraction, whole.queries.dtype)

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            kept = error(panel, pairing) >= lowest
            return panel.positive & kept, panel.negative & kept

        return select


def error(panel: Panel, pairing: Pairing) -> Tensor:
    """|D² − g| of a panel."""
    relation, s = pairing.relation, panel.similarity
    apart = 1 - relation.degrees(panel.anchors)[0].to(device=s.device, dtype=s.dtype)
    return torch.abs(2 - 2 * s - relation.farthest * apart)
