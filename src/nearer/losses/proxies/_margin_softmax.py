"""Softmax over class vectors with a margin on the own class: normalised softmax, AMSoftmax (CosFace), ArcFace."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearer._checks import check_number
from nearer.losses.proxies._proxy_loss import ProxyLoss
from nearer.pairwise._shared import ClassSimilarity, VectorSimilarity, class_softmax


class ClassSoftmax(ProxyLoss):
    """−mean log softmax of scale · similarity to each class, the exponent of the own class by `target`."""

    largest_margin: float | None = None

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        scale: float,
        margin: float = 0.0,
        width: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, width=width, generator=generator)
        self.scale = check_number(scale, "scale", above=0.0)
        self.margin = check_number(margin, "margin", minimum=0.0, maximum=self.largest_margin)

    def similarity(self) -> ClassSimilarity:
        """How near an item is to a class."""
        return VectorSimilarity()

    def target(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        """The exponent of the own class and its derivative by the cosine."""
        return self.scale * (cosine - self.margin), torch.full_like(cosine, self.scale)

    def compute(self, x: Tensor, labels: Tensor, *, sharded: bool) -> Tensor:
        how = self.similarity()
        return class_softmax(
            x, self.proxies, labels, similarity=how, scale=self.scale, target=self.target, sharded=sharded
        )


class AMSoftmaxLoss(ClassSoftmax):
    """−mean log e^{s(cos_y − m)} / (e^{s(cos_y − m)} + Σ_{c≠y} e^{s cos_c}), also called CosFace.

    Weights: ∂L/∂cos_c = s(p_c − 1[c = y])/n. One class alone gives 0. `CosFaceLoss` is this class under its other
    name.

    >>> loss = AMSoftmaxLoss(2, 2, scale=1.0, margin=0.0)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> round(loss(torch.eye(2), torch.tensor([0, 1])).item(), 4)   # log(1 + e^-1)
    0.3133

    Related: margin 0 is `NormalizedSoftmaxLoss`. Reference: Wang et al. 2018, eq. 6.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        scale: what cosines are multiplied by.
        margin: what is taken from the cosine of the own class.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        scale: float = 20.0,
        margin: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, scale=scale, margin=margin, generator=generator)


CosFaceLoss = AMSoftmaxLoss
"""`AMSoftmaxLoss` under the name of CosFace, the other paper of the same formula."""


class NormalizedSoftmaxLoss(ClassSoftmax):
    """−mean log softmax of cos/τ over the class vectors.

    >>> round(NormalizedSoftmaxLoss(1, 2)(torch.eye(2), torch.tensor([0, 0])).item(), 4)
    0.0

    Reference: Zhai and Wu 2019, eq. 3.

    Args:
        n_classes: how many classes there are.
        embedding_dim: dimensions d of an embedding.
        temperature: what similarities are divided by; smaller looks at fewer pairs.
        generator: draws the first class vectors; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        temperature: float = 0.05,
        generator: torch.Generator | None = None,
    ) -> None:
        scale = 1 / check_number(temperature, "temperature", above=0.0)
        super().__init__(n_classes, embedding_dim, scale=scale, generator=generator)


class ArcFaceLoss(ClassSoftmax):
    """−mean log softmax with cos(θ_y + m) for the own class, θ the angle to its vector; m in degrees.

    Beyond θ = π − m the cosine would rise again; there cos θ − m sin m takes over, which goes on falling.

    >>> loss = ArcFaceLoss(2, 2, scale=1.0, margin=60.0)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> round(loss(torch.eye(2)[:1], torch.tensor([0])).item(), 4)   # log(1 + e^(0 - cos 60))
    0.4741

    Reference: Deng et al. 2019, eq. 3.

    Args:
        n_classes: how many classes there are; labels are 0..n_classes − 1.
        embedding_dim: the width of the embeddings.
        scale: what cosines are multiplied by.
        margin: what is added to the angle of the own class, in degrees.
        generator: draws the first proxies; torch's own if None.

    Attributes:
        proxies: the class vectors, (n_classes, embedding_dim): parameters, so the optimizer must get them.
    """

    largest_margin = 90.0

    def __init__(
        self,
        n_classes: int,
        embedding_dim: int,
        *,
        scale: float = 64.0,
        margin: float = 28.6,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_classes, embedding_dim, scale=scale, margin=margin, generator=generator)

    def target(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        return turned(cosine, self.scale, self.margin)


def turned(cosine: Tensor, scale: float, degrees: float) -> tuple[Tensor, Tensor]:
    """scale · cos(θ + m) and its derivative by cos θ; beyond θ = π − m the line scale · (cos θ − m sin m).

    >>> [round(part.item(), 4) for part in turned(torch.tensor([0.0]), 1.0, 90.0)]   # cos 180°
    [-1.0, 0.0]
    """
    m = math.radians(degrees)
    c = cosine.clamp(-1, 1)
    # At θ = 0 the sine has no slope; a floor keeps the derivative finite.
    sine = (1 - c * c).clamp_min(1e-12).sqrt()
    value = c * math.cos(m) - sine * math.sin(m)
    slope = math.cos(m) + math.sin(m) * c / sine.clamp_min(1e-4)
    beyond = c < -math.cos(m)
    value = torch.where(beyond, c - m * math.sin(m), value)
    return scale * value, scale * torch.where(beyond, torch.ones_like(slope), slope)
