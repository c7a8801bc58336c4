"""What training on a processor needs of the memory: pages that stay, and batches that fit."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

# Numbers of mallopt(3). Above the first threshold every allocation is mapped, zeroed page by page and unmapped
# again: a third of the time of a step, because activations are large and short-lived.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
KEPT = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 64 << 20}
# What the library comes to by itself in a process that has large arrays.
USUAL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20, _TOP_PAD: 128 << 10}


@contextlib.contextmanager
def pages_kept() -> Iterator[bool]:
    """Inside, freed memory stays with the process; afterwards it goes back. Says whether the C library can (glibc).

    >>> with pages_kept() as kept:
    ...     isinstance(kept, bool)
    True
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    able = library is not None and hasattr(library, "mallopt") and hasattr(library, "malloc_trim")
    if not able or library is None:
        yield False
        return
    for number, value in KEPT.items():
        library.mallopt(number, value)
    try:
        yield True
    finally:
        for number, value in USUAL.items():
            library.mallopt(number, value)
        library.malloc_trim(0)


def activation_bytes(network: nn.Module, items: Tensor) -> float:
    """Bytes for each of the items that a step holds between its forward and its backward pass.

    >>> layer = nn.Sequential(nn.Linear(1000, 1000), nn.Tanh(), nn.Linear(1000, 1))
    >>> activation_bytes(layer, torch.rand(4, 1000)) >= 4000
    True
    """
    held: dict[int, int] = {}
    own = {tensor.untyped_storage().data_ptr() for tensor in (*network.parameters(), *network.buffers())}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.enable_grad():
        kept = network(items)
    del kept
    return sum(held.values()) / len(items)
