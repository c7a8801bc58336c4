"""Class probabilities as an embedding: the printed formula with scikit-learn's own members, and its files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier

import nearer
from nearer import geometry
from nearer.estimators import ClassProbabilities
from nearer.estimators import _class_probabilities as room
from nearer.exceptions import CorruptFileError, LabelError, NearerError, NotFiniteError, ParameterError
from nearer.models._explain import explain_pair
from nearer.models._fitting import fit_model
from nearer.models._inputs import Inputs
from nearer.models._model import Model
from nearer.models._reading import read_items
from nearer.models._settings import FitSettings


def data(name: str) -> tuple[Any, Any]:
    X, y = {"wine": load_wine, "two": load_breast_cancer}[name](return_X_y=True)
    return X.astype(np.float32), np.array(["b", "a", "c"])[y]


@pytest.mark.parametrize("name", ["wine", "two"])
def test_it_is_the_printed_formula(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(name)
    kept: list[Any] = []
    real = ClassProbabilities._members

    def members(self: Any, *arguments: Any) -> Any:
        kept[:] = real(self, *arguments)
        return tuple(kept)

    monkeypatch.setattr(ClassProbabilities, "_members", members)
    learner = ClassProbabilities(n_trees=20, rounds=10, weights=(1, 2, 3), random_state=0).fit(X[::2], y[::2])
    network, forest, boosting = kept
    assert isinstance(network, MLPClassifier)
    assert isinstance(forest, ExtraTreesClassifier)
    assert isinstance(boosting, HistGradientBoostingClassifier)
    for rows in (X[::2], X[1::2]):
        scaled = (rows - X[::2].mean(axis=0, dtype=np.float64)) / X[::2].std(axis=0, dtype=np.float64)
        F = forest.predict_proba(rows)
        P = (network.predict_proba(scaled.astype(np.float32)) + 2 * F + 3 * boosting.predict_proba(rows)) / 6
        P = P * F / (F + 1 / 50)
        P = P / P.sum(axis=1, keepdims=True)
        z = np.stack([row**4 / np.linalg.norm(row**4) for row in P])
        turned = scaled @ learner.map_.directions.numpy()
        turned = turned / np.linalg.norm(turned, axis=1, keepdims=True)
        spread = 1.5 * (1 - P.max(axis=1, keepdims=True)) * turned / np.sqrt(2)
        expected = np.hstack([z, 0.2 * scaled / np.sqrt(2 * X.shape[1]), spread])
        np.testing.assert_allclose(learner.transform(rows), expected, atol=2e-5)
        np.testing.assert_allclose(learner.predict_proba(rows), P, atol=2e-5)


def test_words_of_a_table_are_as_wide_as_they_are() -> None:
    """A rare word, or an empty cell, would weigh as much as many numbers at deviation one."""
    X, y = data("two")
    X = np.column_stack([X[:, :2], np.arange(len(X)) % 20 == 0]).astype(np.float32)
    learner = ClassProbabilities(n_trees=5, rounds=2, standardize=(True, True, False), random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.map_.widths.numpy(), [1, 1, X[:, 2].std()], rtol=1e-6)
    table = pd.DataFrame(
        {"a": X[:, 0], "b": np.where(X[:, 1] > 18, np.nan, X[:, 1]), "w": np.where(X[:, 2], "rare", "x")}
    )
    settings = FitSettings(method="class-probabilities", standardize=True, refit=False)
    model = fit_model(read_items(table.assign(kind=y), "kind"), settings).model
    widths = next(part.widths for part in model.encoder.modules() if hasattr(part, "widths")).numpy()
    assert (widths == 1).tolist() == [True, True, False, False, False], "a, b; b=missing, w=rare, w=x"
    with pytest.raises(ParameterError, match="must be true or false, or 3 of them, got 2"):
        ClassProbabilities(standardize=(True, False)).fit(X, y)


def test_rows_it_learned_from_lie_at_the_corner_of_their_class() -> None:
    X, y = data("two")
    learner = ClassProbabilities(random_state=0).fit(X, y)
    corners = learner.transform(X)[:, :2]
    assert (np.abs(corners - np.eye(2)[(y == "b").astype(int)]) < 1e-6).all()


@pytest.mark.parametrize("standardize", [True, False])
def test_inside_a_class_the_features_order_the_rows(standardize: bool) -> None:
    """Neighbors among the training rows of one class are those of the features, standardized or as given."""
    X, y = data("two")
    X = X * np.where(np.arange(X.shape[1]) == 3, 1e-4, 1)  # one column does not outweigh all others
    learner = ClassProbabilities(n_trees=30, rounds=20, standardize=standardize, random_state=0).fit(X[::2], y[::2])
    scaled = (X - X[::2].mean(axis=0)) / (X[::2].std(axis=0) if standardize else 1)
    inside = np.flatnonzero(y[::2] == "a")
    embedded, asked = learner.transform(X[::2])[inside], learner.transform(X[1::2])
    for query, row in zip(asked, scaled[1::2], strict=True):
        by_map = np.argsort(np.linalg.norm(embedded - query, axis=1))[:5]
        by_features = np.argsort(np.linalg.norm(scaled[::2][inside] - row, axis=1))[:5]
        assert set(by_map) == set(by_features)


def test_weights_are_those_of_the_most_likely_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one member knows the classes and the others guess, it gets the weight."""
    X, y = data("wine")

    class Guess:
        def __init__(self, share: float) -> None:
            self.share = share

        def predict_proba(self, rows: Any) -> Any:
            sure = np.eye(3)[np.argmax(rows[:, -3:], axis=1)]
            return self.share * sure + (1 - self.share) / 3

    rows = np.hstack([X, np.eye(3, dtype=np.float32)[np.unique(y, return_inverse=True)[1]]])
    monkeypatch.setattr(ClassProbabilities, "_members", lambda *arguments: (Guess(0.0), Guess(0.9), Guess(0.1)))
    weights = ClassProbabilities()._weights(rows, np.unique(y, return_inverse=True)[1], 0)
    likelihood = np.array([1 / 3, 0.9 + 0.1 / 3, 0.1 + 0.9 / 3]) + 1e-4

    def objective(w: Any) -> float:
        return 60 * float(np.log(likelihood @ w)) + room.SEEN * float(room.MEMBERS @ np.log(w))

    grid = [np.array([a, b, 1 - a - b]) for a in np.arange(0.01, 1, 0.01) for b in np.arange(0.01, 1 - a, 0.01)]
    best = max((w for w in grid if w.min() > 0), key=objective)
    assert np.abs(weights - best).max() < 0.015
    assert weights[1] > 0.6


