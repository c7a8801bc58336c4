"""The hardest share of the pairs of a batch: by similarity, or by how far a relation is missed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer._tracing import readable
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, iterate_panels

_BUCKETS = 1 << 14


class HardestFraction(Miner):
    """Keep ⌈fraction·count⌉ of all positive pairs and of all negative pairs, at least one of each, the hardest.

    Pairs that tie with the last one kept, to the precision of the product, are kept too. Histograms narrow the
    thresholds down in
    passes over the batch, so no list of all pairs is made.

    >>> HardestFraction(0.5)
    HardestFraction(0.5, positive_fraction=0.5)

    Reference: the cascade of HDC (Yuan et al. 2017), one level; OHEM.

    Args:
        fraction: share of the negative pairs, and of the positive ones.
        positive_fraction: another share of the positive pairs.
    """

    def __init__(self, fraction: float, *, positive_fraction: float | None = None) -> None:
        self.fraction = check_number(fraction, "fraction", above=0.0, maximum=1.0)
        self.positive_fraction = (
            self.fraction
            if positive_fraction is None
            else check_number(positive_fraction, "positive_fraction", above=0.0, maximum=1.0)
        )

    def prepare(self, pairing: Pairing) -> Select:
        """Find the two thresholds."""
        whole = pairing.joint()
        highest = -_threshold(whole, self.positive_fraction, positive=True)
        lowest = _threshold(whole, self.fraction, positive=False)

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            s = panel.similarity
            return panel.positive & (s <= highest), panel.negative & (s >= lowest)

        return select


def _threshold(pairing: Pairing, fraction: float, *, positive: bool) -> float | Tensor:
    """The hardness of the ⌈fraction·count⌉-th hardest pair on one side."""

    def hardness() -> Iterator[tuple[Tensor, Tensor]]:
        for panel in iterate_panels(pairing):
            yield (-panel.similarity, panel.positive) if positive else (panel.similarity, panel.negative)

    bound = pairing.queries.norm(dim=1).max() * pairing.database.norm(dim=1).max() * (1 + 1e-5) + 1e-12
    return threshold(hardness, bound, fraction)


def threshold(
    parts: Callable[[], Iterator[tuple[Tensor, Tensor]]], limit: Tensor, fraction: float
) -> float | Tensor:
    """The ⌈fraction·count⌉-th largest of the chosen values in ±limit; they come in parts, twice the same. None: ∞.

    Where values cannot be read they are sorted, all at once.
    """
    # The same pair may differ in its last digits when the batch is cut in another way.
    slack = 16 * torch.finfo(limit.dtype).eps * limit
    if not readable(limit):
        taken = [(part.reshape(-1), chosen.reshape(-1)) for part, chosen in parts()]
        value, chosen = (torch.cat(side) for side in zip(*taken, strict=True))
        place = (chosen.sum().double() * fraction - 1e-9).ceil().clamp(min=1).long() - 1
        return value.masked_fill(~chosen, -math.inf).sort(descending=True)[0].gather(0, place[None])[0] - slack
    bound = float(limit)

    def values() -> Iterator[Tensor]:
        for part, chosen in parts():
            yield part[chosen]

    def bucket(part: Tensor) -> Tensor:
        return ((part + bound) * (_BUCKETS / (2 * bound))).to(torch.int64).clamp_(0, _BUCKETS - 1)

    histogram = torch.zeros(_BUCKETS, dtype=torch.int64)
    for part in values():
        histogram += torch.bincount(bucket(part), minlength=_BUCKETS).cpu()
    total = int(histogram.sum())
    if total == 0:
        return math.inf
    wanted = max(1, math.ceil(fraction * total - 1e-9))
    at_least = histogram.flip(0).cumsum(0).flip(0)
    last = int((at_least >= wanted).nonzero()[-1])
    before = int(at_least[last + 1]) if last + 1 < _BUCKETS else 0
    inside = [part[bucket(part) == last] for part in values()]
    return float(torch.cat(inside).sort(descending=True)[0][wanted - before - 1]) - float(slack)


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

        def errors() -> Iterator[tuple[Tensor, Tensor]]:
            for panel in iterate_panels(whole):
                yield error(panel, whole), panel.positive | panel.negative

        bound = 2 + 2 * whole.queries.norm(dim=1).max() * whole.database.norm(dim=1).max()
        lowest = threshold(errors, bound + whole.relation.farthest, self.fraction)

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            kept = error(panel, pairing) >= lowest
            return panel.positive & kept, panel.negative & kept

        return select


def error(panel: Panel, pairing: Pairing) -> Tensor:
    """|D² − g| of a panel."""
    relation, s = pairing.relation, panel.similarity
    apart = 1 - relation.degrees(panel.anchors)[0].to(device=s.device, dtype=s.dtype)
    return torch.abs(2 - 2 * s - relation.farthest * apart)
