"""The tables and figures of the semi-supervised paper: `nearer reproduce semi-supervised`.

Table 1 on MNIST, Fashion-MNIST and CIFAR-10: the initial network, five deep baselines and ours; the paper's own
setting as a row. Table 2, the same on fine-grained classes never seen: features of Cars-196, or your photos of CUB
and Cars behind R-MAC of a network. Table 3: learning without labels. Table 4: with and without orthogonality.
Table 5: labels alone. An ablation: ours without each of its changes to the paper. Figure 1b: mined triplets on a
toy. Figure 2: the curve of validation, the angle α, maps of three metrics. Figure 3: what is retrieved, by ours and
three rivals. NMI and R@1, 2, 4, 8 on test items.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nearer._checks import check_choice
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.semi_supervised._few_label_features import FEATURES, NETWORK, PHOTOS, load_few_label_features
from nearer_papers.semi_supervised._few_label_images import DATASETS, FewLabelImages, load_few_label_images
from nearer_papers.semi_supervised._semi_supervised_figures import (
    MAPPED,
    RETRIEVED,
    angle_curve,
    mined_triplets,
    pictures,
)
from nearer_papers.semi_supervised._semi_supervised_runs import (
    BASELINES,
    OURS,
    UNSUPERVISED,
    WITHOUT_NETWORK,
    Length,
    Run,
    run_method,
    start_from_labels,
)

__all__ = ["KEY", "LENGTHS", "TABLES", "measure", "of_the_tables", "present", "result_file"]

# All unlabelled items of a fine-grained set are one partition, as in the paper, whose 200 epochs are too many here.
FINE = Length(start_steps=100, partitions=1, epochs=20, unlabeled=10_000)
LENGTHS = {
    "mnist": Length(),
    "fashion": Length(),
    "cifar10": Length(start_steps=400),
    **dict.fromkeys((*FEATURES, *PHOTOS), FINE),
}
QUICK = {
    "mnist": Length(start_steps=40, partitions=1, epochs=2, unlabeled=1000),
    "fashion": Length(start_steps=40, partitions=1, epochs=2, unlabeled=1000),
    "cifar10": Length(start_steps=24, partitions=1, epochs=1, unlabeled=500),
    **dict.fromkeys((*FEATURES, *PHOTOS), Length(start_steps=20, partitions=1, epochs=3, unlabeled=1500)),
}
QUICK_SETS = ("mnist", "cars196_features")
TABLES: dict[str, tuple[str, ...]] = {
    "table-1": (*WITHOUT_NETWORK, "Initial", *BASELINES, "literal", "ours"),
    "table-2": ("Initial", *BASELINES, "literal", "ours"),
    "table-3": (*UNSUPERVISED, "ours"),
    "table-4": ("ours, not orthogonal", "ours"),
    "table-5": ("Triplet", "Angular", "labels alone", "ours"),
    "ablation": tuple(OURS),
    "alpha": (),
    "pictures": tuple(dict.fromkeys([*MAPPED, *RETRIEVED])),
}
TITLES = {
    "table-1": "Table 1: semi-supervised methods",
    "table-2": "Table 2: semi-supervised methods, fine-grained classes never seen",
    "table-3": "Table 3: without labels",
    "table-4": "Table 4: with and without orthogonality",
    "table-5": "Table 5: from the labels alone",
    "ablation": "Ours without one of its changes to the paper at a time",
}
# What the paper prints, NMI and R@1: best of all rows, and of some rows their own. Fine-grained sets on all photos
# and with GoogLeNet.
PRINTED = {"mnist": (48.3, 93.9), "fashion": (53.2, 77.6), "cifar10": (25.3, 41.4)}
PRINTED_ROWS: dict[str, dict[str, tuple[float, float]]] = {
    "mnist": {"Initial": (17.4, 86.5), "ours, not orthogonal": (42.9, 91.5), "ours": (47.5, 93.9)},
    "fashion": {"Initial": (32.6, 71.9), "ours, not orthogonal": (50.3, 73.3), "ours": (52.1, 77.6)},
    "cifar10": {"Initial": (20.4, 38.2), "ours, not orthogonal": (19.0, 37.4), "ours": (25.3, 41.4)},
    "cub200": {"Initial": (34.3, 31.7), "ours": (54.0, 44.8)},
    **{name: {"Initial": (23.7, 24.2), "ours": (40.7, 45.7)} for name in ("cars196", "cars196_features")},
}
# Pixels, turns and changes of colour need images.
NEED_IMAGES = (
    *WITHOUT_NETWORK,
    "Exemplar",
    "RotNet",
    *(name for name in OURS if name not in TABLES["table-4"]),
)
ANGLES = (35.0, 40.0, 45.0, 50.0, 55.0)
SHOWN = ("nmi", "recall@1", "recall@2", "recall@4", "recall@8")


KEY = ("data", "method", "seed", "alpha", "partitions")
ALPHA, FINE_ALPHA = 40.0, 45.0


def _angle(name: str) -> float:
    return ALPHA if name in DATASETS else FINE_ALPHA


def result_file(row: Mapping[str, Any]) -> str:
    """All data sets in one file."""
    return "semi_supervised"


def measure(request: Request) -> Iterator[Measured]:
    """Run the tables that are asked for; `only` may name data sets ("mnist"), tables ("table-1") and methods.

    The photos of "cub200" and "cars196" are read from your data folder and described by EfficientNet-Lite0 or by
    `backbone`.
    """
    names, tables, methods = _asked(request)
    seeds = 1 if request.quick else request.seeds
    before = torch.get_num_threads()
    plan = [(name, seed) for name in names for seed in range(seeds)]
    for place, (name, seed) in enumerate(plan):
        length = (QUICK if request.quick else LENGTHS)[name]
        jobs = [(method, _angle(name), length) for method in _possible(name, methods)]
        if "alpha" in tables and seed == 0 and name == names[0]:
            jobs += [("ours", angle, dataclasses.replace(length, partitions=1)) for angle in ANGLES]
        jobs = [
            job
            for job in dict.fromkeys(jobs)
            if (name, job[0], seed, job[1], job[2].partitions) not in request.done
        ]
        if not jobs:
            continue
        data = _load(name, seed, request)
        starts: dict[tuple[float, Length], Run] = {}
        runs: dict[str, Run] = {}
        for number, (method, angle, long) in enumerate(jobs):
            request.progress(f"{name}, seed {seed}: {method}", (place + number / len(jobs)) / len(plan))
            if (angle, long) not in starts:
                starts[angle, long] = start_from_labels(data, seed, long, alpha=angle)
            run = run_method(method, data, seed, long, starts[angle, long], alpha=angle)
            row = {"data": name, "method": method, "seed": seed, "alpha": angle, "partitions": long.partitions}
            if name in PHOTOS:
                row |= {"network": NETWORK if request.backbone is None else "given", "note": data.note}
            row |= {
                "scores": run.scores,
                "history": run.history,
                "length": dataclasses.asdict(long) | {"steps": long.steps(data)},
            }
            if angle == _angle(name) and long == length and method in TABLES["pictures"]:
                runs[method] = run
            # Only the runs themselves can be drawn, so all of them have to be there.
            drawn = number == len(jobs) - 1 and seed == 0 and "pictures" in tables and runs
            yield Measured(row, data.fingerprint, [pictures(name, data, runs)] if drawn else [])
    torch.set_num_threads(before)


def _load(name: str, seed: int, request: Request) -> FewLabelImages:
    if name in DATASETS:
        return load_few_label_images(name, seed, **_small(request.quick))
    tested = 1000 if request.quick else None
    return load_few_label_features(
        name, seed, backbone=request.backbone, tested=tested, allow_missing=request.allow_missing
    )


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """The tables of the rows that were asked for."""
    names, tables, _ = _asked(request)
    mine = [row for row in rows if row["data"] in names and row["alpha"] == _angle(row["data"])]
    whole = {name: (QUICK if request.quick else LENGTHS)[name].partitions for name in names}
    mine = [row for row in mine if row["partitions"] == whole[row["data"]]]
    seeds = len({row["seed"] for row in mine})
    sections = [Section("What was run", [_account(request, names, seeds)])]
    if "pictures" in tables:
        sections.append(Section("How triplets are mined", [mined_triplets()]))
    sections += [_section(one, _of_table(one, names), mine) for one in tables if one in TITLES]
    angles = [row for row in rows if row["method"] == "ours" and row["data"] == names[0] and row["partitions"] == 1]
    angles = sorted((row for row in angles if row["alpha"] in ANGLES), key=lambda row: float(row["alpha"]))
    if "alpha" in tables and len(angles) > 1:
        sections.append(Section("The angle", [_angle_table(names[0], angles), angle_curve(angles)]))
    lengths = {name: dataclasses.asdict((QUICK if request.quick else LENGTHS)[name]) for name in names}
    return Outcome(
        "Semi-supervised metric learning: a few labels, a graph, a metric", sections, {"lengths": lengths}
    )


def of_the_tables(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows at the angle and the length of the tables, without those of the curve over angles."""
    return [
        row
        for row in rows
        if row["alpha"] == _angle(row["data"]) and row["partitions"] == LENGTHS[row["data"]].partitions
    ]


