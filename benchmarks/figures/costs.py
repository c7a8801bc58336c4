"""Figures of time and memory."""

from __future__ import annotations

import math
from typing import Any

from style import Ink, box, figure, load


@figure("losses", "losses", "losses_memory", ncols=2, figsize=(8.4, 3.2), width_ratios=(3, 2))
def losses(axes: Any, ink: Ink) -> None:
    rows = load("losses")
    batches = sorted({row["batch"] for row in rows})
    for key, colour, shift, label in (
        ("faster_than_peer", ink.blue, -0.16, "than pytorch-metric-learning"),
        ("faster_than_dense", ink.yellow, 0.16, "than the same formula, dense"),
    ):
        values = [
            (f"{batch:,}", [row[key] for row in rows if row["batch"] == batch and key in row]) for batch in batches
        ]
        box(axes[0], ink, values, colour, shift)
        axes[0].plot([], [], "o", color=colour, label=label)
    axes[0].axvline(1, color=ink.text, linewidth=1)
    axes[0].set(
        xscale="log", xlabel="times faster, a mark for each loss", ylabel="batch", title="Speed of one step"
    )
    axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7)
    memory = load("losses_memory")
    sizes = sorted({row["batch"] for row in memory})
    groups = [(f"{size:,}", [row["extra_megabytes"] for row in memory if row["batch"] == size]) for size in sizes]
    box(axes[1], ink, groups, ink.blue)
    matrix = [4 * size**2 / 2**20 for size in sizes]
    axes[1].plot(matrix, range(len(sizes)), "x", color=ink.red, label="one B × B matrix")
    axes[1].set(xscale="log", xlabel="extra MB", title="Memory of one step", ylim=(-0.6, len(sizes) - 0.4))
    axes[1].legend(loc="lower right", fontsize=7)


@figure("peers", "peer_learners", figsize=(7.2, 3.0))
def peers(axis: Any, ink: Ink) -> None:
    rows = [row for row in load("peer_learners") if row.get("faster")]
    rows.sort(key=lambda row: row["faster"])
    names = [f"{row['ours']}, {row['dataset']}, of {row['peer']}" for row in rows]
    axis.barh(names, [row["faster"] for row in rows], color=ink.blue, height=0.6)
    for place, row in enumerate(rows):
        axis.text(row["faster"] * 1.06, place, f"{row['faster']:.1f}×", va="center", fontsize=7)
    axis.axvline(1, color=ink.text, linewidth=1)
    axis.set(xscale="log", xlabel="times faster, CPU of fit", xlim=(0.8, 900))
    axis.grid(axis="y", visible=False)


@figure("tasks", "peers", ncols=2, figsize=(8.4, 3.2), sharey=True)
def tasks(axes: Any, ink: Ink) -> None:
    rows = [row for row in load("peers") if row.get("faster")]
    rows.sort(key=lambda row: row["faster"])
    names = [f"{row['ours']}, {row['size']:,}, of {row['peer']}" for row in rows]
    memory = [max(row["peer megabytes"], 0.1) / max(row["ours megabytes"], 0.1) for row in rows]
    values = ([row["faster"] for row in rows], memory)
    for axis, found, title in zip(axes, values, ("times faster, CPU", "times less memory"), strict=True):
        axis.barh(names, found, color=ink.blue, height=0.6)
        for place, value in enumerate(found):
            axis.text(value * 1.06, place, f"{value:.1f}×", va="center", fontsize=7)
        axis.axvline(1, color=ink.text, linewidth=1)
        axis.set(xscale="log", xlabel=title, xlim=(min(0.5, min(found) / 2), 4 * max(found)))
        axis.grid(axis="y", visible=False)


@figure("scale", "million", figsize=(7.2, 3.6))
def scale(axis: Any, ink: Ink) -> None:
    rows = load("million")
    parts = sorted({row["part"] for row in rows if row["rows"] >= 100_000})
    ends = []
    for place, part in enumerate(parts):
        line = sorted((row["rows"], row["cpu_seconds"]) for row in rows if row["part"] == part)
        colour = ink.cycle[place % len(ink.cycle)]
        axis.plot(*zip(*line, strict=True), "o-", color=colour, markersize=4, linewidth=1.2)
        (a, first), (b, last) = line[-2:]
        power = math.log(last / first) / math.log(b / a)
        ends.append((last, b, f"{part}, n^{power:.1f}", colour))
    taken: dict[int, float] = {}
    for seconds, n, part, colour in sorted(ends):
        height = max(seconds, taken.get(n, 0.0) * 1.45)  # labels of equal heights would lie on each other
        taken[n] = height
        axis.text(n * 1.12, height, part, color=colour, va="center", fontsize=7)
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="CPU seconds", xlim=(8_000, 4_000_000))


