"""Embeddings as a map on paper, before and after learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_int
from nearer._validation import as_matrix, encode_labels
from nearer.exceptions import ParameterError, ShapeError
from nearer.reports._style import FAINT, INK, MUTED, PAPER, UNKNOWN, class_colors, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Above these a legend is longer than the picture, and names on the map hide what they name.
LEGEND_CLASSES = 20
NAMED_CLASSES, NAMED_LENGTH = 12, 10


def map_to_plane(embeddings: Any, *, seed: int = 0) -> NDArray[np.float64]:
    """Positions in the plane that keep neighbours together: (n, d) -> (n, 2), PCA to 50 dimensions, then t-SNE.

    The same input and seed give the same map, on one core. Fewer than five rows are placed by PCA alone.

    >>> map_to_plane([[0, 0], [3, 4]]).round(3).tolist() in ([[-2.5, 0.0], [2.5, 0.0]], [[2.5, 0.0], [-2.5, 0.0]])
    True
    """
    x = as_matrix(embeddings, "embeddings").detach().cpu().numpy().astype(np.float64)
    check_int(seed, "seed", minimum=0)
    flat = _principal(x, 50)
    if len(x) < 5 or not flat.any():
        return np.pad(flat, ((0, 0), (0, max(0, 2 - flat.shape[1]))))[:, :2]
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    start = flat[:, :2] if flat.shape[1] > 1 else np.pad(flat, ((0, 0), (0, 1)))
    tsne = TSNE(
        init=1e-4 * start / max(float(start[:, 0].std()), 1e-12),
        perplexity=min(30.0, (len(x) - 1) / 3),
        max_iter=500,
        random_state=seed,
    )
    # One thread: the map does not depend on the machine, and a busy machine does not stall it.
    with threadpool_limits(limits=1):
        return np.asarray(tsne.fit_transform(flat), dtype=np.float64)


def embedding_map(
    before: Any,
    after: Any,
    labels: Any,
    *,
    titles: tuple[str, str] = ("Before: raw features", "After: learned metric"),
    class_names: Sequence[str] | None = None,
    max_points: int = 1000,
    seed: int = 0,
) -> Figure:
    """Two maps of the same items side by side, coloured by class: raw features and learned embeddings.

    `before` (n, p), `after` (n, d), `labels` (n,) of any type; the label −1 means unlabelled and is drawn grey.
    `class_names` are the names of the sorted classes without −1. More than `max_points` items are sampled. The
    right map is turned so that it resembles the left one. Takes about 5 seconds for 1,000 items.

    >>> X = [[float(i % 3), float(i)] for i in range(12)]
    >>> len(embedding_map(X, X, [i % 3 for i in range(12)]).axes)
    2

    Args:
        before: raw rows, (n, p).
        after: learned rows, (n, d).
        labels: classes of the rows, (n,).
        titles: of the two maps.
        class_names: names of the classes, in the order of their codes.
        max_points: the most items that are drawn.
        seed: of everything that is drawn.
    """
    check_int(seed, "seed", minimum=0)
    first = as_matrix(before, "before")
    second = as_matrix(after, "after")
    codes, classes = encode_labels(labels, "labels", n=len(first))
    if len(second) != len(first):
        raise ShapeError(
            f"`after` must have one row for each of the {len(first)} rows of `before`, got {len(second)}."
        )
    chosen = np.sort(np.random.default_rng(seed).permutation(len(first))[: check_int(max_points, "max_points")])
    unlabeled = classes.dtype.kind in "if" and len(classes) > 0 and classes[0] == -1
    numbers = codes.numpy()[chosen] - int(unlabeled)
    known = classes[int(unlabeled) :]
    # Half of a surrogate pair is no character, and no font has it.
    names = [
        str(name).encode("utf-8", "replace").decode() for name in (known if class_names is None else class_names)
    ]
    if len(names) != len(known):
        raise ParameterError(f"`class_names` must name the {len(known)} classes, got {len(names)} names.")
    left = map_to_plane(first[chosen], seed=seed)
    right = turn_towards(map_to_plane(second[chosen], seed=seed), left)
    with house_style():
        named = len(names) <= LEGEND_CLASSES
        figure = new_figure(11, 5.6 if named and names else 5.2)
        axes = figure.subplots(1, 2)
        for axis, points, title in zip(axes, (left, right), titles, strict=True):
            draw_map(axis, points, numbers, names, title)
        note = f"{len(chosen):,} items, {len(names)} classes; PCA and t-SNE"
        axes[1].set_title(note, loc="right", size=9, weight="normal", color=MUTED)
        if named and names:
            _legend(figure, names, unlabeled=bool((numbers < 0).any()))
    return figure


def draw_map(
    axis: Axes, points: NDArray[np.float64], numbers: NDArray[np.int64], names: list[str], title: str
) -> None:
    """One map: points (n, 2) in the colours of their classes, those with a negative number in grey."""
    colors = class_colors(len(names))
    size = float(np.clip(14_000 / max(1, len(points)), 5, 45))
    unlabeled = numbers < 0
    axis.scatter(
        points[unlabeled, 0], points[unlabeled, 1], s=size * 0.7, c=UNKNOWN, linewidths=0, alpha=0.6, zorder=1
    )
    # One layer in a random order: drawn class by class, the last class would hide the others.
    order = np.random.default_rng(0).permutation(np.flatnonzero(~unlabeled))
    shades = [colors[number_of] for number_of in numbers[order]]
    axis.scatter(points[order, 0], points[order, 1], s=size, c=shades, linewidths=0, alpha=0.85, zorder=2)
    longest = max(map(len, names), default=0)
    if len(names) <= NAMED_CLASSES and longest <= NAMED_LENGTH:
        for number, name in enumerate(names):
            members = points[numbers == number]
            if len(members):
                # The member nearest to the median lies inside the class, where a mean need not.
                middle = members[np.abs(members - np.median(members, axis=0)).sum(axis=1).argmin()]
                axis.annotate(
                    name,
                    middle,
                    ha="center",
                    va="center",
                    size=9 if longest <= 3 else 7.5,
                    weight="bold",
                    color=INK,
                    zorder=3,
                    bbox={
                        "boxstyle": "round,pad=0.25",
                        "fc": PAPER,
                        "ec": colors[number],
                        "lw": 1.6,
                        "alpha": 0.9,
                    },
                )
    axis.set_title(title)
    axis.set(xticks=[], yticks=[])
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    for side in ("top", "right", "bottom", "left"):
        axis.spines[side].set(visible=True, color=FAINT)


def _legend(figure: Figure, names: list[str], *, unlabeled: bool) -> None:
    from matplotlib.lines import Line2D

    entries = list(zip(names, class_colors(len(names)), strict=True))
    entries += [("unlabeled", UNKNOWN)] if unlabeled else []
    handles = [
        Line2D([], [], ls="", marker="o", ms=7, mfc=color, mec="none", label=name) for name, color in entries
    ]
    # As many columns as fit the width, and rows of about equal length.
    longest = max(len(name) for name, _ in entries)
    whole = sum(len(name) + 5 for name, _ in entries) <= 130
    rows = 1 if whole else -(-len(entries) // max(2, 120 // (longest + 6)))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=-(-len(entries) // rows),
        handletextpad=0.2,
        columnspacing=1.4,
    )


def _principal(x: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The first principal components, with signs that do not depend on the linear algebra library."""
    rows, lengths, axes = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    largest = np.abs(axes).argmax(axis=1)
    signs = np.where(axes[np.arange(len(axes)), largest] < 0, -1.0, 1.0)
    return np.asarray((rows * lengths * signs)[:, :most])


def turn_towards(points: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotate or mirror a map, about its mean, to lie as near as possible to another one (Procrustes)."""
    centered = points - points.mean(axis=0)
    u, _, vt = np.linalg.svd(centered.T @ (target - target.mean(axis=0)))
    return np.asarray(centered @ (u @ vt))
