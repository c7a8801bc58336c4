"""Speed of the other parts: start-up, training, proxies, propagation, neighborhoods, relation alignment."""

from __future__ import annotations

from page import load, markdown, measured, source, table


@table("startup")
def startup() -> str:
    record = load("startup")
    rows = [
        (f"`{row['command']}`", f"{row['median_seconds']:.2f} s", f"{row['best_seconds']:.2f} s") for row in record
    ]
    return markdown(("a fresh process", "median", "best"), rows) + source(record)


_BRINGS = {
    "": "the library and what it needs: torch, scikit-learn, typer, …",
    "plot": "matplotlib: the pictures of reports, `nearer demo` and `--report`",
    "search": "faiss: approximate search, and exact search of large tables in less time",
    "tables": "pandas and pyarrow: DataFrames, Parquet",
    "images": "pillow, which `plot` brings too: folders of images",
    "photos": "an ImageNet network (efficientnet-lite0) with its weights, for `nearer fit photos/`",
    "text": "sentence-transformers and a sentence encoder (MiniLM) with its weights",
    "explore": "the local page of `nearer explore`",
    "peers": "pytorch-metric-learning, for comparisons and its miners",
    "hub": "models and tables of the Hugging Face hub, `hf://owner/name`",
    "mteb": "`model.to_mteb()`, for `mteb.evaluate`",
    "ray": "Ray Data, for `nearer embed --ray`",
    "serve": "`nearer serve`",
    "tensorboard": "`TensorBoardLog`",
    "postgres": "the client of PostgreSQL with pgvector",
    "milvus": "the client of Milvus, and milvus-lite",
    "onnx": "`nearer export`, and running what it wrote",
    "docs": "mkdocs-material and mkdocstrings, for `make docs`",
    "adapters": "Lightning, transformers and sentence-transformers, to train inside of them",
}


@table("sizes")
def sizes() -> str:
    record = load("sizes")
    rows = [
        (
            f"`{row['extra']}`" if row["extra"] else "–",
            _BRINGS[row["extra"]],
            row["packages"],
            f"{row['megabytes']:,.0f} MB",
        )
        for row in record
        if row["extra"] in _BRINGS
    ]
    return markdown(("extra", "what it is for", "more packages", "on disk"), rows) + source(record)


@table("raml-speed")
def raml_speed() -> str:
    record = load("raml_speed")
    rows = [
        (
            f"{row['pairs']:,}",
            f"{row['rows']:,} × {row['columns']}",
            f"{row['seconds']:.0f} s",
            f"{row['peak_megabytes']:.0f} MB",
            f"{row['data_megabytes']:.0f} MB",
            row["iterations"],
            f"{row['correlation_with_the_planted_distances']:.3f}",
        )
        for row in record
    ]
    header = ("pairs", "rows", "time", "peak memory", "of that data", "iterations", "correlation with the planted")
    return markdown(header, rows) + source(record)


@table("neighborhood-speed")
def neighborhood_speed() -> str:
    if not measured("neighborhood_speed"):
        return "Not measured yet.\n"
    record = load("neighborhood_speed")
    size = record[0]["made"]["settings"]
    rows = [(row["kind"], f"{row['of_sorting']:.2f}×") for row in record]
    head = f"{size['queries']:,} × {size['items']:,}, {size['classes']} classes, k = {size['k']}"
    return markdown(("inference", head), rows) + source(record)


@table("neighborhood-large")
def neighborhood_large() -> str:
    if not measured("neighborhood_large"):
        return "Not measured yet.\n"
    record = load("neighborhood_large")
    rows = [
        (f"`{row['estimator']}`", row["epochs"], f"{row['megabytes']:.0f} MB", f"{row['seconds']:.0f} s")
        for row in record
    ]
    return markdown(("estimator", "epochs", "extra memory", "CPU"), rows) + source(record)


@table("proxies")
def proxies() -> str:
    if not measured("proxies"):
        return "Not measured yet.\n"
    record = load("proxies")
    softmax = [row for row in record if row["what"] != "jrs"]
    (jrs,) = (row for row in record if row["what"] == "jrs")
    rows = [
        (
            row["what"],
            f"{row['faster']:.1f}×",
            f"{row['extra MB']['ours']:.0f} MB",
            f"{row['extra MB']['peer']:.0f} MB",
        )
        for row in softmax
    ]
    told = (
        f"\nJRS of layers of 1,024, 512 and 512 dimensions, with its gradient: {jrs['ratio']:.2f}× the time of the "
        f"three Gram products at B = 1,024; {jrs['extra MB']:.0f} MB more at B = 8,192.\n"
    )
    header = ("loss", "faster than pytorch-metric-learning", "extra memory", "of the peer")
    return markdown(header, rows) + told + source(record)


@table("training")
def training() -> str:
    if not measured("training"):
        return "Not measured yet.\n"
    record = load("training")
    found = {row["what"]: row for row in record}
    loop, two, cached, fit = (found[name] for name in ("loop", "processes", "caching", "fit"))
    rows = [
        ("the loop beside encoder and loss alone, batch 300", f"{loop['overhead']:+.1%} time"),
        ("images/s of two processes beside one, one thread each", f"{two['ratio']:.2f}×"),
        ("batch 8,192 in chunks of 512, time beside the plain step", f"{cached['time ratio']:.2f}×"),
        (
            "the same, extra memory",
            f"{cached['cached']['extra MB']:.0f} MB; plain {cached['plain']['extra MB']:.0f} MB; "
            f"a plain batch of 512 {cached['small']['extra MB']:.0f} MB",
        ),
        (
            "`nearer fit`, 100,000 × 128, `kissme`, from file to folder",
            f"{fit['seconds']:.1f} s, {fit['CPU seconds']:.1f} s of CPU, {fit['peak MB']:.0f} MB",
        ),
    ]
    return markdown(("what", "measured"), rows) + source(record)


@table("propagation")
def propagation() -> str:
    parts = []
    if measured("propagation"):
        record = load("propagation")
        rows = [
            (
                f"{row['nodes']:,}",
                row["mode"],
                f"{row['times_faster']:.1f}×",
                f"{row['halves_equal']:.2%}",
                row["certificate"],
            )
            for row in record
        ]
        header = ("items", "mode", "faster than the inverse", "halves equal", "certificate")
        parts.append(markdown(header, rows) + source(record))
    if measured("propagation_large"):
        record = load("propagation_large")
        rows = [
            (
                f"{row['nodes']:,}",
                row["mode"],
                f"{row['graph_seconds']:.0f} s",
                f"{row['propagation_seconds']:.0f} s",
                f"{row['megabytes'] / 1024:.1f} GB",
                row["certificate"],
            )
            for row in record
        ]
        header = ("items", "mode", "graph", "propagation", "peak memory", "certificate")
        parts.append(markdown(header, rows) + source(record))
    return "\n".join(parts)


@table("neighbors")
def neighbors() -> str:
    record = load("neighbors")
    whose = ("nearer", "scikit-learn", "torch")
    rows = [
        (row["rows"], *(f"{row[f'{who} seconds'] / row['nearer seconds']:.1f}×" for who in whose)) for row in record
    ]
    header = ("10,000 rows in themselves, k = 10", "`search`", "scikit-learn, brute", "torch, `cdist` and `topk`")
    return markdown(header, rows) + source(record)
