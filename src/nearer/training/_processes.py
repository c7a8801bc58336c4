"""Many processes, one batch: each computes its share, and the step is that of the joint batch.

Start the same program with `torchrun --nproc_per_node N`; nothing here does more than ask `torch.distributed`.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.distributed.rendezvous import rendezvous

from nearer.losses import PairLoss, ShardedLoss
from nearer.pairwise._shared import Shards
from nearer.training._state import pack, unpack

# Numbers in a gradient from which it is worth a message of its own.
LARGE = 1 << 16
_LAST_MESSAGE = torch.zeros(1)


@contextmanager
def process_group(*, timeout: float = 600.0) -> Iterator[None]:
    """Join the processes that `torchrun` started, and leave them at the end; alone, do nothing.

    gloo for tensors on the host, nccl for those on a GPU. A process that waits longer than `timeout`
    seconds for the others raises, so that a dead worker ends the job.

    >>> with process_group():  # the same program alone and under torchrun
    ...     1 + 1
    2

    Args:
        timeout: seconds to wait for another process.
    """
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1 or dist.is_initialized():
        yield
        return
    # Embeddings and gradients travel where they are; votes and the states of checkpoints are on the host.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    limit = timedelta(seconds=timeout)
    store, number, world = next(rendezvous("env://", timeout=limit))
    # torchrun may hand a restarted job the store of its earlier life; the addresses of the dead are still there.
    life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    fresh = dist.PrefixStore(f"life-{life}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=fresh, rank=number, world_size=world, timeout=limit)
    try:
        yield
        # So that the last message of all is one whose tensor nobody lets go of: see _leave_quietly.
        dist.all_reduce(_LAST_MESSAGE)
    finally:
        dist.destroy_process_group()
        atexit.register(_leave_quietly)


def _leave_quietly() -> None:
    """Give the threads of gloo the interpreter once more before it is taken down.

    A thread that lets go of the tensor of a finished message while the interpreter ends aborts the process, after
    all of its work is done (one run in four on two cores). The threads wait for the interpreter's lock at that
    moment, and a sleeping main thread hands it over.
    """
    time.sleep(0.3)


def rank() -> int:
    """The number of this process, 0 when it is alone."""
    return dist.get_rank() if _together() else 0


def world_size() -> int:
    """How many processes work together, 1 when this one is alone."""
    return dist.get_world_size() if _together() else 1


def share(rows: Tensor) -> Tensor:
    """This process's stretch of a joint batch; the shares differ by one row at most."""
    return rows.tensor_split(world_size())[rank()]


def agree(flag: bool) -> bool:
    """True in every process as soon as it is true in one."""
    if not _together():
        return flag
    vote = torch.tensor([int(flag)])
    dist.all_reduce(vote, op=dist.ReduceOp.MAX)
    return bool(vote)


def joint_loss(loss: nn.Module) -> nn.Module:
    """The form of a loss whose value and gradient are those of the joint batch of all processes.

    Pair losses share the work (`ShardedLoss`); a loss with a method `sharded()` brings its own form; any other
    loss sees the gathered batch in every process.

    >>> from nearer.losses import RAWLoss
    >>> type(joint_loss(RAWLoss())).__name__  # alone it is the loss itself, under torchrun a ShardedLoss
    'RAWLoss'

    Args:
        loss: any loss.
    """
    if not _together():
        return loss
    if isinstance(loss, PairLoss):
        return ShardedLoss(loss)
    own = getattr(loss, "sharded", None)
    return own() if callable(own) else JointLoss(loss)


class JointLoss(nn.Module):
    """Any loss `loss(embeddings, labels)` on the gathered batch; every process repeats the work.

    The gradient is multiplied by the number of processes, because gradients are averaged over them afterwards.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of the joint batch; `embeddings` (n, d) and `labels` (n, ...) are this process's share."""
        shards = Shards(len(embeddings), embeddings.device, averaged=True)
        everything: Tensor = _Gather.apply(embeddings, shards)  # type: ignore[no-untyped-call]
        return self.loss(everything, shards.gather(torch.as_tensor(labels)))


def joint_rows(own: Tensor) -> Tensor:
    """The rows (n, ...) of all processes, of which `own` are this one's; gradients come back to their owners.

    For a loss that every process computes as a whole, as `JointLoss` does; gradients are to be averaged afterwards.
    """
    if not _together():
        return own
    return _Gather.apply(own, Shards(len(own), own.device, averaged=True))  # type: ignore[no-untyped-call]


