"""Our linear learners beside metric-learn, pylmnn and scikit-learn: the same rows, in turn, in one run.

    make benchmark                                                     makes the environments, then runs everything
    python benchmarks/speed/peer_learners.py [--quick] [--only LMNN]

The peers do not run on current scikit-learn, so each has an environment of its own (benchmarks/environments.py);
a peer that does not install has a row that says so. Every fit is a process with one thread; counted are the CPU
seconds of `fit` alone, at its defaults, and how far the resident memory grew meanwhile; after `--limit` seconds of
processor time it is given up. `--quick` leaves the large sets out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# The peak is counted from here on: what loading took before does not hide it.
MEMORY = """
def memory(which):
    if which == "VmRSS":
        try:
            open("/proc/self/clear_refs", "w").write("5")
        except OSError:
            pass
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024
"""
CHILD = (
    MEMORY
    + """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
module, name, folder = sys.argv[1:4]
z = np.load(folder + "/train.npz")
kind = getattr(__import__(module, fromlist=[name]), name)
known = kind().get_params()
learner = kind(random_state=0) if "random_state" in known else kind()
before = memory("VmRSS")
begin = time.process_time()
learner.fit(z["x"], z["y"])
seconds = time.process_time() - begin
grown = memory("VmHWM") - before
np.save(folder + "/components.npy", learner.components_)
print(json.dumps([seconds, grown]))
"""
)
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


# Of processor time: a busy machine must not make anybody give up.
_LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_CPU, ({0}, {0} + 5))"


def run(python: str, code: str, arguments: list[str], limit: float) -> Any:
    """What a child prints in its last line, as JSON, or why there is nothing, as text."""
    environment = {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
        "KERAS_BACKEND": "torch",
    }
    try:
        done = subprocess.run(
            [python, "-c", f"{_LIMIT.format(int(limit))}\n{code}", *arguments],
            capture_output=True,
            text=True,
            timeout=20 * limit,  # of the clock: for one that waits and does not work
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {20 * limit:g} s"
    if done.returncode == -signal.SIGXCPU:
        return f"more than {limit:g} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:100]
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    import numpy as np

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from environments import python_of, reason
    from estimators import accuracy, load, objective
    from record import save, save_absence

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the large sets")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, help="CPU seconds: 240, or 60 with --quick")
    parser.add_argument("--only", nargs="+", help="ours, such as LMNN; their rows are replaced")
    options = parser.parse_args()
    limit = options.limit or (60.0 if options.quick else 240.0)
    for ours, peer, module, name, sets in PAIRS:
        if options.only and ours not in options.only:
            continue
        for dataset in sets[:1] if options.quick else sets:
            python_there = python_of(peer)
            if python_there is None:
                save_absence("peer_learners", {"ours": ours, "peer": peer, "dataset": dataset}, reason(peer))
                continue
            train, test, train_y, test_y = load(dataset, 0)
            sides = {"ours": (sys.executable, "nearer.estimators", ours), "peer": (python_there, module, name)}
            times: dict[str, list[float]] = {side: [] for side in sides}
            row: dict[str, Any] = {"ours": ours, "peer": peer, "dataset": dataset}
            with tempfile.TemporaryDirectory() as folder:
                np.savez(Path(folder) / "train.npz", x=train, y=train_y)
                for repeat in range(options.repeats):
                    for side, (python, *what) in sides.items():
                        if f"{side} failed" in row or (repeat and times[side] and times[side][0] > 10):
                            continue
                        found = run(python, CHILD, [*what, folder], limit)
                        if isinstance(found, str):
                            row[f"{side} failed"] = found
                            continue
                        times[side].append(found[0])
                        row[f"{side} megabytes"] = found[1]
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
            key = ["ours", "peer", "dataset"]
            if options.quick and str(row.get("peer failed", "")).startswith("more than"):
                save_absence("peer_learners", {name: row[name] for name in key}, row["peer failed"])
                continue  # a longer run knows more
            save("peer_learners", [row], key=key)


if __name__ == "__main__":
    main()
