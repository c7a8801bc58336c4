"""Commands about nearer itself: the methods, this installation."""

from __future__ import annotations

from typing import Annotated

import typer

from nearer.app.cli._command import Json, command

__all__ = ["COMMANDS"]


@command("_methods.run_methods")
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


@command("_doctor.run_doctor")
def doctor(as_json: Json = False) -> None:
    """Check this installation: versions, threads, the data folder, a loss, an index and an evaluation.

    The exit code is 1 if something is broken.

    \b
    Examples:
      nearer doctor
      nearer doctor --json
    """


COMMANDS = (methods, doctor)
