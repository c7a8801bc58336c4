"""How cost grows to a million rows: learners, the graph, class shares, sampled scores and k-means.

    python benchmarks/speed/million.py                    # all parts at 10,000 and 100,000 rows
    python benchmarks/speed/million.py nca graph --rows 1000000

Every part at every size is a process of its own, with one thread; a row that is in the result file is not run again
(`--again` does). Learners get rows of 128 numbers in 1,000 classes whose centers differ in 32 directions and whose
noise is widest in the others. The graph and k-means get rows of 64 numbers around 50 and 1,000 centers. CPU
seconds, and the peak of the resident size above what the data took.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from record import RESULTS, peak_megabytes, save

SIZES = (10_000, 100_000)
WIDTH, CLASSES, SHOWN = 128, 1_000, 32
K = 10
KEPT = Path(tempfile.gettempdir()) / "nearer-million"


def mixture(
    n: int, width: int, groups: int, noise: float, seed: int = 0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows around centers, written part by part so that making them leaves no peak."""
    chance = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(groups, width)).astype(np.float32)
    group = chance.integers(0, groups, n)
    x = np.empty((n, width), dtype=np.float32)
    for start in range(0, n, 50_000):
        part = slice(start, min(start + 50_000, n))
        x[part] = centers[group[part]] + noise * chance.standard_normal(
            (part.stop - start, width), dtype=np.float32
        )
    return x, group


