"""Tensors as the bytes of a safetensors file, and back, without a second copy in memory.

Layout: eight bytes with the length of the header, the header as JSON (dtype, shape and place of every tensor), the
numbers. The header is checked before a tensor is made; nothing in it can point outside of the bytes that are there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer._limits import parse_json
from nearer.exceptions import ParameterError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The pieces of a safetensors file, in order; the numbers are views of the tensors, not copies."""
    plain: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ParameterError(f"`tensors[{name!r}]` must be a tensor, got {type(tensor).__name__}.")
        if tensor.dtype not in NAMES or tensor.layout != torch.strided:
            raise ParameterError(f"`tensors[{name!r}]` must be dense numbers, got {tensor.dtype}, {tensor.layout}.")
        plain[name] = tensor.detach().resolve_conj().cpu().contiguous()
    # Wide types first, so that every tensor starts at a multiple of its own item size.
    order = sorted(plain, key=lambda name: (-plain[name].element_size(), name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        start, end = end, end + plain[name].nbytes
        header[name] = {
            "dtype": NAMES[plain[name].dtype],
            "shape": list(plain[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        if plain[name].numel():
            yield plain[name].reshape(-1).view(torch.uint8).numpy().data


def tensors_of(data: NDArray[np.uint8], what: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file, as views of its bytes; a ValueError says what does not fit.

    >>> tensors_of(np.frombuffer(bytearray(b"".join(tensor_bytes({"x": torch.ones(2)}))), np.uint8), "x")
    {'x': tensor([1., 1.])}
    """
    length = int.from_bytes(data[:8].tobytes(), "little")
    start = 8 + length
    if len(data) < 8 or start > len(data):
        raise ValueError("its header is longer than the file")
    header = parse_json(data[8:start].tobytes(), what)
    if not isinstance(header, dict):
        raise ValueError("its header must be a dictionary")
    header.pop("__metadata__", None)
    tensors: dict[str, Tensor] = {}
    end = 0
    for name, entry in sorted(header.items(), key=_place):
        first, last = entry["data_offsets"]
        kind, shape = entry.get("dtype"), entry.get("shape")
        dtype = DTYPES.get(kind) if isinstance(kind, str) else None
        if dtype is None or not isinstance(shape, list) or not all(_is_size(size) for size in shape):
            raise ValueError(f"{name!r} has the type {kind!r} and the shape {shape!r}")
        count = math.prod(shape)
        # One after the other and to the last byte: no tensor shares memory with another.
        if first != end or last - first != count * dtype.itemsize or start + last > len(data):
            raise ValueError(f"{name!r} must lie from {end:,} on with {count:,} numbers, got {first:,} to {last:,}")
        end = last
        tensors[name] = _view(data, dtype, count, start + first).reshape(shape)
    if start + end != len(data):
        raise ValueError(f"its tensors must fill {len(data) - start:,} bytes, they take {end:,}")
    return {name: tensors[name] for name in header}


def _view(data: NDArray[np.uint8], dtype: torch.dtype, count: int, start: int) -> Tensor:
    if not count:
        return torch.empty(0, dtype=dtype)
    if start % dtype.itemsize:
        # Written by another program without padding.
        return torch.from_numpy(data[start : start + count * dtype.itemsize].copy()).view(dtype)
    return torch.frombuffer(data.data, dtype=dtype, count=count, offset=start)


def _place(item: tuple[str, Any]) -> tuple[int, int]:
    name, entry = item
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(offset) for offset in offsets):
        raise ValueError(f"{name!r} has no place in the file")
    return offsets[0], offsets[1]


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
