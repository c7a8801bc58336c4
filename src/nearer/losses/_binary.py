"""Embeddings whose signs are embeddings: a bit for each column, thirty-two times smaller."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._shared import inner_settings

__all__ = ["BinaryLoss"]


class BinaryLoss(nn.Module):
    """A loss on `tanh(β z / mean|z|)`, whose β grows from `start` to `end` over `steps` calls in training mode.

    At first the embedding moves freely, at the end it lies near the corners: its signs lose little. Store
    `z > 0`, search with `z` itself (the query need not be rounded). Start the last layer from
    `geometry.itq(features, bits)`; on classes never seen that start alone is often better than any training.

    >>> from nearer.losses import ContrastiveLoss
    >>> z, y = torch.tensor([[9.0, -9.0], [9.0, -9.0], [-9.0, 9.0]]), torch.tensor([0, 0, 1])
    >>> BinaryLoss(ContrastiveLoss(), steps=10)(z, y) < 1e-3
    tensor(True)

    Args:
        loss: called as loss(embeddings, labels).
        steps: calls until β is `end`.
        start: β at the first call.
        end: β from then on.
    """

    extra_repr = inner_settings
    calls: Tensor

    def __init__(self, loss: nn.Module, *, steps: int, start: float = 1.0, end: float = 5.0) -> None:
        super().__init__()
        self.loss = loss
        self.steps = check_int(steps, "steps")
        self.start = check_number(start, "start", above=0.0)
        self.end = check_number(end, "end", minimum=self.start)
        # A buffer, so that a run that goes on from a checkpoint goes on here too.
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    @property
    def beta(self) -> float:
        """How steep it is now."""
        return self.start + (self.end - self.start) * min(1.0, float(self.calls) / self.steps)

    def forward(self, embeddings: Any, labels: Any, *more: Any, **named: Any) -> Tensor:
        """The loss of the soft signs; what comes after the labels goes to the loss as it is."""
        z = check_embeddings(embeddings, "embeddings")
        size = z.detach().abs().mean().clamp_min(torch.finfo(z.dtype).tiny)
        found: Tensor = self.loss(torch.tanh(self.beta * z / size), labels, *more, **named)
        if self.training:
            self.calls += 1
        return found
