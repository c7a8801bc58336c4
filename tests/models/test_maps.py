"""Estimators as modules of a model: the same numbers, saved without pickle."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import nearer
from nearer import estimators
from nearer.geometry import load
from nearer.geometry._encoders import SideBySide
from nearer.geometry._kernel_map import KernelMap
from nearer.models._maps import as_module

X, Y = load_wine(return_X_y=True)
ROWS = StandardScaler().fit_transform(X).astype(np.float32)


def rounding(module: nn.Module, rows: Tensor) -> float:
    """How far a float32 module may be from exact numbers, on any processor.

    A computed sum of n products is the exact sum of factors that are wrong by a relative n·eps at most, whatever
    the order of the terms (Higham 2002, 3.1). So in float64 every number of the module and of the rows is changed
    by that much at random: what comes of it is the condition of the map times the rounding.
    """
    exact = copy.deepcopy(module).double()
    state, x = exact.state_dict(), rows.double()
    size = max(max(tensor.shape, default=1) for tensor in state.values()) * torch.finfo(torch.float32).eps
    random = torch.Generator().manual_seed(0)

    def shaken(tensor: Tensor) -> Tensor:
        return tensor * (1 + size * (2 * torch.rand(tensor.shape, generator=random, dtype=torch.float64) - 1))

    plain, farthest = exact(x), 0.0
    for _ in range(5):
        exact.load_state_dict({name: shaken(tensor) for name, tensor in state.items()})
        farthest = max(farthest, float((exact(shaken(x)) - plain).abs().max()))
    return farthest


@pytest.mark.parametrize(
    "learner",
    [
        estimators.KISSME(n_components=4),
        estimators.KernelLearner(random_state=0),
        estimators.KernelLearner(
            estimators.LMNN(random_state=0), kernel="poly", gamma=0.1, degree=2, n_landmarks=40, random_state=0
        ),
        estimators.KernelLearner(estimators.NCA(random_state=0), kernel="linear", n_landmarks=30, random_state=0),
        estimators.HRAML(epochs=2, networks=3, random_state=0),
        estimators.HRAML(epochs=2, networks=1, bounded=False, hidden=(), random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_the_module_is_the_transform_of_the_learner(learner: Any, tmp_path: Path) -> None:
    learner.fit(ROWS, Y)
    module = as_module(learner).eval()
    expected = learner.transform(ROWS)
    with torch.no_grad():
        allowed = rounding(module, torch.from_numpy(ROWS))
        assert allowed < 1e-3 * np.abs(expected).max()  # or a wrong map would not be found
        np.testing.assert_allclose(module(torch.from_numpy(ROWS)).numpy(), expected, rtol=0, atol=allowed)
        again = load(module.save(tmp_path / "map"))
        torch.testing.assert_close(again(torch.from_numpy(ROWS)), module(torch.from_numpy(ROWS)))


def test_two_maps_stay_two(tmp_path: Path) -> None:
    learner = estimators.AsymmetricKNN(max_iter=3, random_state=0).fit(ROWS, Y)
    module = as_module(learner)
    found = module.transform_queries(torch.from_numpy(ROWS)), module.transform_database(torch.from_numpy(ROWS))
    np.testing.assert_allclose(found[0].detach(), learner.transform_queries(ROWS), atol=1e-4)
    np.testing.assert_allclose(found[1].detach(), learner.transform_database(ROWS), atol=1e-4)


def test_an_asymmetric_model_searches_the_database_map_with_the_query_map(tmp_path: Path) -> None:
    model = nearer.fit(X, Y, method="asymmetric-knn")
    assert model.asymmetric
    again = nearer.load(model.save(tmp_path / "model"))
    queries, database = again.transform(X), again.transform(X, side="database")
    assert not np.allclose(queries, database, atol=1e-3)
    nearest = ((queries[:5, None] - database[None]) ** 2).sum(-1).argsort(axis=1)[:, :3]
    np.testing.assert_array_equal(model.neighbors(X[:5], k=3).ids, nearest)
    assert nearer.evaluate(again, X + 0.01, Y).first.settings["search"] == "database"


@pytest.mark.parametrize("metric", ["hraml", "kernel-gmml", "kernel-lmnn", "kernel-nca"])
def test_fit_reaches_it_and_a_saved_model_agrees(metric: str, tmp_path: Path) -> None:
    model = nearer.fit(X, Y, method=metric, n_components=6)
    assert model.transform(X).shape[1] % 6 == 0
    again = nearer.load(model.save(tmp_path / "model"))
    np.testing.assert_allclose(again.transform(X), model.transform(X), rtol=1e-5)


def test_parts_of_maps_refuse_what_does_not_fit() -> None:
    with pytest.raises(nearer.exceptions.ShapeError, match="2 landmarks"):
        KernelMap.from_parts([[1.0], [2.0]], [[1.0]])
    with pytest.raises(nearer.exceptions.ParameterError, match="at least one"):
        SideBySide()
