"""Problems with classes that training never sees: does a system make them easier to tell apart?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nearer.evaluation import recall_at_k
from nearer.geometry import embed
from nearer.training import ClassSampler, EncoderStep, TensorBatches, train


def rows(classes: int = 60, per_class: int = 10, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors whose classes differ in 6 directions and whose noise lies in 10 others, turned; the last third of the
    classes is held out.
    """
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat_interleave(per_class)
    signal = torch.randn(classes, 6, generator=g)[y] + 0.2 * torch.randn(len(y), 6, generator=g)
    noise = torch.randn(len(y), 10, generator=g)
    turn = torch.linalg.qr(torch.randn(16, 16, generator=g)).Q
    x = torch.cat([signal, noise], 1) @ turn
    seen = y < 2 * classes // 3
    return x[seen], y[seen], x[~seen], y[~seen]


def images(classes: int = 45, per_class: int = 8, *, side: int = 12, seed: int = 0) -> tuple[Tensor, ...]:
    """Pictures (n, 1, side, side) of a small class pattern somewhere on noise; the last third is held out."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat_interleave(per_class)
    pattern = (torch.rand(classes, 4, 4, generator=g) > 0.5).float() * 2 - 1
    x = 0.3 * torch.randn(len(y), 1, side, side, generator=g)
    for i, one in enumerate(y.tolist()):
        top, left = torch.randint(side - 3, (2,), generator=g).tolist()
        x[i, 0, top : top + 4, left : left + 4] += pattern[one]
    seen = y < 2 * classes // 3
    return x[seen], y[seen], x[~seen], y[~seen]


def recall(encoder: nn.Module, x: Tensor, y: Tensor) -> float:
    return recall_at_k(embed(encoder, x), y)


def learn(
    encoder: nn.Module, loss: nn.Module, x: Tensor, y: Tensor, *, epochs: int, rate: float = 3e-3
) -> list[float]:
    """Train as a user would and return the mean loss of every epoch."""
    torch.manual_seed(0)
    adam = torch.optim.Adam([*encoder.parameters(), *loss.parameters()], lr=rate)
    step = EncoderStep(encoder, loss, adam, TensorBatches(x, y))
    history = train(step, ClassSampler(y, n_classes=8, per_class=4), epochs=epochs)
    return [epoch["loss"] for epoch in history.epochs]
