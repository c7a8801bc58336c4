"""Time, memory and 3-NN accuracy of every estimator at its defaults on five data sets, Euclidean among them.

    python benchmarks/speed/estimators.py               five seeds, everything but the two below
    python benchmarks/speed/estimators.py --only LMNN   some estimators again; their rows replace the older ones
    python benchmarks/speed/estimators.py --quadratic   NCA and MLKR on the 20,000 rows, one seed
    python benchmarks/speed/estimators.py --scikit      scikit-learn's NCA beside ours
    python benchmarks/speed/estimators.py --large       memory on 100,000 × 200 (some with --only)

Each fit runs in a forked process of its own with one BLAS thread: its CPU seconds, and how far the resident
memory grew. The synthetic sets are `make_classification` with class_sep=1.5; redundant columns make them singular.
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
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nearer import estimators as E
from nearer.estimators.linear._nca import nca_loss_and_gradient
from nearer.exceptions import StoppedEarlyWarning
from nearer_papers import systems
from record import peak_megabytes, save

SETS = ("wine", "cancer", "digits", "5k", "20k")
LEARNERS: dict[str, type[Any]] = {
    name: getattr(systems if name in systems.__all__ else E, name)
    for name in [
        "Euclidean",
        "Covariance",
        "RCA",
        "LFDA",
        "KISSME",
        "GMML",
        "ITML",
        "LDML",
        "MMC",
        "DMLEig",
        "DoubletSVM",
        "TripletSVM",
        "LSML",
        "LMNN",
        "NCA",
        "MLKR",
    ]
}
QUADRATIC = ("NCA", "MLKR")
# On 100,000 rows one pass over all pairs takes minutes, and the memory of one is that of fifty.
LIMITED = {"LMNN": {"max_iter": 10}, "NCA": {"max_iter": 1}, "MLKR": {"max_iter": 1}}


def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised train and test rows and their labels; 70/30, stratified."""
    if name == "5k":
        X, y = make_classification(
            5000, 50, n_informative=15, n_redundant=10, n_classes=5, class_sep=1.5, random_state=seed
        )
    elif name == "20k":
        X, y = make_classification(
            20000, 100, n_informative=20, n_redundant=20, n_classes=10, class_sep=1.5, random_state=seed
        )
    else:
        loaders = {"wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}
        X, y = loaders[name](return_X_y=True)
    train, test, train_y, test_y = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test), train_y, test_y


def make(kind: type[Any], seed: int) -> Any:
    return kind(random_state=seed) if "random_state" in kind().get_params() else kind()


def fit_here(learner: Any, X: np.ndarray, y: np.ndarray, pipe: Any) -> None:
    before = peak_megabytes()
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(X, y)
    seconds = time.process_time() - start
    stopped = any(issubclass(one.category, (StoppedEarlyWarning,)) for one in caught)
    facts = {"seconds": seconds, "megabytes": peak_megabytes() - before, "stopped_early": stopped}
    facts |= {name: getattr(learner, name + "_", None) for name in ("n_iter", "blend")}
    pipe.send((learner.components_, facts))


def fit(learner: Any, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Fit in a forked process, so that one fit's memory does not hide another's."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=fit_here, args=(learner, X, y, theirs))
    process.start()
    theirs.close()
    result: tuple[np.ndarray, dict[str, Any]] = mine.recv()
    process.join()
    return result


def accuracy(components: np.ndarray, train: Any, test: Any, train_y: Any, test_y: Any) -> float:
    voter = KNeighborsClassifier(3, algorithm="brute").fit(train @ components.T, train_y)
    return float(voter.score(test @ components.T, test_y))


def measure(learner: Any, name: str, dataset: str, seed: int) -> dict[str, Any]:
    train, test, train_y, test_y = load(dataset, seed)
    components, facts = fit(learner, train, train_y)
    score = accuracy(components, train, test, train_y, test_y)
    row = {"estimator": name, "dataset": dataset, "seed": seed, "rows": len(train), "columns": train.shape[1]}
    row |= {"accuracy": score, **facts}
    print(name, dataset, seed, f"{facts['seconds']:.2f} s, {facts['megabytes']:.0f} MB, {score:.3f}", flush=True)
    return row


def objective(components: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Mean p_i of NCA, whoever learned the map."""
    order = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    return -nca_loss_and_gradient(components, X[order], starts)[0] / len(X)


def scikit(seeds: int) -> None:
    rows = []
    for dataset in SETS[:4]:
        for seed in range(seeds):
            train, test, train_y, test_y = load(dataset, seed)
            for name, learner in (
                ("NCA", E.NCA(random_state=seed)),
                ("scikit-learn", NeighborhoodComponentsAnalysis()),
            ):
                components, facts = fit(learner, train, train_y)
                row = {"estimator": name, "dataset": dataset, "seed": seed, **facts}
                row["objective"] = objective(components, train, train_y)
                row["accuracy"] = accuracy(components, train, test, train_y, test_y)
                print(row, flush=True)
                rows.append(row)
                save("estimators_nca", rows, key=["estimator", "dataset", "seed"])


def large(only: list[str] | None) -> None:
    rng = np.random.RandomState(0)
    y = rng.randint(10, size=100_000)
    X = (
        rng.standard_normal((100_000, 200)).astype(np.float32)
        + rng.standard_normal((10, 200)).astype(np.float32)[y]
    )
    rows: dict[str, dict[str, Any]] = {}
    for name in only or LEARNERS:
        learner = make(LEARNERS[name], 0)
        limited = LIMITED.get(name, {})
        _, facts = fit(learner.set_params(**limited), X, y)
        rows[name] = {"estimator": name, **facts, "limited": limited, "data_megabytes": X.nbytes / 2**20}
        print(rows[name], flush=True)
        save("estimators_large", [rows[name]], key=["estimator"], shape=X.shape)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(LEARNERS))
    for mode in ("quadratic", "scikit", "large"):
        parser.add_argument(f"--{mode}", action="store_true")
    options = parser.parse_args()
    if options.scikit:
        return scikit(1)
    if options.large:
        return large(options.only)
    rows: list[dict[str, Any]] = []
    if options.quadratic:
        for name in QUADRATIC:
            rows.append(measure(make(LEARNERS[name], 0), name, "20k", 0))
            save("estimators", rows, key=["estimator", "dataset", "seed"])
        return None
    for seed in range(options.seeds):
        for dataset in SETS:
            for name in options.only or LEARNERS:
                if not (dataset == "20k" and name in QUADRATIC):
                    rows.append(measure(make(LEARNERS[name], seed), name, dataset, seed))
        save("estimators", rows, key=["estimator", "dataset", "seed"])
    return None


if __name__ == "__main__":
    main()
