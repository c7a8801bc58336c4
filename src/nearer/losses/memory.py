"""Cross-batch memory: past embeddings serve as a database, for any pair loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._validation import as_labels, check_int
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pair_loss import PairLoss, check_embeddings

__all__ = ["CrossBatchMemory"]


class CrossBatchMemory(nn.Module):
    """A pair loss of each batch against itself plus the last `size` embeddings that were seen.

    The loss is that of the batch among itself plus `weight` times that of the batch against the memory; the
    memory carries no gradient. The batch enters the memory after its loss is taken, so no item ever meets itself.
    Memory, its fill and its position are buffers: saving and loading the state restores them. The memory is
    used once `warm_up` batches have been seen (embeddings drift fast at first).

    >>> from nearer.losses import ContrastiveLoss
    >>> memory = CrossBatchMemory(ContrastiveLoss(), size=4, dimension=2)
    >>> _ = memory(torch.eye(2), torch.tensor([0, 1]))
    >>> int(memory.filled)
    2

    Reference: Wang et al. 2020 (XBM).
    """

    embeddings: Tensor
    labels: Tensor
    filled: Tensor
    position: Tensor
    seen: Tensor

    def __init__(self, loss: PairLoss, *, size: int, dimension: int, weight: float = 1.0, warm_up: int = 0) -> None:
        super().__init__()
        if not isinstance(loss, PairLoss):
            raise ParameterError(f"`loss` must be a pair loss of nearer.losses, got {type(loss).__name__}.")
        self.loss = loss
        self.size = check_int(size, "size")
        self.weight = weight
        self.warm_up = check_int(warm_up, "warm_up", minimum=0)
        self.register_buffer("embeddings", torch.zeros(self.size, check_int(dimension, "dimension")))
        self.register_buffer("labels", torch.zeros(self.size, dtype=torch.int64))
        for name in ("filled", "position", "seen"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of a batch (n, d) with class labels (n,), which is then remembered."""
        batch = check_embeddings(embeddings, "embeddings")
        if batch.shape[1] != self.embeddings.shape[1]:
            raise ShapeError(f"`embeddings` must have {self.embeddings.shape[1]} columns, got {batch.shape[1]}.")
        classes = as_labels(labels, "labels", n=len(batch))
        loss: Tensor = self.loss(batch, classes)
        filled = int(self.filled)
        if filled and int(self.seen) >= self.warm_up:
            database = self.embeddings[:filled].to(batch.dtype)
            against = self.loss(batch, classes, database=database, database_labels=self.labels[:filled])
            loss = loss + self.weight * against
        self._remember(batch.detach(), classes)
        return loss

    @torch.no_grad()
    def _remember(self, batch: Tensor, labels: Tensor) -> None:
        """Overwrite the oldest entries."""
        kept = slice(max(len(batch) - self.size, 0), None)
        batch, labels = batch[kept], labels[kept]
        places = (torch.arange(len(batch), device=self.labels.device) + int(self.position)) % self.size
        self.embeddings[places] = batch.to(self.embeddings.dtype)
        self.labels[places] = labels.to(self.labels.device)
        self.position.fill_((int(self.position) + len(batch)) % self.size)
        self.filled.fill_(min(int(self.filled) + len(batch), self.size))
        self.seen += 1
