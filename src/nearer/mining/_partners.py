"""Partners for anchors: the more alike two items are, the likelier they meet."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.relations import Relation


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
