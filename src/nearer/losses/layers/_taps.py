"""The layers of any network during a forward pass, without changing the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from nearer.exceptions import ParameterError


@contextmanager
def tapped(network: nn.Module, names: Sequence[str]) -> Iterator[list[Tensor]]:
    """The outputs of named sub-modules, in the order of the names, filled at each forward pass inside the block.

    Maps of shape (n, channels, h, w) are averaged over their places. The hooks go when the block ends, also after
    an error.

    >>> import torch
    >>> network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    >>> with tapped(network, ["0", "2"]) as layers:
    ...     _ = network(torch.rand(4, 3))
    >>> [tuple(layer.shape) for layer in layers]
    [(4, 5), (4, 2)]

    Args:
        network: the module to listen to.
        names: names of its sub-modules.
    """
    modules = dict(network.named_modules())
    unknown = [name for name in names if name not in modules or not name]
    if unknown or not names:
        raise ParameterError(
            f"`names` must be sub-modules of the network ({', '.join(list(modules)[1:9])}, ...), got "
            f"{unknown or 'none'}."
        )
    layers: list[Tensor] = [None] * len(names)  # type: ignore[list-item]

    def hook(number: int) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            if not isinstance(output, Tensor):
                raise ParameterError(f"`{names[number]}` must return a tensor, got {type(output).__name__}.")
            layers[number] = output.flatten(2).mean(2) if output.ndim > 2 else output

        return keep

    handles = [modules[name].register_forward_hook(hook(number)) for number, name in enumerate(names)]
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()
