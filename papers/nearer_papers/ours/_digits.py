"""Digits from ten labels per class on ten splits: raw features beside the learned metric, mean and spread.

The settings were chosen on the seeds 100 to 109; these are 0 to 9, other splits of the same digits.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nearer.datasets import load
from nearer.reports._page import Section, Table
from nearer_papers._recipe import Measured, Outcome, Request
from nearer_papers.ours._digits_training import learn_digits

__all__ = ["KEY", "measure", "present", "result_file", "summary"]

KEY = ("seed",)
SPLITS = 10


def result_file(row: Mapping[str, Any]) -> str:
    """The file of the demo."""
    return "demo"


def measure(request: Request) -> Iterator[Measured]:
    """One row per split: every score of the raw features and of the learned metric."""
    seeds = [seed for seed in range(1 if request.quick else SPLITS) if (seed,) not in request.done]
    fingerprint = load("digits").fingerprint()
    for number, seed in enumerate(seeds):
        request.progress(f"split {seed}", number / len(seeds))
        result = learn_digits(seed=seed)
        scores = {"raw": dict(result.raw), "learned": dict(result.learned)}
        yield Measured({"seed": seed, **scores, "counts": result.counts, "settings": result.settings}, fingerprint)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean and deviation of both sides for every score, and on how many splits the learned metric is better."""
    lines = []
    for name in rows[0]["raw"]:
        raw, learned = ([float(row[side][name]) for row in rows] for side in ("raw", "learned"))
        line: dict[str, Any] = {"score": name, "splits": len(rows)}
        for side, values in (("raw", raw), ("learned", learned)):
            line[side] = statistics.mean(values)
            line[f"{side} spread"] = statistics.stdev(values) if len(values) > 1 else 0.0
        lines.append({**line, "better": sum(b > a for a, b in zip(raw, learned, strict=True))})
    return lines


def present(rows: Sequence[dict[str, Any]], request: Request) -> Outcome:
    """One table: raw beside learned."""
    lines = [
        (
            line["score"],
            f"{line['raw']:.4f} ± {line['raw spread']:.4f}",
            f"{line['learned']:.4f} ± {line['learned spread']:.4f}",
            f"{line['learned'] - line['raw']:+.4f}",
            f"{line['better']} of {line['splits']}",
        )
        for line in summary(rows)
    ]
    table = Table(["score", "raw features", "learned metric", "difference", "splits better"], lines)
    text = "Held-out digits that nothing was learned or chosen from, mean and deviation over splits."
    return Outcome("Digits from ten labels per class", [Section("Raw beside learned", [text, table])], {})
