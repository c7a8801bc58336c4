"""From rows to an outcome: run the tables that are asked for, and show means, errors and what was printed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nearer._checks import check_choice
from nearer.exceptions import ParameterError
from nearer.reports import training_curve
from nearer.reports._page import Picture, Section, Table
from nearer.reports._style import ACCENT, MUTED, house_style, new_figure
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.unified_view._unseen_class_data import (
    DATASETS,
    FOLDERS,
    Protocol,
    UnseenClasses,
    load_unseen_classes,
    our_protocol,
)
from nearer_papers.unified_view._unseen_class_settings import FACTORS, Settings, best_of_tried
from nearer_papers.unified_view._unseen_classes import Row, Run, run_row, summarize, untrained, validate_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "KEY",
    "START",
    "describe",
    "measure_tables",
    "present_tables",
    "recall_chart",
    "result_file",
    "summary_table",
    "weight_curve",
]

START = "untrained"
# A quick look: some rows of every table, for as many steps as it takes to be better than no training.
QUICK: dict[str, Any] = {"epochs": 3, "steps": 90}
QUICK_TEST = 1500
QUICK_ROWS = frozenset(
    {"RAW", "VTHM", "RAW+SemiHard", "RAW+VTHM", "Triplet", "Margin", "Proxy-NCA", "MS", "AMSoftmax", "JRD", "JRD-C"}
    | {"JRD, α = 0.1", "JRD, α = 10", "penalty, α = 0.01", "penalty, α = 0.1", "poly-2"}
)


KEY = ("data", "row", "seed", "rate", "constant")
Tables = Mapping[str, Sequence[Row]]


def result_file(row: Mapping[str, Any]) -> str:
    """A file for each data set; factors on the rate that were tried on validation classes are kept apart."""
    return f"unseen_{row['data']}" if row["rate"] is None else f"unseen_tuning_{row['data']}"


def _called(name: str, request: Request) -> str:
    """Rows under a published protocol are never those under ours."""
    return f"{name}_paper" if request.protocol == "paper" else name


def measure_tables(tables: Tables, request: Request, *, paper: Callable[[str], Protocol]) -> Iterator[Measured]:
    """Every row of the tables on every data set that `only` names, with every seed.

    A row that is there with other settings than it has now is measured again. With `request.tune` nothing is
    scored on unseen classes: settings are compared on validation classes, one seed. `paper` gives the published
    protocol of a set of photos.
    """
    sets, chosen = _asked(tables, request)
    wanted = list({row.name: row for rows in chosen.values() for row in rows if row.runs}.values())
    seeds = 1 if request.quick or request.tune else request.seeds
    for turn, (name, seed) in enumerate((name, seed) for name in sets for seed in range(seeds)):
        called = _called(name, request)
        load = functools.cache(lambda name=name, seed=seed: _load(name, seed, request, paper))
        if request.tune:
            measured = _tune(called, wanted, request, load)
        else:
            literal = [row.literal(name) for row in wanted]
            every = [None, *wanted, *(row for row in literal if row is not None)]
            measured = _score(called, every, seed, request, load, _protocol(name, request, paper))
        for share, found in measured:
            request.progress(f"{name}, seed {seed}: {found.row['row']}", (turn + share) / (len(sets) * seeds))
            yield found


def _load(name: str, seed: int, request: Request, paper: Callable[[str], Protocol]) -> UnseenClasses:
    return load_unseen_classes(
        name,
        seed,
        protocol=_protocol(name, request, paper),
        backbone=request.backbone,
        limit=QUICK_TEST if request.quick else None,
        allow_missing=request.allow_missing,
    )


def _protocol(name: str, request: Request, paper: Callable[[str], Protocol]) -> Protocol:
    protocol = paper(name) if request.protocol == "paper" else our_protocol(name)
    return dataclasses.replace(protocol, **QUICK) if request.quick else protocol


def _tune(
    data: str, rows: Sequence[Row], request: Request, load: Callable[[], UnseenClasses]
) -> Iterator[tuple[float, Measured]]:
    """Every factor at the printed constant, then the other values of the constant at the best of them."""
    for number, row in enumerate(rows):
        if row.epochs is not None or row.at is not None:
            continue  # lengths and sweeps have the settings of what they stretch or sweep
        tried: list[dict[str, Any]] = []
        for factor, constant in _trials(row, tried):
            found = {"data": data, "row": row.name, "seed": 0, "rate": factor, "constant": constant}
            done = request.done.get(tuple(found[name] for name in KEY))
            if done is None:
                value = row.constant.printed if row.constant and constant is None else constant
                found["validation"] = validate_row(row, load(), 0, Settings(factor, value))
                yield number / len(rows), Measured(found, load().fingerprint)
            tried.append(dict(done or found))


def _trials(row: Row, tried: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float | None]]:
    """As many for every row that has a constant; `tried` grows as they are made."""
    for factor in FACTORS:
        yield factor, None
    best = best_of_tried(tried)[row.name]["factor"]
    for other in row.constant.others if row.constant else ():
        yield best, other


def _score(
    data: str,
    rows: Sequence[Row | None],
    seed: int,
    request: Request,
    load: Callable[[], UnseenClasses],
    plan: Protocol,
) -> Iterator[tuple[float, Measured]]:
    """Rows on unseen classes; None is the network as it starts. One that is there as it is now is left out."""
    for number, row in enumerate(rows):
        called = START if row is None else row.name
        settings = Settings() if row is None else row.settings(data.removesuffix("_paper"))
        epochs = plan.epochs if row is None or row.epochs is None else row.epochs
        how = {
            "settings": dataclasses.asdict(settings),
            "protocol": dataclasses.asdict(dataclasses.replace(plan, epochs=epochs)),
        }
        done = request.done.get((data, called, seed, None, None), {})
        if all(done.get(name) == value for name, value in how.items()):
            continue
        held = load()
        run = untrained(held, seed) if row is None else run_row(row, held, seed)
        shown: list[Section] = []
        history = {key: [epoch.get(key) for epoch in run.history] for key in ("loss", "recall@1")}
        if run.history and seed == 0 and row is rows[-1]:
            curve = Picture(training_curve(history), "The loss and Recall@1 on validation classes, by epoch.")
            shown = [Section(f"How it learned: {called} on {data}", [curve])]
        yield number / len(rows), Measured({**describe(data, called, seed, run), **how}, held.fingerprint, shown)


def present_tables(
    title: str, tables: Tables, titles: Mapping[str, str], rows: Sequence[Mapping[str, Any]], request: Request
) -> Outcome:
    """Means, standard errors and printed numbers of the rows that were asked for."""
    sets, chosen = _asked(tables, request)
    sets = [_called(name, request) for name in sets]
    scored = [row for row in rows if row["rate"] is None and row["data"] in sets]
    seeds = len({row["seed"] for row in scored})
    sections = _sections(sets, chosen, titles, scored, request.quick, seeds) if scored else []
    sections += _tuning([row for row in rows if row["rate"] is not None and row["data"] in sets])
    return Outcome(title, sections, {"summary": summarize(scored)})


def _asked(tables: Tables, request: Request) -> tuple[list[str], dict[str, list[Row]]]:
    """The data sets and the rows that the request names; all of them by default."""
    known = {row.name: row for rows in tables.values() for row in rows}
    for name in request.only:
        check_choice(name, "only", [*DATASETS, *FOLDERS, *tables, *known])
    sets = [name for name in (*DATASETS, *FOLDERS) if name in request.only]
    if request.protocol == "paper" and (not sets or any(name not in FOLDERS for name in sets)):
        raise ParameterError(
            f"`--protocol paper` must come with `--only` and photos ({', '.join(FOLDERS)}), got "
            f"{', '.join(sets) or 'no data set'}. The small sets have no published protocol."
        )
    # Without a word about data: those that are small enough for a quick look, or all that need no photos.
    sets = sets or (["omniglot", "cars196_features"] if request.quick else list(DATASETS))
    chosen = {
        table: [row for row in rows if row.name in request.only or table in request.only]
        for table, rows in tables.items()
    }
    if not any(chosen.values()):
        chosen = {
            table: [row for row in rows if row.name in QUICK_ROWS or not (request.quick and row.runs)]
            for table, rows in tables.items()
        }
    return sets, chosen


def _tuning(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    """What each factor on the learning rate gave on validation classes."""
    if not rows:
        return []
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        at = f"{row['rate']:g}" + ("" if row["constant"] is None else f", {row['constant']:g}")
        groups.setdefault((row["data"], row["row"]), []).append(f"{at}: {row['validation']:.1f}")
    lines = [[*names, "; ".join(values)] for names, values in groups.items()]
    text = (
        "Recall@1 on validation classes, taken from the seen ones, for factors on the learning rate and other "
        "values of the one constant of a row."
    )
    return [Section("Settings that were tried", [text, Table(["data", "row", "factor (, constant): R@1"], lines)])]


def describe(data: str, row: str, seed: int, run: Run) -> dict[str, Any]:
    """A run as plain numbers."""
    return {
        "data": data,
        "row": row,
        "seed": seed,
        "rate": None,
        "constant": None,
        "scores": run.scores,
        "validation": run.validation,
        "best": run.best,
        "seconds": round(run.seconds, 1),
    }


def _sections(
    sets: Sequence[str],
    chosen: Mapping[str, Sequence[Row]],
    titles: Mapping[str, str],
    records: Sequence[Mapping[str, Any]],
    quick: bool,
    seeds: int,
) -> list[Section]:
    lines = summarize(records)
    short = f"some of the rows, {QUICK['epochs']} × {QUICK['steps']} steps, far below what the whole protocol gives"
    length = short if quick else "the whole protocol"
    account = (
        f"{', '.join(sets)} with {length}; {seeds} seed{'s' if seeds > 1 else ''}, mean ± standard error. All "
        f"rows share network, optimiser, batch and length; the epoch is chosen on validation classes taken from "
        f"the seen ones, scores are of classes that nothing has seen. Printed numbers are Recall@1 of the papers, "
        f"with other networks and data."
    )
    sections = [Section("What was run", [account])]
    for name in sets:
        for table, rows in chosen.items():
            if rows:
                names = [START, *(row.name for row in rows)]
                mine = [line for line in lines if line["data"] == name and line["row"] in names]
                if not mine:
                    continue
                order = [START, *(row.name for row in rows)]
                mine.sort(key=lambda line: order.index(line["row"]))
                body = summary_table(mine, {row.name: row.printed for row in rows}, rows)
                places = {row.name: row.at for row in rows if row.at is not None}
                if sum(line["row"] in places for line in mine) > 1:
                    picture = Picture(weight_curve(mine, places, f"{name}: {table}"), "Recall@1, λ and d̂ over α.")
                else:
                    drawn = recall_chart(mine, f"{name}: {table}")
                    picture = Picture(drawn, "Recall@1 of every row with its error.")
                sections.append(Section(f"{titles[table]}: {name}", [body, picture]))
    return sections


def summary_table(
    lines: Sequence[Mapping[str, Any]],
    printed: Mapping[str, Mapping[str, float] | None],
    rows: Sequence[Row] = (),
) -> Table:
    """Scores with their errors, one line per row, and the printed Recall@1; last the rows that cannot be run."""
    # The widest line decides: older rows may lack a score.
    names = [key for key in max(lines, key=len) if any(f"{key} error" in line for line in lines)]
    names = [key for key in names if not key.endswith(" error") and key not in ("data", "row", "seeds")]
    papers = {
        "cub200": "CUB",
        "cars196": "Cars",
        "sop": "SOP",
        "inshop": "In-shop",
        "lambda": "λ",
        "discrepancy": "d̂",
    }

    def cell(line: Mapping[str, Any], key: str) -> str:
        if key not in line:
            return "–"
        digits = 2 if key == "discrepancy" else 1
        spread = f" ± {line[f'{key} error']:.{digits}f}" if line["seeds"] > 1 else ""
        return f"{line[key]:.{digits}f}{spread}"

    def there(row: str) -> str:
        numbers = printed.get(row) or {}
        return ", ".join(f"{papers[key]} {value:g}" for key, value in numbers.items()) or "–"

    shown = {"map@r": "MAP@R", "lambda": "λ", "discrepancy": "d̂"}
    header = ["row", *(shown.get(name, name.replace("recall", "R")) for name in names), "printed R@1"]
    body = [[line["row"], *(cell(line, name) for name in names), there(line["row"])] for line in lines]
    body += [[row.name, *["–"] * len(names), there(row.name)] for row in rows if not row.runs]
    best = max(range(len(lines)), key=lambda place: float(lines[place]["recall@1"]))
    return Table(header, body, emphasis=(best,))


def recall_chart(lines: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Recall@1 as a dot with its standard error, the best row on top."""
    order = sorted(lines, key=lambda line: float(line["recall@1"]))
    best = order[-1]["row"]
    with house_style():
        figure = new_figure(7.0, 0.9 + 0.28 * len(order))
        axis = figure.subplots()
        for place, line in enumerate(order):
            color = ACCENT if line["row"] == best else MUTED
            axis.errorbar(
                line["recall@1"], place, xerr=line["recall@1 error"], fmt="o", color=color, markersize=5, capsize=3
            )
            axis.annotate(
                f"{line['recall@1']:.1f}",
                (line["recall@1"] + line["recall@1 error"], place),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                color=color,
                size=8.5,
            )
        axis.set_yticks(range(len(order)), [line["row"] for line in order])
        axis.set_xlabel("Recall@1 on unseen classes, %")
        axis.set_title(title)
        axis.grid(axis="x")
        axis.margins(x=0.12)
    return figure


