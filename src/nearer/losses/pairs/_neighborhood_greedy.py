"""The one-pass greedy inference of the reference work: cheap to state, and not exact from three classes on.

Take the smallest number of the target's nearest items that can win at all, then add again and again the nearest
item whose class is the target's or may still have one more vote. A fourth item of the target would sometimes allow
two much nearer items of another class, and the greedy pass never looks there. Use the exact inference; this one is
kept to compare with what was published.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer.exceptions import ParameterError
from nearer.losses.pairs._neighborhood_inference import Nearest, NeighborSets, worst_class

__all__ = ["choose_sets_greedily", "greedy_set"]


def greedy_set(near: Nearest, target: Tensor, slack: int) -> tuple[Tensor, Tensor]:
    """Σ distances (q,) and items (q, k) of the greedy set in which `target` (q,) wins by `slack` votes, 0 or 1.

    Starts with `⌈(k + τ(R − 1))/R⌉` items of the target, R the classes that have an item. ∞ if it gets stuck.

    >>> inf = math.inf
    >>> values = torch.tensor([[[0, 0, 12, inf, inf], [0, 0, inf, inf, inf], [11] + 4 * [inf], [11] + 4 * [inf]]])
    >>> greedy_set(Nearest(values, torch.arange(20).view(1, 4, 5)), torch.tensor([0]), 1)[0].tolist()
    [22.0]

    (The best set costs 12.) Reference: Trivedi, McAllester, Shakhnarovich 2014, algorithm 2.
    """
    values, items = near
    q, c, k = values.shape
    rows = torch.arange(q, device=values.device)
    classes = values[:, :, 0].isfinite().sum(dim=1).clamp(min=1)
    start = torch.div(k + slack * (classes - 1) + classes - 1, classes, rounding_mode="floor").clamp(max=k)
    counts = torch.zeros((q, c), dtype=torch.int64, device=values.device)
    counts[rows, target] = start
    following = torch.cat([values, values.new_full((q, c, 1), math.inf)], dim=2)
    for _ in range(k - int(start.min()) if q else 0):
        may = counts < (counts[rows, target] - slack)[:, None]
        may[rows, target] = True
        ahead = following.gather(2, counts[:, :, None])[:, :, 0].masked_fill(~may, math.inf)
        nearest, owner = ahead.min(dim=1)
        counts[rows, owner] += ((counts.sum(dim=1) < k) & nearest.isfinite()).long()
    taken = torch.arange(k, device=values.device) < counts[:, :, None]
    cost = torch.where(taken, values, 0.0).sum(dim=(1, 2)).masked_fill(counts.sum(dim=1) < k, math.inf)
    place = torch.where(taken, 0, 1).flatten(1).topk(k, largest=False).indices
    return cost, items.flatten(1).gather(1, place)


def choose_sets_greedily(near: Nearest, penalties: Tensor) -> NeighborSets:
    """Both inferences as `choose_sets` does them, by the greedy pass; only the own class may have penalty 0.

    >>> near = Nearest(torch.tensor([[[2.0], [1.5]]]), torch.tensor([[[0], [1]]]))
    >>> choose_sets_greedily(near, torch.tensor([[0.0, 1.0]])).augmented.tolist()
    [[1]]
    """
    free = penalties == 0
    if bool((free.sum(dim=1) != 1).any()):
        raise ParameterError(
            "`task_loss` must be above 0 off the diagonal for inference='greedy', got a zero there. "
            "Use inference='exact'."
        )
    cost, targeted = greedy_set(near, free.long().argmax(dim=1), 1)
    feasible = cost.isfinite()
    found = [greedy_set(near, torch.full_like(cost, r, dtype=torch.int64), 0) for r in range(penalties.shape[1])]
    costs = torch.stack([one for one, _ in found], dim=1)
    winner = worst_class(costs, penalties)
    sets = torch.stack([items for _, items in found], dim=1)
    augmented = sets[torch.arange(len(winner), device=winner.device), winner]
    return NeighborSets(targeted, augmented, penalties.gather(1, winner[:, None])[:, 0], feasible)
