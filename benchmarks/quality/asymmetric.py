"""3-NN error of the metrics trained for the vote, on the small standard sets and on queries from another view.

    python benchmarks/quality/asymmetric.py wine digits     errors beside LMNN, ITML, NCA and Euclidean; 5 seeds
    python benchmarks/quality/asymmetric.py isolet          needs the data folder; rows of older runs are kept
    python benchmarks/quality/asymmetric.py views           the recipe `asymmetric`: two views of the digits

Every seed is another stratified 70/30 split of all rows. Wine is standardised; isolet and usps are reduced to 100
principal components of the training rows. Models are chosen on training rows only: ours by the held-out error that
the fit reports, LMNN's share of the margin term on a fifth of the training rows, after which it is fitted on all.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer import datasets
from nearer import estimators as E
from nearer.estimators.neighbors._near import nearest_rows
from nearer.neighbors import vote
from nearer.recipes._recipe import Request
from nearer.recipes.asymmetric._asymmetric import reproduce_asymmetric
from record import RESULTS, save

K = 3
Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(name: str, seed: int) -> Data:
    part = datasets.load(name).all
    X, y = part.x.reshape(len(part), -1).astype(np.float32), part.y
    train, test, train_y, test_y = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    if name == "wine":
        scaler = StandardScaler().fit(train)
        train, test = scaler.transform(train), scaler.transform(test)
    elif train.shape[1] > 100:
        scaler = PCA(100, random_state=0).fit(train)
        train, test = scaler.transform(train), scaler.transform(test)
    scale = train.std()
    return (train / scale).astype(np.float32), (test / scale).astype(np.float32), train_y, test_y


def error(learner: Any, data: Data) -> float:
    """Of the vote; equal votes go to the nearest, for every method."""
    train, test, train_y, test_y = data
    if isinstance(learner, E.AsymmetricKNN):
        return float((learner.predict(test) != test_y).mean())
    near = nearest_rows(learner.transform(test), learner.transform(train), K)
    return float((vote(train_y[near]) != test_y).mean())


def best_of_ours(data: Data, seed: int) -> tuple[str, Any]:
    settings = {"k": K, "max_iter": 20, "random_state": seed}
    fisher = min(len(np.unique(data[2])) - 1, data[0].shape[1])
    candidates = {
        "GerrymanderingMetric": E.GerrymanderingMetric(**settings),
        "GerrymanderingMetric from LDA": E.GerrymanderingMetric(fisher, init="lda", **settings),
        "AsymmetricKNN": E.AsymmetricKNN(**settings),
    }
    fitted = {name: one.fit(data[0], data[2]) for name, one in candidates.items()}
    name = min(fitted, key=lambda one: fitted[one].validation_error_)
    return name, fitted[name]


def best_lmnn(data: Data, seed: int) -> tuple[str, Any]:
    train, held, train_y, held_y = train_test_split(
        data[0], data[2], test_size=0.2, stratify=data[2], random_state=seed
    )
    inner = (train, held, train_y, held_y)
    shares = {push: error(E.LMNN(k=K, push=push).fit(train, train_y), inner) for push in (0.3, 0.5, 0.7)}
    push = min(shares, key=lambda one: (shares[one], abs(one - 0.5)))
    return f"LMNN push {push}", E.LMNN(k=K, push=push).fit(data[0], data[2])


METHODS: dict[str, Any] = {
    "Euclidean": lambda data, seed: ("Euclidean", E.Euclidean().fit(data[0], data[2])),
    "ITML": lambda data, seed: ("ITML", E.ITML(random_state=seed).fit(data[0], data[2])),
    "LMNN": best_lmnn,
    "trained for the vote": best_of_ours,
    "NCA": lambda data, seed: ("NCA", E.NCA(random_state=seed).fit(data[0], data[2])),
}


def small_sets(names: list[str], seeds: range, only: list[str] | None) -> None:
    path = RESULTS / "asymmetric_small.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    # Seeds outside: a run that is cut short has as many of every set.
    for seed in seeds:
        for name in names:
            data = load(name, seed)
            for method, fit in METHODS.items():
                if only and method not in only:
                    continue
                start = time.process_time()
                chosen, learner = fit(data, seed)
                row = {"dataset": name, "seed": seed, "method": method, "chosen": chosen}
                row |= {"rows": len(data[0]), "columns": data[0].shape[1], "error": error(learner, data)}
                row["seconds"] = time.process_time() - start
                rows = [old for old in rows if any(old[key] != row[key] for key in ("dataset", "seed", "method"))]
                rows.append(row)
                print(row, flush=True)
            save("asymmetric_small", rows, packages=("scikit-learn",), threads=1, k=K)


def views(seeds: int) -> None:
    outcome = reproduce_asymmetric(Request(seeds=seeds, progress=lambda text, done: print(f"{done:.0%} {text}")))
    save("asymmetric_views", outcome.record["rows"], packages=("scikit-learn",), **outcome.record["settings"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="+", choices=["wine", "digits", "usps", "isolet", "views"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed; rows of older runs are kept")
    parser.add_argument("--only", nargs="+", choices=list(METHODS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if "views" in options.sets:
        views(options.seeds)
    small_sets(
        [name for name in options.sets if name != "views"], range(options.first, options.seeds), options.only
    )


if __name__ == "__main__":
    main()
