"""Thresholds without labels: how many pairs of new items fall within a distance that random pairs gave.

The items of a set are halved. The first half gives, without a label, the distance within which at most `error` of
the pairs of two items lie; `measured` is the share of such pairs among 6,000 items of the other half. There are
three kinds of embeddings: texts by MiniLM, photos by EfficientNet-Lite0, pixels.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.geometry import normalize
from nearer.judging import SamePair
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["HEADER", "KEY", "SETS", "measure", "present", "result_file", "summary"]

KEY = ("set", "error", "seed")
SETS = ("banking77", "cars196_features", "fashion_mnist")
ERRORS = (1e-3, 1e-4)
DRAWS, ASKED, MOST = 5, 6_000, 12_000


@cache
def features(name: str) -> tuple[NDArray[np.float32], str]:
    """Rows of length one, 12,000 at most, and the fingerprint of the set."""
    data = load(name)
    rows = data.all.matrix()
    part = np.sort(np.random.default_rng(0).permutation(len(rows))[:MOST])
    return np.asarray(normalize(rows[part]), dtype=np.float32), data.fingerprint()


def _measure_row(name: str, error: float, seed: int) -> Measured:
    rows, fingerprint = features(name)
    order = np.random.default_rng(seed).permutation(len(rows))
    half = len(rows) // 2
    begin = time.process_time()
    same = SamePair(error, seed=seed).calibrate(rows[order[:half]])
    seconds = time.process_time() - begin
    asked = rows[order[half : half + ASKED]]
    row = {
        "set": name,
        "error": error,
        "seed": seed,
        "items": same.n_items_,
        "asked": len(asked),
        "within": same.same_within_,
        "measured": float((pdist(asked) <= same.same_within_).mean()),
        "cpu_seconds": round(seconds, 1),
    }
    return Measured(row, fingerprint)


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "thresholds"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the sets that `only` names, five draws of each; the quick form is one draw at .001."""
    for name in request.only:
        check_choice(name, "only", list(SETS))
    plan = [
        (name, error, seed)
        for name in SETS
        if not request.only or name in request.only
        for error in (ERRORS[:1] if request.quick else ERRORS)
        for seed in range(1 if request.quick else DRAWS)
        if (name, error, seed) not in request.done
    ]
    for number, one in enumerate(plan):
        request.progress(f"{one[0]}, {one[1]:g}, seed {one[2]}", number / len(plan))
        yield _measure_row(*one)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Every set and level: the measured share, and its ratio to the level in the mean and at its ends."""
    lines = []
    for name in SETS:
        for error in ERRORS:
            mine = [row for row in rows if (row["set"], row["error"]) == (name, error)]
            if not mine:
                continue
            ratios = [row["measured"] / error for row in mine]
            lines.append(
                [
                    name.replace("_", "-"),
                    f"{error:g}",
                    f"{statistics.mean(row['within'] for row in mine):.3f}",
                    f"{statistics.mean(row['measured'] for row in mine):.2e}",
                    f"{statistics.mean(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                    str(len(mine)),
                ]
            )
    return lines


HEADER = ("set", "asked for", "same within", "measured", "ratio", "lowest to highest", "draws")


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each set and level."""
    text = "The share of pairs of new items within the threshold; a ratio of 1 is what was asked for."
    table = Table(list(HEADER), summary(rows))
    return Outcome("Thresholds without labels", [Section("Asked for and measured", [text, table])], {})
