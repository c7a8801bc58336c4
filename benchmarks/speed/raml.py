"""RAML-KRR on a million pairs in 100 dimensions: seconds, memory beyond the data, and the error it reaches.

    python benchmarks/speed/raml.py            10⁶ pairs of 200,000 rows × 100
    python benchmarks/speed/raml.py --pairs N  another number of pairs, a row beside the others

The targets are squared distances of a planted metric of rank 10 plus noise of half their spread. Memory is the
largest resident size of the whole process, data included.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.estimators import RAMLKRR
from record import peak_megabytes, save


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=100)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    n, p, m = options.rows, options.columns, options.pairs
    X = rng.standard_normal((n, p)) * np.linspace(1, 0.2, p)
    pairs = rng.integers(n, size=(m, 2))
    pairs[:, 1] = np.where(pairs[:, 0] == pairs[:, 1], (pairs[:, 1] + 1) % n, pairs[:, 1])
    root = rng.standard_normal((10, p)) / np.sqrt(p)
    mapped = X @ root.T
    clean = np.square(mapped[pairs[:, 0]] - mapped[pairs[:, 1]]).sum(axis=1)
    g = np.maximum(clean + 0.5 * clean.std() * rng.standard_normal(m), 0)
    start, cpu = time.perf_counter(), time.process_time()
    learner = RAMLKRR(blend=0.0).fit_relations(X, pairs, g)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    found = learner.mahalanobis_matrix()
    predicted = np.square(learner.transform(X)[pairs[:20_000, 0]] - learner.transform(X)[pairs[:20_000, 1]])
    correlation = float(np.corrcoef(predicted.sum(axis=1), clean[:20_000])[0, 1])
    row = {
        "pairs": m,
        "rows": n,
        "columns": p,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_megabytes": peak_megabytes(),
        "data_megabytes": (X.nbytes + pairs.nbytes + g.nbytes) / 2**20,
        "iterations": learner.n_iter_,
        "correlation_with_the_planted_distances": correlation,
        "relative_error_of_the_matrix": float(
            np.linalg.norm(found - root.T @ root) / np.linalg.norm(root.T @ root)
        ),
        "page_faults": resource.getrusage(resource.RUSAGE_SELF).ru_majflt,
    }
    print(row)
    save("raml_speed", [row], key=["pairs"])


if __name__ == "__main__":
    main()
