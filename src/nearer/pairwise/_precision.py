"""Losses and miners compute in single precision, whatever autocast does around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self")
Given = ParamSpec("Given")
Result = TypeVar("Result")
_HALVES = (torch.float16, torch.bfloat16)


def without_autocast(kind: str) -> AbstractContextManager[Any]:
    """Inside, products on devices of this kind are in the precision of their tensors.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16), without_autocast("cpu"):
    ...     (torch.eye(2) @ torch.eye(2)).dtype
    torch.float32
    """
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def full_precision(
    method: Callable[Concatenate[Self, Given], Result],
) -> Callable[Concatenate[Self, Given], Result]:
    """A `forward` that autocast does not reach and whose embeddings are at least float32, on their graph.

    Exponents of 25 overflow in half precision, and cosines of it cannot tell neighbors apart. Tensors in a list or
    tuple (the layers of a network) are widened too.
    """

    @functools.wraps(method)
    def careful(self: Self, /, *given: Given.args, **named: Given.kwargs) -> Result:
        values = (*given, *named.values())
        tensors = [
            tensor for value in values for tensor in (value if isinstance(value, list | tuple) else (value,))
        ]
        device = next((tensor.device.type for tensor in tensors if isinstance(tensor, Tensor)), "cpu")
        if any(isinstance(tensor, Tensor) and tensor.dtype in _HALVES for tensor in tensors):
            given = tuple(map(_widened, given))  # type: ignore[assignment]
            named = {name: _widened(value) for name, value in named.items()}  # type: ignore[assignment]
        with without_autocast(device):
            return method(self, *given, **named)

    return careful


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.float() if value.dtype in _HALVES else value
    if type(value) in (list, tuple):
        return type(value)(_widened(entry) for entry in value)
    return value
