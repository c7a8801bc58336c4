"""Scores in the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from nearer.evaluation import Comparison

__all__ = ["comparison_table"]


def comparison_table(comparison: Comparison, *, title: str) -> Table:
    """Raw beside learned, gains green and losses red."""
    table = Table(title=title, title_justify="left")
    table.add_column("score")
    others = comparison.baselines
    for name in (comparison.names[0], *others, comparison.names[1], "gain"):
        table.add_column(name, justify="right")
    for name, gain in comparison.gains.items():
        style = "green" if gain > 0 else "red"
        found = [one[name] for one in (comparison.first, *others.values(), comparison.second)]
        pair = comparison.intervals.get(name)
        if pair is not None and pair[0] <= 0 <= pair[1]:
            style = "dim"  # a difference that these rows cannot show
        table.add_row(name, *(f"{one:.4f}" for one in found), Text(comparison.shown_gain(name), style))
    return table
