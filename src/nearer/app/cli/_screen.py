"""Tables and messages by rich, in which nothing that comes from the data is a command."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearer.app.cli._output import plain
from nearer.evaluation import Comparison


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