def weight_curve(lines: Sequence[Mapping[str, Any]], places: Mapping[str, float], title: str) -> Figure:
    """Recall@1, λ and d̂ over the weight α of a sweep; rows without a place are levels to compare with."""
    shown = [("recall@1", "Recall@1, %"), ("lambda", "λ, %"), ("discrepancy", "d̂")]
    shown = [(key, label) for key, label in shown if all(key in line for line in lines)]
    swept = sorted((line for line in lines if line["row"] in places), key=lambda line: places[line["row"]])
    with house_style():
        figure = new_figure(2.9 * len(shown) + 0.6, 2.9)
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for axis, (key, label) in zip(axes, shown, strict=True):
            axis.errorbar(
                [places[line["row"]] for line in swept],
                [line[key] for line in swept],
                yerr=[line[f"{key} error"] for line in swept],
                fmt="o-",
                color=ACCENT,
                markersize=5,
                capsize=3,
            )
            for line in lines:
                if line["row"] not in places and line["row"] != START:
                    axis.axhline(line[key], color=MUTED, linestyle="--", linewidth=1)
                    axis.annotate(
                        line["row"], (0.02, line[key]), xycoords=("axes fraction", "data"), color=MUTED, size=8
                    )
            axis.set_xscale("log")
            axis.set_xlabel("α")
            axis.set_title(label)
            axis.grid()
        figure.suptitle(title)
    return figure
