"""Nested state (of optimisers, samplers, random generators) as tensors and JSON, and back, without pickle."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearer.exceptions import CorruptFileError, ParameterError

# What JSON cannot say is wrapped in a dictionary with one of these keys.
_TENSOR, _TUPLE, _PAIRS, _FLOAT = "$tensor", "$tuple", "$pairs", "$float"


def pack(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Named tensors and a JSON document that together hold a nested state of plain values.

    Dictionaries (also with integer keys), lists, tuples, tensors, numbers, text, booleans and None are plain.

    >>> tensors, document = pack({"state": {0: torch.ones(2)}, "betas": (0.9, 0.999)})
    >>> list(tensors), unpack(tensors, document)["betas"]
    (['0'], (0.9, 0.999))
    """
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            name = str(len(tensors))
            tensors[name] = value
            return {_TENSOR: name}
        if isinstance(value, dict):
            pairs = [(key, walk(entry, f"{path}.{key}")) for key, entry in value.items()]
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return dict(pairs)
            return {_PAIRS: [[walk(key, path), entry] for key, entry in pairs]}
        if isinstance(value, list):
            return [walk(entry, f"{path}.{number}") for number, entry in enumerate(value)]
        if isinstance(value, tuple):
            return {_TUPLE: [walk(entry, f"{path}.{number}") for number, entry in enumerate(value)]}
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {_FLOAT: str(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise ParameterError(
            f"state{path} must be a tensor, a number, text, None or a container of them to be saved, got "
            f"{type(value).__name__}."
        )

    return tensors, walk(state, "")


def unpack(tensors: dict[str, Tensor], document: Any) -> Any:
    """The nested state that `pack` took apart."""

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, entry),) = value.items()
            if key == _TENSOR:
                if entry not in tensors:
                    raise CorruptFileError(f"The state must hold a tensor {entry!r}, and it does not.")
                return tensors[entry]
            if key == _TUPLE:
                return tuple(walk(each) for each in entry)
            if key == _PAIRS:
                return {walk(name): walk(each) for name, each in entry}
            if key == _FLOAT:
                return float(entry)
        return {key: walk(entry) for key, entry in value.items()}

    return walk(document)


def get_random_state() -> dict[str, Any]:
    """Where the random generators of torch, numpy and Python stand."""
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [
            str(name),
            torch.from_numpy(np.asarray(keys, np.int64)),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put the random generators back where they stood."""
    torch.set_rng_state(state["torch"])
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))  # noqa: NPY002
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
