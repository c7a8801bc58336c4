"""`nearer reproduce`, which this package adds to the commands of nearer (entry point "nearer.commands")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearer.app.cli._command import Json, Quiet
from nearer.app.cli._output import failures_reported

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment; without a name all are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes instead of the whole protocol.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="A table, data set or row of it; repeat it.")] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write each row into papers/results as soon as it is measured.")
    ] = False,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="Go on: leave out rows that are there (with --record: from known sources)."),
    ] = False,
    tune: Annotated[
        bool, typer.Option("--tune", help="Compare settings on validation data; nothing is scored on test data.")
    ] = False,
    backbone: Annotated[
        str | None, typer.Option(help="package.module:function that makes a network for photos.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="A local file with its weights.")] = None,
    protocol: Annotated[
        Literal["ours", "paper"],
        typer.Option(help="paper: rates, batches, crop and colours as published, for photos."),
    ] = "ours",
    size: Annotated[int | None, typer.Option(help="The size of photos for the network. [224]")] = None,
    colors: Annotated[
        Literal["rgb", "bgr"] | None, typer.Option(help="bgr for weights that want blue first.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Three numbers in 0..1 that are taken off the colours.")] = None,
    spread: Annotated[str | None, typer.Option(help="Three numbers that the colours are divided by.")] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Go on where some photos of a set are not there, and say so.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write. [reproduce-NAME]")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a published experiment and write its numbers (JSON) and a page with tables and pictures.

    \b
    Examples:
      nearer reproduce
      nearer reproduce asymmetric --quick
      nearer reproduce relation-alignment --only emotions --seeds 1
      nearer reproduce unified-view --only omniglot --record --missing
      nearer reproduce unified-view --only omniglot --only RAW+VTHM --tune
      nearer reproduce jrd --only cub200 --protocol paper --backbone mynets:bn_inception --weights bn_inception.pth
      nearer reproduce photographs --only cub200 --record --missing
    """
    with failures_reported(as_json):
        from nearer_papers._reproduce import run_reproduce

        run_reproduce(
            name,
            quick=quick,
            seeds=seeds,
            only=only or [],
            record=record,
            missing=missing,
            tune=tune,
            backbone=backbone,
            weights=weights,
            protocol=protocol,
            size=size,
            colors=colors,
            mean=mean,
            spread=spread,
            allow_missing=allow_missing,
            out=out,
            quiet=quiet,
            as_json=as_json,
        )
