"""Pseudo-labels: which class an unlabelled item has, by where walks from it end, and how sure that is."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer._validation import as_labels
from nearer.graph._knn import Neighbors
from nearer.graph._propagation import label_reach


class ClassShares(NamedTuple):
    """How much of every item belongs to which class: rows of sum 1, or of zeros where no label reaches."""

    shares: Tensor  # (n, c) float64, float32 where solved to few digits
    classes: Tensor  # (c,) int64: the class of every column
    reach: Tensor  # (n, c): how much of the labels of every class reaches the item, before shares are made of it

    @property
    def lead(self) -> Tensor:
        """By how much the largest share of every item exceeds the second, 0..1: (n,)."""
        if not len(self.classes):
            return self.shares.new_zeros(len(self.shares))
        best = self.shares.topk(min(2, len(self.classes)), dim=1).values
        return best[:, 0] - best[:, 1] if len(self.classes) > 1 else best[:, 0]

    @property
    def pseudo_labels(self) -> Tensor:
        """The class with the largest share of every item, −1 where no label reaches: (n,)."""
        if not len(self.classes):
            return torch.full((len(self.shares),), -1, dtype=torch.int64)
        return torch.where(self.shares.sum(dim=1) > 0, self.classes[self.shares.argmax(dim=1)], -1)


# From here on shares to three digits in float32, a third of the time; nearly every item keeps its class.
QUICK_FROM = 200_000
QUICK, EXACT = 1e-3, 1e-9


def class_shares(
    neighbors: Neighbors,
    labels: Any,
    *,
    gamma: float = 0.99,
    prior: Tensor | None = None,
    rtol: float | None = None,
) -> ClassShares:
    """The share of every class in every item, from labels (n,) with −1 for unlabelled.

    The columns of `F` (see `label_reach`) are brought to the sums of `prior` (c,), equal ones by default, so that
    no class wins because its labels lie in the thick of the graph, and the rows to the sum 1. Labels that are given
    are certain. Without any label there is no column. `pseudo_labels` of the answer are the classes (n,), `lead` by
    how much the largest share of an item exceeds the second. `rtol` is the residual of the solution: None takes
    1e-9, and 1e-3 (float32) from 200,000 items on.

    >>> near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    >>> class_shares(near, [5, -1, 7, -1]).shares.tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> class_shares(near, [5, -1, 7, -1]).pseudo_labels.tolist()
    [5, 5, 7, 7]

    Args:
        neighbors: the graph of nearest neighbors.
        labels: classes (n,), −1 for unlabelled.
        gamma: probability of going on along an edge of the graph.
        prior: wanted sums of the columns, (c,); None makes them equal.
        rtol: residual of the solution; None chooses by the number of items.
    """
    given = as_labels(labels, "labels", n=neighbors.n).to(neighbors.indices.device)
    usual = QUICK if neighbors.n >= QUICK_FROM else EXACT
    wanted = usual if rtol is None else check_number(rtol, "rtol", above=0.0)
    reach, classes = label_reach(neighbors, given, gamma=gamma, rtol=wanted)
    # What is left of rounding and of the residual may be negative; it is nothing.
    reach = reach.clamp_(min=0)
    tiny = 1e-300 if reach.dtype == torch.float64 else 1e-38
    mass = reach / reach.sum(dim=0, dtype=torch.float64).clamp_min(tiny).to(reach.dtype)
    if prior is not None:
        mass = mass * prior.to(reach)
    total = mass.sum(dim=1, keepdim=True)
    # The solution is exact to `rtol` of the right side; below that nothing was reached.
    reached = (reach.sum(dim=1, keepdim=True) > 1e-3 * wanted) & (total > 0)
    shares = torch.where(reached, mass / total.clamp_min(tiny), 0.0)
    known = given != -1
    shares[known] = (given[known][:, None] == classes).to(shares.dtype)
    return ClassShares(shares, classes, reach)
