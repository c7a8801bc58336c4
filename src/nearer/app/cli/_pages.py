"""Pages for people: what `nearer evaluate` and `nearer search` found, as one HTML file each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearer.evaluation import Comparison
from nearer.models._report import scores_section
from nearer.reports._page import Section, Table, html_report

# Queries that a page shows; the whole answer belongs into a .csv or .jsonl file.
MOST = 100


def evaluation_page(
    comparison: Comparison,
    path: Path,
    *,
    data: str,
    rows: int,
    notes: Sequence[str] = (),
    more: Sequence[Section] = (),
) -> Path:
    """The verdict, the scores with their intervals, and what was counted; then `more`."""
    sections = [scores_section(comparison.to_dict())]
    counts = [(name, f"{count:,}") for name, count in comparison.first.counts.items() if name != "dimension"]
    sections.append(Section("What was scored", [*notes, Table(["what", "how many"], counts)]))
    sections += more
    verdict = comparison.verdict
    return html_report(
        f"Raw features and learned metric on {rows:,} rows of {data}",
        sections,
        path,
        summary=verdict[:1].upper() + verdict[1:],
    )


def search_page(results: Sequence[Sequence[Any]], path: Path, *, index: str, queries: str) -> Path:
    """A table of hits for each query."""
    sections = []
    for number, hits in enumerate(results[:MOST]):
        names = list(dict.fromkeys(name for hit in hits for name in (hit.metadata or {})))
        rows = [
            (rank, str(hit.id), -hit.similarity, *(str((hit.metadata or {}).get(name, "")) for name in names))
            for rank, hit in enumerate(hits, start=1)
        ]
        sections.append(Section(f"Query {number}", [Table(["rank", "id", "distance", *names], rows, digits=4)]))
    nearest = sorted(-hits[0].similarity for hits in results if hits)
    summary = f"{len(results):,} queries of {queries} in {index}."
    if nearest:
        summary += (
            f" The nearest item is {nearest[0]:.4g} to {nearest[-1]:.4g} away, {nearest[len(nearest) // 2]:.4g} in "
            "the middle."
        )
    if len(results) > MOST:
        summary += f" The first {MOST} are shown; --out hits.csv has all."
    return html_report(f"What is near in {index}", sections, path, summary=summary)
