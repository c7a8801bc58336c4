"""Commands that use a model: embed, score, index, search, decide, serve, find duplicates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nearer.app.cli._command import (
    BatchRows,
    Data,
    Force,
    Json,
    K,
    Label,
    ModelFolder,
    PairsFile,
    Quiet,
    Report,
    Unreadable,
    command,
)


@command("_use.run_embed")
def embed(
    data: Data,
    model: ModelFolder,
    out: Annotated[str, typer.Option("--out", "-o", help="A .parquet, .npy or .csv file; an index folder or URL.")],
    batch_size: BatchRows = None,
    unreadable: Unreadable = "raise",
    force: Force = False,
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


@command("_judge.run_evaluate")
def evaluate(
    data: Data,
    model: ModelFolder,
    label: Label = None,
    pairs: PairsFile = None,
    report: Report = None,
    force: Force = False,
    unreadable: Unreadable = "raise",
    as_json: Json = False,
) -> None:
    """Score a model beside the raw features on labelled data that it has not seen.

    \b
    Examples:
      nearer evaluate test.csv --model model --label class
      nearer evaluate test.csv -m model -l class --report scores.html
      nearer evaluate photos/ -m photo-model --json
    """


@command("_use.run_neighbors")
def neighbors(
    query: Annotated[str, typer.Argument(help="The number of a row (from 0), or an image file.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Where to look: a table or a folder of images.")],
    model: ModelFolder,
    label: Label = None,
    k: K = 5,
    unreadable: Unreadable = "raise",
    as_json: Json = False,
) -> None:
    """Show what is nearest to one row of a data set, or to an image.

    \b
    Examples:
      nearer neighbors 17 --data data.csv --model model --label class
      nearer neighbors cat.png -d photos/ -m photo-model -k 3
    """


@command("_use.run_index")
def index(
    data: Annotated[
        str, typer.Argument(help="A table or a folder; without --model an index, or a Parquet file of one.")
    ],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="A model folder; without it an index is copied.")
    ] = None,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="An index folder, a URL such as postgresql://..., a .parquet file."),
    ] = "index",
    label: Label = None,
    kind: Annotated[
        Literal["auto", "exact", "hnsw", "ivf", "ivfpq"],
        typer.Option(help="How it is searched; auto goes by size, approximate ones report their recall."),
    ] = "auto",
    batch_size: BatchRows = None,
    unreadable: Unreadable = "raise",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Embed a data set into an index to search or to serve, part by part.

    After a kill the same command goes on where it was, and puts no row in twice. Without a model it copies an index
    as it is: from a folder or engine to another, to a Parquet file, or from one.

    \b
    Examples:
      nearer index data.csv --model model --label class
      nearer index tables/ -m model -o "postgresql://user@database/items?table=rows"
      nearer index photos/ -m photo-model -o photo-index --kind hnsw
      nearer index photo-index -o items.parquet
    """


@command("_use.run_search")
def search(
    index: Annotated[str, typer.Argument(help="An index folder that `nearer index` wrote, or a URL.")],
    queries: Annotated[Path, typer.Argument(help="A table, a folder of images, or one image.")],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="A model folder; by default the one that made the index.")
    ] = None,
    k: K = 5,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only items with these metadata: NAME=VALUE, != < <= > >= or JSON; again for more."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the hits to a .csv or .jsonl file.")
    ] = None,
    report: Report = None,
    photos: Annotated[
        Path | None, typer.Option(help="The folder of the photos in the index, for --report. [found near QUERIES]")
    ] = None,
    force: Force = False,
    unreadable: Unreadable = "raise",
    limit: Annotated[int, typer.Option(min=1, help="Queries to print.")] = 10,
    as_json: Json = False,
) -> None:
    """Find the nearest items of an index for every query.

    \b
    Examples:
      nearer search index queries.csv --out hits.csv
      nearer search photo-index cat.png -k 3 --json
      nearer search index queries.csv --where "year>=2000" --where color=red
    """


