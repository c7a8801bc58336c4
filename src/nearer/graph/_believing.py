"""Which class an unlabelled item has, by where walks from it end, and how sure that is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._validation import as_labels
from nearer.exceptions import LabelError
from nearer.graph._knn import Neighbors
from nearer.graph._propagation import label_reach

__all__ = ["believe_labels"]


def believe_labels(
    neighbors: Neighbors, labels: Any, *, gamma: float = 0.99, prior: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A class for every item and its lead over the second, 0..1: labels (n,) with −1 -> (n,) and (n,).

    The columns of `F` (see `label_reach`) are brought to the sums of `prior` (c,), equal ones by default, so that
    no class wins because its labels lie in the thick of the graph; the class is the largest share of a row. Labels
    that are given stay, with a lead of 1. An item that no label reaches gets −1 and 0.

    >>> near = Neighbors(torch.tensor([[1], [0], [3], [2]]), torch.ones(4, 1))
    >>> believe_labels(near, [5, -1, 7, -1])[0].tolist()
    [5, 5, 7, 7]
    """
    given = as_labels(labels, "labels", n=neighbors.n)
    if not (given != -1).any():
        raise LabelError("`labels` must name at least one item, got only -1. Label a few items of every class.")
    reach, classes = label_reach(neighbors, given, gamma=gamma)
    mass = reach.clamp_min(0) / reach.clamp_min(0).sum(dim=0).clamp_min(1e-300)
    if prior is not None:
        mass = mass * prior
    total = mass.sum(dim=1, keepdim=True)
    # The solution is exact to 1e-9 of the right side; below that nothing was reached.
    reached = reach.sum(dim=1) > 1e-12
    share = torch.where(total > 0, mass / total.clamp_min(1e-300), 0.0)
    best = share.topk(min(2, len(classes)), dim=1).values
    lead = best[:, 0] - (best[:, 1] if len(classes) > 1 else 0)
    known = given != -1
    found = torch.where(reached, classes[share.argmax(dim=1)], -1)
    return torch.where(known, given, found), torch.where(known, 1.0, torch.where(reached, lead, 0.0))
