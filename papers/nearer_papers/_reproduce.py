"""`nearer reproduce NAME`: the published experiments."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from nearer import __version__
from nearer._checks import check_int
from nearer._storage import write_file
from nearer.app.cli._output import print_json, say
from nearer.app.cli._screen import screen
from nearer.exceptions import ParameterError
from nearer.reports._page import html_report
from nearer_papers._catalog import RECIPES, recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe

__all__ = ["run_reproduce"]


RESULTS = Path(__file__).resolve().parents[1] / "results"


def run_reproduce(
    name: str | None,
    *,
    quick: bool,
    seeds: int,
    only: list[str],
    record: bool,
    missing: bool,
    tune: bool,
    backbone: str | None,
    weights: Path | None,
    protocol: str,
    size: int | None,
    colors: str | None,
    mean: str | None,
    spread: str | None,
    allow_missing: bool,
    out: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run one recipe and write its numbers and its page; without a name list them."""
    if name is None:
        _list_recipes(as_json)
        return
    recipe = recipe_named(name)
    check_int(seeds, "--seeds")
    place = out or Path(f"reproduce-{name}")
    if not record and place.exists() and (not place.is_dir() or (any(place.iterdir()) and not missing)):
        raise ParameterError(
            f"`--out` must be free or an empty folder, `{place}` is not. `--missing` goes on with a run of this "
            f"folder."
        )
    if record and not RESULTS.is_dir():
        raise ParameterError(
            "`--record` must be used with a checkout of nearer (pip install -e papers), whose papers/results "
            "has the rows; without it they go to `--out`."
        )
    if weights is not None and backbone is None:
        raise ParameterError("`--weights` must come with `--backbone`, the function that makes the network.")
    given = {"--size": size, "--colors": colors, "--mean": mean, "--spread": spread}
    for option, value in given.items():
        if value is not None and backbone is None:
            raise ParameterError(f"`{option}` must come with `--backbone`, the function that makes the network.")
    network = None
    if backbone is not None:
        from nearer_papers.unified_view._unseen_class_networks import Backbone

        settings = _inputs(protocol, recipe.crop, size, colors, mean, spread)
        network = Backbone.named(backbone, weights=weights, **settings)
    console = screen(stderr=True, quiet=quiet)
    columns = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(name, total=1.0)
        said = _Lines(name, speaks=not quiet and not console.is_terminal)

        def follow(text: str, done: float) -> None:
            bar.update(task, description=text, completed=done)
            said(text, done)

        request = Request(
            quick=quick,
            seeds=seeds,
            only=tuple(only),
            tune=tune,
            protocol=protocol,
            backbone=network,
            allow_missing=allow_missing,
            progress=follow,
        )
        rows = RESULTS if record else place / ("rows-quick" if quick else "rows")
        outcome = run_recipe(recipe, request, folder=rows, missing=missing, committed=record)
    result = {"recipe": name, "nearer": __version__, **outcome.record}
    if not record:
        write_file(place / "result.json", (json.dumps(result, indent=1) + "\n").encode())
    page = html_report(outcome.title, outcome.sections, place / "report.html")
    if as_json:
        print_json({**result, "report": str(page)})
        return
    for section in outcome.sections:
        _show_section(section)
    say(f"Numbers: {'papers/results' if record else place / 'result.json'}. Page: {page}")


class _Lines:
    """Progress where no bar can be drawn (a log, a job in the background): a line for every new part and minute."""

    def __init__(self, name: str, *, speaks: bool) -> None:
        self.name, self.speaks = name, speaks
        self.begun, self.last, self.text = time.monotonic(), -math.inf, ""

    def __call__(self, text: str, done: float) -> None:
        now = time.monotonic()
        if not self.speaks or (text == self.text and now - self.last < 60):
            return
        self.last, self.text = now, text
        minutes = (now - self.begun) * (1 - done) / done / 60 if done > 0 else 0.0
        say(f"{self.name}: {done:4.0%} {text}{f', about {minutes:.0f} min left' if minutes >= 1 else ''}", err=True)


def _inputs(
    protocol: str, crop: int | None, size: int | None, colors: str | None, mean: str | None, spread: str | None
) -> dict[str, Any]:
    """What a backbone is given: published (blue first, 0..255 less the means) or as for ImageNet, then options."""
    settings: dict[str, Any] = {}
    if protocol == "paper" and crop is not None:
        settings = {
            "size": crop,
            "reversed_colors": True,
            "mean": (104 / 255, 117 / 255, 128 / 255),
            "spread": (1 / 255,) * 3,
        }
    if size is not None:
        settings["size"] = check_int(size, "--size")
    if colors is not None:
        settings["reversed_colors"] = colors == "bgr"
    for option, text in (("mean", mean), ("spread", spread)):
        if text is not None:
            settings[option] = _three(text, f"--{option}")
    return settings


def _three(text: str, option: str) -> tuple[float, float, float]:
    try:
        numbers = [float(one) for one in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 3:
        raise ParameterError(
            f"`{option}` must be three numbers for colours in 0..1, in the order the network sees them, such as "
            f"0.485,0.456,0.406, got {text!r}."
        )
    return numbers[0], numbers[1], numbers[2]


def _show_section(section: Any) -> None:
    from nearer.reports._page import Table as ReportTable

    for block in section.parts:
        if isinstance(block, ReportTable):
            table = Table(title=section.heading, title_justify="left", caption=block.caption or None)
            for column in block.columns:
                table.add_column(str(column))
            for row in block.rows:
                table.add_row(*(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row))
            screen().print(table)


def _list_recipes(as_json: bool) -> None:
    if as_json:
        print_json({"recipes": [{"name": recipe.name, "about": recipe.about} for recipe in RECIPES]})
        return
    table = Table("name", "what it shows")
    for recipe in RECIPES:
        table.add_row(recipe.name, recipe.about)
    screen().print(table)
    say("Run one: nearer reproduce NAME --quick")
