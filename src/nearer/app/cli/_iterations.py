"""What is shown while a linear learner is fitted: that it works, and how far it is where it knows."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from nearer.training._shared import Moment


class IterationBar:
    """A moving sign until the first iteration is heard of, then iterations done of the most, and the time left.

    The time left is that of all iterations; a learner that converges ends sooner. Where nobody watches nothing is
    shown. A network has a bar of its own: this one steps aside (`make_room`), because two would fight.
    """

    def __init__(self, console: Console) -> None:
        columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        more = [TimeRemainingColumn(), TextColumn("{task.fields[what]}")]
        hidden = console.quiet or not console.is_terminal
        self.bar = Progress(*columns, *more, console=console, transient=True, disable=hidden)
        self._task = self.bar.add_task("learning", total=None, what="")

    def __enter__(self) -> IterationBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def follow(self, name: str, iteration: int, most: int, value: float) -> None:
        """Show an iteration; see `nearer.`follow_iterations``."""
        self.bar.update(
            self._task, description=name, completed=min(iteration, most), total=most, what=f"{value:.5g}"
        )

    def make_room(self, moment: Moment) -> None:
        """Stop as soon as a network begins to train; a callback of `train`."""
        if moment.kind == "start":
            self.bar.stop()

    @property
    def shown(self) -> Any:
        """The task as rich keeps it, with `completed`, `total` and `time_remaining`."""
        return self.bar.tasks[0]
