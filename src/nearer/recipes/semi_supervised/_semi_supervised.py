"""The tables of the semi-supervised paper on MNIST, Fashion-MNIST and CIFAR-10: `nearer reproduce semi-supervised`.

Table 1: the initial network, five deep baselines and ours; the paper's own setting as a row. Table 3: learning
without labels. Table 4: with and without orthogonality. Table 5: labels alone. Then the angle α, the curves of
validation, a map of test images and what is retrieved for some. NMI and R@1, 2, 4, 8 on test images.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nearer._validation import check_choice
from nearer.recipes._recipe import Outcome, Request
from nearer.recipes.digits._digits_report import nearest_others
from nearer.recipes.semi_supervised._few_label_images import DATASETS, FewLabelImages, load_few_label_images
from nearer.recipes.semi_supervised._semi_supervised_runs import (
    BASELINES,
    UNSUPERVISED,
    Length,
    Run,
    run_method,
    start_from_labels,
)
from nearer.reports import Picture, Section, Table, embedding_map, retrieval_grid, training_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LENGTHS", "TABLES", "reproduce_semi_supervised"]

LENGTHS = {"mnist": Length(), "fashion": Length(), "cifar10": Length(start_steps=400, free_steps=400)}
QUICK = {
    "mnist": Length(start_steps=40, partitions=1, epochs=2, unlabeled=1000, free_steps=10),
    "fashion": Length(start_steps=40, partitions=1, epochs=2, unlabeled=1000, free_steps=10),
    "cifar10": Length(start_steps=24, partitions=1, epochs=1, unlabeled=500, free_steps=5),
}
TABLES: dict[str, tuple[str, ...]] = {
    "table-1": ("Initial", *BASELINES, "literal", "ours"),
    "table-3": (*UNSUPERVISED, "ours"),
    "table-4": ("ours, not orthogonal", "ours"),
    "table-5": ("Triplet", "Angular", "labels alone", "ours"),
    "alpha": (),
    "pictures": ("ours",),
}
TITLES = {
    "table-1": "Table 1: semi-supervised methods",
    "table-3": "Table 3: without labels",
    "table-4": "Table 4: with and without orthogonality",
    "table-5": "Table 5: from the labels alone",
}
# What the paper prints as its best row, NMI and R@1, for people to compare with.
PRINTED = {"mnist": (48.3, 93.9), "fashion": (53.2, 77.6), "cifar10": (25.3, 41.4)}
ANGLES = (35.0, 40.0, 45.0, 50.0, 55.0)
SHOWN = ("nmi", "recall@1", "recall@2", "recall@4", "recall@8")


def reproduce_semi_supervised(request: Request) -> Outcome:
    """Run the tables that are asked for; `only` may name data sets ("mnist") and tables ("table-1", "alpha")."""
    for name in request.only:
        check_choice(name, "only", [*DATASETS, *TABLES])
    names = [name for name in DATASETS if name in request.only] or list(DATASETS)
    tables = [name for name in TABLES if name in request.only] or list(TABLES)
    seeds = 1 if request.quick else request.seeds
    rows: list[dict[str, Any]] = []
    pictures: list[Section] = []
    angles: list[dict[str, Any]] = []
    methods = list(dict.fromkeys(method for one in tables for method in TABLES[one]))
    total = len(names) * seeds
    before = torch.get_num_threads()
    for place, (name, seed) in enumerate((name, seed) for name in names for seed in range(seeds)):
        length = (QUICK if request.quick else LENGTHS)[name]
        data = load_few_label_images(name, seed, **_small(request.quick))
        request.progress(f"{name}, seed {seed}: labels alone", place / total)
        start = start_from_labels(data, seed, length)
        runs: dict[str, Run] = {}
        for number, method in enumerate(methods):
            request.progress(f"{name}, seed {seed}: {method}", (place + number / (len(methods) + 1)) / total)
            runs[method] = run_method(method, data, seed, length, start)
            rows.append({"data": name, "method": method, "seed": seed, "scores": runs[method].scores})
        if "alpha" in tables and seed == 0 and name == names[0]:
            angles = _angles(request, data, length)
        if "pictures" in tables and seed == 0:
            pictures.append(_pictures(name, data, runs["ours"]))
    torch.set_num_threads(before)
    sections = [Section("What was run", [_account(request, names, seeds)])]
    sections += [_section(one, names, rows) for one in tables if one in TITLES]
    if angles:
        sections.append(Section("The angle", [_angle_table(names[0], angles)]))
    record = {
        "rows": rows,
        "angles": angles,
        "quick": request.quick,
        "seeds": seeds,
        "lengths": {name: dataclasses.asdict((QUICK if request.quick else LENGTHS)[name]) for name in names},
    }
    return Outcome("Semi-supervised metric learning: a few labels, a graph, a metric", sections + pictures, record)


def _small(quick: bool) -> dict[str, Any]:
    return {"limit": 1000, "scored": 300, "tested": 1000} if quick else {}


def _account(request: Request, names: Iterable[str], seeds: int) -> str:
    which = (
        "the quick protocol: few images and steps, scores far below those of the whole"
        if request.quick
        else ("the whole protocol: three partitions of 9,000 unlabelled images and all labels, two epochs each")
    )
    return (
        f"{', '.join(names)} with {which}; {seeds} seed{'s' if seeds > 1 else ''}. All methods share network, "
        f"optimiser, augmentation and a start from the labels; 'literal' is the setting of the paper, for fewer "
        f"triplets. The model is chosen on validation images, the scores are of test images."
    )


def _mean_row(rows: list[dict[str, Any]], name: str, method: str) -> list[str]:
    found = [row["scores"] for row in rows if row["data"] == name and row["method"] == method]
    cells = []
    for score in SHOWN:
        values = [one[score] for one in found]
        spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):.1f}{spread}")
    return cells


def _section(table: str, names: Iterable[str], rows: list[dict[str, Any]]) -> Section:
    header = ["data", "method", "NMI", "R@1", "R@2", "R@4", "R@8"]
    lines = []
    for name in names:
        lines += [[name, method, *_mean_row(rows, name, method)] for method in TABLES[table]]
        if table == "table-1":
            nmi, first = PRINTED[name]
            lines.append([name, "best printed", f"{nmi}", f"{first}", "–", "–", "–"])
    return Section(TITLES[table], [Table(header, lines)])


def _angles(request: Request, data: FewLabelImages, length: Length) -> list[dict[str, Any]]:
    """Ours at several angles, one seed, shorter."""
    short = dataclasses.replace(length, partitions=1)
    found = []
    for alpha in ANGLES:
        request.progress(f"{data.name}: α = {alpha:.0f}°", 0.99)
        start = start_from_labels(data, 0, short, alpha=alpha)
        run = run_method("ours", data, 0, short, start, alpha=alpha)
        found.append({"data": data.name, "alpha": alpha, "scores": run.scores})
    return found


def _angle_table(name: str, angles: list[dict[str, Any]]) -> Table:
    lines = [[f"{one['alpha']:.0f}°", *(f"{one['scores'][score]:.1f}" for score in SHOWN)] for one in angles]
    return Table(["α", "NMI", "R@1", "R@2", "R@4", "R@8"], lines, caption=f"{name}, one partition, one seed.")


def _pictures(name: str, data: FewLabelImages, run: Run) -> Section:
    """The curve of validation, a map of some test images, and what is found for one of every class."""
    images, y = data.test
    chosen = np.random.default_rng(0).permutation(len(y))[:1000]
    raw, z = images[chosen].flatten(1).numpy(), run.embed(images[chosen]).numpy()
    labels = np.asarray(y)[chosen]
    found = nearest_others(z, 8)
    queries = np.array([np.flatnonzero(labels == one)[0] for one in np.unique(labels)])
    low, high = images[chosen].amin(), images[chosen].amax()
    shown = ((images[chosen] - low) / (high - low)).numpy()
    grid: Figure = retrieval_grid(
        shown,
        queries,
        found[queries],
        labels[found[queries]] == labels[queries][:, None],
        title=f"{name}: the nearest test images",
    )
    history: dict[str, list[float | None]] = {
        key: [epoch.get(key) for epoch in run.history] for key in ("loss", "recall@1")
    }
    return Section(
        f"Pictures of {name}",
        [
            Picture(
                embedding_map(raw, z, labels, seed=0), "Test images: pixels on the left, learned on the right."
            ),
            Picture(grid, "One test image of every class and the eight nearest others."),
            Picture(training_curve(history), "The loss, and R@1 on validation images, epoch by epoch."),
        ],
    )
