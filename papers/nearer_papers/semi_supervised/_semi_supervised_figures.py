"""The pictures of the semi-supervised page: mined triplets, the angle, maps of metrics, what rivals retrieve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer._validation import encode_labels
from nearer.graph import nearest_neighbors, propagate
from nearer.index import Index
from nearer.mining._neighborhood import mine_neighborhood
from nearer.reports import retrieval_grid, training_curve
from nearer.reports._maps import draw_map, map_to_plane, turn_towards
from nearer.reports._page import Picture, Section
from nearer.reports._style import ACCENT, INK, MUTED, RIGHT, WRONG, class_colors, house_style, new_figure
from nearer_papers.semi_supervised._few_label_images import FewLabelImages
from nearer_papers.semi_supervised._semi_supervised_runs import Run

__all__ = ["MAPPED", "RETRIEVED", "angle_curve", "mined_triplets", "nearest_others", "pictures", "toy_triplets"]

MAPPED = ("Initial", "ours, not orthogonal", "ours")
"""Figure 2, right: whose embeddings are mapped side by side."""
RETRIEVED = ("Deep-SERAPH", "Deep-ISDML", "Deep-APLLR", "ours")
"""Figure 3: whose nearest test images are shown for the same queries."""
DRAWN, QUERIES = 1000, 5


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


def toy_triplets(*, gamma: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two arcs in the plane with two labels each: points (n, 2), classes, given labels, and the mined triplets.

    `gamma` is the probability of going on along an edge: how far a label reaches.
    """
    random = np.random.default_rng(seed)
    angle = np.sort(random.uniform(0, np.pi, (2, 60)), axis=1)
    first = np.stack([np.cos(angle[0]), np.sin(angle[0])], axis=1)
    second = np.stack([1 - np.cos(angle[1]), 0.5 - np.sin(angle[1])], axis=1)
    points = torch.from_numpy(np.concatenate([first, second]) + 0.09 * random.standard_normal((120, 2)))
    classes = torch.arange(2).repeat_interleave(60)
    given = torch.full_like(classes, -1)
    given[[10, 50, 70, 110]] = classes[[10, 50, 70, 110]]
    near = nearest_neighbors(points.float(), k=10, normalized=False)
    triplets = mine_neighborhood(near, propagate(near, given, gamma=gamma).edges)
    return points, classes, given, triplets


def mined_triplets() -> Picture:
    """Figure 1b: the triplets of anchors in which two classes meet, for labels that reach far and less far."""
    told = []
    with house_style():
        figure = new_figure(11.0, 4.0)
        axes = figure.subplots(1, 2)
        for axis, gamma in zip(axes, (0.99, 0.9), strict=True):
            points, classes, given, triplets = toy_triplets(gamma=gamma)
            a, p, n = triplets.T
            mixed = classes[p] != classes[n]
            right = 100 * float((classes[a] == classes[p])[mixed].double().mean())
            name = f"γ = {gamma:g}" + (", as published" if gamma == 0.99 else "")
            _draw_triplets(axis, points, classes, given, triplets[mixed])
            axis.set_title(f"{name}: {right:.0f} % right", loc="left")
            told.append(f"{right:.0f} % with {name}")
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
    text = (
        "Neighbours with the larger affinity are positives, the others negatives; a triplet of both classes is "
        f"right if its positive is of the anchor's class: {', '.join(told)}. Four labels, 120 points."
    )
    return Picture(figure, text, caption=text)


