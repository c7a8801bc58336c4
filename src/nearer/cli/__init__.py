"""The command line, `nearer`: thin calls into the library; `--help` never loads PyTorch."""

from __future__ import annotations

import typer

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=True, help=__doc__)


@app.callback()
def nearer() -> None:
    """Metric learning: say what should be near; nearer learns the distance that makes it so."""


def main() -> None:
    """Run the command line."""
    app()
