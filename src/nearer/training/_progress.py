"""A progress bar with the time left, as a callback."""

from __future__ import annotations

from typing import Any

from nearer.training._loop import Moment
from nearer.training._processes import rank

__all__ = ["ProgressBar"]


class ProgressBar:
    """Steps done, time left, the last loss and the last scores, on the error stream.

    `console` is a rich console; by default one on stderr, so that piped output stays clean. In a job of many
    processes only the first shows it.

    >>> bar = ProgressBar()  # train(..., callbacks=[bar])

    Args:
        console: a rich console; one on stderr if None.
    """

    def __init__(self, console: Any = None) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._scores = ""

    def __call__(self, moment: Moment) -> None:
        if rank() != 0:
            return
        if moment.kind == "start":
            self._begin(moment)
        elif moment.kind == "end":
            self._bar.stop()
        else:
            if moment.kind == "epoch":
                shown = [(name, value) for name, value in moment.values.items() if name not in _PLAIN]
                self._scores = "  ".join(f"{name} {value:.4f}" for name, value in shown)
            loss = f"loss {moment.values['loss']:.4f}" if "loss" in moment.values else ""
            self._bar.update(self._task, completed=moment.step, what=f"{loss}  {self._scores}".strip())

    def _begin(self, moment: Moment) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = [
            TextColumn("learning"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[what]}"),
        ]
        self._bar = Progress(*columns, console=self._console or Console(stderr=True))
        self._task = self._bar.add_task("learning", total=moment.steps, completed=moment.step, what="")
        self._bar.start()


_PLAIN = ("loss", "rate", "seconds")
