"""The tables of the page about search."""

from __future__ import annotations

from typing import Any

from page import load, markdown, source, table


def _rows(wanted: str) -> list[dict[str, Any]]:
    return [row for row in load("index") if wanted in row]


@table("index-kinds")
def kinds() -> str:
    rows = _rows("times_exact")
    shown = [
        (
            row["what"],
            f"{row['rows']:,}",
            row["build_and_save_seconds"],
            row["build_and_save_cpu_seconds"],
            f"{row['peak_extra_mb']:,}",
            f"{row['folder_mb']:,}",
            row["open_seconds"],
            row["open_cpu_seconds"],
            f"{row['recall_at_10']:.3f}",
            f"{row['queries_per_cpu_second']:,}",
            row["times_exact"],
        )
        for row in rows
    ]
    header = ["kind", "rows", "build s", "CPU s", "extra MB", "folder MB", "open s", "CPU s", "recall@10"]
    header += ["queries per CPU s", "× exact"]
    return markdown(header, shown) + source(rows)


@table("index-clients")
def clients() -> str:
    """Ours beside raw faiss and beside the plain clients, in one run each."""
    rows = _rows("ratio")
    shown = [
        (
            row["what"],
            f"{row['rows']:,}",
            row.get("client_seconds", row.get("faiss_seconds")),
            row["nearer_seconds"],
            f"{row['ratio']:.2f}",
        )
        for row in rows
    ]
    return markdown(("search", "rows", "plain s", "nearer s", "ratio"), shown) + source(rows)


@table("index-dedupe")
def dedupe() -> str:
    rows = _rows("planted_found")
    shown = [
        (
            f"{row['rows']:,}",
            row["seconds"],
            row["cpu_seconds"],
            f"{row['peak_extra_mb']:,}",
            f"{row['planted_found']:.4f}",
            "none in the sample" if row["stated_recall"] is None else f"{row['stated_recall']:.4f}",
        )
        for row in rows
    ]
    header = ("rows", "seconds", "CPU s", "extra MB", "planted pairs found", "recall stated")
    return markdown(header, shown) + source(rows)
