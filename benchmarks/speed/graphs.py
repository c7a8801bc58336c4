"""The approximate graph on real rows: `nearest_neighbors` beside faiss's IVF at the same recall, CPU of one thread.

    NEARER_DATA=... python benchmarks/speed/graphs.py

Fashion-MNIST and MNIST, 60,000 training images each, 64 principal components, rows of length one; k = 10. Gaussian
mixtures flatter a partition into cells; images do not. IVF has 4·√n lists and the smallest number of probes, by
steps of 2/5, that reaches the recall of ours on 500 queries.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import sys
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from sklearn.decomposition import PCA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.datasets import load
from nearer.graph import nearest_neighbors
from record import save

K, ASKED = 10, 500


def ivf(rows: np.ndarray[Any, Any], recall: float, asked: np.ndarray[Any, Any], truth: Any) -> dict[str, Any]:
    start = time.process_time()
    lists = int(4 * len(rows) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(rows.shape[1]), rows.shape[1], lists)
    index.train(rows)
    index.add(rows)
    built = time.process_time() - start
    probes = 1
    while True:
        index.nprobe = probes
        found = index.search(rows[asked], K + 1)[1][:, 1:]
        measured = float((truth[:, :, None] == found[:, None, :]).any(axis=2).mean())
        if measured >= recall:
            break
        probes += -(-2 * probes // 5)
    start = time.process_time()
    index.search(rows, K + 1)
    return {
        "faiss_cpu_seconds": round(built + time.process_time() - start, 2),
        "faiss_recall": measured,
        "faiss_probes": probes,
    }


def main() -> None:
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    for name in ("fashion_mnist", "mnist"):
        data = load(name)
        images = data.parts["train"].matrix()
        rows = np.ascontiguousarray(PCA(64, random_state=0).fit_transform(images), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        asked = np.random.default_rng(0).permutation(len(rows))[:ASKED]
        flat = faiss.IndexFlatL2(64)
        flat.add(rows)
        truth = flat.search(rows[asked], K + 1)[1][:, 1:]
        start = time.process_time()
        near = nearest_neighbors(rows, k=K, method="approximate")
        ours = time.process_time() - start
        recall = float((truth[:, :, None] == near.indices.numpy()[asked][:, None, :]).any(axis=2).mean())
        row = {"data": name, "rows": len(rows), "cpu_seconds": round(ours, 2), "recall": recall}
        row |= ivf(rows, recall, asked, truth)
        print(row, flush=True)
        save("graphs", [row], key=["data"], packages=("faiss-cpu",), k=K, columns=64, threads=1)


if __name__ == "__main__":
    main()
