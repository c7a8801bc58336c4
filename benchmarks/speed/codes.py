"""Bits beside floats at a million rows: memory, and CPU seconds of a search."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import faiss
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.index import BitIndex
from record import save

ROWS, DIMENSION, QUERIES, K = 1_000_000, 128, 100, 10


def main() -> None:
    rng = np.random.default_rng(0)
    faiss.omp_set_num_threads(1)
    centers = rng.normal(size=(1000, DIMENSION)).astype(np.float32)
    items = centers[rng.integers(0, 1000, ROWS)] + 0.7 * rng.normal(size=(ROWS, DIMENSION)).astype(np.float32)
    queries = items[:QUERIES] + 0.3 * rng.normal(size=(QUERIES, DIMENSION)).astype(np.float32)
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    floats = faiss.IndexFlatIP(DIMENSION)
    floats.add(items)
    bits = BitIndex(DIMENSION)
    bits.add(items)
    bits.search(queries[:1], k=K)
    seconds: dict[str, list[float]] = {"floats": [], "bits": []}
    for _ in range(3):
        begin = time.process_time()
        floats.search(queries, K)
        seconds["floats"].append(time.process_time() - begin)
        begin = time.process_time()
        found = bits.search(queries, k=K)
        seconds["bits"].append(time.process_time() - begin)
    exact = bits.search(queries[:20], k=K, exact=True)
    pairs = zip(found.ids[:20].tolist(), exact.ids.tolist(), strict=True)
    recall = float(np.mean([len(set(a) & set(b)) / K for a, b in pairs]))
    row = {
        "rows": ROWS,
        "dimension": DIMENSION,
        "megabytes of floats": items.nbytes / 1e6,
        "megabytes of bits": bits._bits.nbytes / 1e6,
        "floats: cpu ms a query": 1e3 * min(seconds["floats"]) / QUERIES,
        "bits: cpu ms a query": 1e3 * min(seconds["bits"]) / QUERIES,
        "recall against all bits": recall,
    }
    print(row)
    save("codes_speed", [row], key=["rows", "dimension"])


if __name__ == "__main__":
    main()
