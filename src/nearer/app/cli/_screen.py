"""Tables, messages and progress by rich, in which nothing that comes from the data is a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearer.app.cli._output import plain
from nearer.evaluation import Comparison

if TYPE_CHECKING:
    from nearer.training._shared import Moment


class _Screen(Console):
    """A console for which text is text: no markup in it, and no sequence that a terminal would obey."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every string of a message or of a cell comes by here."""
        return super().render_str(plain(text), **options)


def screen(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Where a command shows tables and what it is doing.

    >>> screen().print("[bold]a\\x1b[31mb")
    [bold]a\\x1b[31mb
    """
    return _Screen(stderr=stderr, quiet=quiet, markup=False)


def comparison_table(comparison: Comparison, *, title: str) -> Table:
    """Raw beside learned, gains green and losses red."""
    table = Table(title=title, title_justify="left")
    table.add_column("score")
    others = comparison.baselines
    for name in (comparison.names[0], *others, comparison.names[1], "gain"):
        table.add_column(name, justify="right")
    for name, gain in comparison.gains.items():
        style = "green" if gain > 0 else "red"
        scores = [evaluation[name] for evaluation in (comparison.first, *others.values(), comparison.second)]
        pair = comparison.intervals.get(name)
        if pair is not None and pair[0] <= 0 <= pair[1]:
            style = "dim"  # a difference that these rows cannot show
        table.add_row(
            name, *(f"{evaluation:.4f}" for evaluation in scores), Text(comparison.shown_gain(name), style)
        )
    return table


class IterationBar:
    """A moving sign until the first iteration is heard of, then iterations done of the most, and the time left.

    The time left is that of all iterations; a learner that converges ends sooner. Where nobody watches nothing is
    shown. A network has a bar of its own: this one steps aside (`make_room`), because two would fight.
    """

    def __init__(self, console: Console) -> None:
        from nearer._bars import progress_bar  # a search shows none

        hidden = console.quiet or not console.is_terminal
        self.bar = progress_bar(console, off=hidden, fleeting=True, spinner=True)
        self._task = self.bar.add_task("learning", total=None, what="")

    def __enter__(self) -> IterationBar:
        self.bar.start()
        return self

    def __exit__(self, *about: object) -> None:
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
