"""Speed and memory of evaluation and clustering."""

from __future__ import annotations

from typing import Any

from page import load, markdown, measured, source, table


@table("evaluation")
def evaluation() -> str:
    """Its four parts are measured apart; what has not been measured is not shown."""
    parts = {
        "evaluation": _evaluation_product,
        "evaluation_memory": _evaluation_memory,
        "evaluation_peer": _evaluation_peer,
        "evaluation_kmeans": _evaluation_kmeans,
    }
    found = [part(load(name)) + source(load(name)) for name, part in parts.items() if measured(name)]
    return "\n".join(found)


def _evaluation_product(record: list[dict[str, Any]]) -> str:
    header = ("classes", "Recall@1", "MAP@R", "Recall@1,2,4,8", "with MAP@R and R-precision")
    rows = [
        (
            f"{row['classes']:,}",
            f"{row['recall_at_1']:.3f}",
            f"{row['map_at_r']:.3f}",
            f"{row['recall_of_product']:.2f}×",
            f"{row['lists_of_product']:.2f}×",
        )
        for row in record
    ]
    intro = "Exact scores of 60,000 × 128, as a share of the time of the full 60,000 × 60,000 matrix product:\n\n"
    return intro + markdown(header, rows)


def _evaluation_memory(record: list[dict[str, Any]]) -> str:
    rows = [(f"{row['classes']:,}", f"{row['extra_megabytes']:.0f} MB") for row in record]
    intro = "Peak memory beyond the data, all of these scores and MRR together:\n\n"
    return intro + markdown(("classes", "extra memory"), rows)


def _evaluation_peer(record: list[dict[str, Any]]) -> str:
    version = record[0]["made"]["versions"]["pytorch-metric-learning"]
    rows = [
        (
            f"{row['n']:,}",
            row["scores"],
            f"{row['largest_difference']:.0e}",
            f"{row['times_faster']:.2f}×",
            "" if row["nmi"] is None else f"{row['nmi']:.3f} / {row['their_nmi']:.3f}",
        )
        for row in record
    ]
    intro = (
        f"The same scores by AccuracyCalculator of pytorch-metric-learning {version}, 128 columns, ten items a "
        f'class, `k="max_bin_count"`, one thread; NMI by one k-means of each (ours: `effort="quick"`):\n\n'
    )
    header = ("n", "scores", "largest difference", "as fast as theirs", "NMI, ours / theirs")
    return intro + markdown(header, rows)


def _evaluation_kmeans(record: list[dict[str, Any]]) -> str:
    version, seeds = record[0]["made"]["versions"]["scikit-learn"], len(record[0]["made"]["settings"]["seeds"])
    rows = [
        (
            row["data"],
            f"{row['n']:,}",
            row["dimension"],
            row["k"],
            f"{row['of_their_time']:.2f}×",
            f"{100 * (row['inertia'] / row['their_inertia'] - 1):+.2f} %",
            f"{row['nmi']:.3f}",
            f"{row['their_nmi']:.3f}",
        )
        for row in record
    ]
    intro = f"k-means against the best of ten runs of scikit-learn {version}, means over {seeds} seeds:\n\n"
    return intro + markdown(("data", "n", "d", "k", "of their time", "inertia", "NMI", "their NMI"), rows)
