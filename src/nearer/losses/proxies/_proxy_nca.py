"""Proxy-NCA: neighbourhood components with one proxy per class."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.proxies._proxy_loss import ProxyLoss
from nearer.pairwise._shared import VectorSimilarity, class_softmax

__all__ = ["ProxyNCALoss"]


class ProxyNCALoss(ProxyLoss):
    """mean d_y + log Σ_{c≠y} e^{−d_c} with d = σ‖x − p‖² of unit vectors; may be negative.

    Weights by distance: 1 on the own proxy, −softmax_{c≠y}(−d) on the others. `own_in_denominator` keeps c = y in
    the sum, which makes it the cross-entropy of −d: another loss, and the common variant. One class alone gives 0.

    >>> loss = ProxyNCALoss(2, 2, scale=1.0)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> loss(torch.eye(2), torch.tensor([0, 1])).item()   # 0 + log e^-2
    -2.0

    Reference: Movshovitz-Attias et al. 2017, eq. 6.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        scale: σ.
        own_in_denominator: keep the own class in the sum.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        scale: float = 8.0,
        own_in_denominator: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, generator=generator)
        self.scale = check_number(scale, "scale", above=0.0)
        self.own_in_denominator = own_in_denominator

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        # −d = 2σs − 2σ, and the constant is the same in both parts of the quotient.
        return class_softmax(
            x,
            self.proxies,
            labels,
            similarity=VectorSimilarity(),
            scale=2 * self.scale,
            target=lambda s: (2 * self.scale * s, torch.full_like(s, 2 * self.scale)),
            included=self.own_in_denominator,
            sharded=sharded,
        )
