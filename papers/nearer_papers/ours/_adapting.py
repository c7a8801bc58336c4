"""Queries adapted by clicks in front of a database that stays: BANKING77 and Cars-196 by frozen encoders.

A part of each set is the database, another asks and clicks, and what is left asks for the score. A click is one
item of the query's class, drawn from those among the 20 nearest; a query without one gives no pair. `raw` searches
with the embeddings as they are, `mapped` with those of `QueryMap`, whose power the pairs alone chose; Recall@1 of
the class.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer._checks import check_choice
from nearer.datasets import load
from nearer.estimators import QueryMap
from nearer.geometry import normalize
from nearer.neighbors import search
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request

__all__ = ["HEADER", "KEY", "SETS", "measure", "present", "result_file", "summary"]

KEY = ("set", "queries", "seed")
# Rows of the database, and rows from which the queries that click are drawn; the others ask.
SETS = {"banking77": (6_000, 3_000), "cars196_features": (4_000, 2_000)}
QUERIES = (100, 300, 1_000)
SHOWN = 20
DRAWS = 5


@cache
def features(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    """All rows of a set, of length one, their classes and the fingerprint of the set."""
    data = load(name)
    return np.asarray(normalize(data.all.matrix()), dtype=np.float32), data.all.y, data.fingerprint()


def _measure_row(name: str, queries: int, seed: int) -> Measured:
    rows, labels, fingerprint = features(name)
    rng = np.random.default_rng(seed)
    n_database, n_clicking = SETS[name]
    order = rng.permutation(len(rows))
    database, asking = order[:n_database], order[n_database : n_database + queries]
    asked = order[n_database + n_clicking :]
    pairs = []
    for query, shown in zip(asking, search(rows[asking], rows[database], SHOWN).indices.numpy(), strict=True):
        right = database[shown][labels[database[shown]] == labels[query]]
        if len(right):
            pairs.append((query, rng.choice(right)))
    clicking, clicked = np.array(pairs).T
    begin = time.process_time()
    learned = QueryMap(random_state=seed).fit(rows[clicking], rows[clicked], database=rows[database])
    seconds = time.process_time() - begin

    def recall(queries: NDArray[Any]) -> float:
        nearest = search(queries, rows[database], 1).indices[:, 0].numpy()
        return float((labels[database][nearest] == labels[asked]).mean())

    row = {
        "set": name,
        "queries": queries,
        "seed": seed,
        "pairs": len(pairs),
        "asked": len(asked),
        "raw": recall(rows[asked]),
        "mapped": recall(learned.transform(rows[asked])),
        "power": learned.power_,
        "gain": learned.gain_,
        "gain_error": learned.gain_error_,
        "cpu_seconds": round(seconds, 1),
    }
    return Measured(row, fingerprint)


def result_file(row: Mapping[str, Any]) -> str:
    """All in one file."""
    return "adapting"


def measure(request: Request) -> Iterator[Measured]:
    """Rows of the sets that `only` names, five draws of each; the quick form is one draw of 100 queries."""
    for name in request.only:
        check_choice(name, "only", list(SETS))
    plan = [
        (name, queries, seed)
        for name in SETS
        if not request.only or name in request.only
        for queries in (QUERIES[:1] if request.quick else QUERIES)
        for seed in range(1 if request.quick else DRAWS)
        if (name, queries, seed) not in request.done
    ]
    for number, one in enumerate(plan):
        request.progress(f"{one[0]}, {one[1]:,} queries, seed {one[2]}", number / len(plan))
        yield _measure_row(*one)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Every set and number of queries: means over the draws in points, and the worst of them."""
    lines = []
    for name in SETS:
        for queries in QUERIES:
            mine = [row for row in rows if (row["set"], row["queries"]) == (name, queries)]
            if not mine:
                continue
            gains = [100 * (row["mapped"] - row["raw"]) for row in mine]
            raw, mapped = (f"{100 * statistics.mean(row[one] for row in mine):.2f}" for one in ("raw", "mapped"))
            pairs = f"{statistics.mean(row['pairs'] for row in mine):,.0f}"
            gain, worst = f"{statistics.mean(gains):+.2f}", f"{min(gains):+.2f}"
            powers = ", ".join(sorted({f"{row['power']:g}" for row in mine}))
            lines.append(
                [name.replace("_", "-"), f"{queries:,}", pairs, raw, mapped, gain, worst, powers, str(len(mine))]
            )
    return lines


HEADER = ("set", "queries", "clicks", "raw", "mapped", "gain", "worst draw", "powers", "draws")


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One line for each set and number of queries."""
    text = "Recall@1 of the class in points, the database untouched; the power is chosen by the clicks alone."
    table = Table(list(HEADER), summary(rows))
    return Outcome("Queries adapted by clicks", [Section("Raw and mapped queries", [text, table])], {})
