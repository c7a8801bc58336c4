"""What went into a layer of the encoder, for losses that look one layer further back than the embeddings."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from nearer.exceptions import ParameterError, ShapeError

__all__ = ["LayerInput"]


class LayerInput:
    """The first argument of a layer at its last forward pass, kept until it is taken.

    A loss that needs the features before the embedding layer holds one of these and is then called like any
    other, loss(embeddings, labels). The layer stays the encoder's: the loss does not list its parameters a second
    time. The hook goes when this object does.

    >>> layer = nn.Linear(3, 2)
    >>> seen = LayerInput(layer)
    >>> _ = layer(torch.zeros(4, 3))
    >>> seen.take(4).shape
    torch.Size([4, 3])
    """

    def __init__(self, layer: nn.Module) -> None:
        self.layer = check_module(layer, "layer")
        self._last: Tensor | None = None
        owner = weakref.ref(self)

        def keep(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            me = owner()
            if me is not None and inputs and isinstance(inputs[0], Tensor):
                me._last = inputs[0]

        weakref.finalize(self, layer.register_forward_pre_hook(keep).remove)

    def take(self, n: int) -> Tensor:
        """The input (n, ...) on its graph, at least in float32; it is forgotten here, so that its graph can go."""
        last, self._last = self._last, None
        if last is None:
            raise ParameterError(
                "the layer that the loss looks into must run before each call of the loss. Give the loss the same "
                "module that the encoder calls."
            )
        if len(last) != n:
            raise ShapeError(
                f"the layer must have seen the {n} items of the embeddings in its last pass, got {len(last)}. "
                f"Encode the batch in one piece (no `chunk`) and in one process."
            )
        # The loss runs in full precision also where the encoder did not.
        return last.float() if last.dtype in (torch.float16, torch.bfloat16) else last


def check_module(value: Any, name: str) -> nn.Module:
    """A network, or a part of one, that a system calls."""
    if not isinstance(value, nn.Module):
        raise ParameterError(f"`{name}` must be a torch module, got a {type(value).__name__}.")
    return value
