"""First weights of the linear layers that heads are made of."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["start_linear"]


def start_linear(module: nn.Module, generator: torch.Generator | None) -> None:
    """N(0, 1/inputs) for the weights of every linear layer inside, rows then have length about one; biases 0.

    >>> layer = nn.Linear(400, 3)
    >>> start_linear(layer, torch.Generator().manual_seed(0))
    >>> layer.weight.norm(dim=1).round().tolist(), layer.bias.tolist()
    ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
