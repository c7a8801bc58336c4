"""Exact inference of neighbour sets against computing and sorting the distances, and the memory of the estimators.

python benchmarks/speed/neighbourhood.py            10,000 queries × 10,000 items, 10 classes, k = 5, 64 columns
python benchmarks/speed/neighbourhood.py --large    fits of 50,000 × 100, one process each
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import multiprocessing
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.estimators import AsymmetricKNN
from nearer.losses import NeighborhoodLoss
from nearer_papers.systems import GerrymanderingMetric
from record import interleaved, peak_megabytes, save

QUERIES = ITEMS = 10_000
CLASSES, K, COLUMNS = 10, 5, 64
STEP = 800  # rows of a tile, the same for both sides


def distances_and_sort(queries: torch.Tensor, items: torch.Tensor) -> None:
    """The bar: all distances, every row sorted with its positions, a tile at a time."""
    squares = items.square().sum(dim=1)
    for start in range(0, len(queries), STEP):
        torch.addmm(squares, queries[start : start + STEP], items.T, alpha=-2.0).sort(dim=1)


def inference(repeats: int) -> None:
    g = torch.Generator().manual_seed(0)
    labels, other = (torch.randint(CLASSES, (size,), generator=g) for size in (QUERIES, ITEMS))
    centers = torch.randn(CLASSES, COLUMNS, generator=g)
    queries = centers[labels] + 2 * torch.randn(QUERIES, COLUMNS, generator=g)
    items = centers[other] + 2 * torch.randn(ITEMS, COLUMNS, generator=g)
    losses = {name: NeighborhoodLoss(k=K, inference=name) for name in ("exact", "greedy")}
    # The value of the loss: distances, the nearest of each class, both inferences, the sums.
    contestants = {
        name: lambda loss=loss: loss(queries, labels, database=items, database_labels=other)
        for name, loss in losses.items()
    }
    times = interleaved({"sort": lambda: distances_and_sort(queries, items), **contestants}, repeats=repeats)
    rows = [
        {
            "kind": name,
            "seconds": times[name],
            "sort_seconds": times["sort"],
            "of_sorting": times[name] / times["sort"],
        }
        for name in losses
    ]
    print(rows)
    shape = {"queries": QUERIES, "items": ITEMS, "classes": CLASSES, "k": K, "columns": COLUMNS}
    save("neighborhood_speed", rows, key=["kind"], threads=1, repeats=repeats, **shape)


def fit_here(learner: Any, X: np.ndarray, y: np.ndarray, pipe: Any) -> None:
    torch.set_num_threads(1)
    before = peak_megabytes()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(X, y)
    pipe.send(
        {"seconds": time.process_time() - start, "megabytes": peak_megabytes() - before, "epochs": learner.n_iter_}
    )


def large(epochs: int) -> None:
    rng = np.random.RandomState(0)
    y = rng.randint(10, size=50_000)
    X = (rng.standard_normal((50_000, 100)) + 0.35 * rng.standard_normal((10, 100))[y]).astype(np.float32)
    rows = []
    for kind in (AsymmetricKNN, GerrymanderingMetric):
        context = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()
        learner = kind(max_iter=epochs, validation=0, random_state=0)
        process = context.Process(target=fit_here, args=(learner, X, y, theirs))
        process.start()
        theirs.close()
        rows.append({"estimator": kind.__name__, **mine.recv(), "data_megabytes": X.nbytes / 2**20})
        process.join()
        print(rows[-1], flush=True)
        save(
            "neighborhood_large",
            rows,
            key=["estimator"],
            packages=("scikit-learn",),
            threads=1,
            shape=[50_000, 100],
            epochs=epochs,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.large:
        large(options.epochs)
    else:
        inference(options.repeats)


if __name__ == "__main__":
    main()
