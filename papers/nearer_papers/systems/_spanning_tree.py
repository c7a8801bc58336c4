"""Minimum-spanning-tree positives: in each class only the pairs that hold it together."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer.exceptions import LabelError
from nearer.pairwise._rule import Miner, Pairing, Panel, Select
from nearer.relations import ClassLabels, PartialLabels

__all__ = ["SpanningTree", "spanning_tree"]


def spanning_tree(similarity: Tensor) -> Tensor:
    """Edges (k−1, 2) of the maximum-similarity spanning tree of k items, by Prim's algorithm in O(k²).

    Equal edges: the one that joins the smallest item. One item: no edge. What has the similarity −∞ to everything
    ends the tree.

    >>> spanning_tree(torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.8], [0.1, 0.8, 1.0]])).tolist()
    [[0, 1], [1, 2]]
    """
    k = len(similarity)
    best, parent = similarity[0].clone(), torch.zeros(k, dtype=torch.int64)
    outside = torch.ones(k, dtype=torch.bool)
    outside[0] = False
    edges = []
    for _ in range(k - 1):
        value, place = best.masked_fill(~outside, -math.inf).max(0)
        if value == -math.inf:
            break
        joined = int(place)
        edges.append([int(parent[joined]), joined])
        outside[joined] = False
        closer = outside & (similarity[joined] > best)
        best = torch.where(closer, similarity[joined], best)
        parent[closer] = joined
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)


class SpanningTree(Miner):
    """Positives restricted to the edges of a minimum spanning tree of each class; negatives as they are.

    The cost of an edge is the distance of its items. A class of k items keeps k − 1 pairs instead of k(k−1)/2, so
    that far-apart members need not be pulled together directly. Against a database only pairs across the two sets
    exist, and the tree is that of these: a class keeps its queries + items − 1 pairs. For class labels.

    >>> SpanningTree()
    SpanningTree()

    Related: `systems.AcrossStreams` compares two streams of a batch with it. Reference: Xu et al. 2019
    (DAMLRRM).
    """

    untraceable = "a spanning tree grows edge by edge"

    def prepare(self, pairing: Pairing) -> Select:
        """Build the trees of all classes."""
        relation = pairing.relation
        if type(relation) not in (ClassLabels, PartialLabels):
            raise LabelError(f"SpanningTree needs class labels, got {type(relation).__name__}.")
        edges = _within(pairing) if pairing.offset is not None else _across(pairing)
        edges = edges[edges[:, 0].argsort(stable=True)]

        def select(panel: Panel) -> tuple[Tensor, Tensor]:
            chosen = torch.zeros_like(panel.positive)
            numbers = panel.numbers
            low, high = torch.searchsorted(edges[:, 0].contiguous(), torch.stack([numbers[0], numbers[-1] + 1]))
            mine = edges[int(low) : int(high)]
            chosen[mine[:, 0] - panel.first, mine[:, 1]] = True
            return chosen & panel.positive, panel.negative

        return select


def _within(pairing: Pairing) -> Tensor:
    """The edges of all classes of a batch against itself, in both directions: (m, 2)."""
    labels: Tensor = pairing.relation.database  # type: ignore[attr-defined]
    pairs = []
    for label in _classes(pairing, labels):
        members = (labels == label).nonzero()[:, 0]
        items = pairing.database[members]
        # A shard holds only some of the queries, but the database is always whole.
        own = items if len(pairing.queries) < len(labels) else pairing.queries[members]
        s = (own @ items.T).cpu()
        if not pairing.unit:
            # Minus the squared distance, from the similarities alone: nobody else may know the embeddings.
            s = 2 * s - s.diagonal()[:, None] - s.diagonal()[None, :]
        pairs.append(members[spanning_tree(s).to(members.device)])
    edges = torch.cat(pairs) if pairs else labels.new_zeros((0, 2))
    return torch.cat([edges, edges.flip(1)])


def _across(pairing: Pairing) -> Tensor:
    """The edges (query, database item) of all classes between two sets: (m, 2)."""
    relation = pairing.relation
    left: Tensor = relation.queries  # type: ignore[attr-defined]
    right: Tensor = relation.database  # type: ignore[attr-defined]
    pairs = []
    for label in _classes(pairing, left):
        mine, theirs = (left == label).nonzero()[:, 0], (right == label).nonzero()[:, 0]
        q, d = pairing.queries[mine], pairing.database[theirs]
        near = (2 * q @ d.T - q.square().sum(1)[:, None] - d.square().sum(1)[None, :]).cpu()
        whole = near.new_full((len(mine) + len(theirs),) * 2, -math.inf)
        whole[: len(mine), len(mine) :] = near
        whole[len(mine) :, : len(mine)] = near.T
        edges = spanning_tree(whole).sort(1)[0].to(mine.device)
        pairs.append(torch.stack([mine[edges[:, 0]], theirs[edges[:, 1] - len(mine)]], dim=1))
    return torch.cat(pairs) if pairs else left.new_zeros((0, 2))


def _classes(pairing: Pairing, labels: Tensor) -> list[int]:
    unknown = pairing.relation.unknown if isinstance(pairing.relation, PartialLabels) else None
    return [label for label in torch.unique(labels).tolist() if label != unknown]
