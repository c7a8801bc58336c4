"""Manifold similarity: items belong to the proxy that a random walk over batch and proxies leads to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer._checks import check_int, check_number
from nearer._validation import as_labels
from nearer.exceptions import ShapeError
from nearer.losses.pairs._pair_loss import check_embeddings, check_range
from nearer.losses.proxies._proxy_loss import unit_rows
from nearer.pairwise._shared import full_precision, inner_settings

_TEMPERATURE = 0.5  # of the edges, as published


class ManifoldLoss(nn.Module):
    """mean log(1 + Σ e^{f_k − f_y + m}) over the proxies k ≠ y with f_k − f_y + m ≥ 0, for two similarities f.

    Batch and proxies are a graph with edges e^{[cos]₊/0.5}; F = (1 − α)(I − α D^{-½} S D^{-½})^{-1} says how much
    of a random walk from one node stays at another. The intrinsic f is F itself, between an item and the proxies;
    the context f is the cosine of whole rows of F, and counts `context` times.

    `labels` name the proxy of each item; None draws a random one, each proxy at least once (the ensembles of the
    paper split classes at random). No item gives 0. O((n + proxies)³): a linear system is solved.

    >>> loss = ManifoldLoss(2, n_proxies=2, context=0.0, margin=0.0)
    >>> _ = loss.proxies.data.copy_(torch.eye(2))
    >>> loss(torch.eye(2), torch.tensor([0, 1])).item()   # both at their own proxy
    0.0

    pytorch-metric-learning's `ManifoldLoss(l, K)` is `ManifoldLoss(l, n_proxies=K)`, and its `indices_tuple` our
    `labels`: the same number. Reference: Aziere and Todorovic 2019, eqs. 2 to 7.

    Args:
        embedding_dim: the width of the embeddings.
        n_proxies: how many proxies there are.
        context: the weight of the context similarity.
        alpha: α, how much of the walk goes on at each step; below 1.
        margin: m.
        generator: draws the first proxies, and the labels where there are none; torch's own if None.

    Attributes:
        proxies: the proxies, (n_proxies, embedding_dim): parameters, so the optimizer must get them.
    """

    extra_repr = inner_settings

    def __init__(
        self,
        embedding_dim: int,
        *,
        n_proxies: int = 50,
        context: float = 1.0,
        alpha: float = 0.8,
        margin: float = 5e-4,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.embedding_dim = check_int(embedding_dim, "embedding_dim")
        self.n_proxies = check_int(n_proxies, "n_proxies")
        self.context = check_number(context, "context", minimum=0.0)
        self.alpha = check_number(alpha, "alpha", above=0.0, maximum=0.999)
        self.margin = check_number(margin, "margin", minimum=0.0)
        self.generator = generator
        self.proxies = nn.Parameter(torch.randn(self.n_proxies, self.embedding_dim, generator=generator))

    @full_precision
    def forward(self, embeddings: Tensor, labels: Any = None) -> Tensor:
        """The loss of embeddings (n, d) whose proxies are `labels` (n,), numbers in 0..proxies−1."""
        x = check_embeddings(embeddings, "embeddings")
        n, k = len(x), len(self.proxies)
        if x.shape[1] != self.embedding_dim:
            raise ShapeError(f"`embeddings` must have {self.embedding_dim} columns, got {x.shape[1]}.")
        y = self._drawn(n) if labels is None else as_labels(labels, "labels", n=n)
        check_range(y, k, "a proxy each")
        if n == 0:
            return x.sum() * 0 + self.proxies.sum() * 0
        work = torch.float64 if x.dtype == torch.float64 else torch.float32
        walk = random_walk(unit_rows(torch.cat([x.to(work), self.proxies.to(work)])), self.alpha)
        own = y.to(x.device)
        total = _ranked(walk[:n, n:], own, self.margin)
        if self.context:
            rows = unit_rows(walk)
            total = total + self.context * _ranked(rows[:n] @ rows[n:].T, own, self.margin)
        return total

    def _drawn(self, n: int) -> Tensor:
        """A random proxy for every item, each proxy once before any comes again."""
        k = len(self.proxies)
        free = torch.randint(k, (max(n - k, 0),), generator=self.generator)
        return torch.cat([torch.arange(k), free])[torch.randperm(max(n, k), generator=self.generator)][:n]


def random_walk(z: Tensor, alpha: float) -> Tensor:
    """F of unit rows (n, d): (1 − α)(I − α D^{-½} S D^{-½})^{-1} with S = e^{[cos]₊/0.5}, no edge to itself.

    >>> random_walk(torch.eye(2), 0.5)   # S̄ swaps the two: ½ (I − ½ S̄)^-1
    tensor([[0.6667, 0.3333],
            [0.3333, 0.6667]])
    """
    itself = torch.eye(len(z), dtype=z.dtype, device=z.device)
    s = ((z @ z.T).clamp(min=0) / _TEMPERATURE).exp() * (1 - itself)
    scale = s.sum(1).rsqrt()
    return torch.linalg.solve(itself - alpha * scale[:, None] * s * scale[None], (1 - alpha) * itself)


def _ranked(f: Tensor, own: Tensor, margin: float) -> Tensor:
    """mean log(1 + Σ e^{f_k − f_y + m}) over the k ≠ y that are within the margin."""
    gap = f - f.gather(1, own[:, None]) + margin
    counted = (gap >= 0).scatter(1, own[:, None], False)
    return (torch.where(counted, gap, 0.0).exp() * counted).sum(1).log1p().mean()
