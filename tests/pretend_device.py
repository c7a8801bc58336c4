"""A device that is not there: tensors that say they live elsewhere, hold their numbers here, and refuse to mix.

A `Remote` is a tensor whose `device` is not the host (torch's "meta", the one foreign device that autograd accepts
in a build without CUDA), with a real tensor inside, so that `item`, `nonzero` and every branch on values work.
Inside `pretend()` every operation is looked at, forward and backward, and what CUDA refuses is refused:

- tensors of the host and of the device in one operation (numbers without dimensions may meet elementwise);
- a generator of the host for random numbers on the device;
- `numpy()`, which torch refuses by itself.

Copies between the two are legal on CUDA, and slow: each is noted in `moves` with the line of nearer that asks, and
in `waits` whatever the host must wait for: numbers, lengths of results, copies to it.
What this cannot show: that a kernel exists on CUDA for a type, that it is fast, that sums are the same to the last
bit; code that asks for "cuda" by name is only seen to ask for another device than this one.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._dynamo.trace_rules import get_torch_obj_rule_map
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

import nearer
import nearer_papers

__all__ = ["DEVICE", "Moves", "Remote", "here", "pretend", "there"]

DEVICE = torch.device("meta")
# The packages themselves: the project may have been cloned into a folder called nearer, or below one called torch.
_NEARER, _PAPERS, _TORCH = (Path(str(package.__file__)).parent for package in (nearer, nearer_papers, torch))
_COPIES = {"aten::_to_copy", "aten::copy_", "aten::_copy_from_and_resize"}
# What the host must have from the device before it can go on: a number, or the length of a result.
_WAITS = {
    "aten::_local_scalar_dense",
    "aten::_unique2",
    "aten::bincount",
    "aten::equal",
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave",
    "aten::unique_consecutive",
    "aten::unique_dim",
}
# With indices on the host torch copies them without a word.
_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


class Remote(Tensor):
    """A tensor on the pretended device; `held` has its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Remote:
        return Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )

    def __init__(self, inner: Tensor) -> None:
        self.held = inner

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Remote({self.held!r})"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if function is Tensor.tolist:  # torch refuses it for subclasses
                return args[0].detach().held.tolist()
            if function is Tensor.new_tensor:  # for "meta" torch leaves the numbers out
                return torch.tensor(*args[1:], **{"dtype": args[0].dtype, "device": DEVICE, **kwargs})
            return function(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{operation} was called outside of pretend()")


class Moves(list[str]):
    """Copies between host and device, each as "to host: folder/_file.py: line of code"."""


class _Device(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.moves = Moves()
        self.waits: list[str] = []
        self.operations: set[str] = set()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = operation._schema.name
        remote = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Remote)]
        local = [
            one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor) and not isinstance(one, Remote)
        ]
        asked = kwargs.get("device")
        target = bool(remote) if asked is None else torch.device(asked).type == DEVICE.type
        if remote or target:
            self.operations.add(str(operation))
        if name in _COPIES:
            source = args[1] if name == "aten::copy_" else args[0]
            onto = isinstance(args[0], Remote) if name == "aten::copy_" else target
            if isinstance(source, Remote) != onto and source.numel():
                self.moves.append(f"to {'device' if onto else 'host'}: {_line()}")
                if not onto:
                    self.waits.append(f"{name}: {_line()}")
            target = onto
        elif remote and local:
            scalars = all(one.ndim == 0 for one in local) and torch.Tag.pointwise in operation.tags
            if name in _INDEXING and not isinstance(args[0], Remote):
                scalars = False
            if not scalars:
                raise RuntimeError(
                    f"{operation} got tensors of the host {[tuple(one.shape) for one in local]} and of the device "
                    f"{[tuple(one.shape) for one in remote]} at {_line()}"
                )
        masked = name in _INDEXING and any(one is not None and one.dtype == torch.bool for one in args[1])
        if remote and (name in _WAITS or masked):
            self.waits.append(f"{name}: {_line()}")
        generator = kwargs.get("generator")
        if target and generator is not None and generator.device.type != DEVICE.type:
            raise RuntimeError(f"{operation} got a generator of the host at {_line()}")
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
        inner_args, inner_kwargs = tree_map(_unwrap, (args, kwargs))
        result = operation(*inner_args, **inner_kwargs)
        if not target:
            return result
        wrapped = tree_map(lambda one: Remote(one) if isinstance(one, Tensor) else one, result)
        return return_and_correct_aliasing(operation, args, kwargs, wrapped) if remote else wrapped


def _unwrap(value: Any) -> Any:
    return value.held if isinstance(value, Remote) else value


def _line() -> str:
    """The innermost line of nearer (or of the test) that is running."""
    stack = [frame for frame in traceback.extract_stack() if _TORCH not in Path(frame.filename).parents]
    ours = [frame for frame in stack if {_NEARER, _PAPERS} & set(Path(frame.filename).parents)] or stack[:-2]
    frame = ours[-1]
    return f"{'/'.join(Path(frame.filename).parts[-2:])}: {frame.line}"


@contextlib.contextmanager
def pretend() -> Iterator[_Device]:
    """Run with a device that is not there; yields what was seen (`moves`, `operations`)."""
    get_torch_obj_rule_map()  # what torch.compile knows of torch is noted once, and must not be what stands here
    plain = {name: getattr(torch, name) for name in ("autocast", "is_autocast_enabled", "tensor", "as_tensor")}

    class autocast(plain["autocast"]):  # type: ignore[misc]  # it has a list of known devices
        def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
            super().__init__(_known(device_type), *args, **kwargs)

    def from_data(make: Any) -> Any:
        # For "meta" torch leaves the numbers out, so they go through the host.
        def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
            result: Tensor = make(data, *args, **kwargs)
            if device is None or torch.device(device) == result.device:
                return result
            return Remote(result) if torch.device(device).type == DEVICE.type else result.to(device)

        return made

    changed = {
        "autocast": autocast,
        "is_autocast_enabled": lambda kind="cpu": plain["is_autocast_enabled"](_known(kind)),
        "tensor": from_data(plain["tensor"]),
        "as_tensor": from_data(plain["as_tensor"]),
    }
    device = _Device()
    with mock.patch.multiple(torch, **changed), device:
        yield device


def _known(kind: str) -> str:
    return "cpu" if kind == DEVICE.type else kind


def there(tensor: Tensor) -> Remote:
    """The tensor on the device, as a leaf."""
    return Remote(tensor.detach().clone())


def here(tensor: Tensor) -> Tensor:
    """The numbers of a tensor that must be on the device."""
    assert isinstance(tensor, Remote), f"expected a tensor on the device, got one on {tensor.device}"
    return tensor.detach().held
