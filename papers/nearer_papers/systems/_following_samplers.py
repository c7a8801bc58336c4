"""Batches that follow the embeddings: near classes together, or anchors with their hard negatives.

They read what was last computed from all training embeddings (`systems.rebuild`), so an epoch is a function
of its number and of that; both are in the checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearer._checks import check_int
from nearer._validation import as_labels
from nearer.exceptions import LabelError, ParameterError
from nearer.training._samplers import (
    BatchSampler,
    Queue,
    RowNumbers,
    batch_count,
    epoch_random,
    members_of,
    take_turns,
)
from nearer_papers.systems._class_tree import ClassTree
from nearer_papers.systems._rank_range import RankRange

__all__ = ["AnchorNeighborSampler", "RankRangeSampler"]


class AnchorNeighborSampler(BatchSampler):
    """`anchors` random classes, each with the `neighbors` classes nearest to it, `per_class` items of every class.

    No class comes twice in a batch: one that is there already is replaced by the next nearest. Anchor classes take
    turns, and the items of a class likewise. Until the tree is built all classes are random ones.

    Usage: `AnchorNeighborSampler(labels, loss.tree, anchors=4, neighbors=3, per_class=4)`.

    >>> tree, labels = ClassTree(), [0, 0, 1, 1, 2, 2, 3, 3]
    >>> angle = torch.tensor([0.0, 0.0, 0.1, 0.1, 3.0, 3.0, 3.1, 3.1])
    >>> tree.update(torch.stack([angle.cos(), angle.sin()], 1), labels)
    >>> sampler = AnchorNeighborSampler(labels, tree, anchors=1, neighbors=1, per_class=2, batches=4)
    >>> sorted({tuple(sorted({labels[row] for row in rows})) for rows in sampler.epoch(0)})
    [(0, 1), (2, 3)]

    Reference: Ge et al. 2018 (HTL): l' = anchors, m = neighbours + 1, t = per_class.

    Args:
        labels: classes of the items, (n,).
        tree: the tree of classes that says which are near.
        anchors: classes that a batch is built around.
        neighbors: near classes of each anchor.
        per_class: items of each class in a batch.
        batches: batches in an epoch; None as many as the items need.
        seed: of everything that is drawn.
    """

    def __init__(
        self,
        labels: Any,
        tree: ClassTree,
        *,
        anchors: int,
        neighbors: int,
        per_class: int,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        array = as_labels(labels, "labels").cpu().numpy()
        self.members = members_of(array)
        self.names = torch.tensor([int(array[rows[0]]) for rows in self.members])
        self.tree = tree
        self.anchors = check_int(anchors, "anchors")
        self.neighbors = check_int(neighbors, "neighbors", minimum=0)
        self.per_class = check_int(per_class, "per_class")
        wanted = anchors * (1 + neighbors)
        if wanted > len(self.members):
            raise ParameterError(
                f"`anchors` · (1 + `neighbors`) must be at most the {len(self.members)} classes there are, got "
                f"{wanted}."
            )
        self.batches = batch_count(batches, sum(map(len, self.members)), wanted * per_class)
        self.seed = check_int(seed, "seed", minimum=0)

    def __len__(self) -> int:
        return self.batches

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of anchors · (1 + neighbours) · per_class rows, class by class."""
        random = epoch_random(self.seed, number)
        items = [Queue(rows, random) for rows in self.members]
        turns = list(take_turns(len(self.members), self.anchors, self.batches, random))
        near = self._neighbors(np.concatenate(turns), random).reshape(len(turns), self.anchors, -1)
        batches = []
        for chosen, rows_near in zip(turns, near, strict=True):
            found = dict.fromkeys(chosen.tolist())  # keeps the order
            for row in rows_near.tolist():
                goal = len(found) + self.neighbors
                for place in row:
                    if len(found) == goal:
                        break
                    found.setdefault(place)
            batches.append(torch.from_numpy(np.concatenate([items[place].take(self.per_class) for place in found])))
        return batches

    def _neighbors(self, anchors: RowNumbers, random: np.random.Generator) -> RowNumbers:
        """For each anchor class so many near ones that enough are left when all others of the batch are taken."""
        count = min(len(self.members) - 1, self.anchors * (1 + self.neighbors))
        if not self.tree.ready:
            return np.stack([random.permutation(len(self.members))[: count + 1] for _ in anchors])
        near = self.tree.nearest(self.names[anchors], among=self.names, count=count)
        return torch.searchsorted(self.names, near).numpy()


