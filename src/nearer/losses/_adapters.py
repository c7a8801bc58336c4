"""Losses inside the training loops of others, and miners shared with pytorch-metric-learning.

A loss of nearer is a torch module called as loss(embeddings, labels): Lightning, accelerate and plain loops take it
as it is. Two loops call a loss in another way; for them there are a few lines here. None of those libraries is
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry import cosine_similarity
from nearer.losses.pairs._equal import EqualWeightLoss
from nearer.losses.pairs._pair_loss import check_embeddings
from nearer.pairwise import Miner
from nearer.relations import Pairs, Triplets

__all__ = ["SentenceTransformersLoss", "for_transformers", "mined_indices", "relation_from_indices"]


def for_transformers(loss: nn.Module, *, field: str = "embeddings") -> Callable[..., Tensor]:
    """A `compute_loss_func` for the Trainer of Hugging Face transformers, from what the model returns as `field`.

    >>> from nearer.losses import SupConLoss
    >>> call = for_transformers(SupConLoss())
    >>> call({"embeddings": torch.eye(2)}, torch.tensor([0, 1])).item()
    0.0
    """

    def compute_loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        found = outputs.get(field) if isinstance(outputs, Mapping) else getattr(outputs, field, None)
        if found is None:
            raise ParameterError(f"The model must return `{field}`; name the field of the embeddings with field=.")
        value: Tensor = loss(found, labels)
        return value

    return compute_loss


class SentenceTransformersLoss(nn.Module):
    """A loss for the trainers of sentence-transformers: they hand over token batches and expect the loss to encode.

    With one text per example, `labels` are the classes. With several (anchor, positive, ...), the texts of one
    example are one class and no labels are needed.
    """

    def __init__(self, model: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """Encode every column of texts and take the loss of all embeddings together."""
        columns: Sequence[Tensor] = [self.model(one)["sentence_embedding"] for one in sentence_features]
        if len(columns) > 1:
            labels = torch.arange(len(columns[0]), device=columns[0].device).repeat(len(columns))
        elif labels is None:
            raise ParameterError("`labels` must be given when every example has one text, got none.")
        value: Tensor = self.loss(torch.cat(list(columns)), labels)
        return value


def relation_from_indices(indices: Sequence[Any], n: int) -> Pairs | Triplets:
    """What a miner of pytorch-metric-learning found, as a relation that any loss here takes in place of labels.

    `indices` is (anchors, positives, anchors, negatives) for pairs, or (anchors, positives, negatives).

    >>> relation = relation_from_indices(([0], [1], [0], [2]), 3)
    >>> relation.masks()[1].int().tolist()
    [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    """
    columns = [torch.as_tensor(one, dtype=torch.int64).cpu() for one in indices]
    if len(columns) == 3:
        return Triplets(n, torch.stack(columns, dim=1))
    if len(columns) != 4:
        raise ShapeError(f"`indices` must be three or four rows of item numbers, got {len(columns)}.")
    positive, negative = torch.stack(columns[:2], dim=1), torch.stack(columns[2:], dim=1)
    return Pairs(n, positive=positive, negative=negative, both_ways=False)


def mined_indices(miner: Miner, embeddings: Any, labels: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a miner here keeps, as the four index tensors that losses of pytorch-metric-learning take.

    Needs the whole matrix of similarities: for batches, not for data sets.

    >>> from nearer.mining import VTHM
    >>> [one.tolist() for one in mined_indices(VTHM(), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], [0, 0, 1])]
    [[0, 1], [1, 0], [0, 1], [2, 2]]
    """
    rows = check_embeddings(torch.as_tensor(embeddings), "embeddings").detach()
    weights = EqualWeightLoss(miner=miner).weights(cosine_similarity(rows), labels)
    anchors, positives = (weights < 0).nonzero(as_tuple=True)
    others, negatives = (weights > 0).nonzero(as_tuple=True)
    return anchors, positives, others, negatives
