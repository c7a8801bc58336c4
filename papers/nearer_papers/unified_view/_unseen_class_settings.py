"""The two settings that every row of the class-disjoint tables has of its own: a factor on the rate, a constant.

Both were chosen on validation classes with the first seed by `nearer reproduce unified-view --tune` (or `jrd`),
with as many trials for every row: each of `FACTORS` at the printed constant, then each other value of the constant
at the best factor. What was tried is in `papers/results/unseen_tuning_*.json`; `tuned.json` holds the best of it,
is written by `make tables` and compared by a test. No unseen class took part. A row of a sweep ("JRD, α = 3") takes
the factor of what it sweeps; a row that was not tuned has factor 1 and its printed constant.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FACTORS", "Constant", "Settings", "best_of_tried", "tuned"]

FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FILE = Path(__file__).with_name("tuned.json")


@dataclass(frozen=True)
class Constant:
    """The one number that a method lives by beside its rate."""

    name: str
    printed: float
    """As its paper or its released code has it."""
    others: tuple[float, float, float]
    """What else is tried; as many for every row."""


@dataclass(frozen=True)
class Settings:
    """What one row is run with on one data set."""

    factor: float = 1.0
    """Times the learning rate of the data set."""
    constant: float | None = None
    """The value of its `Constant`, None for a row that has none."""


def tuned(data: str, row: str, constant: Constant | None, *, as_printed: bool = False) -> Settings:
    """The settings of a row on a data set; `as_printed` keeps the printed constant, at the rate best for it.

    >>> tuned("none", "RAW", Constant("gamma", 0.5, (0.3, 0.4, 0.6)))
    Settings(factor=1.0, constant=0.5)
    """
    known = _file().get(data, {})
    name = row.split(", α = ")[0]
    found = known.get(name, known.get("AMSoftmax", {}) if name == "penalty" else {})
    if constant is None or as_printed:
        return Settings(found.get("factor_as_printed", 1.0), None if constant is None else constant.printed)
    return Settings(found.get("factor", 1.0), found.get("constant", constant.printed))


@functools.cache
def _file() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    found: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def best_of_tried(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """For each row what was best on validation classes, of all and of the trials of the printed constant.

    `constant` is None in the latter. Of equal scores the first counts.

    >>> trials = [(0.5, None, 70.0), (1.0, None, 72.0), (1.0, 0.3, 71.0), (1.0, 0.6, 73.0)]
    >>> best_of_tried({"row": "RAW", "rate": f, "constant": c, "validation": v} for f, c, v in trials)
    {'RAW': {'factor_as_printed': 1.0, 'factor': 1.0, 'constant': 0.6}}
    """
    tried: dict[str, dict[tuple[float, float | None], float]] = {}
    for row in rows:
        tried.setdefault(row["row"], {})[row["rate"], row["constant"]] = row["validation"]
    best: dict[str, dict[str, float]] = {}
    for name, trials in tried.items():
        at_printed = {factor: score for (factor, constant), score in trials.items() if constant is None}
        (factor, constant) = max(trials, key=trials.__getitem__)
        best[name] = {"factor_as_printed": max(at_printed, key=at_printed.__getitem__), "factor": factor}
        if constant is not None:
            best[name]["constant"] = constant
    return best
