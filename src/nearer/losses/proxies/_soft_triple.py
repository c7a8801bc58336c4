"""SoftTriple: several centres per class, the nearest ones counting most."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.losses.proxies._proxy_loss import ProxyLoss
from nearer.pairwise._shared import CenterSimilarity, class_softmax

__all__ = ["SoftTripleLoss"]


class SoftTripleLoss(ProxyLoss):
    """Cross-entropy of λ(S_c − δ·1[c = y]), S_c = Σ_k softmax_k(s_ck/γ) s_ck over K centres of each class,
    plus τ Σ_c Σ_{t<u} √(2 + 1e−5 − 2w_ct·w_cu) / (C·K(K−1)), which merges centres that are not needed.

    >>> SoftTripleLoss(5, 4, centers=3)(torch.eye(4), torch.tensor([0, 1, 2, 4])).item() > 0
    True

    Related: one centre makes it `AMSoftmaxLoss`. Reference: Qian et al. 2019, eqs. 6 to 8.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        centers: K.
        scale: λ.
        temperature: γ.
        margin: δ.
        merging: τ.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the centres, (n_classes · centers, embedding_dim), those of a class together: parameters.
    """

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        centers: int = 10,
        scale: float = 20.0,
        temperature: float = 0.1,
        margin: float = 0.01,
        merging: float = 0.2,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, width=check_int(centers, "centers"), generator=generator)
        self.scale = check_number(scale, "scale", above=0.0)
        self.temperature = check_number(temperature, "temperature", above=0.0)
        self.margin = check_number(margin, "margin", minimum=0.0)
        self.merging = check_number(merging, "merging", minimum=0.0)

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        # Ordered pairs of centres of all classes: the weight that the mean over them takes.
        pairs = self.n_classes * max(1, self.width * (self.width - 1))
        return class_softmax(
            x,
            self.proxies,
            labels,
            similarity=CenterSimilarity(self.width, self.temperature, self.merging / pairs),
            scale=self.scale,
            target=lambda s: (self.scale * (s - self.margin), torch.full_like(s, self.scale)),
            sharded=sharded,
        )
