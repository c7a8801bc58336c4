"""A benchmark result is a JSON file that says how it was made: command, commit, versions, machine, seeds.

Every benchmark ends with `save("name", rows, ...)`, which writes `benchmarks/results/name.json`. The tables of
the documents are made from these files by `benchmarks/tables.py`; no number is typed.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def versions(*packages: str) -> dict[str, str]:
    return {name: metadata.version(name) for name in ("nearer", "torch", "numpy", *packages)}


def save(name: str, rows: list[dict[str, Any]], *, packages: tuple[str, ...] = (), **settings: Any) -> Path:
    """Write the rows with everything that is needed to make them again."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    script = Path(sys.argv[0]).resolve()
    # Where this machine keeps its files is nobody's business.
    arguments = ["PATH" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    record = {
        "name": name,
        "command": " ".join(["python", str(script.relative_to(ROOT)), *arguments]),
        "commit": commit.stdout.strip(),
        "versions": {"python": platform.python_version(), **versions(*packages)},
        "machine": {"cores": os.cpu_count(), "architecture": platform.machine()},
        "settings": settings,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


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
