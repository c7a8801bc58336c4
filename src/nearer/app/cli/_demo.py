"""`nearer demo`: the digits recipe with a progress bar and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from nearer.app.cli._digits import DigitsResult, learn_digits
from nearer.app.cli._output import check_writable, print_json, say
from nearer.app.cli._screen import screen

__all__ = ["run_demo", "score_table"]


def run_demo(report: Path, *, seed: int, epochs: int, quiet: bool, as_json: bool) -> None:
    """Learn, print and write the report."""
    check_writable(report, "--report")
    console = screen(stderr=True, quiet=quiet)
    with _progress_bar(console, epochs) as progress:
        result = learn_digits(seed=seed, epochs=epochs, progress=progress)
    command = f"nearer demo --report {report} --seed {seed}" + (f" --epochs {epochs}" if epochs != 100 else "")
    with console.status("drawing the report") if console.is_terminal and not quiet else nullcontext():
        place = result.save_report(report, command=command)
    if as_json:
        print_json({**result.to_dict(), "report": str(place)})
        return
    if not quiet:
        say(_story(result))
    screen().print(score_table(result))
    say(result.verdict)
    if not quiet:
        say(f"Report with pictures: {report} (open it in a browser)")


def score_table(result: DigitsResult) -> Table:
    """The raw features beside the learned metric."""
    table = Table(title=f"{result.counts['held_out']} held-out digits", title_justify="left")
    table.add_column("score")
    for name in ("raw features", "learned metric", "difference"):
        table.add_column(name, justify="right")
    for name, gain in result.comparison.gains.items():
        style = "green" if gain > 0 else "red"
        table.add_row(name, f"{result.raw[name]:.4f}", f"{result.learned[name]:.4f}", Text(f"{gain:+.4f}", style))
    return table


def _story(result: DigitsResult) -> str:
    counts = result.counts
    share = counts["spread_right"] / max(1, counts["spread"])
    return (
        f"{counts['train']:,} digits to train on, {counts['given']} of them with a label; "
        f"{counts['held_out']} held out.\n"
        f"Label spreading gave {counts['spread']:,} more a label ({share:.1%} right, which the training could not "
        f"know).\nTrained in {result.seconds:.0f} s with {result.settings['loss']}."
    )


@contextmanager
def _progress_bar(console: Console, epochs: int) -> Iterator[Callable[[int, int, float], None]]:
    columns = [
        TextColumn("learning"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs, loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    ]
    show = console.is_terminal and not console.quiet
    with Progress(*columns, TextColumn("left"), console=console, disable=not show) as bar:
        task = bar.add_task("learning", total=epochs, loss="–")
        yield lambda epoch, _, loss: bar.update(task, completed=epoch, loss=f"{loss:.3f}")
