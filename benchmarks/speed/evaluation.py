"""Evaluation against the full matrix product, pytorch-metric-learning's calculator and scikit-learn's k-means.

Contestants of a row run in turn in one process on one thread, and medians are compared: only ratios mean anything
on a shared machine. Four parts, each with its own result file:

    python benchmarks/speed/evaluation.py product    recall and MAP@R on 60,000 × 128 as shares of the n × n product
    python benchmarks/speed/evaluation.py peer       the same scores by AccuracyCalculator, and how far they differ
    python benchmarks/speed/evaluation.py memory     peak memory beyond the data, by number of classes
    python benchmarks/speed/evaluation.py kmeans     k-means against scikit-learn's best of ten, on real data

Without an argument all of them run, which takes about half an hour; --quick takes fewer cases of each. Data sets
that are not there are left out.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer.evaluation import evaluate, kmeans, nmi
from nearer.evaluation._engine._problem import unit_rows
from nearer.exceptions import MissingDataError
from nearer_papers.data._banking77 import load_banking77
from nearer_papers.data._cars196 import load_cars196_features
from nearer_papers.data._mnist import load_mnist
from nearer_papers.data._uci import load_letter
from record import interleaved, save

QUICK = "--quick" in sys.argv
RECALL = ["recall@1", "recall@2", "recall@4", "recall@8"]
LISTS = [*RECALL, "map@r", "r-precision"]
PEER = {
    "precision_at_1": "recall@1",
    "mean_average_precision_at_r": "map@r",
    "NMI": "nmi",
}


def embeddings(n: int, classes: int, noise: float, d: int = 128) -> tuple[Tensor, Tensor]:
    """Unit vectors around class centres on the sphere; `noise` is the length of what is added to a centre."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % classes
    centers = torch.nn.functional.normalize(torch.randn(classes, d, generator=generator))
    points = centers[labels] + noise * torch.randn(n, d, generator=generator) / d**0.5
    return torch.nn.functional.normalize(points), labels


def full_product(points: Tensor) -> Callable[[], None]:
    buffer = torch.empty(1024, len(points))

    def run() -> None:
        for start in range(0, len(points), 1024):
            block = points[start : start + 1024]
            torch.mm(block, points.T, out=buffer[: len(block)])

    return run


def product() -> None:
    rows = []
    cases = [(12_000, 2.0), (100, 4.0), (1_000, 2.0), (12_000, 1.0), (100, 1.5)]
    repeats = 2 if QUICK else 3
    for classes, noise in cases[:2] if QUICK else cases:
        points, labels = embeddings(60_000, classes, noise)
        contestants: dict[str, Callable[[], object]] = {
            "product": full_product(points),
            "recall": lambda: evaluate(points, labels, scores=RECALL),  # noqa: B023
            "lists": lambda: evaluate(points, labels, scores=LISTS),  # noqa: B023
        }
        seconds = interleaved(contestants, repeats=repeats)
        scores = evaluate(points, labels, scores=LISTS)
        rows.append(
            {
                "n": 60_000,
                "dimension": 128,
                "classes": classes,
                "recall_at_1": scores["recall@1"],
                "map_at_r": scores["map@r"],
                "product_seconds": seconds["product"],
                "recall_of_product": seconds["recall"] / seconds["product"],
                "lists_of_product": seconds["lists"] / seconds["product"],
            }
        )
        print(rows[-1], flush=True)
        save("evaluation", rows, key=["classes"], threads=1, repeats=repeats, limits={"recall": 0.8, "lists": 1.6})


