"""Our linear learners beside metric-learn, pylmnn and scikit-learn: the same rows, in turn, in one run.

    python benchmarks/speed/peer_learners.py --metric-learn PYTHON --pylmnn PYTHON

The peers do not run on current scikit-learn, so each has an environment of its own, named by its interpreter:
metric-learn 0.7.0 with scikit-learn 1.7.2, and pylmnn 1.6.4 with scikit-learn 1.2.2, scipy 1.10.1, six and an empty
module GPyOpt, which it imports and does not need. A side that is not named is left out. Every fit is a process with
one BLAS thread; counted are the CPU seconds of `fit` alone, at its defaults; after `--limit` seconds of clock time
it is given up. `--only LMNN` measures some of ours again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CHILD = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
module, name, folder = sys.argv[1:4]
z = np.load(folder + "/train.npz")
kind = getattr(__import__(module, fromlist=[name]), name)
known = kind().get_params()
learner = kind(random_state=0) if "random_state" in known else kind()
begin = time.process_time()
learner.fit(z["x"], z["y"])
seconds = time.process_time() - begin
np.save(folder + "/components.npy", learner.components_)
print(json.dumps(seconds))
"""
PAIRS = (
    ("LMNN", "pylmnn", "pylmnn", "LargeMarginNearestNeighbor", ("digits", "5k", "20k")),
    ("LMNN", "metric-learn", "metric_learn", "LMNN", ("digits", "5k")),
    ("NCA", "scikit-learn", "sklearn.neighbors", "NeighborhoodComponentsAnalysis", ("digits", "5k")),
    ("ITML", "metric-learn", "metric_learn", "ITML_Supervised", ("digits",)),
    ("MLKR", "metric-learn", "metric_learn", "MLKR", ("digits",)),
    ("MMC", "metric-learn", "metric_learn", "MMC_Supervised", ("cancer", "digits")),
    ("RCA", "metric-learn", "metric_learn", "RCA_Supervised", ("digits",)),
    ("LFDA", "metric-learn", "metric_learn", "LFDA", ("digits",)),
)


def run(python: str, module: str, name: str, folder: str, limit: float) -> float | str:
    """The CPU seconds of a fit, or why there are none."""
    environment = {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    try:
        done = subprocess.run(
            [python, "-c", CHILD, module, name, folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {limit:g} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:100]
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    import numpy as np

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "quality"))
    from estimators import accuracy, load, objective
    from record import save

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metric-learn", dest="metric_learn")
    parser.add_argument("--pylmnn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=240.0)
    parser.add_argument("--only", nargs="+", help="ours, such as LMNN; their rows are replaced")
    options = parser.parse_args()
    pythons = {"metric-learn": options.metric_learn, "pylmnn": options.pylmnn, "scikit-learn": sys.executable}
    for ours, peer, module, name, sets in PAIRS:
        if pythons[peer] is None or (options.only and ours not in options.only):
            continue
        for dataset in sets:
            train, test, train_y, test_y = load(dataset, 0)
            sides = {"ours": (sys.executable, "nearer.estimators", ours), "peer": (pythons[peer], module, name)}
            times: dict[str, list[float]] = {side: [] for side in sides}
            row: dict[str, Any] = {"ours": ours, "peer": peer, "dataset": dataset}
            with tempfile.TemporaryDirectory() as folder:
                np.savez(Path(folder) / "train.npz", x=train, y=train_y)
                for repeat in range(options.repeats):
                    for side, (python, *what) in sides.items():
                        if f"{side} failed" in row or (repeat and times[side] and times[side][0] > 30):
                            continue
                        found = run(python, *what, folder, options.limit)
                        if isinstance(found, str):
                            row[f"{side} failed"] = found
                            continue
                        times[side].append(found)
                        components = np.load(Path(folder) / "components.npy")
                        if not np.isfinite(components).all():
                            row[f"{side} failed"] = "not finite"
                            continue
                        row[f"{side} accuracy"] = accuracy(components, train, test, train_y, test_y)
                        if ours == "NCA":
                            row[f"{side} objective"] = objective(components, train, train_y)
            row |= {f"{side} seconds": statistics.median(found) for side, found in times.items() if found}
            if times["ours"] and times["peer"] and not any(key.endswith("failed") for key in row):
                row["faster"] = row["peer seconds"] / row["ours seconds"]
            print(json.dumps(row), flush=True)
            save("peer_learners", [row], key=["ours", "peer", "dataset"])


if __name__ == "__main__":
    main()