@figure("search", "index", ncols=2, figsize=(8.4, 2.8))
def search(axes: Any, ink: Ink) -> None:
    rows = load("index")
    same = [row for row in rows if "ratio" in row]
    axes[0].plot([row["ratio"] for row in same], [row["what"] for row in same], "o", color=ink.blue)
    axes[0].axvline(1, color=ink.text, linewidth=1)
    axes[0].set(xlabel="time of the plain client = 1", title="One interface costs little", xlim=(0.5, 1.5))
    kinds = [row for row in rows if "times_exact" in row]
    names = [f"{row['what'].split(':')[0]}, {row['rows']:,}" for row in kinds]
    axes[1].plot([row["recall_at_10"] for row in kinds], names, "o", color=ink.blue, label="measured")
    axes[1].plot([row["stated_recall"] for row in kinds], names, "x", color=ink.red, label="stated by the index")
    for place, row in enumerate(kinds):
        axes[1].text(row["recall_at_10"], place + 0.18, f"{row['times_exact']:.0f}× exact", fontsize=7, ha="center")
    axes[1].set(xlabel="recall@10", title="Approximate search", xlim=(0.94, 1.0), ylim=(-0.5, len(kinds) - 0.3))
    axes[1].legend(fontsize=7, loc="lower left")


@figure("evaluation", "evaluation", "evaluation_peer", "evaluation_kmeans", ncols=2, figsize=(8.4, 2.4))
def evaluation(axes: Any, ink: Ink) -> None:
    rows = load("evaluation")
    names = [f"{row['classes']:,} classes" for row in rows]
    axes[0].plot([row["recall_of_product"] for row in rows], names, "o", color=ink.blue, label="Recall@1, 2, 4, 8")
    axes[0].plot([row["lists_of_product"] for row in rows], names, "s", color=ink.red, label="MAP@R too")
    axes[0].axvline(1, color=ink.text, linewidth=1)
    axes[0].set(xlabel="time of the matrix product = 1", title="Exact scores of 60,000 rows", xlim=(0, 1.4))
    axes[0].legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2)
    means = load("evaluation_kmeans")
    axes[1].plot([row["of_their_time"] for row in means], [row["data"][:24] for row in means], "o", color=ink.blue)
    axes[1].axvline(1, color=ink.text, linewidth=1)
    axes[1].set(xlabel="time of scikit-learn's best of ten = 1", title="k-means", xlim=(0, 1.4))


@figure("service", "server", figsize=(7.2, 2.0))
def service(axis: Any, ink: Ink) -> None:
    rows = load("server")
    names = [f"{row['request']}: {row['per_second']:,.0f} a second" for row in rows]
    search = [row["search_cpu_ms"] for row in rows]
    axis.barh(names, search, color=ink.blue, height=0.5, label="search")
    above = [row["above_search_cpu_ms"] for row in rows]
    axis.barh(names, above, left=search, color=ink.yellow, height=0.5, label="everything else")
    axis.set(xlabel="CPU ms for each request")
    axis.legend(fontsize=7, loc="lower right", ncols=2, bbox_to_anchor=(1, 1))
    axis.grid(axis="y", visible=False)


@figure("training", "startup", "training", ncols=2, figsize=(8.4, 2.2))
def training(axes: Any, ink: Ink) -> None:
    rows = load("startup")
    axes[0].barh(
        [row["command"] for row in rows], [row["best_seconds"] for row in rows], color=ink.blue, height=0.5
    )
    axes[0].set(xscale="log", xlabel="seconds, a fresh process", title="Start")
    axes[0].invert_yaxis()
    cached = next(row for row in load("training") if row["what"] == "caching")
    names = ("plain", "cached", "small")
    labels = (f"batch of {cached['batch']:,}", f"in parts of {cached['chunk']}", f"batch of {cached['chunk']}")
    axes[1].barh(labels, [cached[name]["extra MB"] for name in names], color=ink.blue, height=0.5)
    axes[1].set(xscale="log", xlabel="extra MB of a step", title="Large batches in little memory")
    axes[1].invert_yaxis()
    for axis in axes:
        axis.grid(axis="y", visible=False)