class RankRangeSampler(BatchSampler):
    """`anchors` items, each with another item of its class and with `negatives` mined ones.

    Items take turns as anchors; those without another item of their class are only ever negatives. A row comes
    once in a batch, so that batches differ a little in length. Until the miner has its table the negatives are
    random items of other classes, and so they are for an anchor that has none in the table.

    Usage: `RankRangeSampler(labels, RankRange(build, low=16, high=64), anchors=32)`.

    >>> def build(embeddings):
    ...     return lambda queries, k: torch.cdist(queries, embeddings).argsort(1)[:, :k]
    >>> miner, labels = RankRange(build, low=0, high=1), [0, 0, 1, 1]
    >>> miner.update([[0.0], [1.0], [2.0], [4.0]], labels)
    >>> sorted({tuple(sorted(rows.tolist())) for rows in RankRangeSampler(labels, miner, anchors=1).epoch(0)})
    [(0, 1, 2), (1, 2, 3)]

    Args:
        labels: classes of the rows, (n,).
        miner: the miner whose lists it follows.
        anchors: items that batches are built around.
        negatives: mined negatives of each anchor.
        batches: batches in an epoch; None as many as the items need.
        seed: of everything that is drawn.
    """

    def __init__(
        self,
        labels: Any,
        miner: RankRange,
        *,
        anchors: int,
        negatives: int = 1,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        self.labels = as_labels(labels, "labels").cpu()
        self.members = members_of(self.labels)
        self.miner = miner
        able = [rows for rows in self.members if len(rows) > 1]
        if not able or len(self.members) < 2:
            raise LabelError("`labels` must have two classes, one of them with two items or more.")
        self.able = np.concatenate(able)
        self.anchors = check_int(anchors, "anchors", maximum=len(self.able))
        self.negatives = check_int(negatives, "negatives")
        self.batches = batch_count(batches, len(self.able), anchors)
        self.seed = check_int(seed, "seed", minimum=0)

    def __len__(self) -> int:
        return self.batches

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of up to anchors · (2 + negatives) rows: anchors, their positives, their negatives."""
        random = epoch_random(self.seed, number)
        turns = Queue(self.able, random)
        of = {int(self.labels[rows[0]]): rows for rows in self.members}
        batches = []
        for _ in range(self.batches):
            anchors = turns.take(self.anchors)
            mates = [of[int(self.labels[row])] for row in anchors]
            positives = [random.choice(rows[rows != row]) for row, rows in zip(anchors, mates, strict=True)]
            negatives = self._negatives(torch.from_numpy(anchors), random).reshape(-1)
            joint = np.concatenate([anchors, positives, negatives])
            _, first = np.unique(joint, return_index=True)
            batches.append(torch.from_numpy(joint[np.sort(first)]))
        return batches

    def _negatives(self, anchors: Tensor, random: np.random.Generator) -> RowNumbers:
        """(a, negatives): mined where there are any, random where not."""
        labeled = (self.labels >= 0).nonzero()[:, 0].numpy()
        names = self.labels.numpy()
        drawn = np.full((len(anchors), self.negatives), -1)
        if self.miner.ready:
            drawn = self.miner.negatives(anchors, self.negatives, random).numpy()
        for place, anchor in enumerate(anchors.tolist()):
            missing = drawn[place] < 0
            if missing.any():
                others = labeled[names[labeled] != names[anchor]]
                drawn[place, missing] = random.choice(others, int(missing.sum()))
        return drawn
