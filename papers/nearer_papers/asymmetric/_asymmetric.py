"""Asymmetric similarity: queries that look different from the database, and ordinary sets with one view."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer._checks import check_choice
from nearer.datasets._catalog import load
from nearer.exceptions import NearerWarning
from nearer.reports._page import Picture, Section, Table
from nearer.reports._style import ACCENT, MUTED, house_style, new_figure
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.asymmetric._one_view import (
    ONE_VIEW_METHODS,
    ONE_VIEW_SETS,
    K,
    measure_one_view,
    one_view_data,
)
from nearer_papers.asymmetric._two_views import LOOKED_UP, METHODS, PROBLEMS, QUICK, measure_two_views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KEY", "measure", "present", "result_file"]

KEY = ("table", "problem", "method", "seed")


def result_file(row: Mapping[str, Any]) -> str:
    """Views of the digits and ordinary sets are kept apart."""
    return "asymmetric_views" if row["table"] == "views" else "asymmetric_small"


def measure(request: Request) -> Iterator[Measured]:
    """k-NN errors: queries from another view of the digits ("views"), and small sets with one view ("one view").

    `request.only` names tables, problems or data sets; the quick form is one split of each view and of the two sets
    that need no files, and leaves the slow metrics out.
    """
    plan = _plan(request)
    with warnings.catch_warnings():
        # Several of the symmetric metrics stop early on views that no single map can bring together.
        warnings.simplefilter("ignore", NearerWarning)
        for number, (table, problem, method, seed) in enumerate(plan):
            if (table, problem, method, seed) in request.done:
                continue
            request.progress(f"{problem}, split {seed + 1}: {method}", number / len(plan))
            row: dict[str, Any] = {"table": table, "problem": problem, "method": method, "seed": seed}
            if table == "views":
                yield Measured({**row, **measure_two_views(problem, seed, method)}, load("digits").fingerprint())
            else:
                made_of = one_view_data(problem).fingerprint()
                yield Measured({**row, **measure_one_view(problem, seed, method)}, made_of)


def _plan(request: Request) -> list[tuple[str, str, str, int]]:
    problems = {"views": list(PROBLEMS), "one view": list(ONE_VIEW_SETS)}
    names = [*problems, *(name for some in problems.values() for name in some)]
    for name in request.only:
        check_choice(name, "only", names)
    methods = {"views": [*METHODS, LOOKED_UP], "one view": list(ONE_VIEW_METHODS)}
    if request.quick:
        problems["one view"] = [name for name in problems["one view"] if name in ("wine", "digits")]
        methods = {
            "views": list(QUICK),
            "one view": ["Euclidean", "trained for the vote"],
        }
    # Seeds outside: a run that is cut short has as many of every set.
    return [
        (table, problem, method, seed)
        for seed in range(1 if request.quick else request.seeds)
        for table, some in problems.items()
        for problem in some
        if not request.only or table in request.only or problem in request.only
        for method in methods[table]
    ]


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """Mean error and deviation of every metric, one table for each kind of problem, with a picture."""
    sections = []
    for table, text in (
        (
            "views",
            "The database holds items that nobody has seen from the side of the queries. Up to and with "
            "GerrymanderingMetric one map for both sides, then two maps; ours are the last three methods.",
        ),
        ("one view", "Settings are chosen on training rows; the split is stratified, 70/30."),
    ):
        mine = [row for row in rows if row["table"] == table]
        if not mine:
            continue
        problems = list(dict.fromkeys(row["problem"] for row in mine))
        methods = list(dict.fromkeys(row["method"] for row in mine))
        errors = {
            (method, problem): [
                row["error"] for row in mine if row["problem"] == problem and row["method"] == method
            ]
            for method in methods
            for problem in problems
        }
        lines = [[method, *(_cell(errors[method, problem]) for problem in problems)] for method in methods]
        told = f"Test error of the vote of {K} neighbours, mean and deviation over the splits. {text}"
        picture = Picture(_bars(errors, methods, problems), "Mean test error; lower is better.")
        title = "Queries from another view" if table == "views" else "One view, the metric trained for the vote"
        sections.append(Section(title, [told, Table(["metric", *problems], lines), picture]))
    sections += _inference(rows)
    settings = {"k": K, "held_out": 0.3}
    return Outcome("Two maps for two views", sections, {"settings": settings})


def _inference(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    """Exact against greedy inference of the neighbour sets: test errors on the splits that have both."""
    names = {"exact": "GerrymanderingMetric, k = 5", "greedy": "GerrymanderingMetric, k = 5, greedy"}
    errors = {
        way: {(row["problem"], row["seed"]): row["error"] for row in rows if row["method"] == method}
        for way, method in names.items()
    }
    shared = [key for key in errors["exact"] if key in errors["greedy"]]
    lines = []
    for problem in dict.fromkeys(problem for problem, _ in shared):
        keys = [key for key in shared if key[0] == problem]
        pairs = [(errors["exact"][key], errors["greedy"][key]) for key in keys]
        differ = sum(exact != greedy for exact, greedy in pairs)
        lines.append(
            [problem, *(_cell(list(one)) for one in zip(*pairs, strict=True)), f"{differ} of {len(pairs)}"]
        )
    if not lines:
        return []
    text = "The metric learned with the exact best set of five neighbours, and with the published single pass."
    table = Table(["data", "exact", "greedy", "splits that differ"], lines)
    return [Section("Exact and greedy inference", [text, table])]


def _cell(errors: Sequence[float]) -> str:
    if not errors:
        return "–"
    spread = f" ± {100 * np.std(errors):.1f}" if len(errors) > 1 else ""
    return f"{100 * np.mean(errors):.1f}{spread} % ({len(errors)})"


def _bars(errors: dict[tuple[str, str], list[float]], methods: Sequence[str], problems: Sequence[str]) -> Figure:
    with house_style():
        figure = new_figure(7.0, 1.0 + 0.3 * len(problems) * len(methods) / 2)
        axis = figure.subplots()
        height = 0.8 / len(methods)
        for number, method in enumerate(methods):
            means = [100 * float(np.mean(errors[method, one])) if errors[method, one] else 0.0 for one in problems]
            places = [place + number * height for place in range(len(problems))]
            color = ACCENT if method == methods[-1] or method == "trained for the vote" else MUTED
            axis.barh(places, means, height=0.85 * height, color=color)
            for place, mean in zip(places, means, strict=True):
                axis.annotate(
                    f"{method} {mean:.1f}",
                    (mean, place),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    size=7.5,
                )
        axis.set_yticks([place + 0.4 - height / 2 for place in range(len(problems))], problems)
        axis.invert_yaxis()
        axis.set_xlabel("test error, %")
        axis.margins(x=0.25)
    return figure
