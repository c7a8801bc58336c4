"""Requests gathered into batches: what arrives while a batch runs makes the next one; nobody waits for a clock."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nearer.app.server._problems import Refusal

Job = TypeVar("Job")


class Full(Refusal):
    """The queue has no room: come back in some seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            429, "busy", f"The queue is full. Try again in {seconds} s, or send less.", retry_after=seconds
        )


@dataclass(eq=False)
class _Waiting(Generic[Job]):
    job: Job
    rows: int
    kind: bytes | None
    answer: asyncio.Future[Any]


class _Lane(Generic[Job]):
    """Jobs that wait, in order, and how many rows they have."""

    def __init__(self) -> None:
        self.jobs: deque[_Waiting[Job]] = deque()
        self.rows = 0

    def add(self, waiting: _Waiting[Job]) -> None:
        self.jobs.append(waiting)
        self.rows += waiting.rows

    def take(self, most: int) -> list[_Waiting[Job]]:
        """The first jobs, of the kind of the first, until there are enough rows; one is always taken."""
        taken: list[_Waiting[Job]] = []
        left: deque[_Waiting[Job]] = deque()
        rows = 0
        while self.jobs:
            waiting = self.jobs.popleft()
            if waiting.answer.done():  # a client that gave up is not worked for
                self.rows -= waiting.rows
            elif taken and (waiting.kind != taken[0].kind or rows + waiting.rows > most):
                left.append(waiting)
                if waiting.kind == taken[0].kind:
                    break
            else:
                taken.append(waiting)
                rows += waiting.rows
        self.jobs.extendleft(reversed(left))
        self.rows -= rows
        return taken


class Batcher(Generic[Job]):
    """Runs `work` on lists of jobs, one list at a time, in a thread of `executor`.

    `work` gives one result for each job; a result that is an exception is raised for that job alone.

    Jobs for which `costly` gives a kind wait in a lane of their own. They are run one kind at a time, and after
    each the others have the thread for as long as it took: whatever waits in that lane, a plain job waits for one
    of them, and plain jobs have half of the time.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Job]], Sequence[Any]],
        executor: Executor,
        *,
        room: int,
        most: int,
        costly: Callable[[Job], bytes | None] = lambda job: None,
    ) -> None:
        self._work, self._executor, self._costly = work, executor, costly
        self._room, self._most = room, most
        self._plain: _Lane[Job] = _Lane()
        self._heavy: _Lane[Job] = _Lane()
        self.running = 0
        """Rows that are worked on."""
        self.batches = 0
        self.done_rows = 0
        self._rate = 1000.0
        self._planned: asyncio.Handle | None = None
        self._rest_until = 0.0
        self._plain_came = False

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return self._plain.rows + self._heavy.rows

    def put(self, job: Job, rows: int) -> asyncio.Future[Any]:
        """A future result; raises `Full` when too much waits. One job is always taken, however large."""
        kind = self._costly(job)
        lane = self._plain if kind is None else self._heavy
        if lane.jobs and lane.rows + rows > self._room:
            raise Full(max(1, min(60, math.ceil(lane.rows / self._rate))))
        self._plain_came |= kind is None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        lane.add(_Waiting(job, rows, kind, answer))
        if not self.running:
            # Not at once: whatever else this turn of the loop has read comes along.
            self._plan(0.0)
        return answer

    def _plan(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._planned is not None:
            self._planned.cancel()
        self._planned = loop.call_later(seconds, self._start) if seconds > 0 else loop.call_soon(self._start)

    def _start(self) -> None:
        self._planned = None
        loop = asyncio.get_running_loop()
        resting = self._rest_until - loop.time()
        batch = self._heavy.take(self._most) if resting <= 0 else []
        heavy = bool(batch)
        if not batch:
            batch = self._plain.take(self._most)
        if not batch:
            if self._heavy.jobs:
                self._plan(resting)
            return
        if heavy:
            self._plain_came = bool(self._plain.jobs)
        self.running = sum(waiting.rows for waiting in batch)
        task = loop.run_in_executor(self._executor, self._timed, [waiting.job for waiting in batch])
        task.add_done_callback(lambda future: self._finish(batch, future))

    def _timed(self, jobs: list[Job]) -> tuple[Sequence[Any], float]:
        start = time.perf_counter()
        return self._work(jobs), time.perf_counter() - start

    def _finish(self, batch: list[_Waiting[Job]], future: asyncio.Future[tuple[Sequence[Any], float]]) -> None:
        error = future.exception()
        results: Sequence[Any]
        if error is not None:
            results = [error] * len(batch)
        else:
            results, seconds = future.result()
            self._rate = 0.9 * self._rate + 0.1 * self.running / max(seconds, 1e-6)
            if batch[0].kind is not None and self._plain_came:
                self._rest_until = asyncio.get_running_loop().time() + seconds
        self.batches += 1
        self.done_rows += self.running
        self.running = 0
        for waiting, result in zip(batch, results, strict=True):
            if waiting.answer.done():
                continue
            if isinstance(result, BaseException):
                waiting.answer.set_exception(result)
            else:
                waiting.answer.set_result(result)
        if self.rows:
            self._start()
