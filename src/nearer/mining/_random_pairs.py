"""Random mining: some positives and some negatives of each anchor, drawn uniformly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.pairwise import Miner, Panel
from nearer.pairwise._shared import Pairing, Select, fresh_seed, uniform
from nearer.relations import Relation


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


def draw_partners(
    relation: Relation,
    anchors: Tensor,
    *,
    count: int = 1,
    sharpness: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """For each anchor `count` partners j ≠ i with probability ∝ (g_ij + 1e-6)^{−sharpness}: (a,) -> (a, count).

    Anchors and partners are item numbers; g is `farthest·(1 − degree)` of a relation among the items themselves.
    Pairs that are not known are never drawn. Sharpness 0 draws uniformly. An anchor without any known partner meets
    itself. Without replacement where there are enough partners.

    >>> from nearer.relations import ClassLabels
    >>> draw_partners(ClassLabels([0, 1, 0, 1]), torch.tensor([0, 3]), sharpness=2.0).tolist()
    [[2], [1]]

    Reference: the sampler for soft labels that the authors of HRAML released, with its positions mapped back to
    items (as released, partners did not depend on g).

    Args:
        relation: among the items themselves.
        anchors: item numbers (a,).
        count: how many partners each anchor gets.
        sharpness: 0 draws uniformly, more prefers the near.
        generator: where random numbers come from; torch's own if None.
    """
    check_int(count, "count")
    power = check_number(sharpness, "sharpness", minimum=0.0)
    degree, known = relation.degrees(anchors)
    logits = -power * (relation.farthest * (1 - degree.double()) + 1e-6).log()
    own = torch.arange(len(anchors), device=anchors.device)
    known = known.clone()
    known[own, anchors] = False
    some = known.any(1)
    # Gumbel noise: the largest of logit + noise is a draw without replacement by these probabilities.
    lots = torch.rand(logits.shape, generator=generator, dtype=torch.float64).to(logits.device).clamp_(min=1e-300)
    noisy = (logits - (-lots.log()).log()).masked_fill(~known, -torch.inf)
    take = min(count, noisy.shape[1])
    values, chosen = noisy.topk(take, dim=1)
    # Too few known partners: the nearest of them again.
    chosen = torch.where(torch.isfinite(values), chosen, chosen[:, :1])
    chosen = torch.where(some[:, None], chosen, anchors[:, None])
    return chosen if take == count else chosen[:, torch.arange(count, device=chosen.device) % take]
