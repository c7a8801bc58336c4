"""Exact lists of neighbors: `nearer.neighbors.search` beside scikit-learn and plain torch, in turn, one thread.

    python benchmarks/speed/neighbors.py

10,000 rows in themselves, k = 10, at several widths and precisions, and with many equal distances. Ratios of
interleaved runs are what counts; the seconds depend on the machine.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.neighbors import search
from record import interleaved, save

N, K = 10_000, 10


def by_torch(rows: np.ndarray[Any, Any]) -> torch.Tensor:
    """Blocks of cdist and topk: no order among equal distances."""
    table = torch.from_numpy(rows)
    return torch.cat([torch.cdist(part, table).topk(K + 1, largest=False).indices for part in table.split(500)])


def main() -> None:
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    results = []
    for name, rows in {
        "16 columns, float32": random.standard_normal((N, 16)).astype(np.float32),
        "64 columns, float32": random.standard_normal((N, 64)).astype(np.float32),
        "64 columns, float64": random.standard_normal((N, 64)),
        "512 columns, float32": random.standard_normal((N, 512)).astype(np.float32),
        "16 columns of 0 and 1, float64": random.integers(0, 2, (N, 16)).astype(np.float64),
    }.items():
        brute = NearestNeighbors(n_neighbors=K, algorithm="brute")
        times = interleaved(
            {
                "nearer": lambda rows=rows: search(rows, k=K),
                "scikit-learn": lambda rows=rows, brute=brute: brute.fit(rows).kneighbors(),
                "torch": lambda rows=rows: by_torch(rows),
            },
            repeats=3,
        )
        results.append({"rows": name, **{f"{who} seconds": round(time, 3) for who, time in times.items()}})
        print(results[-1], flush=True)
    save("neighbors", results, key=["rows"], packages=("scikit-learn", "faiss-cpu"), n=N, k=K, threads=1)


if __name__ == "__main__":
    main()
