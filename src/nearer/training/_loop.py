"""The loop: steps, epochs, scores on held-out data, the best model, checkpoints, a clean end.

It knows nothing of encoders or losses: a `Step` learns from a batch, a `Sampler` names the batches, `validate`
gives scores, callbacks look on. Whatever the step, a run can be killed and resumed, and on a CPU the result is
the same to the last bit.
"""

from __future__ import annotations

import copy
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from nearer._checks import check_int
from nearer.exceptions import CorruptFileError, LostWorkerError, NearerError, NotFiniteError, ParameterError
from nearer.training._checkpoints import Checkpoints
from nearer.training._processes import agree, average_buffers, gather_states, lost_worker, rank
from nearer.training._samplers import Sampler
from nearer.training._state import get_random_state, set_random_state
from nearer.training._step import Step

EventKind = Literal["start", "step", "epoch", "end"]


class TrainingInterrupted(KeyboardInterrupt):
    """The run was asked to stop (Ctrl-C or a termination signal) and did so after a whole step."""

    signal: int = signal.SIGINT
    """The signal that asked."""


@dataclass(frozen=True)
class Moment:
    """What a callback sees.

    `start` comes once, with the place a resumed run begins at; `step` after every step; `epoch` after every epoch
    with its mean loss and scores; `end` once, also when the run is interrupted or fails.
    """

    kind: EventKind
    epoch: int
    """Whole epochs that are done."""
    step: int
    """Steps that are done."""
    steps: int
    """Steps of the whole run."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The loss, the learning rate and, after an epoch, the scores."""


Callback = Callable[[Moment], None]


@dataclass
class History:
    """What happened, epoch by epoch.

    `epochs` holds one dictionary per epoch with its mean loss, learning rate, seconds and scores; `best` is the
    number of the epoch (from 1) whose model was kept, None without validation, 0 where it is the start.
    """

    epochs: list[dict[str, float]] = field(default_factory=list)
    best: int | None = None
    best_score: float = -math.inf
    stopped_early: bool = False
    start: dict[str, float] = field(default_factory=dict)
    """The scores before the first step, where the start is a candidate."""
    stopped: str = ""
    """What ended a run that keeps the best so far before its time; empty where nothing did."""

    def series(self, name: str) -> list[float | None]:
        """One value per epoch, None where there was none.

        >>> History([{"loss": 2.0}, {"loss": 1.0, "recall@1": 0.5}]).series("recall@1")
        [None, 0.5]
        """
        return [epoch.get(name) for epoch in self.epochs]


def train(
    step: Step,
    sampler: Sampler,
    *,
    epochs: int,
    validate: Callable[[], Mapping[str, float]] | None = None,
    watch: str | None = None,
    patience: int | None = None,
    keep_best: bool = False,
    callbacks: Sequence[Callback] = (),
    checkpoints: Checkpoints | None = None,
) -> History:
    """Repeat the step over the batches of every epoch; at the end the best model is in `step.module`.

    `validate` is called after every epoch and returns scores, higher is better; the model with the best `watch`
    (default: the first score) is kept, the earlier one among equals. After `patience` epochs without a better one
    the run stops. With `checkpoints` the run begins where the newest one ended. Ctrl-C lets the step finish,
    writes a checkpoint and raises `TrainingInterrupted`; a second Ctrl-C stops at once.

    With `keep_best` the model that comes in is a candidate too, scored before the first step, and neither Ctrl-C
    nor a loss that is not finite is an error: the best model so far is in `step.module`, and the history says why.

    >>> import torch
    >>> from nearer.geometry import MLP
    >>> from nearer.losses import ContrastiveLoss
    >>> from nearer.training import ClassSampler, EncoderStep, TensorBatches
    >>> torch.manual_seed(0) and None
    >>> encoder, labels = MLP(4, 2), [0, 0, 1, 1]
    >>> adam = torch.optim.Adam(encoder.parameters(), lr=0.01)
    >>> step = EncoderStep(encoder, ContrastiveLoss(), adam, TensorBatches(torch.eye(4), labels))
    >>> history = train(step, ClassSampler(labels, n_classes=2, per_class=2), epochs=50)
    >>> history.epochs[-1]["loss"] < history.epochs[0]["loss"]
    True

    Args:
        step: called with the rows of a batch, gives the loss.
        sampler: names the rows of every batch.
        epochs: passes over the data.
        validate: called after an epoch, gives scores by name.
        watch: the score that chooses the best epoch; None takes the first.
        patience: epochs without a better score before it stops.
        keep_best: the start is a candidate, and whatever ends the run, the best so far is what is left.
        callbacks: called as callback(moment) at steps and epochs.
        checkpoints: where to keep what is needed to go on.
    """
    check_int(epochs, "epochs", minimum=0)
    if (watch is not None or patience is not None or keep_best) and validate is None:
        raise ParameterError("`watch`, `patience` and `keep_best` need `validate`, a function that returns scores.")
    if patience is not None:
        check_int(patience, "patience")
    run = _Run(step, sampler, epochs, validate, watch, patience, callbacks, checkpoints)
    run.resume()
    with _stop_requested() as stopping:
        try:
            run.tell("start")
            if keep_best:
                run.score_start()
            try:
                run.epochs(stopping)
            except (TrainingInterrupted, NotFiniteError) as error:
                # Who ends the program by a signal means the program, who presses Ctrl-C the training.
                if not keep_best or stopping.by_signal():
                    raise
                run.history.stopped = str(error)
            run.take_best()
        except RuntimeError as error:
            if lost_worker(error):
                raise LostWorkerError(
                    f"Another process of the job died or does not answer; this one stops after step {run.done}. "
                    f"{run.where()} Start the job again to go on."
                ) from error
            raise
        finally:
            run.tell("end")
    return run.history


