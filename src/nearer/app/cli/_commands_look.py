"""Commands for looking and asking: ask, export, audit, explore, methods, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearer.app.cli._command import Data, Force, Json, Label, Report, Unreadable, command


@command("_ask.run_ask")
def ask(
    data: Data,
    label: Label = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Compare under this model. [scaled columns]")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The column that names each row.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Questions in a batch; then it looks again.")] = 20,
    pairs: Annotated[bool, typer.Option("--pairs", help="Ask whether two rows are the same.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .csv file for the answers.")] = Path("answers.csv"),
    force: Force = False,
    unreadable: Unreadable = "raise",
    only_list: Annotated[bool, typer.Option("--list", help="Print the questions and leave.")] = False,
    as_json: Json = False,
) -> None:
    """Ask about the items, or pairs, whose answers would teach the metric most.

    Labels that there are spread over a graph of neighbors; asked is what they leave unsure, hardly reach, and what
    many others hang on. Every answer is on disk before the next question.

    \b
    Examples:
      nearer ask data.csv --label class
      nearer ask records.csv --id record --pairs --out pairs.csv
      nearer ask data.csv -l class -n 50 --list
    """


@command("_use.run_export")
def export(
    model: Annotated[Path, typer.Argument(help="A model folder that `nearer fit` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .onnx or .safetensors file, or hf://owner/name.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model for programs without nearer, ONNX or the state dictionary of plain torch layers, or to the hub.

    An address hf://owner/name of the Hugging Face hub gets the model itself, which every command then takes from
    there by that address; it needs the extra `hub` and a token.

    \b
    Examples:
      nearer export model --out model.onnx
      nearer export model -o layers.safetensors
      nearer export model -o hf://owner/name
    """


@command("_explore.run_audit")
def audit(
    data: Data,
    label: Label = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the findings as a CSV file.")] = None,
    report: Report = None,
    force: Force = False,
    text: Annotated[str | None, typer.Option(help="The column of texts that the encoder reads.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Photos and texts: what makes features of them.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The column that names each row.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Chooses the folds.")] = 0,
    as_json: Json = False,
) -> None:
    """Find labels that are likely wrong, near-duplicates, classes that overlap and items unlike everything.

    \b
    Examples:
      nearer audit data.csv --label class
      nearer audit data.csv -l class --out findings.csv --report findings.html
      nearer audit photos/ --json > findings.json
    """


@command("_explore.run_explore")
def explore(
    data: Data,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="A model folder to begin with.")] = None,
    label: Label = None,
    text: Annotated[str | None, typer.Option(help="The column of texts that the encoder reads.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Photos and texts: what makes features of them.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The column that names each row.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to color by and to search; repeat it.")] = None,
    project: Annotated[Path | None, typer.Option(help="The folder that keeps what you say. [DATA.explore]")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port of the page. [any]")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    as_json: Json = False,
) -> None:
    """Open a map of the data in a page of this machine: look, correct by hand, refit, see whether it helped.

    Only this machine can open the page. What you say is written to the project folder before it counts;
    `model.apply(folder)` learns from it in Python.

    \b
    Examples:
      nearer explore data.csv --label class
      nearer explore photos/ --model photo-model
      nearer explore data.csv -l class --keep city --no-browser
    """


@command("_about.run_methods")
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


@command("_about.run_doctor")
def doctor(as_json: Json = False) -> None:
    """Check this installation: versions, threads, the data folder, a loss, an index and an evaluation.

    The exit code is 1 if something is broken.

    \b
    Examples:
      nearer doctor
      nearer doctor --json
    """
