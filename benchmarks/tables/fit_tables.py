"""The default of `nearer.fit` on real tables beside what five lines give."""

from __future__ import annotations

from typing import Any

from page import load, markdown, source, table

SCORES = ("1-NN", "5-NN", "MAP@R")


def _mean(rows: list[dict[str, Any]], name: str) -> str:
    values = [row[name] for row in rows if name in row]
    return f"{sum(values) / len(values):.3f}" if values else "–"


def _verdicts(mine: list[dict[str, Any]], rival: str) -> str:
    """In how many tables it is ahead or behind by more than two standard errors, for each score."""
    shown = []
    for score in SCORES:
        found: dict[str, list[list[float]]] = {}
        for row in mine:
            if score in row["leads"][rival]:
                found.setdefault(row["table"], []).append(row["leads"][rival][score])
        if not found:
            continue
        z = []
        for leads in found.values():
            mean = sum(lead for lead, _ in leads) / len(leads)
            error = sum(error**2 for _, error in leads) ** 0.5 / len(leads)
            z.append(mean / max(error, 1e-12))
        shown.append(f"{sum(one > 2 for one in z)}/{sum(one < -2 for one in z)}")
    return " · ".join(shown)


@table("fit-tables")
def fit_tables() -> str:
    record, made = [row for row in load("fit_tables") if row["split"] != "withheld"], []
    for split in dict.fromkeys(row["split"] for row in record):
        here = [row for row in record if row["split"] == split]
        mine = [row for row in here if row["method"] == "nearer"]
        tables, seeds = ({row[key] for row in mine} for key in ("table", "seed"))
        what = f"{split}, {len(tables)} tables, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        for method in ("raw", "lda", "nca", "proba", "boosting", "nearer"):
            rows = [row for row in here if row["method"] == method]
            if not rows:
                continue
            against = "" if method in ("nearer", "boosting") else _verdicts(mine, method)
            name = "`nearer.fit`" if method == "nearer" else method
            made.append((what, name, *(_mean(rows, score) for score in (*SCORES, "accuracy")), against))
    header = ("classes", "distance of", *SCORES, "accuracy", "nearer ahead/behind, by score")
    return markdown(header, made) + source(record)


@table("fit-tables-inside")
def fit_tables_inside() -> str:
    record = [row for row in load("fit_tables") if row["split"] == "withheld"]
    scores = ("explained", "explained in the rarer class")
    made = []
    for name in dict.fromkeys(row["table"] for row in record):
        sides = [[row for row in record if (row["table"], row["method"]) == (name, m)] for m in ("raw", "nearer")]
        made.append((name, *(_mean(side, score) for score in scores for side in sides)))
    header = ("table", "raw", "`nearer.fit`", "rarer class, raw", "rarer class, `nearer.fit`")
    return markdown(header, made) + source(record)
