"""Affinity propagation: the low-rank mode against the dense inverse on 9,100 nodes, and on 1,000,000 nodes.

    python benchmarks/speed/propagation.py small
    python benchmarks/speed/propagation.py large

small: MNIST, 100 labels and 9,000 unlabelled images, k = 10, γ = 0.99, pixels at unit length. large: a mixture of
50 Gaussians in ten classes in 32 dimensions. CPU seconds of one thread; the certificate is part of the time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.datasets import few_labels
from nearer.graph import nearest_neighbors, propagate
from nearer.mining._neighborhood import mine_neighborhood
from nearer_papers.data._mnist import load_mnist
from record import peak_megabytes, save


def timed(function: Any) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = function()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def small() -> None:
    torch.set_num_threads(1)
    train = load_mnist().parts["train"]
    random = np.random.default_rng(0)
    labels = few_labels(train.y, per_class=10, seed=0)
    rows = np.concatenate([np.flatnonzero(labels >= 0), random.permutation(np.flatnonzero(labels < 0))[:9000]])
    near = nearest_neighbors(train.take(rows).matrix(), k=10)
    given = labels[rows]
    dense, dense_seconds, _ = timed(lambda: propagate(near, given, mode="dense"))
    halves = mine_neighborhood(near, dense.edges)[:, 1].reshape(near.n, -1).sort(1).values
    result = []
    for mode in ("local_lowrank",):
        found, seconds, _ = timed(lambda mode=mode: propagate(near, given, mode=mode))
        mine = mine_neighborhood(near, found.edges)[:, 1].reshape(near.n, -1).sort(1).values
        agree = np.mean([len(set(a) & set(b)) for a, b in zip(mine.tolist(), halves.tolist(), strict=True)])
        result.append(
            {
                "nodes": near.n,
                "mode": found.mode,
                "seconds": round(seconds, 2),
                "dense_seconds": round(dense_seconds, 2),
                "times_faster": round(dense_seconds / seconds, 1),
                "halves_equal": float(agree) / (near.k // 2),
                "certificate": str(found.certificate),
            }
        )
        print(result[-1], flush=True)
    save("propagation", result, key=["nodes", "mode"], packages=("scipy",))


def large(n: int) -> None:
    torch.set_num_threads(2)
    random = np.random.default_rng(0)
    centers = random.normal(size=(50, 32)).astype(np.float32)
    cluster = random.integers(0, 50, n)
    x = centers[cluster] + 0.6 * random.normal(size=(n, 32)).astype(np.float32)
    labels = few_labels(cluster % 10, per_class=1000, seed=0)
    near, _, graph_seconds = timed(lambda: nearest_neighbors(x, k=10, method="approximate"))
    print(f"graph {graph_seconds:.0f} s, recall {near.recall:.3f}, {peak_megabytes():.0f} MB", flush=True)
    found, cpu, seconds = timed(lambda: propagate(near, labels))
    row = {
        "nodes": n,
        "classes": 10,
        "k": near.k,
        "graph_seconds": round(graph_seconds, 1),
        "graph_recall": near.recall,
        "propagation_seconds": round(seconds, 1),
        "propagation_cpu_seconds": round(cpu, 1),
        "megabytes": round(peak_megabytes()),
        "mode": found.mode,
        "certificate": str(found.certificate),
        "notes": list(found.notes),
    }
    print(row, flush=True)
    save("propagation_large", [row], key=["nodes"], packages=("scipy", "faiss-cpu"))


if __name__ == "__main__":
    if sys.argv[1] == "small":
        small()
    else:
        large(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
