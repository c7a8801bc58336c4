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

from nearer.server._problems import Problem

__all__ = ["Batcher", "Full"]

Job = TypeVar("Job")


class Full(Problem):
    """The queue has no room: come back in some seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            429, "busy", f"The queue is full. Try again in {seconds} s, or send less.", retry_after=seconds
        )


@dataclass(eq=False)
class _Waiting(Generic[Job]):
    job: Job
    rows: int
    answer: asyncio.Future[Any]


class Batcher(Generic[Job]):
    """Runs `work` on lists of jobs, one list at a time, in a thread of `executor`.

    `work` gives one result for each job; a result that is an exception is raised for that job alone.
    """

    def __init__(
        self, work: Callable[[Sequence[Job]], Sequence[Any]], executor: Executor, *, room: int, most: int
    ) -> None:
        self._work, self._executor = work, executor
        self._room, self._most = room, most
        self._waiting: deque[_Waiting[Job]] = deque()
        self.rows = 0
        """Rows that wait."""
        self.running = 0
        """Rows that are worked on."""
        self.batches = 0
        self.done_rows = 0
        self._rate = 1000.0
        self._planned = False

    def put(self, job: Job, rows: int) -> asyncio.Future[Any]:
        """A future result; raises `Full` when too much waits. One job is always taken, however large."""
        if self._waiting and self.rows + rows > self._room:
            raise Full(max(1, min(60, math.ceil(self.rows / self._rate))))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(_Waiting(job, rows, answer))
        self.rows += rows
        if not self.running and not self._planned:
            # Not at once: whatever else this turn of the loop has read comes along.
            self._planned = True
            loop.call_soon(self._start)
        return answer

    def _start(self) -> None:
        self._planned = False
        batch: list[_Waiting[Job]] = []
        rows = 0
        while self._waiting and (not batch or rows + self._waiting[0].rows <= self._most):
            one = self._waiting.popleft()
            self.rows -= one.rows
            if not one.answer.done():  # a client that gave up is not worked for
                batch.append(one)
                rows += one.rows
        if not batch:
            return
        self.running = rows
        task = asyncio.get_running_loop().run_in_executor(self._executor, self._timed, [one.job for one in batch])
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
        self.batches += 1
        self.done_rows += self.running
        self.running = 0
        for one, result in zip(batch, results, strict=True):
            if one.answer.done():
                continue
            if isinstance(result, BaseException):
                one.answer.set_exception(result)
            else:
                one.answer.set_result(result)
        if self._waiting:
            self._start()
