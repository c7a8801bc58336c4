"""Batch normalisation that is frozen, folded into the convolution before it: the same numbers in half the time.

    γ (W∗x − μ) / √(σ² + ε) + β  =  W′∗x + b′,   W′ = W γ / √(σ² + ε),   b′ = β − μ γ / √(σ² + ε)

Which convolution stands before which normalisation is found by running the network once, so it works for modules
that nobody wrote for it; that the result is the same is checked on the same items, and otherwise nothing is folded.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

# Rounding of some dozen layers in float32, against the largest entry.
TOLERANCE = 1e-3


@torch.no_grad()
def fold_norms(network: nn.Module, items: Tensor) -> tuple[nn.Module, int]:
    """A copy of a network in evaluation mode with its normalisations folded, and how many there were; a copy that
    is as it was, and 0, where one of them cannot be.

    What is left of normalisation has no parameters that learn. `items` is a small batch that the network takes.

    >>> network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).eval()
    >>> fold_norms(network, torch.rand(2, 1, 3, 3))
    (Sequential(
      (0): Conv2d(1, 2, kernel_size=(1, 1), stride=(1, 1))
      (1): Identity()
    ), 1)

    Args:
        network: any module.
        items: some items that it takes.
    """
    plain = copy.deepcopy(network).eval()
    folded = copy.deepcopy(plain)
    expected, pairs = _pairs(folded, items)
    for convolution, norm in pairs:
        _fold(convolution, norm)
    inside = {id(norm) for _, norm in pairs}
    for parent in list(folded.modules()):
        for name, child in list(parent.named_children()):
            if id(child) in inside:
                setattr(parent, name, nn.Identity())
    values = _rows(folded(items))
    error = float((values - expected).abs().max()) / max(float(expected.abs().max()), 1e-12)
    kept, count = (folded, len(pairs)) if error <= TOLERANCE else (plain, 0)
    for layer in kept.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            for parameter in layer.parameters():
                parameter.requires_grad_(False)
    return kept, count


def _pairs(network: nn.Module, items: Tensor) -> tuple[Tensor, list[tuple[nn.Conv2d, nn.BatchNorm2d]]]:
    """What the network gives, and each convolution with the normalisation that takes exactly what came out of
    it.
    """
    made: dict[int, tuple[nn.Conv2d, Tensor]] = {}
    calls: dict[nn.Module, int] = {}
    pairs: list[tuple[nn.Conv2d, nn.BatchNorm2d]] = []

    def look(layer: nn.Module, given: Any, came: Any) -> None:
        calls[layer] = calls.get(layer, 0) + 1
        if isinstance(layer, nn.Conv2d):
            made[id(came)] = (layer, came)  # held, so that no other tensor gets its number
        elif isinstance(layer, nn.BatchNorm2d) and id(given[0]) in made:
            pairs.append((made[id(given[0])][0], layer))

    # A subclass may do more than normalise (timm's have the activation inside).
    watched = [
        layer for layer in network.modules() if isinstance(layer, nn.Conv2d) or type(layer) is nn.BatchNorm2d
    ]
    hooks = [layer.register_forward_hook(look) for layer in watched]
    try:
        expected = _rows(network(items))
    finally:
        for hook in hooks:
            hook.remove()
    once = [(first, second) for first, second in pairs if calls[first] == calls[second] == 1]
    return expected, [(first, second) for first, second in once if second.running_mean is not None]


def _fold(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean, variance = norm.running_mean.double(), norm.running_var.double()
    own, first = convolution.weight, None if convolution.bias is None else convolution.bias.double()
    weight, bias = fuse_conv_bn_weights(own.double(), first, mean, variance, norm.eps, norm.weight, norm.bias)
    own.copy_(weight)
    convolution.bias = nn.Parameter(bias.to(own.dtype))


def _rows(came: Any) -> Tensor:
    """What comes out, as one tensor of numbers."""
    if isinstance(came, Tensor):
        return came.float()
    parts = came.values() if isinstance(came, dict) else came
    return torch.cat([part.float().reshape(-1) for part in parts if isinstance(part, Tensor)])
