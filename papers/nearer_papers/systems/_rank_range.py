"""Smart mining: negatives by their rank among all training items, and the hardness that keeps the loss alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer._validation import as_labels, as_matrix, as_tensor
from nearer.exceptions import ParameterError, ShapeError
from nearer.pairwise._rule import inner_settings
from nearer_papers.systems._rebuilt import Rebuilt

__all__ = ["HardnessController", "RankRange", "Search", "mine_rank_range"]

# Queries (q, d) and k to the row numbers of the k nearest items, nearest first: (q, k), −1 for nothing found.
Search = Callable[[Tensor, int], Any]

# Entries of the lists that are held at once.
_LISTS = 1 << 22


def mine_rank_range(
    search: Search, embeddings: Any, labels: Any, anchors: Any = None, *, low: int = 0, high: int = 16
) -> Tensor:
    """The negatives of every anchor with ranks low ≤ r < high among its nearest negatives: (a, high − low).

    Rank 0 is the nearest item of another class. `search` looks among all `embeddings` (n, d), in any index;
    `anchors` are row numbers, all by default. Items without a label (−1) are nobody's negatives and have none.
    Where there are not enough negatives (or the index does not find them) the row ends with −1.

    >>> line = torch.tensor([[0.0], [1.0], [2.0], [4.0]])
    >>> nearest = lambda queries, k: torch.cdist(queries, line).argsort(1)[:, :k]
    >>> mine_rank_range(nearest, line, [0, 0, 1, 1], low=0, high=2).tolist()
    [[2, 3], [2, 3], [1, 0], [1, 0]]

    Reference: Harwood et al. 2017.
    """
    x = as_matrix(embeddings, "embeddings").detach()
    y = as_labels(labels, "labels", n=len(x)).to(x.device)
    check_int(low, "low", minimum=0)
    check_int(high, "high", minimum=low + 1)
    rows = torch.arange(len(x), device=x.device) if anchors is None else as_labels(anchors, "anchors").to(x.device)
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= len(x)):
        raise ShapeError(f"`anchors` must be row numbers between 0 and {len(x) - 1}.")
    found = torch.full((len(rows), high - low), -1, device=x.device)
    left = (y[rows] >= 0).nonzero()[:, 0]
    k = min(len(x), 2 * high + 16)
    while len(left):
        short = []
        for part in torch.split(left, max(1, _LISTS // k)):
            near = as_tensor(search(x[rows[part]], k), "search").to(x.device, torch.int64)
            if near.ndim != 2 or len(near) != len(part):
                raise ShapeError(f"`search` must return row numbers ({len(part)}, k), got {tuple(near.shape)}.")
            there = near >= 0
            of = torch.where(there, y[near.clamp(min=0)], -1)
            other = there & (of >= 0) & (of != y[rows[part]][:, None])
            rank = other.cumsum(1) - 1
            i, j = (other & (rank >= low) & (rank < high)).nonzero(as_tuple=True)
            found[part[i], rank[i, j] - low] = near[i, j]
            short.append(part[other.sum(1) < high])
        if k == len(x):
            break
        left, k = torch.cat(short), min(len(x), 4 * k)
    return found


class HardnessController(nn.Module):
    """How hard negatives must be for the loss to say something: a level that rises when the loss has become small.

    A running mean of the loss below `target` raises the level by one, above `ease_above` (if given) it lowers it.
    At level h the ranks of a `RankRange` are divided by 2^h. Nothing happens before the mean has seen
    1/(1 − `momentum`) losses, and after a change nothing until it has taken effect (`applied`, which the update of
    a `RankRange` calls). Level and mean are in the state.

    >>> controller = HardnessController(target=0.1, momentum=0.5)
    >>> [controller.observe(loss) for loss in (0.5, 0.05, 0.05, 0.05, 0.05)]
    [0, 0, 0, 0, 1]

    Args:
        target: mean loss below which the level rises.
        ease_above: mean loss above which it falls; never if None.
        momentum: of the running mean.
    """

    extra_repr = inner_settings

    level: Tensor
    mean: Tensor
    seen: Tensor
    waiting: Tensor

    def __init__(self, *, target: float, ease_above: float | None = None, momentum: float = 0.9) -> None:
        super().__init__()
        self.target = check_number(target, "target", above=0.0)
        self.ease_above = None if ease_above is None else check_number(ease_above, "ease_above", above=target)
        self.momentum = check_number(momentum, "momentum", minimum=0.0)
        if self.momentum >= 1:
            raise ParameterError(f"`momentum` must be less than 1, got {momentum}.")
        self.register_buffer("level", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("waiting", torch.zeros((), dtype=torch.bool))

    def observe(self, loss: float) -> int:
        """Take the loss of a step into the mean; the level that follows from it."""
        value = check_number(loss, "loss")
        if bool(self.waiting):
            return int(self.level)
        first = int(self.seen) == 0
        self.mean.fill_(value if first else self.momentum * float(self.mean) + (1 - self.momentum) * value)
        self.seen += 1
        # 1/(1 − 0.9) is a little more than 10 in floating point.
        if int(self.seen) * (1 - self.momentum) >= 1 - 1e-9:
            mean = float(self.mean)
            move = 1 if mean < self.target else -1 if self.ease_above is not None and mean > self.ease_above else 0
            if move and int(self.level) + move >= 0:
                self.level += move
                self.waiting.fill_(True)
        return int(self.level)

    def applied(self) -> None:
        """The level is in use now: start a new mean."""
        self.waiting.fill_(False)
        self.seen.zero_()

    def ranks(self, low: int, high: int) -> tuple[int, int]:
        """The range of ranks at the present level; never empty.

        >>> controller = HardnessController(target=0.1)
        >>> controller.level.fill_(2) and controller.ranks(16, 64)
        (4, 16)
        """
        level = int(self.level)
        start = low >> level
        return start, max(start + 1, high >> level)


class RankRange(Rebuilt):
    """For every training item its negatives of a range of ranks, from an index that is built anew every epoch.

    `build` makes a search from embeddings (n, d): any index will do. `update` fills `table` (n, width) with row
    numbers, −1 where there is none; with a `controller` the range follows its level at that time. Table and level
    are in the state: put the miner into the trained module, `step.module["mining"] = miner`.

    Usage: `RankRange(build, low=16, high=64, controller=HardnessController(target=0.1))`, then
    `RankRangeSampler(labels, miner, anchors=32)`.

    >>> def build(embeddings):
    ...     return lambda queries, k: torch.cdist(queries, embeddings).argsort(1)[:, :k]
    >>> miner = RankRange(build, low=0, high=1)
    >>> miner.update([[0.0], [1.0], [2.0], [4.0]], [0, 0, 1, 1])
    >>> miner.table[:, 0].tolist()
    [2, 2, 1, 1]

    Reference: Harwood et al. 2017.

    Args:
        build: makes a search from embeddings.
        low: first rank.
        high: rank after the last.
        controller: moves the range; it stays if None.
    """

    extra_repr = inner_settings

    table: Tensor

    def __init__(
        self,
        build: Callable[[Tensor], Search],
        *,
        low: int = 0,
        high: int = 16,
        controller: HardnessController | None = None,
    ) -> None:
        super().__init__()
        if not callable(build):
            raise ParameterError(f"`build` must be a function from embeddings to a search, got {build!r}.")
        self.build = build
        self.low = check_int(low, "low", minimum=0)
        self.high = check_int(high, "high", minimum=low + 1)
        self.controller = controller
        self.register_buffer("table", torch.zeros((0, 0), dtype=torch.int64))

    @property
    def ready(self) -> bool:
        """Whether there was an update."""
        return len(self.table) > 0

    @property
    def ranks(self) -> tuple[int, int]:
        """The range that the next update takes."""
        return (self.low, self.high) if self.controller is None else self.controller.ranks(self.low, self.high)

    @torch.no_grad()
    def update(self, embeddings: Any, labels: Any) -> None:
        """Build the index of embeddings (n, d) and look up the negatives of all of them, labels (n,)."""
        x = as_matrix(embeddings, "embeddings").detach()
        low, high = self.ranks
        search = self.build(x)
        if not callable(search):
            raise ParameterError(f"`build` must return a function of rows and k, got a {type(search).__name__}.")
        self.table = mine_rank_range(search, x, labels, low=low, high=high)
        if self.controller is not None:
            self.controller.applied()

    def negatives(self, anchors: Tensor, count: int, random: np.random.Generator) -> Tensor:
        """`count` negatives of each anchor, drawn without replacement: (a, count), −1 where it has fewer."""
        if not self.ready:
            raise ParameterError("The table of negatives must be filled first: call update(embeddings, labels).")
        near = self.table[anchors.to(self.table.device)]
        lots = torch.from_numpy(random.random(near.shape)).to(near.device).masked_fill_(near < 0, 2.0)
        order = lots.argsort(1)[:, :count]
        drawn = near.gather(1, order)
        return torch.nn.functional.pad(drawn, (0, count - drawn.shape[1]), value=-1)
