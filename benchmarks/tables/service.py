"""The tables of the service and of more rows than fit."""

from __future__ import annotations

import math
from typing import Any

from page import load, markdown, measured, source, table

NAMES = {
    "vectors": "JSON, one vector of 128",
    "items": "JSON, one item through the model",
    "binary": "float32, one vector",
}


@table("server")
def server() -> str:
    if not measured("server"):
        return "Not measured yet: `python benchmarks/speed/server.py`.\n"
    record = load("server")
    rows = [
        (
            NAMES[row["request"]],
            f"{row['per_second']:,.0f}",
            f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
            f"{row['cpu_ms']:.3f}",
            f"{row['search_cpu_ms']:.3f}",
            f"{row['above_search_cpu_ms']:.3f}",
            f"{row['batch']:.1f}",
            row["client"],
            row["load_average"],
        )
        for row in record
    ]
    header = (
        "`/search`, 100,000 × 128, k = 10, 32 connections",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "CPU ms a request",
        "of it the search",
        "above it",
        "rows a batch",
        "client",
        "load of the machine",
    )
    told = "\nThe client runs on the same two cores.\n"
    return markdown(header, rows) + told + source(record)


@table("server-soak")
def soak() -> str:
    parts = ""
    if measured("server_soak"):
        record = load("server_soak")
        rows = [
            (
                f"{row['seconds'] / 60:.0f}",
                f"{row['searches']:,}",
                f"{row['writes']:,}",
                row["failed"],
                f"{row['first_half_mb']:.0f}",
                f"{row['second_half_mb']:.0f}",
                f"{row['largest_mb']:.0f}",
            )
            for row in record
        ]
        header = (
            "minutes under load",
            "searches",
            "writes",
            "failed",
            "MB, first half",
            "MB, second half",
            "most MB",
        )
        parts += markdown(header, rows) + source(record)
    if measured("server_faults"):
        record = load("server_faults")
        rows = []
        for row in record:
            if "lost" in row:
                found = (
                    f"{row['answered writes']:,} writes were answered; lost {row['lost']}, half there {row['half']}"
                )
            else:
                found = f"5xx {row['5xx']}, hangs {row['hangs']}"
            rows.append((row["what"], f"{row['count']:,}", found))
        parts += "\n" + markdown(("what `make soak` did", "times", "found"), rows) + source(record)
    return parts or "Not measured yet: `make soak`.\n"


@table("streaming")
def streaming() -> str:
    if not measured("streaming"):
        return "Not measured yet: `python benchmarks/speed/streaming.py`.\n"
    record = load("streaming")
    # Rows a second say more about who else used the machine; processor time and memory do not.
    rows = [
        (
            f"{row['rows']:,}",
            f"{row['data_mb']:,.0f}",
            row["out"],
            f"{1e6 * row['cpu_seconds'] / row['rows']:.0f}",
            f"{row['before_mb']:.0f}",
            f"{row['peak_mb']:.0f}",
        )
        for row in record
    ]
    header = ("rows of 128 numbers", "MB of Parquet", "written as", "CPU µs a row", "MB with the model", "most MB")
    return markdown(header, rows) + source(record)


@table("parts")
def parts() -> str:
    """Memory and processor time of learning in parts, and how far the metric is from that of all rows."""
    if not measured("parts"):
        return "Not measured yet: `python benchmarks/speed/parts.py`.\n"
    record = load("parts")
    rows = [
        (
            f"`{row['learner']}`",
            f"{row['rows']:,}",
            f"{row['cpu_seconds']:.1f}",
            f"{row['before_mb']:.0f}",
            f"{row['peak_mb']:.0f}",
            f"{row['difference']:.0e}" if "difference" in row else "",
        )
        for row in record
    ]
    header = ("learner", "rows of 128 numbers", "CPU s", "MB before", "most MB", "largest difference of a distance")
    return markdown(header, rows) + source(record)


STEPS = {
    "embed": "embed (128 → 128, linear)",
    "index": "build the default index",
    "search": "search, one query, k = 10",
    "graph": "k-NN graph, k = 10, approximate",
    "reach": "class shares on the graph, 10 classes",
}


