"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["BatchRows", "Data", "Json", "K", "Label", "ModelFolder", "PairsFile", "Quiet", "Report"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Data = Annotated[Path, typer.Argument(help="A table (.csv .tsv .parquet .npz .npy), or a folder of images.")]
ModelFolder = Annotated[Path, typer.Option("--model", "-m", help="A model folder that `nearer fit` wrote.")]
Label = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", help="The label column; several for label sets or distributions."),
]
PairsFile = Annotated[
    Path | None,
    typer.Option("--pairs", help="A table of two rows each (numbers or ids) and whether they are near: 1 or 0."),
]
Report = Annotated[Path | None, typer.Option("--report", help="Write one HTML page to look at too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
BatchRows = Annotated[int | None, typer.Option("--batch-size", min=1, help="Rows in a part. [16384; 256 photos]")]
K = Annotated[int, typer.Option("-k", min=1, help="How many neighbours.")]
