"""Which k neighbours would classify a query rightly at the least cost, and which would cost the loss most: exactly.

A set h of k database items votes by counts; the classes with most votes are its plurality. Only the k nearest items
of each class can ever be in an optimal set, so everything here starts from those, (q, c, k). For a class r with n
votes, every other class may have at most n votes (where a tie is allowed) or n − 1 (where it is not), and the
nearest items under these caps are optimal, because the caps are a partition matroid. Trying every n is exact.

The one-pass greedy inference of the reference work: cheap to state, and not exact from three classes on.

Take the smallest number of the target's nearest items that can win at all, then add again and again the nearest
item whose class is the target's or may still have one more vote. A fourth item of the target would sometimes allow
two much nearer items of another class, and the greedy pass never looks there. Use the exact inference; this one is
kept to compare with what was published.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nearer.exceptions import ParameterError


class Nearest(NamedTuple):
    """The k nearest items of each class, nearest first: distances and positions, (q, c, k); ∞ and −1 for none."""

    values: Tensor
    items: Tensor


class NeighborSets(NamedTuple):
    """The two sets of every query, and what the second one costs.

    `targeted` (q, k) is the nearest set without task loss, `augmented` (q, k) maximises task loss minus
    distance, `task_loss` (q,) is that of the second. Where `feasible` (q,) is False no set of k items is without
    task loss, and the sets mean nothing.
    """

    targeted: Tensor
    augmented: Tensor
    task_loss: Tensor
    feasible: Tensor


def nearest_by_class(distances: Tensor, codes: Tensor, n_classes: int, k: int) -> Nearest:
    """The k nearest items of each class for distances (q, n) and class codes 0..c−1 (n,); ∞ is not an item.

    Fastest when `codes` are sorted: the classes are then slices of the matrix.

    >>> near = nearest_by_class(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0, 0, 1]), 2, 2)
    >>> near.values.tolist(), near.items.tolist()
    ([[[1.0, 3.0], [2.0, inf]]], [[[1, 0], [2, -1]]])
    """
    order = None
    if len(codes) > 1 and bool((codes[1:] < codes[:-1]).any()):
        codes, order = codes.sort(stable=True)
        distances = distances[:, order]
    bounds = torch.searchsorted(codes.contiguous(), torch.arange(n_classes + 1, device=codes.device)).tolist()
    q = len(distances)
    values = distances.new_full((q, n_classes, k), math.inf)
    items = torch.full((q, n_classes, k), -1, dtype=torch.int64, device=distances.device)
    for c in range(n_classes):
        first, last = bounds[c], bounds[c + 1]
        take = min(k, last - first)
        if take:
            nearest = torch.topk(distances[:, first:last], take, largest=False)
            values[:, c, :take] = nearest.values
            items[:, c, :take] = nearest.indices + first
    if order is not None:
        items = torch.where(items >= 0, order[items.clamp(min=0)], -1)
    return Nearest(values, torch.where(values.isinf(), -1, items))


def plurality_costs(values: Tensor, ties: Tensor) -> tuple[Tensor, Tensor]:
    """The least Σ distances of k items in which class r has most votes, for every r (q, c), and its votes (q, c).

    `values` (q, c, k) are the nearest distances of each class. `ties` (q, c) says which classes may have as many
    votes as r; all of them for "r may tie" (τ = 0), none for "r wins strictly" (τ = 1). ∞ where there is no such
    set. O(c·k² + k³) per query.

    >>> values = torch.tensor([[[1.0, 5.0, 6.0], [2.0, 3.0, 9.0]]])
    >>> plurality_costs(values, torch.zeros(1, 2, dtype=torch.bool))[0].tolist()
    [[8.0, 6.0]]
    """
    q, c, k = values.shape
    prefix = values.cumsum(dim=2)
    best = torch.full_like(prefix[:, :, 0], math.inf)
    votes = torch.zeros((q, c), dtype=torch.int64, device=values.device)
    # With fewer votes than k/c the class cannot be the first of c classes.
    for n in range(-(-k // max(c, 1)), k + 1):
        cost = prefix[:, :, n - 1]
        if n < k:
            cost = cost + _cheapest_others(values, ties, n)
        better = cost < best
        best = torch.where(better, cost, best)
        votes.masked_fill_(better, n)
    return best, votes


def _cheapest_others(values: Tensor, ties: Tensor, n: int) -> Tensor:
    """Σ of the k − n smallest allowed distances outside class r, for every r (q, c); ∞ if there are fewer."""
    q, c, k = values.shape
    need = k - n
    capped = values[:, :, :n].clone()
    capped[:, :, n - 1].masked_fill_(~ties, math.inf)
    width = min(k, c * n)
    if width < need:
        return values.new_full((q, c), math.inf)
    # At most n of the first k belong to r, so k − n others are always among them.
    smallest, position = capped.flatten(1).topk(width, largest=False)
    owner = torch.div(position, n, rounding_mode="floor")
    total = smallest[:, :need].sum(dim=1)[:, None].repeat(1, c)
    # Only classes that own one of the first k − n items have to look further.
    owners = owner[:, :need]
    others = owners[:, :, None] != owner[:, None, :]
    rank = others.cumsum(dim=2)
    used = torch.where(others & (rank <= need), smallest[:, None, :], 0.0).sum(dim=2)
    used.masked_fill_(rank[:, :, -1] < need, math.inf)
    return total.scatter_(1, owners, used)


def neighbor_set(near: Nearest, winner: Tensor, votes: Tensor, ties: Tensor) -> Tensor:
    """The items (q, k) of the cheapest set in which `winner` (q,) has `votes` (q,); `ties` (q, c) caps the others.

    >>> near = Nearest(torch.tensor([[[1.0, 5.0], [2.0, 3.0]]]), torch.tensor([[[7, 8], [4, 5]]]))
    >>> ties = torch.ones(1, 2, dtype=torch.bool)
    >>> sorted(neighbor_set(near, torch.tensor([0]), torch.tensor([1]), ties)[0].tolist())
    [4, 7]
    """
    q, _, k = near.values.shape
    rank = torch.arange(k, device=votes.device)
    cap = votes[:, None] - (~ties).long()
    score = near.values.masked_fill(rank >= cap[:, :, None], math.inf)
    # The votes of the winner come first, whatever their distance, and no more of them.
    own = torch.where(rank < votes[:, None], -math.inf, math.inf).to(score.dtype)
    score[torch.arange(q, device=votes.device), winner] = own
    position = score.flatten(1).topk(k, largest=False).indices
    return near.items.flatten(1).gather(1, position)


def choose_sets(near: Nearest, penalties: Tensor) -> NeighborSets:
    """Targeted and loss-augmented inference for queries whose task loss is `penalties` (q, c) if class r wins.

    `penalties` is row y of Λ: 0 for the own class, which must be at least one. The task loss of a set is the
    largest over its plurality. Targeted: the cheapest set whose whole plurality has penalty 0. Augmented: the set
    with the largest task loss − Σ distances; equal values go to the larger task loss, then to the smaller class.

    >>> near = Nearest(torch.tensor([[[2.0], [1.5]]]), torch.tensor([[[0], [1]]]))
    >>> sets = choose_sets(near, torch.tensor([[0.0, 1.0]]))
    >>> sets.targeted.tolist(), sets.augmented.tolist(), sets.task_loss.tolist()
    ([[0]], [[1]], [1.0])
    """
    free = penalties == 0
    cost, votes = plurality_costs(near.values, free)
    cost = cost.masked_fill(~free, math.inf)
    least, winner = cost.min(dim=1)
    targeted = neighbor_set(near, winner, _at(votes, winner), free)
    feasible = least.isfinite()
    every = torch.ones_like(free)
    cost, votes = plurality_costs(near.values, every)
    winner = worst_class(cost, penalties)
    augmented = neighbor_set(near, winner, _at(votes, winner), every)
    return NeighborSets(targeted, augmented, _at(penalties, winner), feasible)


def worst_class(cost: Tensor, penalties: Tensor) -> Tensor:
    """The class with the largest penalty − cost (q,); equal ones by larger penalty, then by smaller code."""
    value = penalties.to(cost.dtype) - cost
    first = value == value.amax(dim=1, keepdim=True)
    return penalties.masked_fill(~first, -math.inf).argmax(dim=1)


def _at(table: Tensor, column: Tensor) -> Tensor:
    return table.gather(1, column[:, None])[:, 0]


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
    position = torch.where(taken, 0, 1).flatten(1).topk(k, largest=False).indices
    return cost, items.flatten(1).gather(1, position)


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
    results = [greedy_set(near, torch.full_like(cost, r, dtype=torch.int64), 0) for r in range(penalties.shape[1])]
    costs = torch.stack([total for total, _ in results], dim=1)
    winner = worst_class(costs, penalties)
    sets = torch.stack([items for _, items in results], dim=1)
    augmented = sets[torch.arange(len(winner), device=winner.device), winner]
    return NeighborSets(targeted, augmented, penalties.gather(1, winner[:, None])[:, 0], feasible)
