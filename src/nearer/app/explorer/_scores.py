"""The scores of metrics on items that they are never learned from, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.evaluation._paired import bootstrap_intervals, per_query_scores

SHOWN = ("recall@1", "map@r")
_PREVIOUS = {"before": "previous"}
MOST_SCORED = 1_500
LEAST_SCORED = 10


def scored_items(labels: Array, held_out: Array) -> Array:
    """Labelled held-out items whose class has another one there, at most 1,500 of them, always the same."""
    rows = np.flatnonzero(held_out & (labels >= 0))
    rows = np.sort(np.random.default_rng(1).permutation(rows)[:MOST_SCORED])
    if not len(rows):
        return rows
    _, code, counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
    return rows[counts[code] > 1]


class HeldOutScores:
    """The scores of each held-out item under some rows, computed once as long as their labels stay."""

    def __init__(self, held_out: Array) -> None:
        self.held_out = held_out
        self._kept: dict[tuple[int, bytes], tuple[Array, dict[str, Array]]] = {}

    def table(self, labels: Array, each: Mapping[str, Callable[[], Array]]) -> dict[str, Any]:
        """The table of the rows (n, d) that each name stands for, in this order."""
        asked = scored_items(labels, self.held_out)
        return score_table({name: self._of(rows(), asked, labels) for name, rows in each.items()}, len(asked))

    def _of(self, rows: Array, asked: Array, labels: Array) -> dict[str, Array]:
        key = (id(rows), labels[asked].tobytes())
        if key not in self._kept:
            scores = per_query_scores(rows[asked], labels[asked]) if len(asked) >= 2 else {}
            # The rows are kept with it, so that no other array can get their place in memory.
            self._kept = {**dict(list(self._kept.items())[-8:]), key: (rows, scores)}
        return self._kept[key][1]


def score_table(each: Mapping[str, Mapping[str, Array]], n: int) -> dict[str, Any]:
    """The table of each metric's scores query by query, in this order; gains of the last over the first
    and over the one before.

    The sentence says whether the last is better than the one before it, by 95 % intervals over the queries.
    """
    if n < LEAST_SCORED:
        sentence = f"No scores yet: they need at least {LEAST_SCORED} labelled items among those that are held out."
        return {"items": n, "rows": [], "sentence": sentence, "better": None}
    names = list(each)
    table: list[dict[str, Any]] = []
    last = each[names[-1]]
    verdicts: list[tuple[str, str]] = []
    for score in SHOWN:
        line: dict[str, Any] = {
            "score": score,
            **{name: float(scores[score].mean()) for name, scores in each.items()},
        }
        for base in dict.fromkeys((names[0], names[-2]) if len(names) > 1 else ()):
            gain = last[score] - each[base][score]
            low, high = bootstrap_intervals({score: gain}, draws=500)[score]
            line[f"vs. {_PREVIOUS.get(base, base)}"] = {"gain": float(gain.mean()), "low": low, "high": high}
            if base == names[-2]:
                verdicts.append((score, "better" if low > 0 else "worse" if high < 0 else "level"))
        table.append(line)
    return {"items": n, "rows": table, "sentence": _sentence(verdicts, names, n), "better": _better(verdicts)}


def _better(verdicts: list[tuple[str, str]]) -> bool | None:
    words = [word for _, word in verdicts]
    if not words:
        return None
    return "better" in words and "worse" not in words


def _sentence(verdicts: list[tuple[str, str]], names: list[str], n: int) -> str:
    if not verdicts:
        return f"The raw features on {n:,} held-out items."
    base = names[-2]
    up = [score for score, word in verdicts if word == "better"]
    down = [score for score, word in verdicts if word == "worse"]
    if up and not down:
        return f"Better than {base} in {' and '.join(up)} on {n:,} held-out items."
    if down and not up:
        return f"Worse than {base} in {' and '.join(down)} on {n:,} held-out items. You can go back."
    if up:
        return f"Better than {base} in {up[0]}, worse in {down[0]}, on {n:,} held-out items. You can go back."
    return f"Not better than {base}: {n:,} held-out items show no difference. You can go back."
