"""A bar for what takes long, the same wherever it is shown; rich is loaded with the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def progress_bar(
    console: Console | None = None, *, off: bool = False, fleeting: bool = False, spinner: bool = False
) -> Progress:
    """What is done, how much of it, the time left and the field `what` of its task, by default on stderr.

    A fleeting bar is taken away when it is done.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    columns = [*([SpinnerColumn()] if spinner else []), *columns, TextColumn("{task.fields[what]}")]
    return Progress(*columns, console=console or Console(stderr=True), transient=fleeting, disable=off)
