"""Learn the maps of a k-NN vote: mini-batches of queries, exact inference on per-class candidate lists, Adam.

Only the k nearest members of each class can be in an optimal set, so every query carries a list of the nearest few
of each class (of the nearest classes, where there are many), renewed every few epochs: memory is O(n · classes · k)
and no n×n matrix is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from nearer.losses._shared import (
    Inference,
    Nearest,
    NeighborSets,
    RegularizerName,
    asymmetric_regularizer,
    choose_sets,
    choose_sets_greedily,
    nearest_by_class,
    set_weights,
    sum_weighted_squares,
)

# Entries of a tile of distances: 16 MB in single precision.
_TILE = 1 << 22
# Classes that a list keeps: the own one and the nearest others.
_CLASSES = 16
_BATCH = 256
# Fewer steps than this are no epoch.
_STEPS = 8
RENEW = 4


class BothSides(NamedTuple):
    """Items seen from both sides, (n, p) and (n, p'), with class codes (n,), sorted by class."""

    queries: Tensor
    database: Tensor
    codes: Tensor


class VotePlan(NamedTuple):
    """What is trained and for how long."""

    k: int
    epochs: int
    rate: float
    regularization: float
    regularizer: RegularizerName = "squared_w"
    task_loss: Tensor | None = None
    """What it costs to vote for the class of the column, (c, c); None for 1 where it is wrong."""
    inference: Inference = "exact"

    def penalties(self, codes: Tensor, classes: Tensor) -> Tensor:
        """The cost of classes (q, c) for queries of classes `codes` (q,)."""
        if self.task_loss is None:
            return (classes != codes[:, None]).float()
        return self.task_loss[codes[:, None], classes]

    def choose(self, near: Nearest, penalties: Tensor) -> NeighborSets:
        """Both sets of every query, exactly or by the greedy pass."""
        return (choose_sets if self.inference == "exact" else choose_sets_greedily)(near, penalties)


class CandidateLists(NamedTuple):
    """For each query the nearest members (n, c, m) of c classes (n, c), −1 where there are fewer."""

    items: Tensor
    classes: Tensor


def find_candidates(left: Tensor, right: Tensor, codes: Tensor, k: int) -> CandidateLists:
    """Lists for mapped queries (n, d) against the mapped database (n, d) of the same items, sorted by class.

    >>> line = torch.tensor([[0.0], [1.0], [5.0]])
    >>> find_candidates(line, line, torch.tensor([0, 0, 1]), 1).items[:, :, 0].tolist()
    [[1, 2], [0, 2], [-1, 1]]
    """
    n, n_classes = len(codes), int(codes[-1]) + 1
    kept = min(n_classes, _CLASSES)
    depth = min(max(2 * k, k + 5), n)
    items = torch.empty((n, kept, depth), dtype=torch.int32)
    classes = torch.empty((n, kept), dtype=torch.int64)
    squares = right.square().sum(dim=1)
    step = max(1, _TILE // max(n, 4 * n_classes * depth))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        tile = torch.addmm(squares, left[part], right.T, alpha=-2.0)
        own = torch.arange(part.start, part.stop)
        tile[own - start, own] = torch.inf
        near = nearest_by_class(tile, codes, n_classes, depth)
        first = near.values[:, :, 0].clone()
        first[own - start, codes[part]] = -torch.inf
        chosen = first.topk(kept, largest=False).indices
        items[part] = near.items.gather(1, chosen[:, :, None].expand(-1, -1, depth)).to(torch.int32)
        classes[part] = chosen
    return CandidateLists(items, classes)


def batches(n: int, generator: torch.Generator) -> list[Tensor]:
    """All rows in random order, in parts of about 256, or an eighth where that is fewer; few rows several times.

    >>> [len(part) for part in batches(1000, torch.Generator())][:3], len(batches(5, torch.Generator()))
    ([125, 125, 125], 8)
    """
    size = min(_BATCH, max(16, n // 8))
    parts = -(-n // size)
    return [
        part
        for _ in range(-(-_STEPS // parts))
        for part in torch.tensor_split(torch.randperm(n, generator=generator), parts)
    ]


class WeightedPairs(NamedTuple):
    """The pairs of a batch that have weight ±1: row of the batch, item, weight, and the task loss of each row."""

    rows: Tensor
    items: Tensor
    weights: Tensor
    task_loss: Tensor


@torch.no_grad()
def choose_pairs(
    left: Tensor, V: Tensor, rows: BothSides, candidates: CandidateLists, batch: Tensor, schedule: VotePlan
) -> WeightedPairs:
    """Both inferences for a batch of mapped queries (b, d) on their lists, the database mapped by V (p', d)."""
    k = schedule.k
    lists = candidates.items[batch].long()
    used, position = torch.unique(lists, return_inverse=True)
    # −1 stands for nothing; it is kept so that places need no shift.
    right = rows.database[used.clamp(min=0)] @ V
    distances = torch.addmm(right.square().sum(dim=1), left, right.T, alpha=-2.0)
    values = distances.gather(1, position.flatten(1)).view(position.shape).masked_fill(lists < 0, math.inf)
    values, order = values.topk(min(k, values.shape[2]), dim=2, largest=False)
    missing = k - values.shape[2]
    near = Nearest(
        torch.nn.functional.pad(values, (0, missing), value=math.inf),
        torch.nn.functional.pad(lists.gather(2, order), (0, missing), value=-1),
    )
    penalties = schedule.penalties(rows.codes[batch], candidates.classes[batch]).to(values.dtype)
    sets = schedule.choose(near, penalties)
    i, j, weights = set_weights(sets)
    return WeightedPairs(i, j, weights.to(left.dtype), torch.where(sets.feasible, sets.task_loss, 0.0))


def batch_loss(
    U: Tensor, V: Tensor, rows: BothSides, candidates: CandidateLists, batch: Tensor, schedule: VotePlan
) -> Tensor:
    """The mean neighbourhood loss of some queries, on the graph of U (p, d) and V (p', d)."""
    left = rows.queries[batch] @ U
    pairs = choose_pairs(left.detach(), V.detach(), rows, candidates, batch, schedule)
    items, position = torch.unique(pairs.items, return_inverse=True)
    sums = sum_weighted_squares(left, rows.database[items] @ V, pairs.rows, position, pairs.weights)
    return (sums + pairs.task_loss).clamp(min=0).mean()


def held_out_loss(
    U: Tensor, V: Tensor, queries: BothSides, database: BothSides, schedule: VotePlan
) -> tuple[float, float]:
    """Error of the k-NN vote (ties count as wrong) and mean loss of held-out queries against the database."""
    k, n_classes = schedule.k, int(max(database.codes.max(), queries.codes.max())) + 1
    left, right = queries.queries @ U, database.database @ V
    squares = right.square().sum(dim=1)
    step = max(1, _TILE // max(len(right), 4 * n_classes * k))
    wrong, total = 0, 0.0
    for start in range(0, len(left), step):
        codes = queries.codes[start : start + step]
        tile = torch.addmm(squares, left[start : start + step], right.T, alpha=-2.0)
        near = nearest_by_class(tile, database.codes, n_classes, k)
        all_classes = torch.arange(n_classes).expand(len(codes), -1)
        sets = schedule.choose(near, schedule.penalties(codes, all_classes).to(tile.dtype))
        i, j, weights = set_weights(sets)
        sums = sum_weighted_squares(left[start : start + step], right, i, j, weights.to(tile.dtype))
        total += float((sums + torch.where(sets.feasible, sets.task_loss, 0.0)).clamp(min=0).sum())
        votes = torch.nn.functional.one_hot(database.codes[tile.topk(k, largest=False).indices], n_classes).sum(1)
        mine = votes.gather(1, codes[:, None])
        wrong += int(((votes >= mine).sum(dim=1) > 1).sum())
    return wrong / len(left), total / len(left)


class _Adam:
    """Adam with its usual constants; torch's own loads a compiler first, which takes longer than a small fit."""

    def __init__(self, maps: list[Tensor]) -> None:
        self.maps = maps
        self.means = [torch.zeros_like(factor) for factor in maps]
        self.squares = [torch.zeros_like(factor) for factor in maps]
        self.t = 0

    @torch.no_grad()
    def step(self, slopes: list[Tensor], rate: float) -> None:
        self.t += 1
        for factor, slope, mean, square in zip(self.maps, slopes, self.means, self.squares, strict=True):
            mean.lerp_(slope, 0.1)
            square.mul_(0.999).addcmul_(slope, slope, value=0.001)
            size = (square / (1 - 0.999**self.t)).sqrt_().add_(1e-8)
            factor.addcdiv_(mean, size, value=-rate / (1 - 0.9**self.t))


def learn_maps(
    U: Tensor, V: Tensor | None, rows: BothSides, schedule: VotePlan, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, float]]:
    """Descend from U and V (None: one map for both sides); gives the maps and the mean loss after every epoch."""
    maps = [U.clone().requires_grad_()] if V is None else [U.clone().requires_grad_(), V.clone().requires_grad_()]
    U, V = maps[0], maps[-1]
    n = len(rows.codes)
    scale = float(U.detach().square().sum() / U.shape[1]) ** 0.5
    # In units of the start, so that one setting means the same on every data set.
    first = float(asymmetric_regularizer(U.detach(), V.detach(), norm=schedule.regularizer))
    strength = schedule.regularization / first if first > 0 else 0.0
    optimizer = _Adam(maps)
    candidates: CandidateLists | None = None
    for epoch in range(schedule.epochs):
        rate = schedule.rate * scale * (1 + math.cos(math.pi * epoch / schedule.epochs)) / 2
        if candidates is None or epoch % RENEW == 0:
            with torch.no_grad():
                candidates = find_candidates(rows.queries @ U, rows.database @ V, rows.codes, schedule.k)
        total, count = 0.0, 0
        for batch in batches(n, generator):
            loss = batch_loss(U, V, rows, candidates, batch, schedule)
            total, count = total + float(loss.detach()) * len(batch), count + len(batch)
            if strength:
                loss = loss + strength * asymmetric_regularizer(U, V, norm=schedule.regularizer)
            optimizer.step(list(torch.autograd.grad(loss, maps)), rate)
        yield U.detach().clone(), V.detach().clone(), total / count
