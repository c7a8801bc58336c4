"""What losses with class vectors share: the vectors, the check of labels, and the form for many processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int
from nearer._tracing import leave_to_eager, readable
from nearer._validation import as_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.geometry import normalize
from nearer.losses.pairs._pair_loss import check_embeddings, check_range
from nearer.pairwise._shared import full_precision, inner_settings, normalize_rows


class ProxyLoss(nn.Module):
    """A loss of embeddings against learnt class vectors, `proxies` of shape (classes · width, dimension).

    Give the proxies to the optimiser as well, usually with a far larger rate than the encoder
    (`parameter_groups`). `sharded()` is the form for the joint batch of many processes.
    """

    extra_repr = inner_settings

    width = 1

    def __init__(
        self, n_classes: int, embedding_dim: int, *, width: int = 1, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.n_classes = check_int(n_classes, "n_classes")
        self.embedding_dim = check_int(embedding_dim, "embedding_dim")
        self.width = check_int(width, "width")
        start = torch.randn(self.n_classes * self.width, self.embedding_dim, generator=generator)
        self.proxies = nn.Parameter(nn.functional.normalize(start, dim=1))

    @full_precision
    def forward(
        self,
        embeddings: Tensor,
        labels: Any,
        indices_tuple: None = None,
        ref_emb: None = None,
        ref_labels: None = None,
    ) -> Tensor:
        """The loss of embeddings (n, d) with classes (n,) in 0..classes−1; no item gives 0.

        Items meet class vectors and not each other, so a loop that mines must not hand its tuple to a proxy loss.
        """
        if indices_tuple is not None or ref_emb is not None or ref_labels is not None:
            raise ParameterError(
                f"`indices_tuple`, `ref_emb` and `ref_labels` must be left out: {type(self).__name__} compares "
                f"items with class vectors. Use a pair loss, or drop the miner."
            )
        return self.compute(*self.checked(embeddings, labels), sharded=False)

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        """The loss of unit rows and checked labels."""
        raise NotImplementedError

    def sharded(self) -> ShardedProxies:
        """The same loss over the joint batch of all processes, each with its part of the classes."""
        return ShardedProxies(self)

    def checked(self, embeddings: Tensor, labels: Any) -> tuple[Tensor, Tensor]:
        """Unit rows and classes within their range."""
        x = check_embeddings(embeddings, "embeddings")
        if x.shape[1] != self.embedding_dim:
            raise ShapeError(
                f"`embeddings` must have {self.embedding_dim} columns like the proxies, got {x.shape[1]}."
            )
        y = as_labels(labels, "labels", n=len(x)).to(x.device)
        check_range(y, self.n_classes, "one number for each proxy", " Leave out rows without a label.")
        return unit_rows(x), y

    def vectors(self) -> Tensor:
        """The proxies at length one."""
        return unit_rows(self.proxies)


def unit_rows(x: Tensor) -> Tensor:
    """Rows of length one, without a look at their values where those cannot be read."""
    return normalize(x) if readable(x) else normalize_rows(x)[0]


class ShardedProxies(nn.Module):
    """A proxy loss over the joint batch of all `torch.distributed` processes, exact in value and gradient.

    Every process has all vectors but computes the similarities to its part of the classes alone; gradients are
    multiplied by the number of processes, because they are averaged afterwards.
    """

    def __init__(self, loss: ProxyLoss) -> None:
        super().__init__()
        self.loss = loss

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        """The loss of the joint batch; `embeddings` (n, d) and `labels` are this process's share."""
        leave_to_eager("A sharded loss cannot be compiled: it talks to other processes.")
        return self.loss.compute(*self.loss.checked(embeddings, labels), sharded=True)
