"""Gradient caching: the exact pair loss of a large batch through an encoder that only fits a small one.

First every chunk is encoded without a graph; the loss of the whole batch gives the gradient by each embedding;
then each chunk is encoded again, with a graph, and handed its part of that gradient. Memory is that of one chunk
plus the embeddings, time that of one more forward pass.

Reference: Gao et al. 2021 (GradCache).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from nearer.exceptions import ShapeError

__all__ = ["backward_in_chunks"]


def backward_in_chunks(
    encoder: nn.Module,
    chunks: Sequence[Callable[[], Tensor]],
    loss: Callable[[Tensor], Tensor],
    *,
    encode: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Add the gradient of loss(encoder(all chunks)) to the parameters and return the loss, detached.

    `chunks` are functions that give the items of a chunk, so that the items of two chunks are never held at once
    (the functions are called twice and must give the same items; random augmentation inside them is repeated
    exactly). `loss` takes the joint embeddings (n, d). Dropout draws the same mask both times, and running
    statistics move once. Batch normalisation in training mode sees a chunk, not the batch: it is the one layer
    for which the result is not that of the plain step.

    >>> layer, x = nn.Linear(2, 1), torch.ones(6, 2)
    >>> _ = backward_in_chunks(layer, [lambda: x[:4], lambda: x[4:]], lambda z: z.sum())
    >>> layer.weight.grad
    tensor([[6., 6.]])

    Args:
        encoder: the module that is trained.
        chunks: functions that give the items of a chunk.
        loss: takes the joint embeddings (n, d).
        encode: how items are encoded; `encoder` itself if None.
    """
    apply = encode or encoder
    buffers = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    states, parts = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(_random_state())
            parts.append(apply(chunk()).detach())
    with torch.no_grad():
        for name, buffer in encoder.named_buffers():
            buffer.copy_(buffers[name])
    if not parts:
        raise ShapeError("`chunks` must have one chunk or more, got none.")
    embeddings = torch.cat(parts).requires_grad_()
    value = loss(embeddings)
    value.backward()  # type: ignore[no-untyped-call]
    assert embeddings.grad is not None
    with _random_state_kept():
        for chunk, state, gradient in zip(
            chunks, states, torch.split(embeddings.grad, [len(part) for part in parts]), strict=True
        ):
            _set_random_state(state)
            torch.autograd.backward(apply(chunk()), gradient)
    return value.detach()


def _random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])]


def _set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(state[1:])


@contextlib.contextmanager
def _random_state_kept() -> Iterator[None]:
    """The second pass repeats numbers that were drawn already; afterwards go on as if it had not been."""
    drawn = _random_state()
    try:
        yield
    finally:
        _set_random_state(drawn)