class _Run:
    """The place of a run between its first and its last step."""

    def __init__(
        self,
        step: Step,
        sampler: Sampler,
        epochs: int,
        validate: Callable[[], Mapping[str, float]] | None,
        watch: str | None,
        patience: int | None,
        callbacks: Sequence[Callback],
        checkpoints: Checkpoints | None,
    ) -> None:
        self.step, self.sampler, self.total = step, sampler, epochs
        self.validate, self.watch, self.patience = validate, watch, patience
        self.callbacks, self.checkpoints = callbacks, checkpoints
        self.history = History()
        self.best: dict[str, Tensor] | None = None
        self.epoch, self.place, self.done = 0, 0, 0
        self.losses, self.seconds = 0.0, 0.0

    def score_start(self) -> None:
        """The model that came in as epoch 0, unless a run that is resumed knows it."""
        if self.validate is not None and not self.history.start:
            self.history.start = dict(self.validate())
            self._judge(self.history.start)

    def epochs(self, stopping: Callable[[], bool]) -> None:
        while self.epoch < self.total and not self.history.stopped_early:
            begin = time.perf_counter()
            before = self.seconds
            for rows in self.sampler.epoch(self.epoch)[self.place :]:
                loss = self.step(rows)
                self.place, self.done = self.place + 1, self.done + 1
                self.losses += loss
                self.seconds = before + time.perf_counter() - begin
                self.tell("step", {"loss": loss, **self._rate()})
                stop = agree(stopping())
                every = None if self.checkpoints is None else self.checkpoints.every
                if stop or (every and self.done % every == 0):
                    self.save()
                if stop:
                    self._interrupted()
            self._close_epoch(before + time.perf_counter() - begin)
            if agree(stopping()) and self.epoch < self.total:
                self._interrupted()

    def _close_epoch(self, seconds: float) -> None:
        average_buffers(self.step.module)
        values = {"loss": self.losses / max(1, self.place), **self._rate(), "seconds": seconds}
        scores = dict(self.validate()) if self.validate is not None else {}
        self.epoch, self.place, self.losses, self.seconds = self.epoch + 1, 0, 0.0, 0.0
        self.history.epochs.append({**values, **scores})
        if scores:
            self._judge(scores)
        self.tell("epoch", {**values, **scores})
        self.save()

    def _judge(self, scores: Mapping[str, float]) -> None:
        name = self.watch or next(iter(scores))
        if name not in scores:
            raise ParameterError(f"`watch` must be one of {', '.join(scores)}, got {name!r}.")
        history = self.history
        if history.best is None or scores[name] > history.best_score:
            history.best, history.best_score = self.epoch, float(scores[name])
            self.best = copy.deepcopy(dict(self.step.module.state_dict()))
        elif self.patience is not None and self.epoch - history.best >= self.patience:
            history.stopped_early = True

    def take_best(self) -> None:
        if self.best is not None:
            self.step.module.load_state_dict(self.best)

    def save(self) -> None:
        if self.checkpoints is None:
            return
        states = gather_states(get_random_state())
        if rank() == 0:
            state = {
                "step": self.step.state_dict(),
                "random": states,
                "history": vars(self.history).copy(),
                "best": self.best,
                "place": [self.epoch, self.place, self.done, self.losses, self.seconds],
                "batches": len(self.sampler),
            }
            self.checkpoints.save(self.done, state)

    def resume(self) -> None:
        state = None if self.checkpoints is None else self.checkpoints.load()
        if state is None:
            return
        try:
            if state["batches"] != len(self.sampler):
                raise CorruptFileError(
                    f"The checkpoint is of a run with {state['batches']} batches per epoch, this one has "
                    f"{len(self.sampler)}. Use the same data and settings, or another folder."
                )
            self.step.load_state_dict(state["step"])
            self.history = History(**state["history"])
            self.best = state["best"]
            self.epoch, self.place, self.done, self.losses, self.seconds = state["place"]
            states = state["random"]
            # With another number of processes nothing random can be the same; the first state is as good as any.
            set_random_state(states[rank() % len(states)])
        except NearerError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise CorruptFileError(
                f"The checkpoint does not fit this run: {reason}. Use the settings of the run that wrote it, or "
                f"another folder."
            ) from error

    def tell(self, kind: EventKind, values: Mapping[str, float] | None = None) -> None:
        moment = Moment(kind, self.epoch, self.done, self.total * len(self.sampler), values or {})
        for callback in self.callbacks:
            callback(moment)

    def _rate(self) -> dict[str, float]:
        rate = getattr(self.step, "rate", None)
        return {} if rate is None else {"rate": float(rate)}

    def _interrupted(self) -> None:
        progress = f"stopped after step {self.done} of {self.total * len(self.sampler)}."
        raise TrainingInterrupted(f"{progress} {self.where()}")

    def where(self) -> str:
        """Where the run can go on from."""
        kept = [] if self.checkpoints is None else self.checkpoints.paths()
        return f"The last checkpoint is {kept[-1]}." if kept else "There is no checkpoint."


class _Stop:
    """Whether Ctrl-C or a termination signal has come, and which."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self) -> bool:
        return bool(self.asked)

    def by_signal(self) -> bool:
        """Whether something else than Ctrl-C asked."""
        return bool(self.asked) and self.asked[0] != signal.SIGINT


@contextmanager
def _stop_requested() -> Iterator[_Stop]:
    """Whether a stop was asked for; the second Ctrl-C is not caught."""
    came = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: Any) -> None:
        came.asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number, handler in before.items():
        # Who started the program with a signal ignored (nohup, a job in the background) means it.
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield came
    except TrainingInterrupted as stop:
        stop.signal = came.asked[0] if came.asked else stop.signal
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
