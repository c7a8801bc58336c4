"""3-NN error of queries that look different from the database: two maps beside two maps, and beside one.

Of 100 items 42 teach: they are known from both sides. The database holds 28 others, which nobody has seen from the
side of the queries, and the queries are the last 30, from theirs. So nothing can be looked up; a query and the
database meet only in what the maps make of them. A method with one map learns it
from all rows of both sides together, which is the most that it can be given; to make that possible both sides have
the same number of columns.

Every method has up to `TRIALS` settings. The one with the fewest wrong votes is taken, on training items that are
divided in the same way, two times; then it learns from all training items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from nearer.datasets import stratified_split
from nearer.datasets._catalog import load
from nearer.estimators import (
    ITML,
    LFDA,
    LMNN,
    NCA,
    Alignment,
    AsymmetricKNN,
    Euclidean,
    KernelAsymmetricKNN,
    KernelLearner,
)
from nearer.estimators._starts import canonical_starts
from nearer.geometry import MLP, TwoEncoders
from nearer.losses import NeighborhoodLoss
from nearer_papers.asymmetric._one_view import K, vote_error
from nearer_papers.systems import GerrymanderingMetric

__all__ = [
    "KINDS",
    "LOOKED_UP",
    "METHODS",
    "ONE",
    "OURS",
    "PROBLEMS",
    "QUICK",
    "TRIALS",
    "TWO",
    "measure_two_views",
]

Rows = NDArray[Any]
Map = Callable[[Rows], Rows]
Pair = tuple[Map, Map]

TRIALS, DRAWS = 6, 2
HIDDEN = 128


def _halves(images: Rows) -> tuple[Rows, Rows]:
    """The left half is asked for, the right half is stored, mirrored so that the middle column meets itself."""
    n = len(images)
    return images[:, :, :4].reshape(n, -1), images[:, :, :3:-1].reshape(n, -1)


def _low_resolution(images: Rows) -> tuple[Rows, Rows]:
    """Queries in 2×4 blocks, brought to the size of the database by repetition."""
    n = len(images)
    blocks = images.reshape(n, 4, 2, 2, 4).mean(axis=(2, 4))
    return np.repeat(np.repeat(blocks, 2, axis=1), 4, axis=2).reshape(n, -1), images.reshape(n, -1)


def _upside_down(images: Rows) -> tuple[Rows, Rows]:
    """Queries turned by half a turn and in negative, as from another camera."""
    n = len(images)
    return images.max() - images[:, ::-1, ::-1].reshape(n, -1), images.reshape(n, -1)


PROBLEMS: dict[str, Callable[[Rows], tuple[Rows, Rows]]] = {
    "halves": _halves,
    "low resolution": _low_resolution,
    "turned negative": _upside_down,
}


@dataclass(frozen=True)
class Method:
    """How maps of both sides come from items that are known from both, and the settings that are tried."""

    kind: str
    learn: Callable[..., Pair]
    """Of query rows, database rows, labels and seed; and a setting."""
    settings: Sequence[Mapping[str, Any]] = ({},)


def _one_map(make: Callable[..., Any]) -> Callable[..., Pair]:
    def learn(queries: Rows, database: Rows, y: Rows, seed: int, **setting: Any) -> Pair:
        learner = make(seed, **setting).fit(np.concatenate([queries, database]), np.concatenate([y, y]))
        return learner.transform, learner.transform

    return learn


def _canonical(queries: Rows, database: Rows, y: Rows, seed: int, *, shrink: float, directions: int) -> Pair:
    means = queries.mean(axis=0), database.mean(axis=0)
    maps = canonical_starts(queries - means[0], database - means[1], directions, shrink)
    return (lambda rows: (rows - means[0]) @ maps[0]), (lambda rows: (rows - means[1]) @ maps[1])


def _kernel_canonical(queries: Rows, database: Rows, y: Rows, seed: int, *, shrink: float, landmarks: int) -> Pair:
    kernels = [
        KernelLearner(Euclidean(), n_landmarks=landmarks, random_state=seed).fit(rows, y)
        for rows in (queries, database)
    ]
    left, right = kernels[0].transform(queries), kernels[1].transform(database)
    first, second = _canonical(left, right, y, seed, shrink=shrink, directions=16)
    return (lambda rows: first(kernels[0].transform(rows))), (lambda rows: second(kernels[1].transform(rows)))


def _regression(queries: Rows, database: Rows, y: Rows, seed: int, **setting: Any) -> Pair:
    return Alignment(random_state=seed, **setting).fit(queries, database).transform, lambda rows: rows


def _classifiers(make: Callable[..., Any]) -> Callable[..., Pair]:
    """A classifier for each side; rows meet as the probabilities of their classes."""

    def learn(queries: Rows, database: Rows, y: Rows, seed: int, **setting: Any) -> Pair:
        first, second = (make(**setting).fit(rows, y) for rows in (queries, database))
        return first.predict_proba, second.predict_proba

    return learn


def _asymmetric(
    queries: Rows, database: Rows, y: Rows, seed: int, *, dimensions: int, regularization: float
) -> Pair:
    learner = AsymmetricKNN(dimensions, n_neighbors=K, regularization=regularization, random_state=seed)
    learner.fit_views(queries, database, y)
    return learner.transform_queries, learner.transform_database


def _kernel_asymmetric(
    queries: Rows, database: Rows, y: Rows, seed: int, *, landmarks: int, regularization: float
) -> Pair:
    inner = AsymmetricKNN(16, n_neighbors=K, regularization=regularization, random_state=seed)
    learner = KernelAsymmetricKNN(inner, n_landmarks=landmarks, random_state=seed)
    learner.fit_views(queries, database, y)
    return learner.transform_queries, learner.transform_database


def _two_encoders(queries: Rows, database: Rows, y: Rows, seed: int, *, epochs: int, decay: float) -> Pair:
    """Non-linear maps: a network for each side, trained for the vote; an item is never its own neighbour."""
    torch.manual_seed(seed)
    left, right = (torch.from_numpy(one.astype(np.float32)) for one in (queries, database))
    labels = torch.from_numpy(np.asarray(y))
    sides = [MLP(one.shape[1], 16, hidden=(HIDDEN,), normalized=False) for one in (left, right)]
    both, loss = TwoEncoders(*sides), NeighborhoodLoss(k=K)
    adam = torch.optim.AdamW(both.parameters(), lr=1e-3, weight_decay=decay)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(labels)), 200):
            value = loss(
                both.transform_queries(left[rows]),
                labels[rows],
                database=both.transform_database(right),
                database_labels=labels,
                ids=rows,
                database_ids=torch.arange(len(labels)),
            )
            adam.zero_grad()
            value.backward()
            adam.step()

    def mapped(side: Callable[..., Any]) -> Map:
        def transform(rows: Rows) -> Rows:
            with torch.no_grad():
                return np.asarray(side(rows.astype(np.float32)).numpy())

        return transform

    return mapped(both.transform_queries), mapped(both.transform_database)


def _grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """Every combination of the values of a name."""
    settings: list[dict[str, Any]] = [{}]
    for name, some in values.items():
        settings = [{**setting, name: value} for setting in settings for value in some]
    return settings


ONE, TWO, OURS = "one map", "two maps", "two maps for the vote"
KINDS = (ONE, TWO, OURS)
METHODS: dict[str, Method] = {
    "Euclidean": Method(ONE, _one_map(lambda seed: Euclidean())),
    "LFDA": Method(
        ONE,
        _one_map(lambda seed, **setting: LFDA(**setting)),
        _grid(n_components=[8, 16, None], n_neighbors=[3, 7]),
    ),
    "ITML": Method(
        ONE,
        _one_map(lambda seed, **setting: ITML(random_state=seed, **setting)),
        _grid(gamma=[0.01, 0.1, 0.3, 1.0, 3.0, 10.0]),
    ),
    "LMNN": Method(
        ONE,
        _one_map(lambda seed, **setting: LMNN(random_state=seed, **setting)),
        _grid(n_neighbors=[1, 3], push=[0.3, 0.5, 0.7]),
    ),
    "NCA": Method(
        ONE,
        _one_map(lambda seed, **setting: NCA(random_state=seed, **setting)),
        _grid(n_components=[8, 16, None], max_iter=[20, 60]),
    ),
    "GerrymanderingMetric": Method(
        ONE,
        _one_map(lambda seed, **setting: GerrymanderingMetric(n_neighbors=K, random_state=seed, **setting)),
        _grid(n_components=[9, 16, None], regularization=[0.01, 0.1]),
    ),
    "CCA": Method(TWO, _canonical, _grid(shrink=[0.01, 0.1, 1.0], directions=[8, 16])),
    "kernel CCA": Method(TWO, _kernel_canonical, _grid(shrink=[0.01, 0.1, 1.0], landmarks=[150, 400])),
    "ridge": Method(TWO, _regression, _grid(strength=[1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0], width=[0.0])),
    "kernel ridge": Method(TWO, _regression, _grid(width=[0.25, 0.5, 1.0, 2.0, 4.0, 8.0])),
    "LDA of each side": Method(
        TWO,
        _classifiers(lambda **setting: LinearDiscriminantAnalysis(solver="eigen", **setting)),
        _grid(shrinkage=[1e-3, 1e-2, 3e-2, 0.1, 0.3, 0.6]),
    ),
    "logistic regression of each side": Method(
        TWO,
        _classifiers(lambda **setting: LogisticRegression(max_iter=500, **setting)),
        _grid(C=[0.03, 0.1, 0.3, 1.0, 10.0, 100.0]),
    ),
    "AsymmetricKNN": Method(OURS, _asymmetric, _grid(dimensions=[9, 16, 32], regularization=[0.01, 0.1])),
    "KernelAsymmetricKNN": Method(
        OURS, _kernel_asymmetric, _grid(landmarks=[150, 300, 600], regularization=[0.01, 0.1])
    ),
    "TwoEncoders": Method(OURS, _two_encoders, _grid(epochs=[30, 100, 200], decay=[0.0, 1.0])),
}
# Not a rival but a scale: training items, labelled and from the side of the queries, instead of the database.
LOOKED_UP = "training items, from the side of the queries"
QUICK = ("Euclidean", "LFDA", "CCA", "AsymmetricKNN")


def _divided(y: Rows, seed: int, items: Rows, shares: tuple[float, float]) -> tuple[Rows, Rows, Rows]:
    """Which of some items teach, are stored, and are asked for; of the rest the first share is stored."""
    rest, asked = stratified_split(y[items], test=shares[1], seed=seed)
    learn, stored = stratified_split(y[items[rest]], test=shares[0], seed=seed)
    return items[rest[learn]], items[rest[stored]], items[asked]


def _error(
    method: Method, setting: Mapping[str, Any], views: tuple[Rows, Rows], y: Rows, parts: Any, seed: int
) -> float:
    learn, stored, asked = parts
    first, second = method.learn(views[0][learn], views[1][learn], y[learn], seed, **setting)
    return vote_error(first(views[0][asked]), y[asked], second(views[1][stored]), y[stored])


def measure_two_views(problem: str, seed: int, name: str) -> dict[str, Any]:
    """The test error of one method on one split, its setting, and what was tried on training items."""
    digits = load("digits").all
    views, y = PROBLEMS[problem](digits.x.astype(np.float64) / 16), digits.y
    parts = _divided(y, seed, np.arange(len(y)), (0.4, 0.3))
    if name == LOOKED_UP:
        learn, _, asked = parts
        return {
            "error": vote_error(views[0][asked], y[asked], views[0][learn], y[learn]),
            "setting": {},
            "tried": [],
        }
    method = METHODS[name]
    errors: list[float] = []
    for setting in method.settings if len(method.settings) > 1 else []:
        draws = [_divided(y, 1000 + draw, parts[0], (0.25, 0.2)) for draw in range(DRAWS)]
        errors.append(float(np.mean([_error(method, setting, views, y, inner, seed) for inner in draws])))
    setting = dict(method.settings[int(np.argmin(errors)) if errors else 0])
    tried = [{"setting": dict(one), "error": error} for one, error in zip(method.settings, errors, strict=False)]
    return {"error": _error(method, setting, views, y, parts, seed), "setting": setting, "tried": tried}