@command("_migrate.run_migrate")
def migrate(
    index: Annotated[str, typer.Argument(help="An index folder, or a URL such as postgresql://...")],
    data: Annotated[
        Path | None, typer.Argument(help="Some hundred to thousand items of the index: a table or a folder.")
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The folder of the model to move to.")] = None,
    label: Label = None,
    unreadable: Unreadable = "raise",
    apply: Annotated[bool, typer.Option("--apply", help="Move the index; without it nothing is changed.")] = False,
    aside: Annotated[str | None, typer.Option(help="Where the old index is kept. [INDEX.moved beside it]")] = None,
    back: Annotated[bool, typer.Option("--back", help="Go back to the index that is kept aside.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where the model is saved that asks the moved index, if it is another one."
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Change the encoder and keep the index: move its embeddings into the space of another model.

    The map is learned from items of DATA that are in the index, found by their ids, and embedded by the new model;
    no label is needed. It says how many neighbors are kept, and with --label what embedding everything again would
    gain. --apply moves all embeddings in one step; the old index stays beside the new one. Where labels show that
    the whitened space of the new encoder is better, the index moves there, and --out is the model that asks it.

    \b
    Examples:
      nearer migrate index sample.csv --model new-model --label topic
      nearer migrate index sample.csv --model new-model --apply
      nearer migrate index --back
    """


@command("_migrate.run_adapt")
def adapt(
    index: Annotated[str, typer.Argument(help="An index folder, or a URL such as postgresql://...")],
    clicks: Annotated[
        Path, typer.Argument(help="Queries, and for each the id of the item that belongs to it: a table.")
    ],
    document: Annotated[str, typer.Option(help="The column of CLICKS with the ids of the items.")],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The model of the index. [the one it remembers]")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the model with the map is saved.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Adapt the queries and leave the database: learn from clicks how queries should be mapped before they search.

    Pairs of a query and the item that belongs to it say in which directions the two differ; these count less
    afterwards. Nothing is embedded again and the index is not changed. The map is tried on pairs that did not teach
    it, and where it is not better there than the queries by themselves, the model stays as it is.

    \b
    Examples:
      nearer adapt index clicks.csv --document clicked --out adapted
      nearer search index queries.csv --model adapted
    """


@command("_judge.run_calibrate")
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
    guarantee: Annotated[
        Literal["estimated", "average", "high-probability"], typer.Option(help="What holds on new classes.")
    ] = "estimated",
    copies: Annotated[
        Path | None, typer.Option(help="Without labels: a near-copy of every item of DATA, in its order.")
    ] = None,
    report: Report = None,
    force: Force = False,
    unreadable: Unreadable = "raise",
    as_json: Json = False,
) -> None:
    """Find which distance means the same, with a bounded error on classes never seen, and keep it in the model.

    DATA holds labelled items of classes that the model did not learn from. The class is the unit of the promise:
    an estimate needs about 20 of them for an error of 0.05, a proof 39 and more. Without labels --error bounds the
    share of pairs drawn at random that are called same: what finds copies, and not what is of one kind.

    \b
    Examples:
      nearer calibrate others.csv --model model --label person
      nearer calibrate photos/ --model model --error 0.0001 --copies smaller-photos/
      nearer calibrate others.csv -m model -l person --error 0.01 --guarantee average --report same.html
    """


@command("_serve.run_serve")
def serve(
    model: Annotated[str, typer.Argument(help="A model folder; or only the index, which remembers its model.")],
    index: Annotated[str | None, typer.Argument(help="An index folder, or a URL such as postgresql://...")] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; beyond this machine tokens are needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    create: Annotated[bool, typer.Option("--create", help="Make an empty index if there is none.")] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse changes, and open a folder beside its writer.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; more than one for PostgreSQL or --read-only.")
    ] = 1,
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
    log: Annotated[
        Literal["all", "errors", "none"], typer.Option(help="Which requests are JSON lines on standard error.")
    ] = "all",
    as_json: Json = False,
) -> None:
    """Serve a model and an index over HTTP: embed, search, add, remove, compare.

    An answered write is on disk. SIGTERM finishes what was begun; SIGHUP opens the model, the index and the tokens
    again without dropping a request. /docs describes the API and tries it, / shows the load.

    \b
    Examples:
      nearer serve index
      nearer serve model index
      nearer serve model index --host 0.0.0.0 --tokens tokens.txt --tls-certificate cert.pem --tls-key key.pem
      nearer serve index --read-only --workers 4
      nearer serve model postgresql://user@database/items?table=photos --workers 4 --port 9000
    """


@command("_dedupe.run_dedupe")
def dedupe(
    data: Data,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="A model folder, by which things of a kind are duplicates too."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table, a .csv file.")] = Path("duplicates.csv"),
    report: Report = None,
    force: Force = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Distance of duplicates; by default a tenth of that to the tenth neighbor, photos a fifth."
        ),
    ] = None,
    keep: Annotated[Literal["first", "best"], typer.Option(help="Which item of a group stays.")] = "first",
    score: Annotated[
        str | None,
        typer.Option(
            help="Column for --keep best; by default the largest photo, or the item with most duplicates."
        ),
    ] = None,
    label: Label = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="A column to leave out; again for more.")
    ] = None,
    unreadable: Unreadable = "raise",
    as_json: Json = False,
) -> None:
    """Find near-duplicates, in groups, and say which items to keep.

    Two items are duplicates when their distance is at most the threshold; a group is one item that is kept and its
    duplicates. Photos are compared as pictures: copies that were saved again, made smaller or brighter are found
    without an encoder. With a model, items that it finds as near are duplicates too; the column `kind` says which.
    Up to 20,000 different items all pairs are compared, above that the share that was found is measured.

    \b
    Examples:
      nearer dedupe data.csv --label class --report pairs.html
      nearer dedupe photos/ -m photo-model --keep best -o keep.csv
    """


@command("_judge.run_same")
def same(
    first: Annotated[str, typer.Argument(help="A row number of --data, a photo, or a text.")],
    second: Annotated[str, typer.Argument(help="The other one.")],
    model: ModelFolder,
    data: Annotated[Path | None, typer.Option("--data", "-d", help="Where the row numbers count.")] = None,
    unreadable: Unreadable = "raise",
    as_json: Json = False,
) -> None:
    """Say whether two items are the same, different, or that it cannot say.

    \b
    Examples:
      nearer same 3 17 --data records.csv --model model
      nearer same left.jpg right.jpg -m photo-model
    """
