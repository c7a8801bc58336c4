"""The commands and their options. Everything heavy is imported inside the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearer import __version__
from nearer.cli.output import check_writable, failures_reported, print_json

__all__ = ["app", "main"]

SUMMARY = """Metric learning: say what should be near; nearer learns the distance that makes it so.

\b
Examples:
  nearer demo                      learn a metric for digits and write demo-report.html
  nearer demo --json --quiet       the same, for a script
  nearer doctor                    check this installation

Exit codes: 0 done, 1 failed, 2 the command was not understood.
"""

# Plain help: the boxes of rich would double the time of `nearer --help`.
app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


@app.callback(invoke_without_command=True, help=SUMMARY)
def nearer(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    as_json: Json = False,
) -> None:
    """The options that come before a command."""
    if version:
        if as_json:
            print_json({"nearer": __version__})
        else:
            typer.echo(f"nearer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The report, one self-contained HTML file.")] = Path("demo-report.html"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Chooses split, labels and weights.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="Passes over the training digits.")] = 100,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the scores alone.")] = False,
    as_json: Json = False,
) -> None:
    """Learn a metric for 1,797 digits from 10 labels per class, and prove it on digits it never saw.

    Prints the scores of the raw features beside those of the learned metric and writes a report with pictures.
    Needs no data and no network; about half a minute.

    \b
    Examples:
      nearer demo
      nearer demo --out report.html --seed 7
      nearer demo --json --quiet > scores.json
    """
    with failures_reported(as_json):
        check_writable(out)
        from nearer.cli.demo import run_demo

        run_demo(out, seed=seed, epochs=epochs, quiet=quiet, as_json=as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check this installation: versions, threads, the data folder, a loss, an index and an evaluation.

    The exit code is 1 if something is broken.

    \b
    Examples:
      nearer doctor
      nearer doctor --json
    """
    with failures_reported(as_json):
        from nearer.cli.doctor import run_doctor

        healthy = run_doctor(as_json=as_json)
    if not healthy:
        raise typer.Exit(1)


def main() -> None:
    """Run the command line."""
    app(prog_name="nearer")
