"""Losses inside the training loops of others.

A loss of nearer is a torch module called as loss(embeddings, labels): Lightning, accelerate and plain loops take it
as it is. Two loops call a loss in another way; for them there are a few lines here. None of those libraries is
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer.exceptions import ParameterError


def for_transformers(loss: nn.Module, *, field: str = "embeddings") -> Callable[..., Tensor]:
    """A `compute_loss_func` for the Trainer of Hugging Face transformers, from what the model returns as `field`.

    >>> from nearer.losses import SupConLoss
    >>> call = for_transformers(SupConLoss())
    >>> call({"embeddings": torch.eye(2)}, torch.tensor([0, 1])).item()
    0.0

    Args:
        loss: any loss of embeddings and labels.
        field: what the model calls its embeddings.
    """

    def compute_loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        rows = outputs.get(field) if isinstance(outputs, Mapping) else getattr(outputs, field, None)
        if rows is None:
            raise ParameterError(f"The model must return `{field}`; name the field of the embeddings with field=.")
        return loss(rows, labels)

    return compute_loss


class SentenceTransformersLoss(nn.Module):
    """A loss for the trainers of sentence-transformers: they hand over token batches and expect the loss to encode.

    With one text per example, `labels` are the classes. With several (anchor, positive, ...), the texts of one
    example are one class and no labels are needed.

    >>> from nearer.losses import RAWLoss
    >>> class Bag(torch.nn.Module):  # stands for a SentenceTransformer
    ...     def forward(self, features):
    ...         return {"sentence_embedding": features["rows"]}
    >>> loss = SentenceTransformersLoss(Bag(), RAWLoss())
    >>> loss([{"rows": torch.eye(2)}], torch.tensor([0, 1])).item() < 1e-6
    True

    Args:
        model: the SentenceTransformer that is trained.
        loss: any loss of embeddings and labels.
    """

    def __init__(self, model: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """Encode every column of texts and take the loss of all embeddings together."""
        columns: Sequence[Tensor] = [self.model(column)["sentence_embedding"] for column in sentence_features]
        if len(columns) > 1:
            labels = torch.arange(len(columns[0]), device=columns[0].device).repeat(len(columns))
        elif labels is None:
            raise ParameterError("`labels` must be given when every example has one text, got none.")
        return self.loss(torch.cat(list(columns)), labels)
