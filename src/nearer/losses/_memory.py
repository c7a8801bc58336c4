"""Cross-batch memory: past embeddings serve as a database, for any pair loss or for the loss of two encoders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._tracing import readable
from nearer._validation import as_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pairs._neighborhood import NeighborhoodLoss
from nearer.losses.pairs._pair_loss import PairLoss, check_embeddings
from nearer.pairwise._shared import full_precision, inner_settings
from nearer.relations import PartialLabels

_NOBODY = -(1 << 62)  # the label of a place of the memory that holds no item


class _Ring(nn.Module):
    """The last `size` embeddings that were seen, as buffers: saving and loading the state restores them."""

    extra_repr = inner_settings

    embeddings: Tensor
    labels: Tensor
    filled: Tensor
    position: Tensor
    seen: Tensor

    def __init__(self, *, size: int, embedding_dim: int) -> None:
        super().__init__()
        self.size = check_int(size, "size")
        self.register_buffer("embeddings", torch.zeros(self.size, check_int(embedding_dim, "embedding_dim")))
        self.register_buffer("labels", torch.zeros(self.size, dtype=torch.int64))
        for name in ("filled", "position", "seen"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))

    def _check(self, embeddings: Any, name: str) -> Tensor:
        batch = check_embeddings(embeddings, name)
        if batch.shape[1] != self.embeddings.shape[1]:
            raise ShapeError(f"`{name}` must have {self.embeddings.shape[1]} columns, got {batch.shape[1]}.")
        return batch

    @torch.no_grad()
    def _remember(self, batch: Tensor, labels: Tensor) -> Tensor:
        """Overwrite the oldest entries; where they were put."""
        kept = slice(max(len(batch) - self.size, 0), None)
        batch, labels = batch[kept], labels[kept]
        places = (torch.arange(len(batch), device=self.labels.device) + self.position) % self.size
        self.embeddings[places] = batch.to(self.embeddings.dtype)
        self.labels[places] = labels.to(self.labels.device)
        self.position.add_(len(batch)).remainder_(self.size)
        self.filled.add_(len(batch)).clamp_(max=self.size)
        self.seen += 1
        return places


class CrossBatchMemory(_Ring):
    """A pair loss of each batch against itself plus the last `size` embeddings that were seen.

    The loss is that of the batch among itself plus `weight` times that of the batch against the memory; the
    memory carries no gradient. The batch enters the memory after its loss is taken, so no item ever meets itself.
    Memory, its fill and its position are buffers: saving and loading the state restores them. The memory is
    used once `warm_up` batches have been seen (embeddings drift fast at first).

    >>> from nearer.losses import ContrastiveLoss
    >>> memory = CrossBatchMemory(ContrastiveLoss(), size=4, embedding_dim=2)
    >>> _ = memory(torch.eye(2), torch.tensor([0, 1]))
    >>> int(memory.filled)
    2

    Reference: Wang et al. 2020 (XBM).

    Args:
        loss: the pair loss.
        size: how many embeddings are remembered.
        embedding_dim: the width of the embeddings.
        weight: of the loss against the memory.
        warm_up: how many batches are seen before the memory is used.
    """

    def __init__(
        self, loss: PairLoss, *, size: int, embedding_dim: int, weight: float = 1.0, warm_up: int = 0
    ) -> None:
        super().__init__(size=size, embedding_dim=embedding_dim)
        if not isinstance(loss, PairLoss):
            raise ParameterError(f"`loss` must be a pair loss of nearer.losses, got {type(loss).__name__}.")
        self.loss = loss
        self.weight = weight
        self.warm_up = check_int(warm_up, "warm_up", minimum=0)

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any, indices_tuple: Any = None) -> Tensor:
        """The loss of a batch (n, d) with class labels (n,), which is then remembered.

        `indices_tuple` (of any miner, for this batch) chooses pairs inside the batch; the memory takes part whole.
        """
        batch = self._check(embeddings, "embeddings")
        classes = as_labels(labels, "labels", n=len(batch))
        loss: Tensor = self.loss(batch, classes, indices_tuple)
        if not readable(batch):
            loss = loss + self._against_all(batch, classes)
            self._remember(batch.detach(), classes)
            return loss
        filled = int(self.filled)
        if filled and int(self.seen) >= self.warm_up:
            database = self.embeddings[:filled].to(batch.dtype)
            against = self.loss(batch, classes, database=database, database_labels=self.labels[:filled])
            loss = loss + self.weight * against
        self._remember(batch.detach(), classes)
        return loss

    def _against_all(self, batch: Tensor, classes: Tensor) -> Tensor:
        """The loss against the memory where its fill cannot be read: places without an item have no known label."""
        known = torch.arange(self.size, device=self.labels.device) < self.filled
        labels = torch.where(known, self.labels, _NOBODY).to(batch.device)
        relation = PartialLabels(classes.to(batch.device), labels, unknown=_NOBODY)
        value: Tensor = self.loss(batch, relation, database=self.embeddings.to(batch.dtype))
        used = (self.filled > 0) & (self.seen >= self.warm_up)
        return torch.where(used, self.weight * value, 0.0)


class DatabaseMemory(_Ring):
    """The neighbourhood loss of two encoders: queries against the database side of this batch and of past ones.

    One loss over both together, because a vote of k neighbours cannot be split. The batch's own side of the
    database carries gradient, the memory does not. `ids` name the items: an item is never its own neighbour, in
    the batch or in the memory. Without `ids` row i of both sides is the same item, and items that come again meet
    their past selves: pass them whenever the memory spans more than one epoch. Everything is in the state.

    >>> memory = DatabaseMemory(NeighborhoodLoss(k=1), size=4, embedding_dim=1)
    >>> queries, database = torch.tensor([[0.0], [1.0], [8.0], [9.0]]), torch.tensor([[0.5], [1.5], [8.5], [9.5]])
    >>> memory(queries, database, [0, 0, 1, 1], ids=[3, 4, 5, 6]).item(), int(memory.filled)
    (0.0, 4)

    Reference: the cross-batch memory of Wang et al. 2020, on the database side only.

    Args:
        loss: a `NeighborhoodLoss`.
        size: embeddings that are kept.
        embedding_dim: dimensions d of an embedding.
    """

    ids: Tensor

    def __init__(self, loss: NeighborhoodLoss, *, size: int, embedding_dim: int) -> None:
        super().__init__(size=size, embedding_dim=embedding_dim)
        if not isinstance(loss, NeighborhoodLoss):
            raise ParameterError(f"`loss` must be a NeighborhoodLoss, got {type(loss).__name__}.")
        self.loss = loss
        self.register_buffer("ids", torch.full((self.size,), -1))

    @full_precision
    def forward(self, queries: Tensor, database: Tensor, labels: Any, *, ids: Any = None) -> Tensor:
        """The loss of both sides of a batch, (n, d) each, with labels (n,); the database side is remembered."""
        left, right = self._check(queries, "queries"), self._check(database, "database")
        if len(left) != len(right):
            raise ShapeError(f"`database` must have the {len(left)} rows of `queries`, got {len(right)}.")
        classes = as_labels(labels, "labels", n=len(left)).to(left.device)
        filled = int(self.filled)
        device = left.device
        if ids is None:
            names = -2 - torch.arange(len(left), device=device)
        else:
            names = as_labels(ids, "ids", n=len(left)).to(device)
        if ids is not None and len(names) and int(names.min()) < 0:
            raise ParameterError(f"`ids` must not be negative, got {int(names.min())}.")
        loss: Tensor = self.loss(
            left,
            classes,
            database=torch.cat([right, self.embeddings[:filled].to(right.dtype)]),
            database_labels=torch.cat([classes, self.labels[:filled]]),
            ids=names,
            database_ids=torch.cat([names, self.ids[:filled]]),
        )
        places = self._remember(right.detach(), classes)
        self.ids[places] = -1 if ids is None else names[-len(places) :]
        return loss
