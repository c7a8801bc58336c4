"""The commands and their options. Everything heavy is imported inside the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearer import __version__
from nearer.cli._output import check_new, check_writable, failures_reported, print_json
from nearer.exceptions import ParameterError

__all__ = ["app", "main"]

SUMMARY = """Metric learning: say what should be near; nearer learns the distance that makes it so.

\b
Examples:
  nearer demo                                learn a metric for digits and write demo-report.html
  nearer fit data.csv --label class          learn from a table and write the folder model/
  nearer search index queries.csv --model model
  nearer doctor                              check this installation

Exit codes: 0 done, 1 failed, 2 the command was not understood, 130 Ctrl-C, 143 terminated.
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
        from nearer.cli._demo import run_demo

        run_demo(out, seed=seed, epochs=epochs, quiet=quiet, as_json=as_json)


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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
BatchRows = Annotated[int | None, typer.Option("--batch-size", min=1, help="Rows in a part. [16384; 256 photos]")]
K = Annotated[int, typer.Option("-k", min=1, help="How many neighbours.")]


@app.command()
def fit(
    data: Annotated[
        Path | None, typer.Argument(help="A table (.csv .parquet .npz .npy) or a folder of images.")
    ] = None,
    label: Label = None,
    pairs: PairsFile = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="The model folder to write. [model]")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A name from `nearer methods`, choose (by rule) or auto (try several). [choose]"),
    ] = None,
    loss: Annotated[str | None, typer.Option(help="Train a network with this loss of nearer.losses.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting of the loss, NAME=VALUE.")] = None,
    n_components: Annotated[
        int | None, typer.Option(help="Dimensions of the embedding. [all; a network 64]")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Take so many rows of the table, at random. [all that fit]")
    ] = None,
    features: Annotated[list[str] | None, typer.Option(help="A column to use; repeat it. [all others]")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out; repeat it.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The column that names each row in results.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to keep for searches; repeat it.")] = None,
    unlabeled: Annotated[str | None, typer.Option(help="The value that means: no label. [-1]")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Photos and texts: efficientnet-lite0, minilm or none. [the installed one]"),
    ] = None,
    text: Annotated[str | None, typer.Option(help="The column of texts that the encoder reads.")] = None,
    unreadable: Annotated[str | None, typer.Option(help="Damaged images: raise or skip. [raise]")] = None,
    standardize: Annotated[bool | None, typer.Option(help="Bring every feature to one scale first. [yes]")] = None,
    held_out: Annotated[float | None, typer.Option(help="Share of the rows kept for the scores. [0.2]")] = None,
    split: Annotated[str | None, typer.Option(help="Hold out stratified rows or whole classes. [auto]")] = None,
    seed: Annotated[int | None, typer.Option(help="Chooses split, start and batches. [0]")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds for choosing and learning. [60]")] = None,
    pictures: Annotated[bool | None, typer.Option(help="Draw a map for the model card. [yes]")] = None,
    report: Annotated[Path | None, typer.Option(help="Write one HTML page about the model too.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Networks: passes over the data. [50]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Networks: items in a batch. [128]")] = None,
    lr: Annotated[float | None, typer.Option(help="Networks: learning rate. [0.001]")] = None,
    patience: Annotated[int | None, typer.Option(help="Networks: epochs without a better score. [10]")] = None,
    hidden: Annotated[
        list[int] | None, typer.Option(help="Networks: width of a hidden layer; repeat it. [512]")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Networks: float32, bfloat16 or float16. [float32]")] = None,
    chunk: Annotated[int | None, typer.Option(help="Networks: encode so many items at a time.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML or JSON with these settings.")] = None,
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
      nearer fit photos/ --encoder none --epochs 30
      nearer fit songs.csv -l calm -l happy -l sad
      nearer fit customers.csv -l churned --id customer --keep name --ignore notes
      nearer fit records.csv --id record --pairs pairs.csv
      nearer fit data.csv -l class --loss CircleLoss --set gamma=64
      nearer fit data.parquet -l class --method auto --budget 120
      nearer fit --config nearer.yaml
      torchrun --nproc_per_node 2 -m nearer fit photos/ --resume
    """
    flags = {
        name.rstrip("_"): value
        for name, value in locals().items()
        if name not in ("config", "resume", "quiet", "as_json", "report") and value is not None
    }
    with failures_reported(as_json):
        from nearer.cli._fit import run_fit

        for name in ("data", "pairs"):
            if name in flags:
                flags[name] = str(flags[name])
        if report is not None:
            check_new(report)
        run_fit(flags, config=config, resume=resume, report=report, quiet=quiet, as_json=as_json)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The config file to write.")] = Path("nearer.yaml"),
    as_json: Json = False,
) -> None:
    """Write a config file with every setting of `fit`, its default and what it means.

    \b
    Examples:
      nearer init
      nearer init experiments/one.yaml
    """
    with failures_reported(as_json):
        check_new(path)
        from nearer.cli._config import commented_config

        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commented_config(), encoding="utf-8")
        if as_json:
            print_json({"config": str(path)})
        else:
            typer.echo(f"Wrote {path}. Edit it, then: nearer fit --config {path}")


@app.command()
def embed(
    data: Data,
    model: ModelFolder,
    out: Annotated[str, typer.Option("--out", "-o", help="A .parquet, .npy or .csv file; an index folder or URL.")],
    batch_size: BatchRows = None,
    ray: Annotated[str | None, typer.Option(help="The address of a Ray cluster, or local.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="With --ray: copies of the model that work.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the embeddings of every row: nearness is Euclidean distance between them.

    Rows are read, embedded and written part by part, so the data may be larger than memory. After a kill the same
    command goes on where it was. DATA may also be a folder of Parquet files or a saved Hugging Face data set.

    \b
    Examples:
      nearer embed data.csv --model model --out embeddings.npy
      nearer embed photos/ -m photo-model -o embeddings.parquet
      nearer embed tables/ -m model -o "postgresql://user@database/items?table=rows"
      nearer embed tables/ -m model -o embedded --ray auto --workers 8
    """
    with failures_reported(as_json):
        from nearer.cli._use import run_embed

        run_embed(
            data,
            model=model,
            out=out,
            batch_size=batch_size,
            ray=ray,
            workers=workers,
            quiet=quiet,
            as_json=as_json,
        )


@app.command()
def evaluate(
    data: Data,
    model: ModelFolder,
    label: Label = None,
    pairs: PairsFile = None,
    report: Annotated[Path | None, typer.Option(help="Write one HTML page with the scores too.")] = None,
    as_json: Json = False,
) -> None:
    """Score a model beside the raw features on labelled data that it has not seen.

    \b
    Examples:
      nearer evaluate test.csv --model model --label class
      nearer evaluate test.csv -m model -l class --report scores.html
      nearer evaluate photos/ -m photo-model --json
    """
    with failures_reported(as_json):
        from nearer.cli._use import run_evaluate

        if report is not None:
            check_new(report)
        run_evaluate(data, model=model, label=label or [], pairs=pairs, report=report, as_json=as_json)


@app.command()
def neighbors(
    query: Annotated[str, typer.Argument(help="The number of a row (from 0), or an image file.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Where to look: a table or a folder of images.")],
    model: ModelFolder,
    label: Label = None,
    k: K = 5,
    as_json: Json = False,
) -> None:
    """Show what is nearest to one row of a data set, or to an image.

    \b
    Examples:
      nearer neighbors 17 --data data.csv --model model --label class
      nearer neighbors cat.png -d photos/ -m photo-model -k 3
    """
    with failures_reported(as_json):
        from nearer.cli._use import run_neighbors

        run_neighbors(query, model=model, data=data, label=label or [], k=k, as_json=as_json)


@app.command()
def index(
    data: Data,
    model: ModelFolder,
    out: Annotated[
        str, typer.Option("--out", "-o", help="The index folder to write, or a URL such as postgresql://...")
    ] = "index",
    label: Label = None,
    kind: Annotated[
        str, typer.Option(help="exact, hnsw, ivf, ivfpq or auto (by size); approximate ones report their recall.")
    ] = "auto",
    batch_size: BatchRows = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Embed a data set into an index to search or to serve, part by part.

    After a kill the same command goes on where it was, and puts no row in twice.

    \b
    Examples:
      nearer index data.csv --model model --label class
      nearer index tables/ -m model -o "postgresql://user@database/items?table=rows"
      nearer index photos/ -m photo-model -o photo-index --kind hnsw
    """
    with failures_reported(as_json):
        from nearer.cli._use import run_index

        run_index(
            data,
            model=model,
            out=out,
            label=label or [],
            kind=kind,
            batch_size=batch_size,
            quiet=quiet,
            as_json=as_json,
        )


@app.command()
def search(
    index: Annotated[str, typer.Argument(help="An index folder that `nearer index` wrote, or a URL.")],
    queries: Annotated[Path, typer.Argument(help="A table, a folder of images, or one image.")],
    model: ModelFolder,
    k: K = 5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the hits to a .csv, .jsonl or .html file.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Queries to print.")] = 10,
    as_json: Json = False,
) -> None:
    """Find the nearest items of an index for every query.

    \b
    Examples:
      nearer search index queries.csv --model model --out hits.csv
      nearer search photo-index cat.png -m photo-model -k 3 --json
    """
    with failures_reported(as_json):
        if out is not None:
            if out.suffix not in (".csv", ".jsonl", ".html"):
                raise ParameterError(f"`--out` must end in .csv, .jsonl or .html, got {out.name!r}.")
            check_new(out)
        from nearer.cli._use import run_search

        run_search(index, queries, model=model, k=k, out=out, limit=limit, as_json=as_json)


@app.command()
def calibrate(
    data: Data,
    model: ModelFolder,
    label: Label = None,
    error: Annotated[
        float, typer.Option(help="The largest share of different pairs that may be called same.")
    ] = 0.05,
    miss: Annotated[
        float | None,
        typer.Option(help="The largest share of same pairs that may be called different. [as --error]"),
    ] = None,
    guarantee: Annotated[str, typer.Option(help="estimated, average or high-probability.")] = "estimated",
    report: Annotated[Path | None, typer.Option(help="Write one HTML page with the curves too.")] = None,
    as_json: Json = False,
) -> None:
    """Find which distance means the same, with a bounded error on classes never seen, and keep it in the model.

    DATA holds labelled items of classes that the model did not learn from. The class is the unit of the promise:
    an estimate needs about 20 of them for an error of 0.05, a proof 39 and more.

    \b
    Examples:
      nearer calibrate others.csv --model model --label person
      nearer calibrate others.csv -m model -l person --error 0.01 --guarantee average --report same.html
    """
    with failures_reported(as_json):
        if report is not None:
            check_new(report)
        from nearer.cli._same import run_calibrate

        run_calibrate(
            data,
            model=model,
            label=label or [],
            error=error,
            miss=miss,
            guarantee=guarantee,
            report=report,
            as_json=as_json,
        )


@app.command()
def serve(
    model: Annotated[Path, typer.Argument(help="A model folder that `nearer fit` wrote.")],
    index: Annotated[str, typer.Argument(help="An index folder, or a URL such as postgresql://...")],
    host: Annotated[
        str, typer.Option(help="Where to listen; beyond this machine tokens are needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    tokens: Annotated[
        Path | None, typer.Option(help="A file with lines 'read TOKEN' or 'write TOKEN'. [$NEARER_TOKENS]")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="A PEM file: speak HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes that a request may have.")] = 16 << 20,
    max_rows: Annotated[int, typer.Option(min=1, help="Items or vectors in one request.")] = 1024,
    queue: Annotated[int, typer.Option(min=1, help="Rows that may wait; beyond them: 429.")] = 8192,
    batch: Annotated[int, typer.Option(min=1, help="Rows that are searched together.")] = 256,
    threads: Annotated[int, typer.Option(min=1, help="Threads of a search; more for a large exact index.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds until a request is given up.")] = 30.0,
    log: Annotated[str, typer.Option(help="all, errors or none: JSON lines on standard error.")] = "all",
    as_json: Json = False,
) -> None:
    """Serve a model and an index over HTTP: embed, search, add, remove, compare.

    An answered write is on disk. SIGTERM finishes what was begun; SIGHUP opens the model, the index and the tokens
    again without dropping a request. /docs describes the API, / shows the load.

    \b
    Examples:
      nearer serve model index
      nearer serve model index --host 0.0.0.0 --tokens tokens.txt --tls-certificate cert.pem --tls-key key.pem
      nearer serve model postgresql://user@database/items?table=photos --port 9000
    """
    with failures_reported(as_json):
        from nearer.cli._serve import run_serve

        run_serve(
            model,
            index,
            host=host,
            port=port,
            tokens=tokens,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            max_body=max_body,
            max_rows=max_rows,
            queue=queue,
            batch=batch,
            threads=threads,
            timeout=timeout,
            log=log,
        )


@app.command()
def dedupe(
    data: Data,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="A model folder; without it the features are compared.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table, a .csv file.")] = Path("duplicates.csv"),
    page: Annotated[Path | None, typer.Option(help="A page of pairs to look at, an .html file.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Distance of duplicates; by default a tenth of the distance to the tenth neighbor."),
    ] = None,
    keep: Annotated[str, typer.Option(help="Which item of a group stays: first or best.")] = "first",
    score: Annotated[
        str | None, typer.Option(help="Column for --keep best; by default the middle of the group is best.")
    ] = None,
    label: Label = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="A column to leave out; again for more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find near-duplicates, in groups, and say which items to keep.

    Two items are duplicates when their distance is at most the threshold; a group is all that such pairs connect.
    Up to 20,000 different items all pairs are compared, above that the share that was found is measured.

    \b
    Examples:
      nearer dedupe data.csv --label class --page pairs.html
      nearer dedupe photos/ -m photo-model --keep best -o keep.csv
    """
    with failures_reported(as_json):
        if out.suffix != ".csv" or (page is not None and page.suffix != ".html"):
            raise ParameterError("`--out` must end in .csv and `--page` in .html.")
        for file in (out, page):
            if file is not None:
                check_new(file)
        from nearer.cli._dedupe import run_dedupe

        run_dedupe(
            data,
            model=model,
            out=out,
            page=page,
            threshold=threshold,
            keep=keep,
            score=score,
            label=label or [],
            ignore=ignore or [],
            as_json=as_json,
        )


@app.command()
def same(
    first: Annotated[str, typer.Argument(help="A row number of --data, a photo, or a text.")],
    second: Annotated[str, typer.Argument(help="The other one.")],
    model: ModelFolder,
    data: Annotated[Path | None, typer.Option("--data", "-d", help="Where the row numbers count.")] = None,
    as_json: Json = False,
) -> None:
    """Say whether two items are the same, different, or that it cannot say.

    \b
    Examples:
      nearer same 3 17 --data records.csv --model model
      nearer same left.jpg right.jpg -m photo-model
    """
    with failures_reported(as_json):
        from nearer.cli._same import run_same

        run_same(first, second, model=model, data=data, as_json=as_json)


@app.command()
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
    with failures_reported(as_json):
        from nearer.cli._ask import check_answers_file, run_ask

        check_answers_file(out)
        if not only_list and not as_json:
            check_new(out)
        run_ask(
            data,
            model=model,
            label=label or [],
            ids=id_,
            n=n,
            pairs=pairs,
            out=out,
            only_list=only_list,
            as_json=as_json,
        )


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model folder that `nearer fit` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A file that ends in .onnx or .safetensors.")],
    as_json: Json = False,
) -> None:
    """Write a model for programs without nearer: ONNX, or the state dictionary of plain torch layers.

    \b
    Examples:
      nearer export model --out model.onnx
      nearer export model -o layers.safetensors
    """
    with failures_reported(as_json):
        check_new(out)
        from nearer.cli._use import run_export

        run_export(model, out=out, as_json=as_json)


@app.command()
def audit(
    data: Data,
    label: Label = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the findings as a CSV file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the findings as one HTML page.")] = None,
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
      nearer audit data.csv -l class --out findings.csv --html findings.html
      nearer audit photos/ --json > findings.json
    """
    with failures_reported(as_json):
        for path in (out, html):
            if path is not None:
                check_new(path)
        from nearer.cli._explore import run_audit

        run_audit(
            data,
            label=label or [],
            text=text,
            encoder=encoder,
            ids=id_,
            out=out,
            html=html,
            seed=seed,
            as_json=as_json,
        )


@app.command()
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
    with failures_reported(as_json):
        from nearer.cli._explore import run_explore

        run_explore(
            data,
            model=model,
            label=label or [],
            text=text,
            encoder=encoder,
            ids=id_,
            keep=keep or [],
            project=project,
            port=port,
            browser=browser,
            as_json=as_json,
        )


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment; without a name all are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes instead of the whole protocol.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="A table, data set or row of it; repeat it.")] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write each row into benchmarks/results as soon as it is measured.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="With --record: measure only the rows that are not there.")
    ] = False,
    tune: Annotated[
        bool, typer.Option("--tune", help="Compare settings on validation data; nothing is scored on test data.")
    ] = False,
    backbone: Annotated[
        str | None, typer.Option(help="package.module:function that makes a network for photos.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="A local file with its weights.")] = None,
    protocol: Annotated[
        str, typer.Option(help="ours, or paper: rates, batches, crop and colours as published, for photos.")
    ] = "ours",
    size: Annotated[int | None, typer.Option(help="The size of photos for the network. [224]")] = None,
    colors: Annotated[str | None, typer.Option(help="rgb, or bgr for weights that want blue first.")] = None,
    mean: Annotated[str | None, typer.Option(help="Three numbers in 0..1 that are taken off the colours.")] = None,
    spread: Annotated[str | None, typer.Option(help="Three numbers that the colours are divided by.")] = None,
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
    """
    with failures_reported(as_json):
        from nearer.cli._reproduce import run_reproduce

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
            out=out,
            quiet=quiet,
            as_json=as_json,
        )


@app.command()
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
        from nearer.cli._methods import run_methods

        run_methods(name, as_json)


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
        from nearer.cli._doctor import run_doctor

        healthy = run_doctor(as_json=as_json)
    if not healthy:
        raise typer.Exit(1)


def main() -> None:
    """Run the command line."""
    app(prog_name="nearer")
