"""Several vectors for each class: the nearest of them counts, or a soft choice among them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer._checks import check_int, check_number
from nearer.losses.proxies._margin_softmax import ClassSoftmax, turned
from nearer.pairwise._shared import CenterSimilarity, ClassSimilarity


class SubCenterArcFaceLoss(ClassSoftmax):
    """−mean log softmax of scale · cos θ_c, cos θ_c = max_k cos(x, w_ck), with cos(θ_y + m) for the own class.

    Wrong labels and rare poses gather at centers of their own and leave the main one clean. There are
    classes · centers proxies, those of a class side by side. Of centers that tie the first one gets the gradient.

    >>> loss = SubCenterArcFaceLoss(2, 2, centers=2, scale=1.0, margin=60.0)
    >>> _ = loss.proxies.data.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    >>> round(loss(torch.tensor([[-1.0, 0.0]]), torch.tensor([0])).item(), 4)   # log(1 + e^(0 - cos 60))
    0.4741

    Related: one center makes it `ArcFaceLoss`; `SoftTripleLoss` takes a soft maximum. The same number as
    pytorch-metric-learning's at the defaults. Reference: Deng et al. 2020, eq. 2.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        centers: how many vectors a class has.
        scale: what cosines are multiplied by.
        margin: what is added to the angle of the own class, in degrees.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the centres, (n_classes · centers, embedding_dim), those of a class together: parameters.
    """

    largest_margin = 90.0

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        centers: int = 3,
        scale: float = 64.0,
        margin: float = 28.6,
        generator: torch.Generator | None = None,
    ) -> None:
        count = check_int(centers, "centers")
        super().__init__(n_classes, embedding_dim, scale=scale, margin=margin, width=count, generator=generator)
        self.centers = self.width

    def similarity(self) -> ClassSimilarity:
        return _NearestCenter(self.width)

    def target(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        return turned(cosine, self.scale, self.margin)


class _NearestCenter:
    """Several centers per class: s = max_k xᵀw_k."""

    def __init__(self, centers: int) -> None:
        self.width = centers

    def tile(self, x: Tensor, vectors: Tensor) -> tuple[Tensor, Any]:
        centers = vectors.reshape(-1, self.width, vectors.shape[1])
        s, nearest = torch.stack([x @ centers[:, center].t() for center in range(self.width)]).max(0)
        return s, nearest

    def traceable(self, x: Tensor, vectors: Tensor) -> Tensor:
        return (x @ vectors.T).view(len(x), -1, self.width).max(2)[0]

    def gradient(self, x: Tensor, vectors: Tensor, weights: Tensor, saved: Any) -> tuple[Tensor, Tensor]:
        centers = vectors.reshape(-1, self.width, vectors.shape[1])
        by_x, by_centers = torch.zeros_like(x), torch.empty_like(centers)
        for center in range(self.width):
            own = weights * (saved == center)
            by_x.addmm_(own, centers[:, center])
            by_centers[:, center] = own.t() @ x
        return by_x, by_centers.reshape(vectors.shape)


class SoftTripleLoss(ClassSoftmax):
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
        count = check_int(centers, "centers")
        super().__init__(n_classes, embedding_dim, scale=scale, margin=margin, width=count, generator=generator)
        self.temperature = check_number(temperature, "temperature", above=0.0)
        self.merging = check_number(merging, "merging", minimum=0.0)

    def similarity(self) -> ClassSimilarity:
        # Ordered pairs of centres of all classes: the weight that the mean over them takes.
        pairs = self.n_classes * max(1, self.width * (self.width - 1))
        return CenterSimilarity(self.width, self.temperature, self.merging / pairs)
