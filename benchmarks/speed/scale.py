"""What a row costs, from tens of thousands to hundreds of thousands of them: the cost model behind docs/scale.md.

    python benchmarks/speed/scale.py

Processor seconds (all threads added up) of every step on rows of 128 numbers around 200 centers, and the power of n
that they follow. Extrapolations are made by the table, not measured.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.geometry import Mahalanobis
from nearer.graph import nearest_neighbors
from nearer.graph._propagation import label_reach
from nearer.index import open_index
from nearer.models import Model
from nearer.models._model import Inputs
from record import save

SIZES = (50_000, 100_000, 200_000, 400_000)
WIDTH, K, CLASSES, QUERIES = 128, 10, 10, 2048


def processor_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = resource.getrusage(resource.RUSAGE_SELF)
    result = work()
    done = resource.getrusage(resource.RUSAGE_SELF)
    return done.ru_utime + done.ru_stime - begun.ru_utime - begun.ru_stime, result


def rows_of(n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    chance = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(size=(200, WIDTH))
    chosen = chance.integers(0, 200, n)
    return (centers[chosen] + chance.normal(size=(n, WIDTH))).astype(np.float32), chosen % CLASSES


def main() -> None:
    factor = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)) / math.sqrt(WIDTH)
    model = Model(Mahalanobis.from_factor(factor), Inputs("features", size=(WIDTH,)), "by hand")
    rows: list[dict[str, Any]] = []
    for n in SIZES:
        place = Path(tempfile.mkdtemp())
        try:
            x, classes = rows_of(n, 1)
            model.transform(x[:1000])  # whatever is loaded or allocated once
            times = {}
            times["embed"], embeddings = processor_seconds(lambda x=x: model.transform(x))

            def build(embeddings: Any = embeddings, place: Path = place) -> None:
                with open_index(place / "index", dimension=WIDTH) as index:
                    index.add(embeddings)

            times["index"], _ = processor_seconds(build)
            disk = sum(file.stat().st_size for file in (place / "index").iterdir())
            queries = model.transform(rows_of(QUERIES, 2)[0])
            with open_index(place / "index", read_only=True) as index:
                index.search(queries[:10], k=K)
                seconds, _ = processor_seconds(
                    lambda index=index, queries=queries: [
                        index.search(queries[start : start + 256], k=K) for start in range(0, QUERIES, 256)
                    ]
                )
                recall = None if index.recall is None else index.recall.value
            times["search"] = seconds / QUERIES
            times["graph"], graph = processor_seconds(
                lambda embeddings=embeddings: nearest_neighbors(embeddings, k=K, method="approximate")
            )
            labels = np.where(np.random.default_rng(3).random(n) < 0.01, classes, -1)
            times["reach"], _ = processor_seconds(lambda graph=graph, labels=labels: label_reach(graph, labels))
            for step, spent in times.items():
                rows.append(
                    {
                        "step": step,
                        "rows": n,
                        "cpu_seconds": spent,
                        "recall": recall,
                        "disk_bytes_per_row": disk / n,
                        "load_average": round(os.getloadavg()[0], 1),
                    }
                )
                print(rows[-1])
            save("scale", rows, key=["step", "rows"], packages=("faiss-cpu",), width=WIDTH, k=K, classes=CLASSES)
        finally:
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
