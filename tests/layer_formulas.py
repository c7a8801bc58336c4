"""Layers of representations and the printed kernels on them, for the tests of losses of several layers."""

from __future__ import annotations

import torch

N = 13
LABELS = torch.arange(N) % 4


def random_layers(seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(N, d, generator=g, dtype=torch.float64) * s for d, s in ((6, 1.5), (4, 0.5), (3, 0.3))]


def squared(x):
    return (x[:, None] - x[None]).square().sum(2)


def mixture(x, components):
    d = squared(x)
    b = d.sum() / (N * (N - 1))
    rates = [1 / (b.detach() * 2.0 ** (u - components // 2)) for u in range(components)]
    return torch.stack([torch.exp(-d * rate) for rate in rates]).mean(0)


def different(values, labels=LABELS):
    keep = labels[:, None] != labels[None]
    return values[keep].sum() / keep.sum()
