"""Commands that learn: demo, fit, encoders, init."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearer.app.cli._command import (
    Data,
    Force,
    Json,
    Label,
    PairsFile,
    Quiet,
    Report,
    Unreadable,
    command,
    with_settings,
)


@command("_demo.run_demo")
def demo(
    report: Annotated[Path, typer.Option("--report", "--out", "-o", help="One self-contained HTML file.")] = Path(
        "demo-report.html"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Chooses split, labels and weights.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="Passes over the training digits.")] = 60,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the scores alone.")] = False,
    as_json: Json = False,
) -> None:
    """Learn a metric for 1,797 digits from 10 labels per class, and prove it on digits it never saw.

    Prints the scores of the raw features beside those of the learned metric and writes a report with pictures.
    Needs no data and no network; about half a minute.

    \b
    Examples:
      nearer demo
      nearer demo --report report.html --seed 7
      nearer demo --json --quiet > scores.json
    """


@command("_fit.run_fit")
@with_settings
def fit(
    data: Annotated[
        Path | None, typer.Argument(help="A table (.csv .parquet .npz .npy) or a folder of images.")
    ] = None,
    label: Label = None,
    pairs: PairsFile = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="The model folder to write. [model]")] = None,
    report: Report = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML or JSON with these settings.")] = None,
    force: Force = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from your data, score it beside the raw features, and write a model folder.

    The method is picked from what the labels are (docs/choose.md), and the rule that fired is printed. Rows without
    a label are used where the method can. A fifth of the rows is held out and used for the scores alone; when the
    learned metric is not better, it says so.

    \b
    Examples:
      nearer fit data.csv --label class
      nearer fit photos/ --out photo-model
      nearer fit questions.csv -l topic --text question
      nearer fit photos/labels.csv -l species --image file
      nearer fit photos/ --encoder none --epochs 30
      nearer fit songs.csv -l calm -l happy -l sad
      nearer fit customers.csv -l churned --id customer --keep name --ignore notes
      nearer fit records.csv --id record --pairs pairs.csv
      nearer fit data.csv -l class --loss CircleLoss --set gamma=64
      nearer fit data.csv -l class --loss RAWLoss --set miner=VTHM --set miner.margin=0.2
      nearer fit data.parquet -l class --method auto --time 120
      nearer fit --config nearer.yaml
      torchrun --nproc_per_node 2 -m nearer fit photos/ --resume
    """


@command("_encoders.run_encoders")
def encoders(
    data: Data,
    label: Label = None,
    text: Annotated[str | None, typer.Option(help="The column of texts that the encoders read.")] = None,
    encoder: Annotated[
        list[str] | None, typer.Option(help="An encoder to try; repeat it. [all that are installed]")
    ] = None,
    unreadable: Unreadable = "raise",
    split: Annotated[
        Literal["auto", "stratified", "classes"], typer.Option(help="What is held out: rows, or whole classes.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Chooses the split.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare trained encoders on your photos or texts: frozen, with a closed form, and what an item costs.

    All are scored on the same held-out rows. Named is the cheapest that none is better than by more than these rows
    leave open. Features are kept, so a `fit` behind one of them starts from there.

    \b
    Examples:
      nearer encoders photos/
      nearer encoders photos/ --encoder efficientnet-lite0 --encoder resnet50 --split classes
      nearer encoders questions.csv --label topic --text question
    """


@command("_config.run_init")
def init(
    path: Annotated[Path, typer.Argument(help="The config file to write.")] = Path("nearer.yaml"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a config file with every setting of `fit`, its default and what it means.

    \b
    Examples:
      nearer init
      nearer init experiments/one.yaml
    """
