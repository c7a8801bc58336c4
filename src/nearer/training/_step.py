"""One step of training: encode a batch, take its loss, move the parameters.

Gradient caching: the exact pair loss of a large batch through an encoder that only fits a small one.

First every chunk is encoded without a graph; the loss of the whole batch gives the gradient by each embedding;
then each chunk is encoded again, with a graph, and handed its part of that gradient. Memory is that of one chunk
plus the embeddings, time that of one more forward pass.

Reference: Gao et al. 2021 (GradCache).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nearer._checks import check_choice, check_int, check_number
from nearer._validation import as_labels, as_tensor
from nearer.exceptions import NearerWarning, NotFiniteError, ParameterError, ShapeError
from nearer.training._processes import EarlyAverage, joint_loss, same_start, share
from nearer.training._schedules import Schedule, constant

Precision = Literal["float32", "bfloat16", "float16"]
_HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Step(Protocol):
    """What the loop repeats. A method with an update rule of its own writes its own step and keeps the loop."""

    @property
    def module(self) -> nn.Module:
        """Everything that is learnt; its state dictionary is what the best model keeps."""

    def __call__(self, rows: Tensor) -> float:
        """Learn from the joint batch `rows` and return its loss."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on: parameters, buffers, optimiser."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""


class Batches(Protocol):
    """Items and labels by row number; see `TensorBatches`."""

    def items(self, rows: Tensor) -> Tensor:
        """What the encoder takes, (n, ...)."""

    def labels(self, rows: Tensor) -> Any:
        """What the loss takes beside the embeddings."""


