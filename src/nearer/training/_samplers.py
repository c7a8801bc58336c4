"""Which items make a batch. A sampler is a pure function of the epoch: it has no state to lose.

`sampler.epoch(number)` gives the batches of an epoch as tensors of row numbers, the same ones each time it is
asked. That is all a resumed run needs, and all that many processes need: each computes the joint batch and takes
its own share. Items without a label (−1) are in no class, so samplers by class leave them out.

They iterate as well, one epoch after the other, so each is a `batch_sampler` of torch's DataLoader.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_labels
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.training._processes import share, world_size

RowNumbers = NDArray[np.int64]


class Sampler(Protocol):
    """The batches of any epoch."""

    def __len__(self) -> int:
        """How many batches an epoch has."""

    def epoch(self, number: int) -> Sequence[Tensor]:
        """The row numbers of every batch of one epoch."""


class BatchSampler(Sampler, ABC):
    """Iterating over `epoch`: every pass is the next epoch, as a `batch_sampler` of a DataLoader wants it.

    With `torch.distributed` running, a pass gives this process's share of each joint batch, so that the processes
    see different rows and together the batches of one process alone.
    """

    _next = 0

    def set_epoch(self, number: int) -> None:
        """Let the next pass be this epoch, as a resumed run needs; the ones after it count on from there."""
        self._next = check_int(number, "number", minimum=0)

    def __iter__(self) -> Iterator[list[int]]:
        # Counted when the first batch is taken: a DataLoader with workers makes iterators that it never starts.
        number, self._next = self._next, self._next + 1
        for rows in self.epoch(number):
            if len(rows) < world_size():
                # A process without rows would leave the others waiting.
                raise ParameterError(
                    f"A batch must have a row for each of the {world_size()} processes, got {len(rows)}. Leave out "
                    f"the smaller last batch (`drop_last=True`) or take a larger batch."
                )
            yield share(rows).tolist()


class UniformSampler(BatchSampler):
    """Every item once per epoch, in random order.

    The last batch may be smaller; with `drop_last` it is left out (a pair loss of two items says little).

    >>> sampler = UniformSampler(5, batch_size=2)
    >>> [len(rows) for rows in sampler.epoch(0)], sorted(torch.cat(list(sampler.epoch(0))).tolist())
    ([2, 2, 1], [0, 1, 2, 3, 4])

    Args:
        n: items.
        batch_size: items in a batch.
        drop_last: whether a smaller last batch is left out.
        seed: draws the order.
    """

    def __init__(self, n: int, *, batch_size: int, drop_last: bool = False, seed: int = 0) -> None:
        self.n = check_int(n, "n")
        self.batch_size = check_int(batch_size, "batch_size")
        self.drop_last = drop_last
        self.seed = check_int(seed, "seed", minimum=0)
        if drop_last and n < batch_size:
            raise ParameterError(
                f"`batch_size` must be at most the {n} items when the rest is dropped, got {batch_size}."
            )

    def __len__(self) -> int:
        return self.n // self.batch_size if self.drop_last else -(-self.n // self.batch_size)

    def epoch(self, number: int) -> Sequence[Tensor]:
        """All items in an order that this epoch alone has."""
        order = torch.from_numpy(epoch_random(self.seed, number).permutation(self.n))
        return torch.split(order, self.batch_size)[: len(self)]


class _ByClass(BatchSampler):
    """What samplers of so many classes with so many items each share."""

    batches: int

    def _set_classes(self, labels: Any, n_classes: int, per_class: int, seed: int) -> int:
        """Keep the settings; how many items have a label."""
        self.members = members_of(labels)
        self.classes = check_int(n_classes, "n_classes")
        self.per_class = check_int(per_class, "per_class")
        self.seed = check_int(seed, "seed", minimum=0)
        return sum(map(len, self.members))

    def __len__(self) -> int:
        return self.batches


class ClassSampler(_ByClass):
    """`n_classes` random classes with `per_class` items each, the batch that pair losses want.

    Classes take turns: none comes again before all others of its round have come. The items of a class take turns
    likewise; a class with fewer items than `per_class` repeats some. An epoch has as many batches as the labelled
    items fill, or `batches`. `DataLoader(data, batch_sampler=ClassSampler(labels, n_classes=10, per_class=4))`
    works.

    >>> labels = [0, 0, 0, 1, 1, 1, 2, 2, 2, -1]
    >>> sampler = ClassSampler(labels, n_classes=2, per_class=2)
    >>> len(sampler), [sorted({labels[row] for row in rows}) for rows in sampler.epoch(0)]
    (2, [[1, 2], [0, 2]])

    Args:
        labels: classes of the items, (n,); −1 is left out.
        n_classes: classes in a batch.
        per_class: items of each class in a batch.
        batches: batches in an epoch; None as many as the items need.
        seed: of everything that is drawn.
    """

    def __init__(
        self, labels: Any, *, n_classes: int, per_class: int, batches: int | None = None, seed: int = 0
    ) -> None:
        labeled = self._set_classes(labels, n_classes, per_class, seed)
        if n_classes > len(self.members):
            raise ParameterError(
                f"`n_classes` must be at most the {len(self.members)} classes there are, got {n_classes}."
            )
        self.batches = batch_count(batches, labeled, n_classes * per_class)

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of shape (classes · per_class,), the items of a class side by side."""
        random = epoch_random(self.seed, number)
        turns = take_turns(len(self.members), self.classes, self.batches, random)
        queues = [Queue(rows, random) for rows in self.members]
        return [
            torch.from_numpy(np.concatenate([queues[code].take(self.per_class) for code in chosen]))
            for chosen in turns
        ]


