"""The one border: whatever the user passes becomes a checked tensor, and the user's own data is never changed.

Every public function calls these first and trusts its data afterwards. A tensor that already fits is
returned as it is (no copy, gradients kept); anything else is converted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearer._checks import check_rectangle
from nearer.exceptions import LabelError, NotFiniteError, ParameterError, ShapeError


def as_tensor(value: Any, name: str) -> Tensor:
    """Turn numbers in any container into a tensor; nothing is written to `value`.

    >>> as_tensor([1, 2], "x")
    tensor([1, 2])
    """
    if isinstance(value, Tensor):
        if value.is_sparse or value.layout != torch.strided:
            raise ShapeError(f"`{name}` must be dense, got a {value.layout} tensor. Pass `{name}.to_dense()`.")
        if value.is_complex():
            raise ShapeError(f"`{name}` must hold real numbers, got {value.dtype}. Pass their parts as columns.")
        if value.dtype in (torch.uint16, torch.uint32, torch.uint64):
            # torch knows these types, but can hardly compute with them.
            return as_tensor(value.cpu().numpy(), name).to(value.device)
        return value
    if hasattr(value, "toarray"):
        raise ShapeError(
            f"`{name}` must be dense, got a sparse {type(value).__name__}. Pass `{name}.toarray()`, or use an "
            f"estimator that takes sparse input."
        )
    array = as_array(value, name)
    if array.dtype.kind not in "biuf":
        raise ShapeError(f"`{name}` must hold numbers, got {array.dtype}. Convert or drop what is not numeric.")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        if array.dtype.itemsize == 8 and array.size and int(array.max()) >= 1 << 63:
            raise ParameterError(
                f"`{name}` must be below 2**63 as whole numbers, got {int(array.max())}. Pass them as float64."
            )
        array = array.astype(np.int64)
    # torch warns about read-only memory and refuses negative strides: both need a copy of their own.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides) or not array.dtype.isnative:
        array = np.array(array, dtype=array.dtype.newbyteorder("="), copy=True)
    return torch.from_numpy(array)


def check_finite(tensor: Tensor, name: str) -> None:
    """Raise when a value is NaN or infinite, and say where the first one is."""
    if torch.compiler.is_compiling():
        from nearer._tracing import require  # a search has no use for it

        require(name, "be finite", torch.isfinite(tensor.detach()))
        return
    # A sum in the type of the tensor is one pass without a copy; only a suspicious one is looked at entry by entry.
    if math.isfinite(tensor.detach().sum().item()):
        return
    bad = ~torch.isfinite(tensor.detach())
    count = int(bad.sum())
    if count:
        first = tuple(int(i) for i in bad.nonzero()[0])
        raise NotFiniteError(
            f"`{name}` must be finite, got {count} NaN or infinite value{'s' if count > 1 else ''}, the first at "
            f"index {first}. Impute or drop those rows, or lower the learning rate if a network made them."
        )


def as_matrix(value: Any, name: str, *, columns: int | None = None, minimum_rows: int = 1) -> Tensor:
    """A finite floating-point matrix of shape (n, d); integers become float32, half precision is widened.

    >>> as_matrix([[1, 2], [3, 4]], "embeddings").dtype
    torch.float32
    """
    tensor = as_tensor(value, name)
    if tensor.ndim != 2:
        hint = " Pass one row per item." if tensor.ndim == 1 else ""
        raise ShapeError(f"`{name}` must have shape (n, d), got {tuple(tensor.shape)}.{hint}")
    if tensor.shape[0] < minimum_rows or tensor.shape[1] == 0:
        raise ShapeError(
            f"`{name}` must have at least {minimum_rows} row{'s' if minimum_rows > 1 else ''} and one column, "
            f"got {tuple(tensor.shape)}."
        )
    if columns is not None and tensor.shape[1] != columns:
        raise ShapeError(f"`{name}` must have {columns} columns, got {tensor.shape[1]}.")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32)
    check_finite(tensor, name)
    return tensor


def as_labels(value: Any, name: str, *, n: int | None = None) -> Tensor:
    """Integer class labels of shape (n,), as int64. Any integers will do; nothing is renumbered.

    >>> as_labels([7, 7, -1], "labels", n=3)
    tensor([ 7,  7, -1])
    """
    if not isinstance(value, Tensor):
        array = as_array(value, name)
        if array.dtype.kind in "OUS":
            raise LabelError(f"`{name}` must be integers, got {array.dtype}. Use encode_labels(...) for names.")
    tensor = as_tensor(value, name)
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1:
        hint = " For a 0/1 matrix use relations.MultiLabels(...)." if tensor.ndim == 2 else ""
        raise ShapeError(f"`{name}` must have shape (n,), got {tuple(tensor.shape)}.{hint}")
    if n is not None and tensor.shape[0] != n:
        raise ShapeError(f"`{name}` must have one entry for each of the {n} rows, got {tensor.shape[0]}.")
    if tensor.dtype.is_floating_point:
        whole = tensor.to(torch.int64)
        if torch.compiler.is_compiling():
            from nearer._tracing import require

            require(name, "be whole numbers", whole.to(tensor.dtype) == tensor)
        elif not torch.equal(whole.to(tensor.dtype), tensor):
            raise LabelError(f"`{name}` must be whole numbers, got fractions. For targets of regression use MLKR.")
        return whole
    return tensor.to(torch.int64)


def as_array(value: Any, name: str = "values") -> np.ndarray[Any, Any]:
    """Anything as an array; a tensor of another device is copied to the host.

    >>> as_array(torch.tensor([1, 2]))
    array([1, 2])
    """
    if isinstance(value, Tensor):
        if value.layout != torch.strided:
            raise ShapeError(f"`{name}` must be dense, got a {value.layout} tensor. Pass `{name}.to_dense()`.")
        return value.detach().cpu().numpy()
    return check_rectangle(value, name)


def encode_labels(value: Any, name: str, *, n: int | None = None) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Labels of any type (names, integers with gaps) as codes 0..c−1, and the sorted classes they stand for.

    >>> codes, classes = encode_labels(["cat", "dog", "cat"], "labels")
    >>> codes.tolist(), classes.tolist()
    ([0, 1, 0], ['cat', 'dog'])
    """
    array = as_array(value, name)
    if array.ndim != 1:
        raise ShapeError(f"`{name}` must have shape (n,), got {array.shape}.")
    if n is not None and array.shape[0] != n:
        raise ShapeError(f"`{name}` must have one entry for each of the {n} rows, got {array.shape[0]}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise LabelError(f"`{name}` must not hold NaN. Mark unlabelled rows with -1 where a method takes them.")
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise LabelError(f"`{name}` must hold values of one type that can be sorted: {error}.") from error
    return torch.from_numpy(codes.astype(np.int64).reshape(-1)), classes
