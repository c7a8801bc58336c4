"""Accuracy, time and memory of the linear learners, and the peers beside them."""

from __future__ import annotations

from typing import Any

from page import load, markdown, measured, source, table


@table("estimators")
def estimators() -> str:
    """Mean accuracy over the seeds, what it gains on Euclidean, CPU seconds."""
    record = load("estimators")
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record:
        cells.setdefault((row["estimator"], row["dataset"]), []).append(row)
    plain = {(row["dataset"], row["seed"]): row["accuracy"] for row in record if row["estimator"] == "Euclidean"}

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    def cell(learner: str, dataset: str) -> str:
        rows = cells.get((learner, dataset))
        if not rows:
            return "–"
        gain = mean([row["accuracy"] - plain[row["dataset"], row["seed"]] for row in rows])
        seconds = mean([row["seconds"] for row in rows])
        seeds = "" if len(rows) > 1 else ", one seed"
        shown = f"{mean([row['accuracy'] for row in rows]):.3f}"
        return shown if learner == "Euclidean" else f"{shown} ({gain:+.3f}) {seconds:.2g} s{seeds}"

    sizes = {row["dataset"]: f"{row['dataset']} {row['rows']}×{row['columns']}" for row in record}
    learners = list(dict.fromkeys(learner for learner, _ in cells))
    table_rows = [[f"`{learner}`", *(cell(learner, dataset) for dataset in sizes)] for learner in learners]
    return markdown(["learner", *sizes.values()], table_rows) + source(record)


@table("estimators-nca")
def estimators_nca() -> str:
    record = load("estimators_nca")
    rows = [
        (
            row["dataset"],
            row["estimator"],
            f"{row['seconds']:.2f} s",
            f"{row['megabytes']:.0f} MB",
            f"{row['objective']:.4f}",
            f"{row['accuracy']:.3f}",
        )
        for row in record
    ]
    return markdown(("data", "NCA of", "CPU", "extra memory", "objective", "3-NN accuracy"), rows) + source(record)


@table("estimators-large")
def estimators_large() -> str:
    record = load("estimators_large")
    rows = []
    for row in record:
        limited = ", ".join(f"{key} = {value}" for key, value in row.get("limited", {}).items())
        rows.append((f"`{row['estimator']}`", f"{row['megabytes']:.0f} MB", f"{row['seconds']:.1f} s", limited))
    return markdown(("learner", "extra memory", "CPU", "limited to"), rows) + source(record)


@table("peers")
def peers() -> str:
    if not measured("peers"):
        return "Not measured yet.\n"
    record = load("peers")
    rows = []
    for row in record:

        def cell(side: str, row: dict[str, Any] = row) -> str:
            if f"{side} failed" in row:
                return str(row[f"{side} failed"])
            score = f" / {row[f'{side} quality']:.3f}" if f"{side} quality" in row else ""
            seconds, grown = row[f"{side} seconds"], row[f"{side} megabytes"]
            return f"{seconds * 1000:,.0f} ms / {grown:,.0f} MB{score}"

        faster = f"{row['faster']:.1f}×" if "faster" in row else ""
        same = {True: "yes", False: "no"}.get(row.get("same value"), "")  # type: ignore[arg-type]
        where = f"{row['task']}, {row['size']:,}"
        rows.append((f"`{row['ours']}`", where, cell("ours"), row["peer"], cell("peer"), faster, same))
    header = (
        "nearer",
        "task, rows",
        "time / memory / quality",
        "peer",
        "its time / memory / quality",
        "faster",
        "same value",
    )
    return markdown(header, rows) + source(record)


@table("peer-learners")
def peer_learners() -> str:
    if not measured("peer_learners"):
        return "Not measured yet."
    record = load("peer_learners")
    rows = []
    for row in record:

        def cell(side: str, row: dict[str, Any] = row) -> str:
            if f"{side} failed" in row:
                return str(row[f"{side} failed"])
            grown = f" / {row[f'{side} megabytes']:.0f} MB" if f"{side} megabytes" in row else ""
            return f"{row[f'{side} seconds']:.2f} s{grown} / {row[f'{side} accuracy']:.3f}"

        faster = f"{row['faster']:.1f}×" if "faster" in row else ""
        rows.append((f"`{row['ours']}`", row["dataset"], cell("ours"), row["peer"], cell("peer"), faster))
    return markdown(("learner", "data", "nearer", "peer", "", "faster"), rows) + source(record)
