"""Embeddings that are made to be cut: their first columns are embeddings, or their signs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer._tracing import readable
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise._shared import inner_settings


class NestedLoss(nn.Module):
    """The weighted mean of a loss over prefixes of the embedding: `Σ_w c_w L(z[:, :w]) / Σ_w c_w`.

    After training the first 32 columns are an embedding of 32 dimensions, the first 64 one of 64: an index can be
    made as small as it has to be, and a search can begin with few columns and end with all. The last width is the
    whole embedding. Compare prefixes at length one, as the loss does.

    >>> import torch
    >>> from nearer.losses import ContrastiveLoss
    >>> z, y = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 2, 2])
    >>> whole, half = ContrastiveLoss()(z, y), ContrastiveLoss()(z[:, :4], y)
    >>> torch.isclose(NestedLoss(ContrastiveLoss(), widths=(4, 8))(z, y), (whole + half) / 2)
    tensor(True)

    Related: Matryoshka representation learning. Reference: Kusupati et al. 2022.

    Args:
        loss: called as loss(embeddings, labels); one for all widths, so it must not have columns of its own.
        widths: rising numbers of columns, such as (16, 32, 64, 128).
        weights: one for each width; None counts them alike.
    """

    extra_repr = inner_settings

    def __init__(
        self, loss: nn.Module, *, widths: Sequence[int] = (16, 32, 64, 128), weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        self.loss = loss
        self.widths = tuple(check_int(width, "widths") for width in widths)
        if not self.widths or list(self.widths) != sorted(set(self.widths)):
            raise ParameterError(f"`widths` must be rising whole numbers, got {tuple(widths)}.")
        self.weights = tuple(
            float(entry) for entry in (weights if weights is not None else [1.0] * len(self.widths))
        )
        if len(self.weights) != len(self.widths) or min(self.weights) < 0 or not any(self.weights):
            raise ParameterError(f"`weights` must hold a positive number for each of {len(self.widths)} widths.")
        if any(entry.shape[-1:] == (self.widths[-1],) for entry in loss.parameters()):
            raise ParameterError(
                f"`loss` must not have class vectors of {self.widths[-1]} columns: they would fit the last width "
                f"alone, got {type(loss).__name__}. Use a loss on pairs."
            )

    def forward(self, embeddings: Any, labels: Any, *more: Any, **named: Any) -> Tensor:
        """The mean over the widths; what comes after the labels goes to the loss as it is."""
        z = check_embeddings(embeddings, "embeddings")
        if z.shape[1] != self.widths[-1]:
            raise ShapeError(
                f"`embeddings` must have the {self.widths[-1]} columns of the last width, got {z.shape[1]}."
            )
        parts = [
            weight * self.loss(z[:, :width], labels, *more, **named)
            for width, weight in zip(self.widths, self.weights, strict=True)
            if weight
        ]
        return sum(parts[1:], parts[0]) / sum(self.weights)


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
        return float(self._beta())

    def _beta(self) -> Tensor:
        return self.start + (self.end - self.start) * (self.calls.double() / self.steps).clamp(max=1)

    def forward(self, embeddings: Any, labels: Any, *more: Any, **named: Any) -> Tensor:
        """The loss of the soft signs; what comes after the labels goes to the loss as it is."""
        z = check_embeddings(embeddings, "embeddings")
        size = z.detach().abs().mean().clamp_min(torch.finfo(z.dtype).tiny)
        beta: float | Tensor = self.beta if readable(z) else self._beta().to(z.dtype)
        value: Tensor = self.loss(torch.tanh(beta * z / size), labels, *more, **named)
        if self.training:
            self.calls = self.calls + 1  # not in place: a compiled backward pass reads what this one began with
        return value
