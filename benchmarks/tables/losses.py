"""Time and memory of the losses."""

from __future__ import annotations

from typing import Any

from page import load, markdown, source, table


@table("losses")
def losses() -> str:
    record = load("losses")

    def closeness(row: dict[str, Any]) -> float:
        return min(row.get("faster_than_peer", 1e9), row.get("faster_than_dense", 1e9))

    def times(row: dict[str, Any], key: str) -> str:
        return f"{row[key]:.1f}×" if key in row else "–"

    rows = [
        (
            row["loss"],
            row["batch"],
            row["dimension"],
            f"{1 / (1 + row['noise'] ** 2):.1f}",
            f"{row['nearer_ms']:.2f}",
            f"{row['times_limit']:.2f}×",
            times(row, "faster_than_peer"),
            times(row, "faster_than_dense"),
        )
        for row in sorted(record, key=closeness)
    ]
    header = ("loss", "B", "D", "positive cosine", "ms", "of the limit", "faster than peer", "than dense")
    return markdown(header, rows) + source(record)


@table("losses-memory")
def losses_memory() -> str:
    record = load("losses_memory")
    # Seconds are in the file, but on a shared machine a single time means nothing.
    rows = [(row["loss"], f"{row['batch']:,}", f"{row['extra_megabytes']:.0f} MB") for row in record]
    return markdown(("loss", "B", "extra memory"), rows) + source(record)