@contextmanager
def same_draws(*seed: int) -> Iterator[None]:
    """Random numbers of torch that are the same in all processes; alone, those that would come anyway."""
    if not _together():
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, own: Tensor, shards: Shards) -> Tensor:
        ctx.shards = shards  # type: ignore[attr-defined]
        return shards.gather(own)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # Every process computes the whole loss, so its own rows already have their whole gradient.
        return gradients[0][ctx.shards.own] * ctx.shards.scale, None


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over the processes; a parameter without one counts as zero."""
    if not _together():
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    # One message per dtype: many small ones would cost more than the bytes.
    for dtype in sorted({parameter.dtype for parameter in trained}, key=str):
        gradients = [parameter.grad for parameter in trained if parameter.dtype == dtype]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients if gradient is not None])
        dist.all_reduce(flat)
        flat /= world_size()
        parts = torch.split(flat, [gradient.numel() for gradient in gradients if gradient is not None])
        for gradient, part in zip(gradients, parts, strict=True):
            assert gradient is not None
            gradient.copy_(part.view_as(gradient))


class EarlyAverage:
    """Averages large gradients over the processes while backward still works on the layers before them.

    `watch` the parameters once; inside `with early:` every backward pass starts sending a large gradient as soon as
    it is complete, and the end of the block waits for them. `average` then does the others. Every process must use
    the same parameters, as it does when all run the same program. Alone, nothing happens.

    Only for one backward pass per block: a second would add to what has been sent already.
    """

    def __init__(self) -> None:
        self._sent: list[tuple[nn.Parameter, Any]] | None = None
        self._averaged: set[int] = set()

    def watch(self, parameters: Iterable[nn.Parameter]) -> None:
        """Note when the gradients of these parameters are complete."""
        if _together():
            for parameter in parameters:
                if parameter.requires_grad and parameter.numel() >= LARGE:
                    parameter.register_post_accumulate_grad_hook(self._send)  # type: ignore[no-untyped-call]

    def _send(self, parameter: Tensor) -> None:
        if self._sent is not None:
            self._sent.append((parameter, dist.all_reduce(parameter.grad, async_op=True)))  # type: ignore[arg-type]

    def __enter__(self) -> EarlyAverage:
        self._sent = []
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        sent, self._sent = self._sent or [], None
        self._averaged = set()
        if kind is not None:
            # A step that failed here has not sent all the others wait for: waiting would hide its error.
            return
        for parameter, work in sent:
            work.wait()
            assert parameter.grad is not None
            parameter.grad /= world_size()
            self._averaged.add(id(parameter))

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average the gradients that were not sent early."""
        average_gradients(parameter for parameter in parameters if id(parameter) not in self._averaged)
        self._averaged = set()


@torch.no_grad()
def average_buffers(module: nn.Module) -> None:
    """Give every process the mean of running statistics, such as those of batch normalisation."""
    if not _together():
        return
    for buffer in module.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= world_size()


@torch.no_grad()
def same_start(module: nn.Module) -> None:
    """Give every process the parameters and buffers of the first."""
    if _together():
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data, src=0)


def lost_worker(error: RuntimeError) -> bool:
    """Whether an error means that another process is gone or hangs."""
    if not _together():
        return False
    text = str(error).lower()
    # gloo has no class of errors of its own.
    return isinstance(error, dist.DistBackendError) or "gloo" in text or "timed out waiting" in text


def _together() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather_states(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The packed states of all processes, in the order of their ranks, as tensors and plain values."""
    if not _together():
        return [state]
    tensors, document = pack(state)
    text = torch.tensor(list(json.dumps(document).encode()), dtype=torch.uint8)
    texts = _gathered(text)
    named = {name: _gathered(tensor) for name, tensor in tensors.items()}
    return [
        unpack({name: parts[process] for name, parts in named.items()}, json.loads(bytes(texts[process].tolist())))
        for process in range(world_size())
    ]


def _gathered(tensor: Tensor) -> list[Tensor]:
    shards = Shards(len(tensor), tensor.device, averaged=False)
    return list(torch.split(shards.gather(tensor), shards.sizes))
