"""Learning from rows that come in parts: CPU seconds and memory of `partial_fit`, for ever more rows.

    python benchmarks/speed/parts.py [ROWS ...]     [100,000 and 1,000,000]

Rows of 128 numbers lie in a file that is never in memory whole and come 10,000 at a time; each run is a process of
its own, and its largest memory is what the kernel has seen. `difference` compares the metric with `fit` on all
rows, up to 100,000 of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from record import save

WIDTH, CLASSES, PART, COMPARED = 128, 20, 10_000, 100_000
LEARNERS = {
    "Covariance": "Covariance()",
    "RCA": "RCA(blend=0.0)",
    "KISSME": "KISSME(blend=0.0)",
    "GMML": "GMML(blend=0.0)",
    "WithinClass": "WithinClass(power=0.5, floor=None)",
}
WORK = """
import json, resource, sys
import numpy as np
sys.path.insert(0, sys.argv[4])
from record import peak_megabytes
from nearer.estimators import *
part, y, learner = int(sys.argv[5]), np.load(sys.argv[2]), eval(sys.argv[3])
used = resource.getrusage(resource.RUSAGE_SELF)
begin, before = used.ru_utime + used.ru_stime, peak_megabytes()
with open(sys.argv[1], "rb") as file:
    for start in range(0, len(y), part):
        rows = np.fromfile(file, dtype=np.float32, count=part * 128).reshape(-1, 128)
        learner.partial_fit(rows, y[start : start + part])
used = resource.getrusage(resource.RUSAGE_SELF)
told = {"cpu_seconds": round(used.ru_utime + used.ru_stime - begin, 2), "before_mb": before,
        "peak_mb": peak_megabytes()}
if len(y) <= int(sys.argv[6]):
    X = np.fromfile(sys.argv[1], dtype=np.float32).reshape(-1, 128)
    whole, few = eval(sys.argv[3]).fit(X, y), X[:200]
    apart = [np.linalg.norm(z[:, None] - z, axis=2) for z in (learner.transform(few), whole.transform(few))]
    told["difference"] = float(np.abs(apart[0] - apart[1]).max() / apart[1].max())
print(json.dumps(told))
"""


def write(place: Path, rows: int) -> None:
    """Classes of another mean each, in a file."""
    random = np.random.default_rng(0)
    means = random.normal(size=(CLASSES, WIDTH)).astype(np.float32)
    y = random.integers(0, CLASSES, rows)
    np.save(place / "y.npy", y)
    with open(place / "X.bin", "wb") as file:
        for start in range(0, rows, PART):
            part = y[start : start + PART]
            (means[part] + random.normal(size=(len(part), WIDTH)).astype(np.float32)).tofile(file)


def main() -> None:
    counts = [int(word.replace(",", "")) for word in sys.argv[1:]] or [100_000, 1_000_000]
    for rows in counts:
        with tempfile.TemporaryDirectory() as around:
            place = Path(around)
            write(place, rows)
            for name, made in LEARNERS.items():
                words = [place / "X.bin", place / "y.npy", made, Path(__file__).parents[1], PART, COMPARED]
                command = [sys.executable, "-c", WORK, *map(str, words)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                row = {"learner": name, "rows": rows, "part": PART, **json.loads(done.stdout)}
                print(row, flush=True)
                save("parts", [row], key=["learner", "rows"])


if __name__ == "__main__":
    main()