def _of_table(table: str, names: Sequence[str]) -> list[str]:
    """Small images are in Table 1, fine-grained sets in Table 2, all of them in the others."""
    apart = {"table-1": True, "table-2": False, "ablation": True}
    return [name for name in names if table not in apart or (name in DATASETS) == apart[table]]


def _possible(name: str, methods: Iterable[str]) -> list[str]:
    return [method for method in methods if name in DATASETS or method not in NEED_IMAGES]


def _asked(request: Request) -> tuple[list[str], list[str], list[str]]:
    """Data sets, tables and methods that the request names; without photos all of them by default."""
    every = list(dict.fromkeys(method for some in TABLES.values() for method in some))
    known = (*DATASETS, *FEATURES, *PHOTOS)
    for name in request.only:
        check_choice(name, "only", [*known, *TABLES, *every])
    methods = [name for name in every if name in request.only]
    tables = [name for name in TABLES if name in request.only] or ([] if methods else list(TABLES))
    names = [name for name in known if name in request.only]
    if not names:
        names = list(QUICK_SETS if request.quick else (*DATASETS, *FEATURES))
        # A table on its own is of its own data sets.
        names = [name for name in names if any(name in _of_table(table, names) for table in tables or TITLES)]
    tables = [table for table in tables if _of_table(table, names)]
    wanted = [method for one in tables for method in TABLES[one]]
    shown = tables or [name for name, some in TABLES.items() if set(some) & set(methods) and name in TITLES]
    return names, shown, list(dict.fromkeys([*wanted, *methods]))