class EncoderStep:
    """Encode, take the loss, move encoder and loss parameters with one optimiser.

    `loss` is any module called as loss(embeddings, labels). With several processes it becomes the loss of the
    joint batch and gradients are averaged. `chunk` encodes that many items at a time (see `backward_in_chunks`);
    `precision` runs the encoder in half precision while parameters and loss stay in float32; `max_norm` limits
    the norm of the gradient; `schedule` moves all learning rates.

    >>> from nearer.geometry import MLP
    >>> from nearer.losses import ContrastiveLoss
    >>> from nearer.training._step import TensorBatches
    >>> encoder = MLP(4, 2)
    >>> data = TensorBatches(torch.eye(4), [0, 0, 1, 1])
    >>> step = EncoderStep(encoder, ContrastiveLoss(), torch.optim.Adam(encoder.parameters()), data)
    >>> step(torch.arange(4)) > 0
    True

    Args:
        encoder: the network.
        loss: called as loss(embeddings, labels).
        optimizer: the torch optimizer of the network.
        data: gives items and labels of a batch.
        schedule: factor on the learning rate by step; None keeps it.
        precision: of the network: float32, bfloat16 or float16.
        chunk: encode so many items at a time; the loss stays that of the batch.
        max_norm: clip the gradient to this length.
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        optimizer: Optimizer,
        data: Batches,
        *,
        schedule: Schedule | None = None,
        precision: Precision = "float32",
        chunk: int | None = None,
        max_norm: float | None = None,
    ) -> None:
        self.encoder, self.optimizer, self.data = encoder, optimizer, data
        self.module = nn.ModuleDict({"encoder": encoder, "loss": loss})
        same_start(self.module)
        self._joint = joint_loss(loss)
        self._early = EarlyAverage()
        self._early.watch(self._parameters())
        self.schedule = schedule or constant()
        self.precision = check_choice(precision, "precision", ["float32", *_HALVES])
        self.chunk = None if chunk is None else check_int(chunk, "chunk")
        self.max_norm = None if max_norm is None else check_number(max_norm, "max_norm", above=0.0)
        self._count = 0
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._device = next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))
        # Gradients in float16 underflow; bfloat16 has the range of float32 and needs no scaling.
        self._scaler = torch.amp.GradScaler(self._device.type, init_scale=2.0**10, enabled=precision == "float16")
        if chunk is not None and any(_learns_statistics(layer) for layer in encoder.modules()):
            warnings.warn(
                f"batch normalisation sees chunks of {chunk} items, not the batch: the step is not the plain one",
                NearerWarning,
                stacklevel=2,
            )

    def __call__(self, rows: Tensor) -> float:
        """One step on the joint batch `rows`; the loss of the joint batch."""
        own = share(rows)
        factor = self.schedule(self._count)
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        _train_mode(self.encoder)
        self.optimizer.zero_grad()
        labels = self.data.labels(own)
        if self.chunk is None or len(own) <= self.chunk:
            value = self._loss(self._encode(self.data.items(own)), labels)
            with self._early:
                self._scaler.scale(value).backward()  # type: ignore[no-untyped-call]
        else:
            chunks = [partial(self.data.items, part) for part in torch.split(own, self.chunk)]
            scaled = backward_in_chunks(
                self.encoder,
                chunks,
                lambda embeddings: self._scaler.scale(self._loss(embeddings, labels)),
                encode=self._encode,
            )
            value = scaled / self._scaler.get_scale()
        loss = value.item()
        if not -float("inf") < loss < float("inf"):
            raise NotFiniteError(
                f"The loss must be finite, got {loss} in step {self._count + 1}. Lower the learning rate, set "
                f"max_norm, or look at the items of this batch."
            )
        self._early.average(self._parameters())
        if self.max_norm is not None:
            self._scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(list(self._parameters()), self.max_norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self._count += 1
        return loss

    @property
    def rate(self) -> float:
        """The learning rate of the first group at the next step."""
        return self._rates[0] * self.schedule(self._count)

    def state_dict(self) -> dict[str, Any]:
        """Parameters, buffers, optimiser, scaling and the place in the schedule."""
        return {
            "module": dict(self.module.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
            "count": self._count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        self._count = int(state["count"])

    def _parameters(self) -> Iterator[nn.Parameter]:
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def _half(self) -> AbstractContextManager[Any]:
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self._device.type, dtype=_HALVES[self.precision])

    def _encode(self, items: Tensor) -> Tensor:
        with self._half():
            embeddings: Tensor = self.encoder(items.to(self._device))  # a batch at a time, wherever the data is
        return embeddings.float() if embeddings.dtype in _HALVES.values() else embeddings

    def _loss(self, embeddings: Tensor, labels: Any) -> Tensor:
        value: Tensor = self._joint(embeddings, labels)
        return value


def _train_mode(encoder: nn.Module) -> None:
    """Training mode for all but frozen batch normalisation, which must go on as it was when it was learnt."""
    encoder.train()
    for layer in encoder.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.train(_learns_statistics(layer))


def _learns_statistics(layer: nn.Module) -> bool:
    own = list(layer.parameters(recurse=False))
    return isinstance(layer, nn.modules.batchnorm._BatchNorm) and (
        not own or any(weight.requires_grad for weight in own)
    )


def parameter_groups(
    modules: Mapping[str, nn.Module], rates: Mapping[str, float], *, weight_decay: float = 0.0
) -> list[dict[str, Any]]:
    """Groups for any torch optimiser, one learning rate for each named module: encoder, metric, proxies, ...

    A parameter that two modules share belongs to the first. Modules without parameters are left out; frozen
    parameters stay in, so that they can be thawed later. Weight decay is not put on vectors (biases, the scales of
    normalisation), which it would only bend.

    >>> groups = parameter_groups({"encoder": nn.Linear(3, 2), "metric": nn.Linear(2, 1)},
    ...                           {"encoder": 1e-4, "metric": 1e-2})
    >>> [(group["name"], group["lr"], len(group["params"])) for group in groups]
    [('encoder', 0.0001, 2), ('metric', 0.01, 2)]

    Args:
        modules: modules by name.
        rates: their learning rates by name.
        weight_decay: of matrices.
    """
    unknown = set(rates) ^ set(modules)
    if unknown:
        raise ParameterError(
            f"`rates` must name the same modules as `modules` ({', '.join(modules)}), and they differ in "
            f"{', '.join(sorted(unknown))}."
        )
    check_number(weight_decay, "weight_decay", minimum=0.0)
    seen: set[int] = set()
    groups: list[dict[str, Any]] = []
    for name, module in modules.items():
        rate = check_number(rates[name], f"rates[{name!r}]", minimum=0.0)
        fresh = [parameter for parameter in module.parameters() if id(parameter) not in seen]
        seen.update(map(id, fresh))
        decayed = [parameter for parameter in fresh if weight_decay and parameter.ndim > 1]
        plain = [parameter for parameter in fresh if not (weight_decay and parameter.ndim > 1)]
        groups += [
            {"name": name, "params": params, "lr": rate, "weight_decay": decay}
            for params, decay in ((decayed, weight_decay), (plain, 0.0))
            if params
        ]
    if not groups:
        raise ParameterError("`modules` must have at least one parameter to learn, got none.")
    return groups


Transform = Callable[[Tensor], Tensor]


class TensorBatches:
    """Items and labels that lie in memory; `transform` changes the items of a batch, such as by augmentation.

    A transform that draws random numbers takes them from torch's own generator, so that a resumed run repeats it.
    Labels are class labels (n,), or rows (n, c) of multi-labels or distributions.

    >>> TensorBatches(torch.tensor([[1.0], [2.0], [3.0]]), [0, 1, 1]).items(torch.tensor([2, 0]))
    tensor([[3.],
            [1.]])

    Args:
        items: array or tensor, (n, ...).
        labels: classes (n,) or rows (n, c).
        transform: changes the items of a batch.
    """

    def __init__(self, items: Any, labels: Any, *, transform: Transform | None = None) -> None:
        self._items = as_tensor(items, "items")
        self._labels = as_tensor(labels, "labels")
        for name, given in (("items", self._items), ("labels", self._labels)):
            if given.ndim == 0:
                raise ShapeError(f"`{name}` must have one entry for each item, got a single number.")
        if len(self._items) != len(self._labels):
            raise ShapeError(
                f"`labels` must have one entry for each of the {len(self._items)} items, got {len(self._labels)}."
            )
        self.transform = transform

    def __len__(self) -> int:
        return len(self._items)

    def items(self, rows: Tensor) -> Tensor:
        """The items of these rows, changed by the transform."""
        batch = self._items[row_numbers(rows, len(self)).to(self._items.device)]
        return batch if self.transform is None else self.transform(batch)

    def labels(self, rows: Tensor) -> Tensor:
        """The labels of these rows."""
        return self._labels[row_numbers(rows, len(self)).to(self._labels.device)]


def row_numbers(rows: Any, n: int) -> Tensor:
    """Whole numbers that point into n items."""
    numbers = as_labels(rows, "rows")
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= n):
        raise ShapeError(f"`rows` must lie in 0..{n - 1}, got {int(numbers.min())} to {int(numbers.max())}.")
    return numbers


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
    # The second pass repeats numbers that were drawn already; afterwards go on as if it had not been.
    with torch.random.fork_rng(range(torch.cuda.device_count())):
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
