"""The page of the digits demo: scores, maps, retrieved digits, the curve and how to make it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.geometry import embed
from nearer.index import Index
from nearer.reports import embedding_map, retrieval_grid, training_curve
from nearer.reports._page import Code, Picture, Section, Table, html_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nearer.app.cli._digits import DigitsResult

__all__ = ["digits_figures", "nearest_others", "save_digits_report"]

RETRIEVED = 8
METHOD = (
    "The few labels were spread over a graph of neighbours of the training digits, the surest were believed, and a "
    "small network was trained with the RAW loss and valid-triplet hard mining. Twice the graph was made again "
    "from what the network had learned, and the labels were spread over that. Digits are compared by their mean "
    "embedding over sixteen slightly moved copies beside their raw pixels."
)


def digits_figures(result: DigitsResult) -> dict[str, Figure]:
    """The four pictures of the page by name: map, raw retrieval, learned retrieval, training.

    The retrieval pictures show, of every class, the held-out digit that most wrong digits come near to in both
    metrics together, so that neither is favoured.
    """
    x, y = result.held_out.matrix(), result.held_out.y
    z = embed(result.encoder, x).numpy()
    images = result.held_out.images()
    raw, learned = nearest_others(x, RETRIEVED), nearest_others(z, RETRIEVED)
    wrong = (y[raw] != y[:, None]).sum(1) + (y[learned] != y[:, None]).sum(1)
    queries = np.array([rows[wrong[rows].argmax()] for rows in (np.flatnonzero(y == one) for one in np.unique(y))])

    def grid(found: NDArray[np.int64], title: str) -> Figure:
        return retrieval_grid(
            images, queries, found[queries], y[found[queries]] == y[queries][:, None], title=title
        )

    return {
        "map": embedding_map(x, z, y, seed=result.settings["seed"]),
        "raw retrieval": grid(raw, "Raw features, the hardest digits"),
        "learned retrieval": grid(learned, "Learned metric, the hardest digits"),
        "training": training_curve(result.history, baselines={"map@r": result.raw["map@r"]}),
    }


def nearest_others(embeddings: Any, k: int) -> NDArray[np.int64]:
    """The k nearest other rows of every row, nearest first: (n, d) -> (n, k).

    >>> nearest_others([[0.0], [1.0], [3.0]], 1).tolist()
    [[1], [0], [1]]
    """
    rows = np.asarray(embeddings)
    index = Index(rows.shape[1], similarity="euclidean")
    index.add(rows)
    found = np.asarray(index.search(rows, k=k + 1).ids, dtype=np.int64)
    # The item itself is removed by its number: a twin may stand before it.
    other = found != np.arange(len(rows))[:, None]
    other[other.all(axis=1), -1] = False
    nearest: NDArray[np.int64] = found[other].reshape(len(rows), k)
    return nearest


def save_digits_report(result: DigitsResult, path: str | os.PathLike[str], *, command: str) -> Path:
    """Write the page, whole or not at all."""
    figures = digits_figures(result)
    counts = result.counts
    scores = Table(
        ["score", "raw features", "learned metric", "difference"],
        [
            [name, result.raw[name], result.learned[name], f"{gain:+.4f}"]
            for name, gain in result.comparison.gains.items()
        ],
        caption=f"{counts['held_out']} held-out digits, each searched among the others by Euclidean distance.",
        digits=4,
    )
    share = counts["spread_right"] / max(1, counts["spread"])
    again = counts["spread_again_right"] / max(1, counts["spread_again"])
    data = (
        f"{counts['train']:,} digits to train on, {counts['given']} of them with a label "
        f"({result.settings['labels_per_class']} per class); spreading gave {counts['spread']:,} more a label, "
        f"{share:.1%} of them right, which the training could not know; the last time it gave "
        f"{counts['spread_again']:,}, {again:.1%} of them right. {counts['held_out']} digits were held out and "
        f"used for the scores alone."
    )
    hardest = "The hardest digit of every class: most wrong digits among the nearest in both metrics together."
    sections = [
        Section("Scores", [result.verdict, scores, data, METHOD]),
        Section(
            "Map of the held-out digits",
            [Picture(figures["map"], "Two maps of the held-out digits: raw features and learned metric.")],
        ),
        Section(
            "Retrieval",
            [
                hardest + " Right ones are framed green, wrong ones red.",
                Picture(figures["raw retrieval"], "Ten queries and their nearest digits by raw features."),
                Picture(figures["learned retrieval"], "The same queries and their nearest digits after learning."),
            ],
        ),
        Section(
            "Training",
            [
                Picture(
                    figures["training"],
                    "The loss, and map@r on held-out digits beside that of the raw features.",
                    "map@r of the held-out digits was only watched; nothing was chosen by it.",
                )
            ],
        ),
        Section(
            "How it was made",
            [
                Table(
                    ["setting", "value"],
                    [[name.replace("_", " "), str(one)] for name, one in result.settings.items()],
                ),
                f"It took {result.seconds:.0f} seconds without the pictures. To make it again:",
                Code(command),
            ],
        ),
    ]
    title = f"A metric for digits from {result.settings['labels_per_class']} labels per class"
    return html_report(title, sections, path, summary=result.verdict)