def _small(quick: bool) -> dict[str, Any]:
    return {"limit": 1000, "scored": 300, "tested": 1000} if quick else {}


def _account(request: Request, names: Iterable[str], seeds: int) -> str:
    which = (
        "the quick protocol: few images and steps, scores far below those of the whole"
        if request.quick
        else (
            "the whole protocol: three partitions of 9,000 unlabelled images and all labels, two epochs each; "
            "fine-grained sets in one partition, twenty epochs"
        )
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
    header = ["data", "method", "NMI", "R@1", "R@2", "R@4", "R@8", "NMI, printed", "R@1, printed"]
    lines = []
    for name in names:
        there = {row["method"] for row in rows if row["data"] == name}
        for method in [one for one in TABLES[table] if one in there]:
            printed = [f"{value}" for value in PRINTED_ROWS[name].get(method, ())] or ["–", "–"]
            lines.append([name, method, *_mean_row(rows, name, method), *printed])
        if table == "table-1":
            lines.append([name, "best of all rows", *["–"] * len(SHOWN), *map(str, PRINTED[name])])
    return Section(TITLES[table], [Table(header, lines)])


def _angle_table(name: str, angles: list[dict[str, Any]]) -> Table:
    lines = [[f"{one['alpha']:.0f}°", *(f"{one['scores'][score]:.1f}" for score in SHOWN)] for one in angles]
    return Table(["α", "NMI", "R@1", "R@2", "R@4", "R@8"], lines, caption=f"{name}, one partition, one seed.")