def labeled(n: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """1,000 classes that differ in 32 of 128 directions; the other directions are three times as noisy."""
    x, y = mixture(n, WIDTH, CLASSES, 0.0, seed)
    x[:, SHOWN:] = 0
    chance = np.random.default_rng(seed + 1)
    spread = np.where(np.arange(WIDTH) < SHOWN, 0.5, 1.5).astype(np.float32)
    for start in range(0, n, 50_000):
        part = x[start : start + 50_000]
        part += spread * chance.standard_normal(part.shape, dtype=np.float32)
    return x, y


def learner(make: Callable[[], Any], n: int) -> dict[str, Any]:
    """Fit, and the accuracy of 1-NN of 5,000 other rows in 20,000 of the training rows, beside the features."""
    from nearer.neighbors import search

    x, y = labeled(n)
    model = make()
    spent = measured(lambda: model.fit(x, y))
    asked, truth = labeled(5_000, seed=7)
    known = slice(0, 20_000)

    def right(view: Callable[[Any], Any]) -> float:
        found = search(view(asked), view(x[known]), k=1).indices[:, 0].numpy()
        return float(np.mean(y[known][found] == truth))

    return {**spent, "accuracy": right(model.transform), "raw_accuracy": right(lambda rows: rows)}


def measured(work: Callable[[], Any]) -> dict[str, Any]:
    """CPU and wall seconds, and the largest resident size above the one at the start."""
    Path("/proc/self/clear_refs").write_text("5")  # the kernel's high-water mark starts again
    before = peak_megabytes()
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    spent = {
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "wall_seconds": round(time.perf_counter() - wall, 1),
    }
    return {**spent, "extra_megabytes": round(peak_megabytes() - before)}


def fit(name: str, **settings: Any) -> Callable[[int], dict[str, Any]]:
    def run(n: int) -> dict[str, Any]:
        from nearer import estimators

        return learner(lambda: getattr(estimators, name)(**settings), n)

    return run


def mlkr(n: int) -> dict[str, Any]:
    """Numbers that follow three of 128 directions; R² of the mean of ten neighbors among 20,000 training rows."""
    from nearer.estimators import MLKR
    from nearer.neighbors import search

    chance = np.random.default_rng(0)
    x = chance.standard_normal((n + 5_000, WIDTH), dtype=np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * chance.standard_normal(len(x), dtype=np.float32)
    model = MLKR(batch_size=1024, random_state=0)
    spent = measured(lambda: model.fit(x[:n], y[:n]))
    known, asked = slice(0, 20_000), slice(n, None)

    def explained(view: Callable[[Any], Any]) -> float:
        found = search(view(x[asked]), view(x[:n][known]), k=10).indices.numpy()
        return 1 - float(np.square(y[:n][known][found].mean(axis=1) - y[asked]).mean() / y[asked].var())

    return {**spent, "accuracy": explained(model.transform), "raw_accuracy": explained(lambda rows: rows)}


def graph(n: int) -> dict[str, Any]:
    from nearer.graph import nearest_neighbors

    x, group = mixture(n, 64, 50, 0.6)
    kept: list[Any] = []
    spent = measured(lambda: kept.append(nearest_neighbors(x, k=K, method="approximate")))
    KEPT.mkdir(exist_ok=True)
    np.savez(KEPT / f"graph-{n}.npz", indices=kept[0].indices.numpy().astype(np.int32), group=group)
    return {**spent, "recall": kept[0].recall}


def class_shares(n: int) -> dict[str, Any]:
    import torch

    from nearer.datasets import few_labels
    from nearer.graph import class_shares as shares_of
    from nearer.neighbors import Neighbors

    if not (KEPT / f"graph-{n}.npz").exists():
        graph(n)
    there = np.load(KEPT / f"graph-{n}.npz")
    indices = torch.from_numpy(there["indices"].astype(np.int64))
    classes = there["group"] % 10
    near = Neighbors(indices, torch.ones(indices.shape))
    labels = few_labels(classes, per_class=max(1, n // 1000), seed=0)
    kept: list[Any] = []
    spent = measured(lambda: kept.append(shares_of(near, labels)))
    return {**spent, "accuracy": float((kept[0].pseudo_labels.numpy() == classes).mean())}


def evaluate_sampled(n: int) -> dict[str, Any]:
    from nearer.evaluation import evaluate

    x, y = labeled(n)
    x[:, SHOWN:] *= 0.2  # as a learned metric would: scores between nothing and everything
    kept: list[Any] = []
    spent = measured(
        lambda: kept.append(
            evaluate(x, y, scores=["recall@1", "map@r"], similarity="cosine", sample=min(n, 10_000))
        )
    )
    found = kept[0]
    widths = {name: round((high - low) / 2, 5) for name, (low, high) in found.intervals.items()}
    return {**spent, "scores": dict(found.scores), "half_widths": widths, "queries": found.counts["queries"]}


def kmeans(n: int) -> dict[str, Any]:
    """Beside faiss with 25 steps on all rows, its own default number of steps."""
    import faiss

    from nearer.evaluation import kmeans as group_rows

    x, _ = mixture(n, 64, 1_000, 1.0)
    k = min(1_000, n // 100)
    kept: list[Any] = []
    spent = measured(lambda: kept.append(group_rows(x, k)))
    theirs = faiss.Kmeans(64, k, niter=25, seed=0, max_points_per_centroid=n)
    cpu = time.process_time()
    theirs.train(x)
    squares, _ = theirs.index.search(x, 1)
    theirs_cpu = time.process_time() - cpu
    return {
        **spent,
        "inertia": kept[0].inertia,
        "faiss_cpu_seconds": round(theirs_cpu, 2),
        "faiss_inertia": float(squares.sum(dtype=np.float64)),
    }


# All rows at once, to compare batches with where that can still be run: `million.py nca nca-all --rows 20000`.
WHOLE: dict[str, Callable[[int], dict[str, Any]]] = {
    "nca-all": fit("NCA", random_state=0),
    "lmnn-all": fit("LMNN", random_state=0),
}
PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "kissme": fit("KISSME", random_state=0),
    "gmml": fit("GMML", random_state=0),
    "rca": fit("RCA"),
    "nca": fit("NCA", batch_size=1024, random_state=0),
    "graph": graph,
    "class_shares": class_shares,
    "evaluate": evaluate_sampled,
    "lmnn": fit("LMNN", batch_size=1024, random_state=0),
    "mlkr": mlkr,
    "ldml": fit("LDML", random_state=0),
    "raml-krr": fit("RAMLKRR", random_state=0),
    "lfda": fit("LFDA"),
    "kmeans": kmeans,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS | WHOLE))
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES)
    parser.add_argument("--minutes", type=float, default=30.0, help="of wall clock that a part may take")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        import torch

        torch.set_num_threads(1)
        print(json.dumps((PARTS | WHOLE)[asked.parts[0]](asked.rows[0])))
        return
    file = RESULTS / "million.json"
    done = json.loads(file.read_text())["rows"] if file.exists() else []
    there = {(row["part"], row["rows"]) for row in done if row.get("cpu_seconds") is not None}
    for n in asked.rows:
        for part in asked.parts or PARTS:
            if (part, n) in there and not asked.again:
                continue
            row = {"part": part, "rows": n, **run_apart(part, n, asked.minutes)}
            print(row, flush=True)
            save("million", [row], key=["part", "rows"], packages=("scipy", "faiss-cpu"), width=WIDTH, threads=1)


def run_apart(part: str, n: int, minutes: float) -> dict[str, Any]:
    """One part in a process with one thread; what failed or took too long says so in its row."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        child = subprocess.run(
            [sys.executable, __file__, part, "--rows", str(n), "--child"],
            env={**os.environ, **one},
            capture_output=True,
            text=True,
            timeout=60 * minutes,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"cpu_seconds": None, "stopped": f"not finished after {minutes:g} minutes of a shared machine"}
    if child.returncode:
        return {"cpu_seconds": None, "stopped": (child.stderr.strip().splitlines() or ["killed"])[-1][:200]}
    found: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return {**found, "load_average": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    main()