def _draw_triplets(axis: Any, points: Any, classes: Any, given: Any, triplets: Any) -> None:
    """The points, the given labels, and the triplets of four anchors."""
    colors = class_colors(2)
    for one in range(2):
        members = points[(classes == one) & (given == -1)]
        axis.scatter(members[:, 0], members[:, 1], s=14, color=colors[one], alpha=0.45, linewidths=0)
        known = points[given == one]
        label = f"label {one} given"
        axis.scatter(known[:, 0], known[:, 1], s=110, marker="*", color=colors[one], edgecolors=INK, label=label)
    anchors = torch.unique(triplets[:, 0])
    shown = anchors[:: max(1, len(anchors) // 4)][:4]
    for anchor, positive, negative in triplets[torch.isin(triplets[:, 0], shown)].tolist():
        for other, color, style in ((positive, RIGHT, "-"), (negative, WRONG, "--")):
            axis.plot(points[[anchor, other], 0], points[[anchor, other], 1], style, color=color, linewidth=1.3)
    axis.scatter(points[shown, 0], points[shown, 1], s=46, color=INK, zorder=3, label="anchor")
    axis.plot([], [], "-", color=RIGHT, label="positive, to be pulled")
    axis.plot([], [], "--", color=WRONG, label="negative, to be pushed")
    axis.set(xticks=[], yticks=[])
    axis.set_aspect("equal")


def angle_curve(angles: Sequence[Mapping[str, Any]]) -> Picture:
    """Figure 2, middle: R@1 and NMI against the angle."""
    with house_style():
        figure = new_figure(6.0, 3.0)
        axis = figure.subplots()
        degrees = [row["alpha"] for row in angles]
        for score, name, color in (("recall@1", "R@1", ACCENT), ("nmi", "NMI", MUTED)):
            axis.plot(degrees, [row["scores"][score] for row in angles], marker="o", color=color, label=name)
        axis.set_xlabel("angle α, degrees")
        axis.set_ylabel("%")
        axis.legend(frameon=False)
    return Picture(figure, "R@1 and NMI of test images after one partition, at each angle.")


def pictures(name: str, data: FewLabelImages, runs: Mapping[str, Run]) -> Section:
    """Maps of the start, the free and the orthogonal projection; what each method finds; how ours was validated."""
    images, y = data.test
    chosen = np.random.default_rng(0).permutation(len(y))[:DRAWN]
    labels = np.asarray(y)[chosen]
    placed = {method: run.embed(images[chosen]).numpy() for method, run in runs.items()}
    parts: list[Any] = []
    maps = {method: placed[method] for method in MAPPED if method in placed}
    if maps:
        told = "Test images" if data.is_images else "Test items"
        drawn = _embedding_maps(maps, labels, seed=0)
        parts.append(Picture(drawn, f"{told}: {', '.join(maps)}. The axes mean nothing, neighbourhoods do."))
    parts += _retrieved(name, data, {one: placed[one] for one in RETRIEVED if one in placed}, chosen, labels)
    if "ours" in runs and runs["ours"].history:
        history: dict[str, list[float | None]] = {
            key: [epoch.get(key) for epoch in runs["ours"].history] for key in ("loss", "recall@1")
        }
        parts.append(Picture(training_curve(history), "The loss, and R@1 on validation items, epoch by epoch."))
    return Section(f"Pictures of {name}", parts)


def _retrieved(
    name: str, data: FewLabelImages, placed: Mapping[str, Any], chosen: Any, labels: Any
) -> list[Picture]:
    """The same queries under each method; features without photos have nothing to show."""
    thumbnails = getattr(data, "thumbnails", None)
    if not placed or not (data.is_images or thumbnails):
        return []
    if data.is_images:
        images = data.test[0][chosen]
        low, high = images.amin(), images.amax()
        shown = ((images - low) / (high - low)).numpy()
    else:
        shown = thumbnails(chosen)  # type: ignore[misc]
    queries = np.array([np.flatnonzero(labels == one)[0] for one in np.unique(labels)])[:QUERIES]
    found = []
    for method, z in placed.items():
        near = nearest_others(z, min(8, len(z) - 1))[queries]
        right = labels[near] == labels[queries][:, None]
        grid = retrieval_grid(shown, queries, near, right, title=f"{name}, {method}")
        found.append(Picture(grid, f"{method}: the nearest others among {len(labels):,} test images."))
    return found


def _embedding_maps(places: Mapping[str, Any], labels: Any, *, seed: int = 0) -> Any:
    """A map of the same items for each of several embeddings, side by side and turned to resemble the first.

    Args:
        places: title of a map -> rows (n, d).
        labels: classes of the rows, (n,).
        seed: of everything that is drawn.
    """
    codes, classes = encode_labels(labels, "labels", n=len(next(iter(places.values()))))
    points: list[NDArray[np.float64]] = []
    for rows in places.values():
        plane = map_to_plane(rows, seed=seed)
        points.append(turn_towards(plane, points[0]) if points else plane)
    with house_style():
        figure = new_figure(4.6 * len(places), 4.6)
        axes = figure.subplots(1, len(places), squeeze=False)[0]
        names = [str(name) for name in classes]
        for axis, where, title in zip(axes, points, places, strict=True):
            draw_map(axis, where, codes.numpy(), names, title)
    return figure
