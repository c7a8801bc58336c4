"""The tables of the semi-supervised paper on MNIST, Fashion-MNIST and CIFAR-10: `nearer reproduce semi-supervised`.

Table 1: the initial network, five deep baselines and ours; the paper's own setting as a row. Table 3: learning
without labels. Table 4: with and without orthogonality. Table 5: labels alone. Then the angle α, the curves of
validation, a map of test images and what is retrieved for some. NMI and R@1, 2, 4, 8 on test images.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nearer._checks import check_choice
from nearer.recipes._recipe import Measured, Outcome, Request
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
from nearer.reports._style import ACCENT, MUTED, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KEY", "LENGTHS", "TABLES", "measure", "present", "result_file"]

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


KEY = ("data", "method", "seed", "alpha", "partitions")
ALPHA = 40.0


def result_file(row: Mapping[str, Any]) -> str:
    """All data sets in one file."""
    return "semi_supervised"


def measure(request: Request) -> Iterator[Measured]:
    """Run the tables that are asked for; `only` may name data sets ("mnist"), tables ("table-1") and methods."""
    names, tables, methods = _asked(request)
    seeds = 1 if request.quick else request.seeds
    before = torch.get_num_threads()
    plan = [(name, seed) for name in names for seed in range(seeds)]
    for place, (name, seed) in enumerate(plan):
        length = (QUICK if request.quick else LENGTHS)[name]
        jobs = [(method, ALPHA, length) for method in methods]
        if "alpha" in tables and seed == 0 and name == names[0]:
            jobs += [("ours", angle, dataclasses.replace(length, partitions=1)) for angle in ANGLES]
        jobs = [
            job
            for job in dict.fromkeys(jobs)
            if (name, job[0], seed, job[1], job[2].partitions) not in request.done
        ]
        if not jobs:
            continue
        data = load_few_label_images(name, seed, **_small(request.quick))
        starts: dict[tuple[float, Length], Run] = {}
        for number, (method, angle, long) in enumerate(jobs):
            request.progress(f"{name}, seed {seed}: {method}", (place + number / len(jobs)) / len(plan))
            if (angle, long) not in starts:
                starts[angle, long] = start_from_labels(data, seed, long, alpha=angle)
            run = run_method(method, data, seed, long, starts[angle, long], alpha=angle)
            row = {"data": name, "method": method, "seed": seed, "alpha": angle, "partitions": long.partitions}
            row |= {"scores": run.scores, "history": run.history, "length": dataclasses.asdict(long)}
            drawn = method == "ours" and angle == ALPHA and seed == 0 and "pictures" in tables
            yield Measured(row, data.fingerprint, [_pictures(name, data, run)] if drawn else [])
    torch.set_num_threads(before)


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """The tables of the rows that were asked for."""
    names, tables, _ = _asked(request)
    mine = [row for row in rows if row["data"] in names and row["alpha"] == ALPHA]
    whole = {name: (QUICK if request.quick else LENGTHS)[name].partitions for name in names}
    mine = [row for row in mine if row["partitions"] == whole[row["data"]]]
    seeds = len({row["seed"] for row in mine})
    sections = [Section("What was run", [_account(request, names, seeds)])]
    sections += [_section(one, names, mine) for one in tables if one in TITLES]
    angles = [row for row in rows if row["method"] == "ours" and row["data"] == names[0] and row["partitions"] == 1]
    angles = sorted((row for row in angles if row["alpha"] in ANGLES), key=lambda row: float(row["alpha"]))
    if "alpha" in tables and len(angles) > 1:
        sections.append(Section("The angle", [_angle_table(names[0], angles), _angle_curve(angles)]))
    lengths = {name: dataclasses.asdict((QUICK if request.quick else LENGTHS)[name]) for name in names}
    return Outcome(
        "Semi-supervised metric learning: a few labels, a graph, a metric", sections, {"lengths": lengths}
    )


def _asked(request: Request) -> tuple[list[str], list[str], list[str]]:
    """Data sets, tables and methods that the request names; all of them by default."""
    every = list(dict.fromkeys(method for some in TABLES.values() for method in some))
    for name in request.only:
        check_choice(name, "only", [*DATASETS, *TABLES, *every])
    names = [name for name in DATASETS if name in request.only] or list(DATASETS)
    methods = [name for name in every if name in request.only]
    tables = [name for name in TABLES if name in request.only] or ([] if methods else list(TABLES))
    wanted = [method for one in tables for method in TABLES[one]]
    shown = tables or [name for name, some in TABLES.items() if set(some) & set(methods) and name in TITLES]
    return names, shown, list(dict.fromkeys([*wanted, *methods]))


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
        there = {row["method"] for row in rows if row["data"] == name}
        lines += [[name, method, *_mean_row(rows, name, method)] for method in TABLES[table] if method in there]
        if table == "table-1":
            nmi, first = PRINTED[name]
            lines.append([name, "best printed", f"{nmi}", f"{first}", "–", "–", "–"])
    return Section(TITLES[table], [Table(header, lines)])


def _angle_table(name: str, angles: list[dict[str, Any]]) -> Table:
    lines = [[f"{one['alpha']:.0f}°", *(f"{one['scores'][score]:.1f}" for score in SHOWN)] for one in angles]
    return Table(["α", "NMI", "R@1", "R@2", "R@4", "R@8"], lines, caption=f"{name}, one partition, one seed.")


def _angle_curve(angles: list[dict[str, Any]]) -> Picture:
    """R@1 and NMI against the angle."""
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
