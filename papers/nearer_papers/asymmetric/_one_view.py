"""3-NN error of the metrics trained for the vote on ordinary sets, together and each alone, beside LMNN, ITML, NCA.

Every seed is another stratified 70/30 split of all rows. Wine is standardised; isolet and usps are reduced to 100
principal components of the training rows. Models are chosen on training rows only: ours by the held-out error that
the fit reports, LMNN's share of the margin term on a fifth of the training rows, after which it is fitted on all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from nearer.datasets import Dataset, load
from nearer.estimators import ITML, LMNN, NCA, AsymmetricKNN, Euclidean, KernelAsymmetricKNN
from nearer.estimators.neighbors._near import nearest_rows
from nearer.neighbors import vote
from nearer_papers.systems import GerrymanderingMetric

__all__ = ["ONE_VIEW_METHODS", "ONE_VIEW_SETS", "K", "measure_one_view", "one_view_data", "vote_error"]

K = 3
ONE_VIEW_SETS = ("wine", "noisy wine", "digits", "isolet", "usps")
STEPS = 20
_NOISE = 20
Array = np.ndarray[Any, Any]
Data = tuple[Array, Array, Array, Array]


def vote_error(queries: Array, labels: Array, database: Array, database_labels: Array, k: int = K) -> float:
    """The share of queries whose k nearest rows vote for another class; equal votes go to the nearest."""
    near = database_labels[nearest_rows(queries, database, k)]
    return float((vote(near) != labels).mean())


def one_view_data(name: str) -> Dataset:
    """The data set of a row; noisy wine is wine, to which twenty columns of noise are added."""
    return load(name.removeprefix("noisy "))


def _prepared(name: str, seed: int) -> Data:
    part = one_view_data(name).all
    X, y = part.x.reshape(len(part), -1).astype(np.float32), part.y
    if name.startswith("noisy "):
        noise = np.random.default_rng(seed).standard_normal((len(X), _NOISE))
        X = np.column_stack([X, noise]).astype(np.float32)
    train, test, train_y, test_y = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    if name.endswith("wine") or train.shape[1] > 100:
        prepare = StandardScaler() if name.endswith("wine") else PCA(100, random_state=0)
        train, test = prepare.fit_transform(train), prepare.transform(test)
    scale = train.std()
    return (train / scale).astype(np.float32), (test / scale).astype(np.float32), train_y, test_y


def _error(learner: Any, data: Data) -> float:
    train, test, train_y, test_y = data
    if isinstance(learner, AsymmetricKNN | KernelAsymmetricKNN):
        return float((learner.predict(test) != test_y).mean())
    k = learner.n_neighbors if isinstance(learner, GerrymanderingMetric) else K
    return vote_error(learner.transform(test), test_y, learner.transform(train), train_y, k)


def _best_of_ours(data: Data, seed: int) -> tuple[str, Any]:
    settings: dict[str, Any] = {"n_neighbors": K, "max_iter": STEPS, "random_state": seed}
    fisher = min(len(np.unique(data[2])) - 1, data[0].shape[1])
    candidates: dict[str, Any] = {
        "GerrymanderingMetric": GerrymanderingMetric(**settings),
        "GerrymanderingMetric from LDA": GerrymanderingMetric(fisher, init="lda", **settings),
        "AsymmetricKNN": AsymmetricKNN(**settings),
    }
    fitted = {name: learner.fit(data[0], data[2]) for name, learner in candidates.items()}
    name = min(fitted, key=lambda one: float(fitted[one].validation_error_))
    return name, fitted[name]


def _best_lmnn(data: Data, seed: int) -> tuple[str, Any]:
    train, held, train_y, held_y = train_test_split(
        data[0], data[2], test_size=0.2, stratify=data[2], random_state=seed
    )
    inner = (train, held, train_y, held_y)
    shares = {push: _error(LMNN(n_neighbors=K, push=push).fit(train, train_y), inner) for push in (0.3, 0.5, 0.7)}
    push = min(shares, key=lambda one: (shares[one], abs(one - 0.5)))
    return f"LMNN push {push}", LMNN(n_neighbors=K, push=push).fit(data[0], data[2])


def _alone(name: str, make: Callable[..., Any], **more: Any) -> Callable[[Data, int], tuple[str, Any]]:
    """One of ours by itself, which "trained for the vote" chooses among."""

    def fit(data: Data, seed: int) -> tuple[str, Any]:
        settings = {"n_neighbors": K, "max_iter": STEPS, "random_state": seed} | more
        return name, make(**settings).fit(data[0], data[2])

    return fit


def _kernel(data: Data, seed: int) -> tuple[str, Any]:
    # Above a thousand rows a thousand landmarks carry the map.
    landmarks = min(1000, len(data[0]))
    inner = AsymmetricKNN(min(100, landmarks), n_neighbors=K, max_iter=STEPS, random_state=seed)
    learner = KernelAsymmetricKNN(inner, n_landmarks=landmarks, random_state=seed)
    return "KernelAsymmetricKNN", learner.fit(data[0], data[2])


ONE_VIEW_METHODS: dict[str, Callable[[Data, int], tuple[str, Any]]] = {
    "Euclidean": lambda data, seed: ("Euclidean", Euclidean().fit(data[0], data[2])),
    "ITML": lambda data, seed: ("ITML", ITML(random_state=seed).fit(data[0], data[2])),
    "LMNN": _best_lmnn,
    "trained for the vote": _best_of_ours,
    "GerrymanderingMetric": _alone("factor", GerrymanderingMetric),
    "GerrymanderingMetric, matrix": _alone("matrix", GerrymanderingMetric, solver="matrix"),
    # With three neighbors the greedy sets are the exact ones.
    "GerrymanderingMetric, k = 5": _alone("factor", GerrymanderingMetric, n_neighbors=5),
    "GerrymanderingMetric, k = 5, greedy": _alone(
        "greedy", GerrymanderingMetric, n_neighbors=5, inference="greedy"
    ),
    "AsymmetricKNN": _alone("AsymmetricKNN", AsymmetricKNN),
    "KernelAsymmetricKNN": _kernel,
    "NCA": lambda data, seed: ("NCA", NCA(random_state=seed).fit(data[0], data[2])),
}


def measure_one_view(name: str, seed: int, method: str) -> dict[str, Any]:
    """What was chosen, its test error and CPU seconds."""
    data = _prepared(name, seed)
    start = time.process_time()
    chosen, learner = ONE_VIEW_METHODS[method](data, seed)
    facts = {"chosen": chosen, "rows": len(data[0]), "columns": data[0].shape[1], "error": _error(learner, data)}
    return {**facts, "seconds": time.process_time() - start}
