"""Batches that follow the embeddings: near classes together, or anchors with their hard negatives.

They read what was last computed from all training embeddings (`nearer.training.rebuild`), so an epoch is a function
of its number and of that; both are in the checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearer._validation import as_labels, check_int
from nearer.exceptions import ParameterError
from nearer.mining.class_tree import ClassTree
from nearer.training.samplers import Queue, Rows, epoch_random, members_of, take_turns

__all__ = ["AnchorNeighbourSampler"]


class AnchorNeighbourSampler:
    """`anchors` random classes, each with the `neighbours` classes nearest to it, `per_class` items of every class.

    No class comes twice in a batch: one that is there already is replaced by the next nearest. Anchor classes take
    turns, and the items of a class likewise. Until the tree is built all classes are random ones.

    Usage: `AnchorNeighbourSampler(labels, loss.tree, anchors=4, neighbours=3, per_class=4)`.

    >>> tree, labels = ClassTree(), [0, 0, 1, 1, 2, 2, 3, 3]
    >>> angle = torch.tensor([0.0, 0.0, 0.1, 0.1, 3.0, 3.0, 3.1, 3.1])
    >>> tree.update(torch.stack([angle.cos(), angle.sin()], 1), labels)
    >>> sampler = AnchorNeighbourSampler(labels, tree, anchors=1, neighbours=1, per_class=2, batches=4)
    >>> sorted({tuple(sorted({labels[row] for row in rows})) for rows in sampler.epoch(0)})
    [(0, 1), (2, 3)]

    Reference: Ge et al. 2018 (HTL), section 3.3: l' = anchors, m = neighbours + 1, t = per_class.
    """

    def __init__(
        self,
        labels: Any,
        tree: ClassTree,
        *,
        anchors: int,
        neighbours: int,
        per_class: int,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        array = as_labels(labels, "labels").cpu().numpy()
        self.members = members_of(array)
        self.names = torch.tensor([int(array[rows[0]]) for rows in self.members])
        self.tree = tree
        self.anchors = check_int(anchors, "anchors")
        self.neighbours = check_int(neighbours, "neighbours", minimum=0)
        self.per_class = check_int(per_class, "per_class")
        wanted = anchors * (1 + neighbours)
        if wanted > len(self.members):
            raise ParameterError(
                f"`anchors` · (1 + `neighbours`) must be at most the {len(self.members)} classes there are, got "
                f"{wanted}."
            )
        labelled = sum(map(len, self.members))
        self.batches = check_int(batches, "batches") if batches else max(1, labelled // (wanted * per_class))
        self.seed = check_int(seed, "seed", minimum=0)

    def __len__(self) -> int:
        return self.batches

    def epoch(self, number: int) -> Sequence[Tensor]:
        """Batches of anchors · (1 + neighbours) · per_class rows, class by class."""
        random = epoch_random(self.seed, number)
        items = [Queue(rows, random) for rows in self.members]
        batches = []
        for chosen in take_turns(len(self.members), self.anchors, self.batches, random):
            rows = [items[place].take(self.per_class) for place in self._with_neighbours(chosen, random)]
            batches.append(torch.from_numpy(np.concatenate(rows)))
        return batches

    def _with_neighbours(self, chosen: Rows, random: np.random.Generator) -> list[int]:
        found = dict.fromkeys(chosen.tolist())  # keeps the order
        in_tree = self.tree.places(self.names).tolist() if self.tree.ready else []
        here = {place: own for own, place in enumerate(in_tree)}
        for anchor in chosen.tolist():
            if self.tree.ready:
                near = (here[place] for place in self.tree.nearest(in_tree[anchor]).tolist() if place in here)
            else:
                near = iter(random.permutation(len(self.members)).tolist())
            goal = len(found) + self.neighbours
            for place in near:
                if len(found) == goal:
                    break
                found.setdefault(place)
        return list(found)
