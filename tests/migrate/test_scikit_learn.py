"""Every row of docs/migrate/scikit-learn.md, both sides as printed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import sklearn.neighbors
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

import nearer.estimators
from nearer.evaluation import ami, evaluate_multilabel, nmi
from nearer.exceptions import NearerWarning
from nearer.neighbors import search
from peer_rows import rows

ROWS = rows("scikit-learn")


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    random = np.random.RandomState(0)
    sets = random.rand(40, 5) < 0.4
    sets = sets[(sets.sum(axis=1) > 0) & (sets.sum(axis=1) < 5)].astype(int)
    return {
        "X": X[::2],
        "y": y[::2],
        "Z": X[1::2],
        "learner": nearer.estimators.LMNN().fit(X[::2], y[::2]),
        "clusters": KMeans(4, random_state=0, n_init=1).fit_predict(X[::2]),
        "sets": sets,
        "scores": random.rand(*sets.shape),
    }


def test_there_are_rows() -> None:
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("theirs", "ours", "number", "note"), ROWS, ids=[row[0].partition("(")[0] for row in ROWS])
def test_a_row(theirs: str, ours: str, number: str, note: str, given: dict[str, Any]) -> None:
    peers = {**vars(sklearn.neighbors), **vars(sklearn.metrics), **given}
    mine = {name: getattr(nearer.estimators, name) for name in nearer.estimators.__all__}
    mine |= {"search": search, "nmi": nmi, "ami": ami, "evaluate_multilabel": evaluate_multilabel, **given}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", NearerWarning)
        expected, found = eval(theirs, peers), eval(ours, mine)
    assert number == "same"
    if "objective" in note:
        expected, found = (
            share_of_right_votes(one.components_, given["X"], given["y"]) for one in (expected, found)
        )
    assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=1e-6)


def share_of_right_votes(components: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """What NCA maximises, from its definition."""
    mapped = X @ components.T
    squares = np.square(mapped[:, None] - mapped[None]).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    odds = np.exp(squares.min(axis=1, keepdims=True) - squares)
    return float(((odds * (y[:, None] == y[None])).sum(axis=1) / odds.sum(axis=1)).mean())
