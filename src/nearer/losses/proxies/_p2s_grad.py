"""P2SGrad: the cosines to the class vectors are regressed to one and zero, without scale or margin."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from nearer.losses.proxies._proxy_loss import ProxyLoss
from nearer.pairwise._shared import Shards


class P2SGradLoss(ProxyLoss):
    """mean_i mean_c (cos θ_ic − 1[c = y_i])².

    Its gradient by a cosine is the residual itself: no scale, no margin and no temperature to set.

    >>> loss = P2SGradLoss(2, 2)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> loss(torch.tensor([[0.0, 3.0]]), torch.tensor([0])).item()   # (0 − 1)² and 1², over two classes
    1.0

    The same number as pytorch-metric-learning's, whose first argument is the embedding's width. Reference: Zhang et
    al. 2019, eq. 11: its gradients are those of this mean of squares.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    def __init__(self, n_classes: int, embedding_dim: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__(n_classes, embedding_dim, generator=generator)

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        vectors = self.vectors().to(x.dtype)
        # Σ_c cos² = xᵀ(WᵀW)x, so that items × classes is never held.
        squares = ((x @ (vectors.T @ vectors)) * x).sum(1)
        own = (x * vectors[labels]).sum(1)
        total = (squares - 2 * own + 1).sum() / self.n_classes
        if not sharded:
            return total / max(len(x), 1)
        shards = Shards(len(x), x.device, averaged=True)
        mine = total / max(shards.total, 1)
        joint = mine.detach().clone()
        dist.all_reduce(joint)
        # The value of the joint batch, with the gradient of this process's part.
        scaled = mine * shards.scale
        return scaled + (joint - scaled.detach())
