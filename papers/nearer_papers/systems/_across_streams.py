"""Comparisons across two streams of a batch: the items of one are only compared with those of the other."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nearer._checks import check_int
from nearer._validation import as_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.losses.pairs._pair_loss import PairLoss, check_embeddings
from nearer.pairwise._rule import inner_settings

__all__ = ["AcrossStreams"]


class AcrossStreams(nn.Module):
    """A pair loss between the first `first` rows of a batch and the rest, each side once as the anchors.

    ½(L(first against second) + L(second against first)); both sides carry gradient. With `miner=SpanningTree()` in
    the loss, the positives of a class are the edges of the minimum spanning tree between its items of the two
    streams, and the negatives are those of the loss: this is DAMLRRM.

    Usage: `AcrossStreams(RAWLoss(miner=SpanningTree()), first=streams.first_size)` on the batches of
    `streams = TwoStreams(first, second)`.

    >>> import torch
    >>> from nearer.losses import ContrastiveLoss
    >>> z, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
    >>> AcrossStreams(ContrastiveLoss(), first=2)(z, y).item() == ContrastiveLoss()(
    ...     z[:2], y[:2], database=z[2:], database_labels=y[2:]
    ... ).item()
    True

    Reference: Xu et al. 2019 (DAMLRRM), sections 3.1 and 3.2.
    """

    extra_repr = inner_settings

    def __init__(self, loss: PairLoss, *, first: int) -> None:
        super().__init__()
        if not isinstance(loss, PairLoss):
            raise ParameterError(f"`loss` must be a pair loss of nearer.losses, got {type(loss).__name__}.")
        self.loss = loss
        self.first = check_int(first, "first")

    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of embeddings (n, d), n greater than `first`, with class labels (n,)."""
        x = check_embeddings(embeddings, "embeddings")
        y = as_labels(labels, "labels", n=len(x)).to(x.device)
        if len(x) <= self.first:
            raise ShapeError(
                f"`embeddings` must have more than the {self.first} rows of the first stream, got {len(x)}."
            )
        (a, b), (p, q) = ((t[: self.first], t[self.first :]) for t in (x, y))
        there: Tensor = self.loss(a, p, database=b, database_labels=q)
        back: Tensor = self.loss(b, q, database=a, database_labels=p)
        return (there + back) / 2
