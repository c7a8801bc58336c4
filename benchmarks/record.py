"""What every speed benchmark shares: rows that say how they were made, interleaved timing, peak memory.

A benchmark ends with `save("name", rows, key=...)`, which puts its rows into `benchmarks/results/name.json`; each
row carries its own provenance (`nearer_papers._results`). The tables of the documents are made from these files by
`benchmarks/tables`; no number is typed.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nearer_papers._results import Results, check_committed, stamp, trees

ROOT = Path(__file__).resolve().parents[1]
# Where the counts of a run go that only shows that the long forms pass: they must not replace measured ones.
RESULTS = Path(os.environ.get("NEARER_RESULTS", ROOT / "benchmarks" / "results"))
if not trees():
    print("Uncommitted changes: what is measured now cannot be kept.", file=sys.stderr)


def save(
    name: str,
    rows: Sequence[dict[str, Any]],
    *,
    key: Sequence[str],
    packages: tuple[str, ...] = (),
    **settings: Any,
) -> Path:
    """Put rows into the result file; a row of the same key replaces the older one, all others stay."""
    check_committed()
    file = Results(RESULTS / f"{name}.json", key=key)
    # Benchmarks call this after every row with all they have; only what is new gets a new stamp, and what has one
    # that git cannot turn back.
    there = {file.key_of(row): {**row, "made": None} for row in file.rows if "trees" in row["made"]}
    for row in rows:
        if there.get(file.key_of(row)) != {**row, "made": None}:
            seconds = row.get("seconds") if isinstance(row.get("seconds"), float) else None
            file.add(row, stamp(seconds=seconds, packages=packages, settings=settings))
    return file.path


def save_absence(name: str, row: dict[str, Any], why: str) -> None:
    """A row for a peer that is not there, unless the file has measured it before."""
    key = list(row)
    file = Results(RESULTS / f"{name}.json", key=key)
    print(f"{row}: {why}", flush=True)
    if file.key_of(row) not in {file.key_of(one) for one in file.rows}:
        save(name, [{**row, "peer failed": why}], key=key)


def interleaved(contestants: dict[str, Callable[[], object]], *, repeats: int = 7) -> dict[str, float]:
    """Median seconds of each contestant, run in turn so that a busy machine slows all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(repeats):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_megabytes() -> float:
    """The largest resident size that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage also counts what the parent had when it started this process; the kernel's own mark does not.
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
