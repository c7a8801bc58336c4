"""Minimum-spanning-tree positives: in each class only the pairs that hold it together."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer.exceptions import LabelError
from nearer.pairwise.panels import Pairing, Panel, Select
from nearer.relations import ClassLabels, PartialLabels

__all__ = ["SpanningTree", "spanning_tree"]


def spanning_tree(similarity: Tensor) -> Tensor:
    """Edges (k−1, 2) of the maximum-similarity spanning tree of k items, by Prim's algorithm in O(k²).

    Equal edges: the one that joins the smallest item. One item: no edge.

    >>> spanning_tree(torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.8], [0.1, 0.8, 1.0]])).tolist()
    [[0, 1], [1, 2]]
    """
    k = len(similarity)
    best, parent = similarity[0].clone(), torch.zeros(k, dtype=torch.int64)
    outside = torch.ones(k, dtype=torch.bool)
    outside[0] = False
    edges = []
    for _ in range(k - 1):
        joined = int(best.masked_fill(~outside, -math.inf).argmax())
        edges.append([int(parent[joined]), joined])
        outside[joined] = False
        closer = outside & (similarity[joined] > best)
        best = torch.where(closer, similarity[joined], best)
        parent[closer] = joined
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)


class SpanningTree:
    """Positives restricted to the edges of a spanning tree of each class; negatives as they are.

    A class of k items keeps k − 1 pairs instead of k(k−1)/2, so that far-apart members need not be pulled
    together directly. For class labels within one batch.

    >>> SpanningTree()
    SpanningTree()

    Reference: DAMLRRM (Xu et al. 2019).
    """

    def prepare(self, pairing: Pairing) -> Select:
        """Build the trees of all classes of the database."""
        relation = pairing.relation
        if pairing.offset is None or type(relation) not in (ClassLabels, PartialLabels):
            raise LabelError("SpanningTree needs class labels and a batch against itself, not a separate database.")
        labels = relation.database  # type: ignore[attr-defined]
        unknown = relation.unknown if isinstance(relation, PartialLabels) else None
        pairs = []
        for label in labels.unique().tolist():
            if label != unknown:
                members = (labels == label).nonzero()[:, 0]
                items = pairing.database[members]
                # A shard holds only some of the queries, but the database is always whole.
                own = items if len(pairing.queries) < len(labels) else pairing.queries[members]
                pairs.append(members[spanning_tree((own @ items.T).cpu()).to(members.device)])
        edges = torch.cat(pairs) if pairs else labels.new_zeros((0, 2))
        edges = torch.cat([edges, edges.flip(1)])
        edges = edges[edges[:, 0].argsort(stable=True)]

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            chosen = torch.zeros_like(panel.positive)
            numbers = panel.numbers
            low, high = torch.searchsorted(edges[:, 0].contiguous(), torch.stack([numbers[0], numbers[-1] + 1]))
            mine = edges[int(low) : int(high)]
            chosen[mine[:, 0] - panel.first, mine[:, 1]] = True
            return chosen & panel.positive, panel.negative

        return select

    def __repr__(self) -> str:
        return "SpanningTree()"
