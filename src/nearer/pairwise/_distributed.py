"""The sharded form: every process holds some anchors, the loss and its gradient are those of the joint batch.

Embeddings and labels are gathered; each process weighs its own anchors against the whole batch; what its
anchors do to the items of other processes is summed back to their owners. Nothing is approximated: the result
equals one process with the joint batch. `torch.distributed` does all communication.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from nearer.exceptions import LabelError, ParameterError
from nearer.pairwise._rule import Gradient, Pairing
from nearer.relations import Relation
from nearer.relations._shared import TableRelation


class Shards:
    """This process's stretch of a joint batch whose shards may differ in length."""

    def __init__(self, local: int, device: torch.device, *, averaged: bool) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise ParameterError(
                "a sharded loss needs torch.distributed.init_process_group(...) first; in one process use the loss "
                "itself."
            )
        counts = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size())]
        dist.all_gather(counts, torch.tensor([local], device=device))
        self.sizes = [int(count) for count in counts]
        self.start = sum(self.sizes[: dist.get_rank()])
        self.local = local
        self.total = sum(self.sizes)
        # A data-parallel wrapper averages gradients over processes, but the joint loss is a sum over them.
        self.scale = len(self.sizes) if averaged else 1

    @property
    def own(self) -> slice:
        return slice(self.start, self.start + self.local)

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, in the order of their ranks."""
        longest = max(self.sizes)
        # gloo wants equal shapes: shorter shards travel padded.
        padded = tensor.new_zeros((longest, *tensor.shape[1:]))
        padded[: self.local] = tensor
        parts = [torch.empty_like(padded) for _ in self.sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, self.sizes, strict=True)])

    def pairing(self, queries: Tensor, relation: Relation, *, unit: bool) -> Pairing:
        """Own items as queries, the joint batch as the database."""
        if not isinstance(relation, TableRelation):
            raise LabelError(
                f"{type(relation).__name__} cannot be sharded: its item numbers mean one process. Use labels."
            )
        table = self.gather(relation.queries)
        related = relation.between(relation.queries, table)
        return Pairing(queries, self.gather(queries), related, self.start, unit, shards=self)

    def joint(self, queries: Tensor, relation: Relation, *, unit: bool) -> Pairing:
        """The whole batch as if this process had it alone; for losses that are not made of rows."""
        if not isinstance(relation, TableRelation):
            raise LabelError(
                f"{type(relation).__name__} cannot be sharded: its item numbers mean one process. Use labels."
            )
        table = self.gather(relation.queries)
        everything = self.gather(queries)
        return Pairing(everything, everything, relation.between(table, table), 0, unit)

    def collect(self, mine: Gradient) -> Gradient:
        """Both roles of the own items: as anchors here, as database items in every process."""
        if mine.queries is None or mine.database is None:
            return Gradient(mine.value, None, None, mine.anchor_values)
        dist.all_reduce(mine.database)
        own = (mine.queries + mine.database[self.own]) * self.scale
        anchor = None if mine.anchor_values is None else mine.anchor_values * self.scale
        return Gradient(mine.value, own, None, anchor)

    def own_part(self, joint: Gradient) -> Gradient:
        """This process's rows of the gradient of `joint`."""
        own = None if joint.queries is None else joint.queries[self.own] * self.scale
        anchor = None if joint.anchor_values is None else joint.anchor_values[self.own] * self.scale
        return Gradient(joint.value, own, None, anchor)

    def all_sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, the same in every one."""
        total = tensor.clone()
        dist.all_reduce(total)
        return total