class HierarchicalSampler(_ByClass):
    """Batches from few groups of classes, so that the classes of a batch are hard to tell apart.

    `groups` names the group of every item (a super-class, an alphabet, a branch of a class tree). A batch takes
    `groups_per_batch` groups, `classes` classes from each and `per_class` items of each class; a group with fewer
    classes gives those it has.

    >>> labels, groups = [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 1, 1, 1]
    >>> sampler = HierarchicalSampler(labels, groups, groups_per_batch=1, n_classes=2, per_class=2)
    >>> [sorted({groups[row] for row in rows}) for rows in sampler.epoch(0)]
    [[0], [1]]

    Args:
        labels: classes of the rows, (n,).
        groups: the group of each item, (n,).
        groups_per_batch: groups in a batch.
        n_classes: classes in a batch.
        per_class: items of each class in a batch.
        batches: batches in an epoch; None as many as the items need.
        seed: of everything that is drawn.
    """

    def __init__(
        self,
        labels: Any,
        groups: Any,
        *,
        groups_per_batch: int,
        n_classes: int,
        per_class: int,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        array = as_labels(labels, "labels").cpu().numpy()
        above = as_labels(groups, "groups", n=len(array)).cpu().numpy()
        known = array >= 0
        if (above[known] < 0).any():
            raise LabelError("`groups` must name a group for every labelled item, got -1 for some.")
        names, first = np.unique(array[known], return_index=True)
        group_of = dict(zip(names.tolist(), above[known][first].tolist(), strict=True))
        for label, group in zip(array[known].tolist(), above[known].tolist(), strict=True):
            if group_of[label] != group:
                raise LabelError(
                    f"`groups` must hold each class whole, and class {label} is in {group} and {group_of[label]}."
                )
        labeled = self._set_classes(array, n_classes, per_class, seed)
        by_group: dict[int, list[int]] = {}
        for number, name in enumerate(names.tolist()):
            by_group.setdefault(group_of[name], []).append(number)
        self.groups = [by_group[group] for group in sorted(by_group)]
        self.groups_per_batch = check_int(groups_per_batch, "groups_per_batch")
        if groups_per_batch > len(self.groups):
            raise ParameterError(
                f"`groups_per_batch` must be at most the {len(self.groups)} groups, got {groups_per_batch}."
            )
        self.batches = batch_count(batches, labeled, groups_per_batch * n_classes * per_class)

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of up to groups_per_batch · classes · per_class rows, class by class."""
        random = epoch_random(self.seed, number)
        items = [Queue(rows, random) for rows in self.members]
        kinds = [Queue(np.array(places), random) for places in self.groups]
        batches = []
        for chosen in take_turns(len(self.groups), self.groups_per_batch, self.batches, random):
            places = [kinds[group].take(min(self.classes, len(self.groups[group]))) for group in chosen]
            rows = [items[position].take(self.per_class) for position in np.concatenate(places)]
            batches.append(torch.from_numpy(np.concatenate(rows)))
        return batches


class Queue:
    """Things that take turns: everything once in random order, then everything again in another order."""

    def __init__(self, things: RowNumbers, random: np.random.Generator) -> None:
        self.things, self.random = things, random
        self.waiting: RowNumbers = random.permutation(things)

    def take(self, count: int) -> RowNumbers:
        """The next ones; never the same thing twice unless there are fewer than `count`."""
        taken = self.waiting[:count]
        self.waiting = self.waiting[count:]
        while len(taken) < count:
            fresh = self.random.permutation(self.things)
            if count <= len(self.things):
                # Those just taken go to the end of their next round.
                fresh = np.concatenate([fresh[~np.isin(fresh, taken)], fresh[np.isin(fresh, taken)]])
            missing = count - len(taken)
            taken, self.waiting = np.concatenate([taken, fresh[:missing]]), fresh[missing:]
        return taken


def take_turns(n: int, count: int, batches: int, random: np.random.Generator) -> Iterator[RowNumbers]:
    """For each batch the `count` of n things whose turn it is."""
    queue = Queue(np.arange(n), random)
    for _ in range(batches):
        yield queue.take(count)


def batch_count(batches: int | None, items: int, size: int) -> int:
    """The asked number of batches, or as many as the items fill, one at least."""
    return check_int(batches, "batches") if batches else max(1, items // size)


def members_of(labels: Any) -> list[RowNumbers]:
    """The rows of every class in the order of the labels."""
    array = as_labels(labels, "labels").cpu().numpy()
    if not (array >= 0).any():
        raise LabelError("`labels` must name a class for some items, got only -1 or none.")
    if array.ndim != 1:
        raise ShapeError(f"`labels` must have shape (n,), got {array.shape}.")
    order = np.argsort(array, kind="stable")
    starts = np.unique(array[order], return_index=True)[1]
    groups = np.split(order, starts[1:])
    return [rows for rows in groups if array[rows[0]] >= 0]


def epoch_random(seed: int, epoch: int) -> np.random.Generator:
    """The generator that belongs to one epoch of one seed."""
    return np.random.default_rng((seed, check_int(epoch, "number", minimum=0)))