@table("scale")
def scale() -> str:
    if not measured("scale"):
        return "Not measured yet: `python benchmarks/speed/scale.py`.\n"
    record = load("scale")
    sizes = sorted({row["rows"] for row in record})
    found = {(row["step"], row["rows"]): row["cpu_seconds"] for row in record}
    rows = []
    for step, name in STEPS.items():
        times = [found[step, n] for n in sizes]
        power = math.log(times[-1] / times[0]) / math.log(sizes[-1] / sizes[0])
        unit, scaled = ("ms", 1000.0) if step == "search" else ("s", 1.0)
        large = times[-1] * (1e8 / sizes[-1]) ** power
        told = f"{1000 * large:,.0f} ms" if step == "search" else f"{large / 3600:.2g} h"
        rows.append((name, *(f"{scaled * one:,.3g} {unit}" for one in times), f"n^{power:.2f}", told))
    header = (
        "step, CPU of one core",
        *(f"{n:,} rows" for n in sizes),
        "grows as",
        "10⁸ rows in one piece, by that power",
    )
    disk = record[-1]["disk_bytes_per_row"]
    return markdown(header, rows) + f"\nOn disk: {disk:,.0f} bytes a row.\n" + source(record)


SHARD, WHOLE, OWNERS, DIMENSION = 3_125_000, 100_000_000, 3, 128


@table("past-one-machine")
def past_one_machine() -> str:
    """CPU hours of 10⁸ rows in 32 shards: measured rates and powers of n, carried to the size of one shard."""
    if not all(measured(name) for name in ("scale", "streaming", "index", "server", "losses_memory")):
        return "Not measured yet.\n"
    record = load("scale")
    found = {(row["step"], row["rows"]): row["cpu_seconds"] for row in record}
    sizes = sorted({row["rows"] for row in record})

    def of_shard(step: str) -> float:
        """CPU seconds at the size of a shard, by the measured power of n."""
        first, last = found[step, sizes[0]], found[step, sizes[-1]]
        power = math.log(last / first) / math.log(sizes[-1] / sizes[0])
        return last * (SHARD / sizes[-1]) ** power

    shards = WHOLE // SHARD
    streams = [row for row in load("streaming") if row["rows"] >= 1_000_000]
    stream = max(row["cpu_seconds"] / row["rows"] for row in streams)
    graphs = [row for row in load("index") if row["what"].startswith("HNSW") and row["rows"] == 1_000_000]
    server = next(row for row in load("server") if row["request"] == "items")
    query = of_shard("search")
    hours = 3600.0
    rows = [
        (
            "read, embed (linear), write Parquet",
            "files; `nearer embed --ray`",
            f"{1e6 * stream:.0f} µs a row, measured at 5,000,000",
            f"{stream * WHOLE / hours:.1f} h",
        ),
        (
            "build the default index",
            f"rows, {shards} folders or partitions; `nearer index`",
            f"{of_shard('index') / 60:.1f} min a shard, by the power of n",
            f"{of_shard('index') * shards / hours:.1f} h",
        ),
        (
            "one query to all shards",
            "an engine's fan-out, or one service for each shard",
            f"{1000 * query:.2f} ms a shard, by the power of n",
            f"{1000 * query * shards:.0f} ms",
        ),
        (
            f"one query to the {OWNERS} shards that own its cells",
            "the same, by coarse cells",
            "the same; recall must be measured",
            f"{1000 * query * OWNERS:.1f} ms",
        ),
        (
            "the service around a search",
            "`nearer serve`, one process for each shard",
            f"{server['above_search_cpu_ms']:.2f} ms, measured",
            f"{server['above_search_cpu_ms'] * shards:.0f} ms to all",
        ),
        (
            "k-NN graph, k = 10",
            f"queries, each to {OWNERS} shards",
            f"{1e6 * query * OWNERS:.0f} µs a row, from the searches above",
            f"{query * OWNERS * WHOLE / hours:.0f} h",
        ),
        (
            "class shares, 10 classes",
            "rows by shard, border items exchanged",
            f"{of_shard('reach'):.0f} s a shard, without the exchange",
            f"{of_shard('reach') * shards / hours:.1f} h",
        ),
    ]
    for row in graphs:
        each = row["build_and_save_cpu_seconds"]
        told = f"{each:.0f} s a million rows, measured at 1,000,000"
        rows.insert(2, ("build HNSW instead", "the same", told, f"{each * WHOLE / 1e6 / hours:.0f} h"))
    header = ("step", "what is cut, and who runs it", "rate", f"10⁸ rows of {DIMENSION} numbers, CPU of one core")
    return markdown(header, rows) + source(record)


@table("joint-batches")
def joint_batches() -> str:
    """One step of a large batch in one process, and what a process of several would do and send."""
    record = [row for row in load("losses_memory") if row["batch"] == 65_536]
    rows = []
    for row in record:
        sent = row["batch"] * DIMENSION * 4 / 1e6
        cells = (f"{row['seconds'] / count:.1f} s" for count in (1, 2, 8))
        rows.append(
            (row["loss"], f"{row['batch']:,}", *cells, f"{row['extra_megabytes']:.0f} MB", f"{sent:.0f} MB")
        )
    header = (
        "loss",
        "batch",
        "one process, measured",
        "2, by the model",
        "8, by the model",
        "extra memory",
        "received by each",
    )
    return markdown(header, rows) + source(record)


