"""Random numbers that belong to a pair or an anchor, not to a tile: the same however the batch is cut."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer._tracing import leave_to_eager

# Odd constants with mixed bits. Of rows and columns, which count loops, the product must stay below 2⁶³: the C++ of
# torch.compile overflows with a sign there, and its compiler took that for a promise that the loop ends before.
_ROW, _COLUMN = 0x9E3779B1, 0x85EBCA77
_ODD = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_SEEDS = 2**62


def fresh_seed(generator: torch.Generator | None) -> int | Tensor:
    """One seed for one batch, from a generator (torch's own if there is none); a tensor for the compiler."""
    if not torch.compiler.is_compiling():
        return int(torch.randint(_SEEDS, (), generator=generator))
    if generator is not None:
        leave_to_eager("A generator cannot be compiled: leave it out, and torch's own is used.")
    return torch.randint(_SEEDS, ())


def uniform(seed: int | Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Uniform numbers in [0, 1), float64, one for each broadcast pair of integers; a pure function of all three.

    >>> a = uniform(1, torch.arange(3)[:, None], torch.arange(1000)[None])
    >>> a.shape, bool((a >= 0).all() and (a < 1).all()), abs(a.mean().item() - 0.5) < 0.02
    (torch.Size([3, 1000]), True, True)
    """
    x = _mix(_mix(first * _ROW + seed) + second * _COLUMN)
    return (x & ((1 << 53) - 1)).to(torch.float64) / (1 << 53)


def _mix(x: Tensor) -> Tensor:
    """Scramble 64-bit integers (multiply and xor-shift, wrapping); torch's shift is arithmetic, hence the masks."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _ODD[0]
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _ODD[1]
    return x ^ ((x >> 31) & ((1 << 33) - 1))
