"""The `Attributes:` of every estimator are those that it has after `fit`, no more and no fewer."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from nearer import estimators as E
from nearer.geometry import MLP

pytestmark = pytest.mark.filterwarnings("ignore::nearer.exceptions.NearerWarning")

X, CLASSES = (array[::2] for array in load_iris(return_X_y=True))
SETS = np.eye(3, dtype=int)[CLASSES]
FEW = {"max_iter": 3}
# Small problems: what is not here is fitted at its defaults, on classes.
SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("AsymmetricKNN", "ITML", "LDML", "LMNN", "LSML", "MLKR", "MMC", "NCA"), FEW),
    **dict.fromkeys(("APIT", "SERAPH", "SemiSupervisedMetric", "TripletSVM"), FEW),
    "HRAML": {"epochs": 1, "networks": 1, "batch_size": 20},
    "KernelLearner": {"n_landmarks": 20},
}
TARGETS = {"MLKNN": SETS, "AAKNN": 0.7 * SETS + 0.1, "QueryMap": X[::-1]}
# Attributes that only another fit has: these settings or targets bring them.
SOMETIMES: dict[str, dict[str, Any]] = {
    "KernelLearner": {"learner": E.NCA(max_iter=3)},
    "SemiSupervisedMetric": {"encoder": MLP(4, 3, hidden=(8,)), "n_neighbors": 5, "max_iter": 10},
}
LEARNERS = [name for name in E.__all__ if name != "MetricLearner"]


def listed(thing: Any) -> dict[str, str]:
    """The names under `Attributes:` and what is said of them."""
    text = (inspect.getdoc(thing) or "").partition("Attributes:")[2]
    return dict(re.findall(r"^    (\w+): (.*)", text, flags=re.MULTILINE))


def fitted_attributes(name: str, **settings: Any) -> set[str]:
    learner = clone(getattr(E, name)(**SETTINGS.get(name, {}) | settings))
    rows = X.astype(np.float32) if "encoder" in settings else X
    learner.fit(rows, TARGETS.get(name, CLASSES))
    return {one for one in vars(learner) if one.endswith("_") and not one.startswith("_")}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_listed_attributes_are_those_of_a_fitted_estimator(name: str) -> None:
    attributes = listed(getattr(E, name))
    always = {one for one, words in attributes.items() if "only where" not in words}
    held = fitted_attributes(name)
    assert held <= set(attributes), f"{name} does not list {sorted(held - set(attributes))}"
    assert always <= held, f"{name} lists {sorted(always - held)}, which it has not"
    if name in SOMETIMES:
        assert set(attributes) - held <= fitted_attributes(name, **SOMETIMES[name])
