"""The border to autograd: a loss and its gradient are computed at once; backward only hands the gradient on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nearer._tracing import readable, require
from nearer._validation import check_finite
from nearer.exceptions import NotFiniteError, ParameterError
from nearer.pairwise._precision import without_autocast
from nearer.pairwise._rule import Gradient

# queries, database (None: the queries themselves), anchor values, whether a gradient is wanted
Compute = Callable[[Tensor, Tensor | None, Tensor | None, bool], Gradient]

_TRANSFORMED = (
    "A loss must be called on plain tensors, got those of torch.func or torch.vmap: its gradient is written by "
    "hand. Call `backward`, or torch.autograd.grad without create_graph."
)
_SECOND = (
    "A loss must be differentiated once, got a second derivative: its gradient is written by hand, in tiles. Leave "
    "out create_graph=True, or use `loss.dense(...)`, which pair losses have and which is plain autograd."
)


def normalize_rows(x: Tensor, name: str = "embeddings") -> tuple[Tensor, Tensor]:
    """Unit rows z = x/‖x‖ and the inverse norms (n, 1); a zero row stays zero and has the inverse 0.

    What `geometry.normalize` does, with what the gradient needs. Rows that are not finite are refused; rows of 1e30
    and of 1e-30 work in single precision.

    >>> normalize_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))[0]
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    if x.shape[0] == 0:
        return x, length
    if readable(x):
        low, high = torch.aminmax(length.detach() if length.requires_grad else length)
        # One look at the lengths finds what is not finite, zero, or too large or too small to be squared.
        if low.item() > 1e-15 and high.item() < 1e15:
            inverse = length.reciprocal()
            return x * inverse, inverse
        check_finite(x, name)
    else:
        require(name, "be finite", torch.isfinite(x.detach()))
    # Direction does not depend on scale, so the scale is a constant for the gradient as well.
    scale = x.detach().abs().amax(1, keepdim=True)
    some = scale > 0
    scaled = x / torch.where(some, scale, 1.0)
    length = torch.linalg.vector_norm(torch.where(some, scaled, 1.0), dim=1, keepdim=True)
    most = torch.finfo(x.dtype).max
    return torch.where(some, scaled / length, 0.0), torch.where(some, 1 / length / scale, 0.0).clamp(max=most)


def _through_norm(d_z: Tensor, z: Tensor, inverse: Tensor) -> Tensor:
    """dx = (dz − z(zᵀdz))/‖x‖; zero for a zero row, where the direction is undefined."""
    along = (d_z * z).sum(1, keepdim=True)
    return torch.addcmul(d_z, z, along, value=-1).mul_(inverse)


def widen(x: Tensor) -> Tensor:
    """At least single precision."""
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


def check_untransformed(tensor: Tensor) -> None:
    """Refuse the tensors of torch.func and torch.vmap, which a gradient written by hand cannot serve."""
    if torch.compiler.is_compiling():
        return  # no gradient is written by hand there
    try:
        tensor.untyped_storage()  # these tensors have none
    except NotImplementedError as error:
        raise ParameterError(_TRANSFORMED) from error


class _Refused(torch.autograd.Function):
    """Gradients as they are, on a graph that says why it cannot be followed."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient.view_as(gradient) for gradient in tensors[-count:])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        raise ParameterError(_SECOND)


def refuse_second(inputs: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Gradients for `backward` to return; differentiating them again raises an error that says what to do."""
    if not torch.is_grad_enabled():
        return tuple(gradients)
    some = [gradient.detach() for gradient in gradients if gradient is not None]
    refused = iter(_Refused.apply(len(some), *inputs, *some))  # type: ignore[no-untyped-call]
    return tuple(None if gradient is None else next(refused) for gradient in gradients)


class _Attached(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor], *inputs: Tensor) -> Tensor:
        ctx.count = len(inputs)
        ctx.save_for_backward(*inputs, *gradients)
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        inputs, gradients = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        with torch.no_grad():
            # A loss that is minimised as it is has the factor 1, and a large table of gradients need not be copied.
            if upstream[0].device.type != "cpu" or upstream[0].item() != 1.0:
                gradients = [(slope * upstream[0]).to(slope.dtype) for slope in gradients]
        return None, None, *refuse_second(inputs, gradients)


def attach(value: Tensor, inputs: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> Tensor:
    """A scalar whose gradient by each input is known: put it on their graph.

    >>> x = torch.ones(2, requires_grad=True)
    >>> attach(torch.tensor(3.0), [x], [torch.tensor([1.0, 2.0])]).backward()
    >>> x.grad
    tensor([1., 2.])
    """
    # What needs no gradient is not held: a memory may be overwritten before the backward pass.
    needed = [
        (tensor, gradient)
        for tensor, gradient in zip(inputs, gradients, strict=True)
        if tensor is not None and gradient is not None and tensor.requires_grad
    ]
    return _Attached.apply(  # type: ignore[no-untyped-call]
        value, [gradient for _, gradient in needed], *(tensor for tensor, _ in needed)
    )


def check_squares(rows: Tensor | None) -> None:
    """Refuse rows whose squared distances do not fit their precision: NaN and zeros would come of them."""
    if rows is None or not rows.numel():
        return
    most = math.sqrt(torch.finfo(rows.dtype).max / (4 * rows.shape[1]))
    if not readable(rows):
        require("embeddings", f"have entries below {most:.2g}", rows.detach().abs() < most)
        return
    largest = float(rows.abs().max())
    if not largest < most:
        raise NotFiniteError(
            f"embeddings of a loss that does not normalise must have entries below {most:.2g}, so that squared "
            f"distances fit {str(rows.dtype).removeprefix('torch.')}, got {largest:.2g}. Pass normalize=True, or "
            f"scale them."
        )


def differentiate(
    compute: Compute,
    queries: Tensor,
    database: Tensor | None = None,
    anchor_values: Tensor | None = None,
    *,
    normalize: bool,
) -> Tensor:
    """Compute a loss on (normalised) embeddings so that `backward` reaches them."""
    on = torch.is_grad_enabled()
    inputs = (queries, database, anchor_values)
    needed = [on and tensor is not None and tensor.requires_grad for tensor in inputs]
    kind = queries.device.type
    # Exponents of 25 and more overflow in half precision, so autocast must not reach the products below.
    with torch.no_grad(), without_autocast(kind):
        q = widen(queries)
        d = None if database is None else widen(database)
        if normalize:
            q, q_inverse = normalize_rows(q)
            d, d_inverse = (None, None) if d is None else normalize_rows(d, "database")
        else:
            for rows in (q, d):
                check_squares(rows)
        loss = compute(q, d, anchor_values, any(needed))
        if not any(needed):
            return loss.value
        gradients: list[Tensor | None] = [None, None, None]
        if needed[0] and loss.queries is not None:
            d_q = _through_norm(loss.queries, q, q_inverse) if normalize else loss.queries
            gradients[0] = d_q if d_q.dtype == queries.dtype else d_q.to(queries.dtype)
        if needed[1] and loss.database is not None and d is not None and database is not None:
            d_d = (
                loss.database if not normalize or d_inverse is None else _through_norm(loss.database, d, d_inverse)
            )
            gradients[1] = d_d.to(database.dtype)
        gradients[2] = loss.anchor_values if needed[2] else None
    return attach(loss.value, inputs, gradients)
