"""The one runner of all recipes: measure row by row, write each row down, show everything that is known."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearer.exceptions import ParameterError
from nearer.reports._page import Section
from nearer_papers._catalog import RECIPES, Recipe
from nearer_papers._recipe import Outcome, Request
from nearer_papers._results import Results, check_committed, stamp

__all__ = ["run_recipe"]


def run_recipe(
    recipe: Recipe,
    request: Request,
    *,
    folder: Path | None = None,
    missing: bool = False,
    committed: bool = True,
) -> Outcome:
    """Run what is asked for and show it beside what the result files have.

    With `folder` every row is written to its result file there as soon as it is measured, so that a run that is
    interrupted has lost one row; with `missing` the rows that are there already are not measured again. `committed`
    rows are those of the repository: their sources must be known to git, and one whose sources are not counts as
    missing.
    """
    if request.backbone is not None and not recipe.takes_backbone:
        others = ", ".join(one.name for one in RECIPES if one.takes_backbone)
        raise ParameterError(f"`--backbone` must come with one of {others}; {recipe.name} has networks of its own.")
    if request.tune and not recipe.tunes:
        others = ", ".join(one.name for one in RECIPES if one.tunes)
        raise ParameterError(
            f"`--tune` must come with one of {others}; {recipe.name} chooses on its training rows."
        )
    if request.protocol == "paper" and recipe.crop is None:
        others = ", ".join(one.name for one in RECIPES if one.crop is not None)
        raise ParameterError(f"`--protocol paper` must come with one of {others}, got {recipe.name}.")
    if missing and folder is None:
        raise ParameterError("`--missing` must come with a folder in which the rows are kept.")
    if request.quick and folder is not None and committed:
        raise ParameterError("`--record` keeps rows of the whole protocol, got `--quick`. Leave one of them out.")
    if folder is not None and committed:
        check_committed()
    experiment = recipe.load()
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pattern in recipe.files if folder is not None else ():
        for file in sorted(folder.glob(f"{pattern}.json")) if folder is not None else ():
            results = Results(file, key=experiment.KEY)
            known |= {results.key_of(row): row for row in results.rows}
    fresh: dict[tuple[Any, ...], dict[str, Any]] = {}
    sections: list[Section] = []
    begin = time.perf_counter()
    done = {key: row for key, row in known.items() if row["made"].get("trees") or not committed}
    for measured in experiment.measure(replace(request, done=done) if missing else request):
        made = stamp(data=measured.data, seconds=time.perf_counter() - begin)
        fresh[tuple(measured.row[name] for name in experiment.KEY)] = {**measured.row, "made": made}
        sections += measured.sections
        if folder is not None:
            path = folder / f"{experiment.result_file(measured.row)}.json"
            Results(path, key=experiment.KEY).add(measured.row, made)
        begin = time.perf_counter()
    request.progress("done", 1.0)
    rows = list((known | fresh).values())
    outcome = experiment.present(rows, request)
    record = {
        "quick": request.quick,
        "seeds": 1 if request.quick else request.seeds,
        **outcome.record,
        "rows": rows,
    }
    return Outcome(outcome.title, [*outcome.sections, *sections], record)