def test_saved_and_loaded_it_is_the_same_and_a_forged_file_is_refused(tmp_path: Path) -> None:
    X, y = data("wine")
    learner = ClassProbabilities(n_trees=5, rounds=3, random_state=0).fit(X, y)
    folder = learner.map_.save(tmp_path / "map")
    loaded = geometry.load(folder)
    assert torch.equal(loaded(torch.from_numpy(X)), learner.map_(torch.from_numpy(X)))
    for table, number in (("child", 10**6), ("feature", 13), ("leaf", -1)):
        broken = ClassProbabilities(n_trees=5, rounds=3, random_state=0).fit(X, y).map_
        getattr(broken.forest, table)[0] = number
        broken.save(tmp_path / table)
        with pytest.raises(CorruptFileError, match="must point to"):
            geometry.load(tmp_path / table)


def test_a_model_of_it_predicts_the_same_after_saving(tmp_path: Path) -> None:
    X, y = data("wine")
    model = nearer.fit(X, y, method="class-probabilities")
    model.save(tmp_path / "model")
    again = nearer.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert "pickle" not in json.dumps(json.loads((tmp_path / "model" / "manifest.json").read_text()))
    plain = model.to_torch()
    np.testing.assert_allclose(plain(torch.from_numpy(X)).numpy(), model.transform(X), atol=1e-6)


def test_onnx_gives_the_same_for_any_number_of_rows(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    X, y = data("wine")
    learner = ClassProbabilities(n_trees=5, rounds=2, random_state=0).fit(X, y)
    model = Model(learner.map_, Inputs("features", size=(13,)), method="by hand")
    session = runtime.InferenceSession(str(model.export(tmp_path / "model.onnx")))
    for n in (1, 2, 50):
        (found,) = session.run(None, {"items": X[:n]})
        np.testing.assert_allclose(found, model.transform(X[:n]), atol=1e-6)


def test_the_parts_of_a_distance_sum_to_it_and_name_the_column_that_decides() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = (X[:, 2] > 0).astype(int)
    learner = ClassProbabilities(n_trees=30, rounds=20, random_state=0).fit(X, y)
    query, item = X[:1].copy(), X[:1].copy()
    query[0, 2], item[0, 2] = 2.0, -2.0
    query[0, 0] += 0.1
    explanation = explain_pair(learner.map_, query, item, tuple("abcde"))
    assert explanation.top(1)[0][0] == "c"
    assert abs(explanation.missing) < 1e-9 * explanation.squared_distance + 1e-12
    assert not explanation.exact


def test_principal_directions_keep_the_distances_that_matter() -> None:
    X, y = data("wine")
    whole, few = (ClassProbabilities(d, random_state=0).fit(X, y) for d in (None, 4))
    assert few.transform(X).shape == (178, 4)
    first, second = (learner.transform(X[::3]) for learner in (whole, few))
    distances = [np.linalg.norm(z[:, None] - z[None], axis=2) for z in (first, second)]
    assert np.corrcoef(distances[0].ravel(), distances[1].ravel())[0, 1] > 0.98
    np.testing.assert_allclose(few.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"weights": (0, 0, 0)}, "not all 0"), ({"weights": (1, 2)}, "three numbers"), ({"n_trees": 0}, "n_trees"),
     ({"rounds": 0}, "rounds"), ({"spread": -1.0}, "spread"), ({"n_components": 99}, "n_components")],
)  # fmt: skip
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    X, y = data("wine")
    with pytest.raises(ParameterError, match=message):
        ClassProbabilities(**settings).fit(X, y)


def test_rare_classes_large_numbers_and_one_class() -> None:
    X, y = data("wine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rare = np.where(np.arange(178) == 0, "d", y)
        assert ClassProbabilities(n_trees=5, rounds=2).fit(X, rare).predict_proba(X).shape == (178, 4)
        each = ClassProbabilities(n_trees=5, rounds=2).fit(X[:4], list("abcd"))
    assert each.predict(X[:4]).tolist() == list("abcd")
    with pytest.raises(NotFiniteError, match="float32"):
        ClassProbabilities().fit(X.astype(np.float64) * 1e300, y)
    with pytest.raises(LabelError, match="two classes"):
        ClassProbabilities().fit(X, ["a"] * 178)
    with pytest.raises(NearerError):
        ClassProbabilities().fit(X, y).map_(torch.zeros(1, 2))