LEARNED = {
    "nca": "`NCA(batch_size=1024)`",
    "lmnn": "`LMNN(batch_size=1024)`",
    "mlkr": "`MLKR(batch_size=1024)`",
    "kissme": "`KISSME`",
    "gmml": "`GMML`",
    "rca": "`RCA`",
    "ldml": "`LDML`",
    "lfda": "`LFDA`",
    "raml-krr": "`RAMLKRR`",
    "graph": "`nearest_neighbors`, k = 10, 64 numbers",
    "class_shares": "`class_shares` on it, 10 classes",
    "evaluate": "`evaluate(sample=10000)`",
    "kmeans": "`kmeans`, 64 numbers, n/100 groups, at most 1,000",
}
MILLION = (10_000, 100_000, 1_000_000)


@table("million")
def million() -> str:
    """CPU seconds and extra memory at three sizes, and the power of n between the two largest that were run."""
    if not measured("million"):
        return "Not measured yet: `python benchmarks/speed/million.py`.\n"
    record = load("million")
    found = {(row["part"], row["rows"]): row for row in record}
    rows = []
    for part, name in LEARNED.items():
        cells, known = [], []
        for n in MILLION:
            row = found.get((part, n))
            if row is None:
                cells.append("not run")
            elif row["cpu_seconds"] is None:
                cells.append("not finished")
            else:
                known.append((n, row["cpu_seconds"]))
                cells.append(f"{row['cpu_seconds']:,.3g} s, {row['extra_megabytes']:,} MB")
        power = "–"
        if len(known) > 1:
            (a, first), (b, last) = known[-2:]
            power = f"n^{math.log(last / first) / math.log(b / a):.2f}"
        rows.append((name, *cells, power, _beside(part, found)))
    header = ("one thread", *(f"{n:,} rows" for n in MILLION), "grows as", "at the largest size that was run")
    return markdown(header, rows) + source(record)


@table("million-batches")
def million_batches() -> str:
    """NCA and LMNN in batches beside all rows at once, where both can be run."""
    found = {(row["part"], row["rows"]): row for row in load("million") if row["cpu_seconds"] is not None}
    rows, record = [], []
    for (part, n), whole in found.items():
        ours = found.get((part.removesuffix("-all"), n))
        if part.endswith("-all") and ours is not None:
            record += [ours, whole]
            spent = [f"{row['cpu_seconds']:,.3g} s" for row in (ours, whole)]
            right = [f"{row['accuracy']:.4f}" for row in (ours, whole)]
            rows.append((f"`{ours['part'].upper()}`", f"{n:,}", *spent, *right))
    if not rows:
        return "Not measured yet: `python benchmarks/speed/million.py nca nca-all lmnn lmnn-all --rows 10000`.\n"
    header = ("", "rows", "batches of 1,024", "all rows", "1-NN, batches", "1-NN, all rows")
    return markdown(header, rows) + source(record)


@table("graphs")
def graphs() -> str:
    """The approximate graph on images, beside IVF of faiss at the same recall."""
    record = load("graphs")
    rows = [
        (
            row["data"],
            f"{row['rows']:,}",
            f"{row['cpu_seconds']:.1f} s, {row['recall']:.3f}",
            f"{row['faiss_cpu_seconds']:.1f} s, {row['faiss_recall']:.3f}",
        )
        for row in record
    ]
    header = ("images, 64 principal components", "rows", "ours: CPU, recall@10", "faiss IVF: CPU, recall@10")
    return markdown(header, rows) + source(record)


def _beside(part: str, found: dict[tuple[str, int], dict[str, Any]]) -> str:
    """What came out, at the largest size."""
    done = [n for n in MILLION if found.get((part, n), {}).get("cpu_seconds") is not None]
    if not done:
        return ""
    row = found[part, done[-1]]
    if part == "graph":
        return f"recall {row['recall']:.3f}"
    if part == "class_shares":
        return f"right class {row['accuracy']:.4f}"
    if part == "evaluate":
        return ", ".join(
            f"{name} {row['scores'][name]:.4f} ± {half:.4f}" for name, half in row["half_widths"].items()
        )
    if part == "kmeans":
        ratio = row["inertia"] / row["faiss_inertia"]
        return f"error {ratio:.4f} of faiss's, which takes {row['faiss_cpu_seconds']:,} s"
    what = "R² of 10-NN" if part == "mlkr" else "1-NN"
    return f"{what} {row['accuracy']:.3f}, the features {row['raw_accuracy']:.3f}"
