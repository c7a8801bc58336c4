"""Commands about nearer itself: the methods, this installation."""

from __future__ import annotations

from typing import Annotated

import typer

from nearer.app.cli._options import Json
from nearer.app.cli._output import failures_reported

__all__ = ["COMMANDS"]


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, estimator, loss or miner to show in full.")] = None,
    as_json: Json = False,
) -> None:
    """List what there is to learn with, or show one of them in full.

    \b
    Examples:
      nearer methods
      nearer methods lmnn
      nearer methods SupConLoss
    """
    with failures_reported(as_json):
        from nearer.app.cli._methods import run_methods

        run_methods(name, as_json)


def doctor(as_json: Json = False) -> None:
    """Check this installation: versions, threads, the data folder, a loss, an index and an evaluation.

    The exit code is 1 if something is broken.

    \b
    Examples:
      nearer doctor
      nearer doctor --json
    """
    with failures_reported(as_json):
        from nearer.app.cli._doctor import run_doctor

        healthy = run_doctor(as_json=as_json)
    if not healthy:
        raise typer.Exit(1)


COMMANDS = (methods, doctor)