def peer() -> None:
    import faiss
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    warnings.filterwarnings("ignore")
    faiss.omp_set_num_threads(1)
    rows = []
    for n in (500, 2_000, 10_000) if QUICK else (500, 2_000, 10_000, 60_000):
        points, labels = embeddings(n, n // 10, 2.0)
        for theirs in (["precision_at_1", "mean_average_precision_at_r"],
                       ["precision_at_1", "mean_average_precision_at_r", "NMI"]):  # fmt: skip
            # Lists as deep as the largest class, which is what MAP@R looks at.
            calculator = AccuracyCalculator(include=tuple(theirs), k="max_bin_count", device=torch.device("cpu"))
            names = [PEER[name] for name in theirs]
            result, expected = evaluate(points, labels, scores=names), calculator.get_accuracy(points, labels)
            # Two k-means do not find the same clusters.
            equal = [name for name in theirs if name != "NMI"]
            contestants: dict[str, Callable[[], object]] = {
                "ours": lambda: evaluate(points, labels, scores=names),  # noqa: B023
                "theirs": lambda: calculator.get_accuracy(points, labels),  # noqa: B023
            }
            seconds = interleaved(contestants, repeats=9 if n <= 2_000 else 5 if n <= 10_000 else 3)
            rows.append(
                {
                    "n": n,
                    "classes": n // 10,
                    "scores": ", ".join(names),
                    "largest_difference": max(abs(result[PEER[name]] - float(expected[name])) for name in equal),
                    "nmi": result.get("nmi"),
                    "their_nmi": float(expected["NMI"]) if "NMI" in theirs else None,
                    "clusterer": result.settings.get("clusterer"),
                    "seconds": seconds["ours"],
                    "their_seconds": seconds["theirs"],
                    "times_faster": seconds["theirs"] / seconds["ours"],
                }
            )
            print(rows[-1], flush=True)
    packages = ("pytorch-metric-learning", "faiss-cpu")
    save("evaluation_peer", rows, key=["n", "scores"], packages=packages, threads=1)


def memory() -> None:
    rows = []
    for classes in (12_000, 100) if QUICK else (12_000, 1_000, 100, 10, 2):
        command = [sys.executable, str(Path(__file__).resolve()), "memory-of", str(classes)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows.append({"n": 60_000, "dimension": 128, "classes": classes, **json.loads(answer)})
        print(rows[-1], flush=True)
        save("evaluation_memory", rows, key=["classes"], threads=1, limit_megabytes=1000)


def memory_of(classes: int) -> None:
    """In a process of its own: how far the peak rises above what the data and the libraries take."""
    points, labels = embeddings(60_000, classes, 3.0)
    evaluate(points[:2000], torch.arange(2000) % 20, scores=[*LISTS, "mrr"])
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    start = time.perf_counter()
    evaluate(points, labels, scores=[*LISTS, "mrr"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    extra = peak - pages * resource.getpagesize() / 2**20
    print(json.dumps({"extra_megabytes": extra, "seconds": time.perf_counter() - start}))


def real_data() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    def mnist(part: str) -> tuple[np.ndarray, np.ndarray]:
        split = getattr(load_mnist(), part)
        return np.asarray(split.x, dtype=np.float32).reshape(len(split.y), -1) / 255, np.asarray(split.y)

    def principal(points: np.ndarray, count: int) -> np.ndarray:
        centered = points - points.mean(axis=0)
        return centered @ np.linalg.eigh(centered[:20_000].T @ centered[:20_000])[1][:, -count:].astype(np.float32)

    def unit(split: Any) -> tuple[np.ndarray, np.ndarray]:
        points = np.asarray(split.x, dtype=np.float32).reshape(len(split.y), -1)
        return unit_rows(points), np.asarray(split.y)

    def train() -> tuple[np.ndarray, np.ndarray]:
        points, labels = mnist("train")
        return principal(points, 50), labels

    loaders: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
        "digits, pixels, unit length": lambda: unit(load("digits").all),
        "letter": lambda: (lambda s: (np.asarray(s.x, dtype=np.float32), np.asarray(s.y)))(load_letter().all),
        "MNIST test, pixels": lambda: mnist("test"),
        "MNIST train, 50 principal components": train,
        "Cars-196 test classes, features": lambda: unit(load_cars196_features().test),
        "BANKING77 test, embeddings": lambda: unit(load_banking77().test),
    }
    for name, load in loaders.items():
        try:
            yield name, *load()
        except MissingDataError as error:
            print(f"left out {name}: {error}", flush=True)


def clusters() -> None:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    seeds = range(5)
    rows = []
    for name, points, labels in real_data():
        k = len(np.unique(labels))
        runs: list[dict[str, float]] = []
        with threadpool_limits(1):
            for seed in seeds:
                start = time.perf_counter()
                ours = kmeans(points, k, seed=seed)
                middle = time.perf_counter()
                theirs = KMeans(k, init="k-means++", n_init=10, random_state=seed).fit(points)
                end = time.perf_counter()
                runs.append(
                    {
                        "seconds": middle - start,
                        "their_seconds": end - middle,
                        "inertia": ours.inertia,
                        "their_inertia": float(theirs.inertia_),
                        "nmi": nmi(labels, ours.assignments),
                        "their_nmi": nmi(labels, theirs.labels_),
                    }
                )
        middle_of = {key: float(np.median([run[key] for run in runs])) for key in ("seconds", "their_seconds")}
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0] if key not in middle_of}
        rows.append(
            {
                "data": name,
                "n": len(points),
                "dimension": points.shape[1],
                "k": k,
                **middle_of,
                "of_their_time": middle_of["seconds"] / middle_of["their_seconds"],
                **mean,
                "inertia_spread": float(np.std([run["inertia"] for run in runs])),
                "their_inertia_spread": float(np.std([run["their_inertia"] for run in runs])),
                "nmi_spread": float(np.std([run["nmi"] for run in runs])),
                "their_nmi_spread": float(np.std([run["their_nmi"] for run in runs])),
            }
        )
        print(rows[-1], flush=True)
        save("evaluation_kmeans", rows, key=["data", "k"], packages=("scikit-learn",), threads=1, seeds=list(seeds))


PARTS = {"product": product, "peer": peer, "memory": memory, "kmeans": clusters}

if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["memory-of"]:
        memory_of(int(sys.argv[2]))
    else:
        for part in [name for name in sys.argv[1:] if name != "--quick"] or PARTS:
            PARTS[part]()
