"""The front door: what people have goes in, a metric with its proof comes out, and what cannot be is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris, load_wine

import nearer
from nearer.evaluation import evaluate_unlabeled
from nearer.exceptions import LabelError, ParameterError, ShapeError
from nearer.relations import Pairs


def iris() -> pd.DataFrame:
    frame = load_iris(as_frame=True).frame
    frame["species"] = np.array(["setosa", "versicolor", "virginica"])[frame.pop("target")]
    frame.insert(0, "flower_id", range(1000, 1150))
    frame.loc[3, "sepal width (cm)"] = np.nan
    frame["color"] = np.where(np.arange(150) % 2, "blue", "white")
    return frame


@pytest.fixture(scope="module")
def model() -> nearer.models.Model:
    return nearer.fit(iris(), "species", method="lfda", id="flower_id", keep=["color"])


def test_a_frame_and_a_column(model, tmp_path: Path) -> None:
    assert model.inputs.names == ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
    assert model.classes == ("setosa", "versicolor", "virginica")
    told = str(model)
    assert "table: 150 rows, 4 features; 3 classes" in told
    assert "1 missing, median 3" in told
    assert "held-out rows" in told
    hits = model.neighbors(iris().iloc[[60]], k=3)[0]
    assert hits[0].id == 1060
    assert hits[0].metadata == {"species": "versicolor", "color": "white"}
    loaded = nearer.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(iris()), model.transform(iris()))
    np.testing.assert_array_equal(loaded.raw(iris()), model.raw(iris()))
    assert str(loaded) == told
    assert loaded.seen(iris()).sum() == model.seen(iris()).sum()
    with pytest.raises(ParameterError, match="must say where to search"):
        loaded.neighbors(iris())
    assert loaded.neighbors(iris().iloc[:2], k=2, database=iris()).ids.shape == (2, 2)


def test_columns_are_found_by_name(model) -> None:
    expected = model.transform(iris())
    np.testing.assert_array_equal(model.transform(iris()[iris().columns[::-1]]), expected)
    np.testing.assert_array_equal(model.transform(iris().drop(columns=["species", "color", "flower_id"])), expected)
    with pytest.raises(ShapeError, match=r"'petal width \(cm\)' is missing"):
        model.transform(iris().drop(columns="petal width (cm)"))
    with pytest.raises(ShapeError, match="'weight' besides"):
        model.transform(iris().assign(weight=1.0))


def test_evaluate_leaves_out_what_was_trained_on(model) -> None:
    with pytest.raises(LabelError, match="trained on all 150"):
        nearer.evaluate(model, iris(), "species")
    model = nearer.fit(iris(), "species", id="flower_id", settings={"refit": False})
    result = nearer.evaluate(model, iris(), "species")
    assert result.first.counts["trained on, left out"] == 120
    assert result.first.counts["queries"] == 30
    # The same rows, the same raw baseline: the same numbers as the fit.
    assert result.to_dict()["raw"]["scores"] == model.scores["raw"]["scores"]
    assert result.to_dict()["learned"]["scores"] == model.scores["learned"]["scores"]
    with pytest.raises(LabelError, match="trained on all 5"):
        nearer.evaluate(model, iris()[model.seen(iris())].iloc[:5])


def test_evaluate_without_labels_says_what_may_be_broken(model) -> None:
    """The scores are those of `evaluate_unlabeled`, and none of them is called better."""
    rows = iris().drop(columns=["species"])
    result = nearer.evaluate(model, rows)
    assert set(result.second) == {
        "effective-rank",
        "rank-share",
        "mean-cosine",
        "hubness",
        "never-found",
        "twins",
    }
    expected = evaluate_unlabeled(model.transform(rows), model.raw(rows), similarity="euclidean")
    assert result.second["effective-rank"] == expected["effective-rank"]
    assert result.verdict.startswith("No row has a label (name the column, if there is one)")
    assert f"{expected['agreement']:.1%} are the same before and after" in result.verdict
    assert "better in" not in str(result)
    assert result.to_dict()["verdict"] == result.verdict
    with pytest.raises(LabelError, match="has not learned from"):
        nearer.evaluate(model, rows.iloc[:5])


def test_the_report(model, tmp_path: Path) -> None:
    page = model.report(tmp_path / "report.html").read_text()
    assert model.scores["verdict"].split(".")[0][1:] in page  # it begins a sentence there
    assert page.index("Raw features beside") < page.index("The map") < page.index("The columns")
    assert page.count("<img") >= 1
    assert "flower_id" not in page or "left out" in page


@pytest.mark.parametrize(
    "convert",
    [
        lambda X, y: (X, y),
        lambda X, y: ((X, y), None),
        lambda X, y: (torch.tensor(X), torch.tensor(y)),
        lambda X, y: (sparse.csr_matrix(X), y),
        lambda X, y: (X.tolist(), [f"wine {one}" for one in y]),
    ],
    ids=["arrays", "pair", "tensors", "sparse", "lists"],
)
def test_arrays_of_any_make(convert) -> None:
    X, y = load_wine(return_X_y=True)
    given = convert(X, y)
    model = nearer.fit(*given, method="kissme")
    expected = nearer.fit(X, y, method="kissme")
    np.testing.assert_allclose(
        model.transform(given[0] if given[1] is not None else X), expected.transform(X), rtol=1e-4
    )


def test_a_file_and_missing_labels(tmp_path: Path) -> None:
    frame = iris()
    frame.loc[::3, "species"] = None
    frame.to_csv(tmp_path / "flowers.csv", index=False)
    model = nearer.fit(tmp_path / "flowers.csv", "species", method="lfda")
    assert model.data["kind"] == "partial"
    assert model.transform(tmp_path / "flowers.csv").shape == (150, 6)


def test_numbers_sets_and_distributions() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = nearer.fit(X[:150], y[:150] + 0.5, method="mlkr", settings={"pictures": False})
    assert model.data["kind"] == "numbers"
    assert "mean-absolute-error" in model.scores["gains"]
    assert nearer.evaluate(model, X[150:250], y[150:250] + 0.5).intervals
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 5))
    tags = (Z[:, :3] > 0).astype(int)
    assert nearer.fit(Z, tags, method="raml-krr").data["kind"] == "sets"
    shares = np.exp(Z[:, :3]) / np.exp(Z[:, :3]).sum(axis=1, keepdims=True)
    fitted = nearer.fit(Z, shares)
    assert fitted.data["kind"] == "distributions"
    assert "cosine" in nearer.evaluate(fitted, rng.normal(size=(40, 5)), shares[:40]).second


def test_any_loss_by_name() -> None:
    X, y = load_wine(return_X_y=True)
    model = nearer.fit(X, y, loss="CircleLoss", settings={"epochs": 1, "loss_settings": {"gamma": 32.0}})
    assert model.method == "network"
    assert model.parameters["loss_settings"] == {"gamma": 32.0}
    proxies = nearer.fit(X, y, loss="ProxyAnchorLoss", n_components=8, settings={"epochs": 1})
    assert proxies.transform(X).shape == (178, 8)


def test_the_rule_sees_columns_and_time() -> None:
    from nearer.models._methods import choose_methods

    assert choose_methods("classes", n=1_000, p=20)[0][-1].name == "class-probabilities"
    assert choose_methods("classes", n=3_000, p=20, classes=100)[0][-1].name == "class-probabilities"
    assert choose_methods("classes", n=3_000, p=20, classes=1000)[0][-1].name == "nca"
    assert choose_methods("classes", n=100_000, p=20)[0][-1].name == "class-probabilities"
    assert choose_methods("classes", n=15_000, p=100)[0][-1].name == "lmnn"
    assert choose_methods("classes", n=6_000, p=784)[0][-1].name == "kissme"
    assert choose_methods("classes", n=1_000, p=50, seconds=0.5)[0][-1].name != "nca"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda X, y: nearer.fit(iris(), "specie"), "Did you mean 'species'"),
        (lambda X, y: nearer.fit(X, y, method="nca", settings={"epochs": 3}), "`epochs` must come with a network"),
        (lambda X, y: nearer.fit(X, y, loss="CircelLoss"), "Did you mean 'CircleLoss'"),
        (
            lambda X, y: nearer.fit(X, y, loss="RAWLoss", settings={"loss_settings": {"alfa": 1}}),
            "Did you mean 'alpha'",
        ),
        (lambda X, y: nearer.fit(X, y, loss="RAWLoss", method="nca"), "must not both be given"),
        (lambda X, y: nearer.fit(X, y, settings={"seed": 1}), "must not repeat the argument 'seed'"),
        (lambda X, y: nearer.fit(X, y, settings={"sead": 1}), "Did you mean `seed`"),
        (lambda X, y: nearer.fit(X, np.zeros(len(X))), "at least two classes"),
        (lambda X, y: nearer.fit(X), "must have labels for some rows"),
        (lambda X, y: nearer.fit(X, y[:5]), "one entry for each of the 178 rows"),
        (lambda X, y: nearer.fit(X, Pairs(178, positive=[[0, 1]])), "near and far"),
        (lambda X, y: nearer.fit("nowhere.csv", "y"), "there is none at nowhere.csv"),
        (lambda X, y: nearer.fit(iris(), "species", keep=[3]), "`keep` must be column names"),
    ],
)
def test_what_cannot_be_is_said(call, told) -> None:
    X, y = load_wine(return_X_y=True)
    with pytest.raises(nearer.exceptions.NearerError) as caught:
        call(X, y)
    assert told in str(caught.value)


def test_whole_numbers_are_classes_until_a_regression_is_asked_for():
    X, y = load_diabetes(return_X_y=True)
    told = nearer.fit(X, y, method="kissme")
    assert told.data["kind"] == "classes"
    assert "choose the metric mlkr" in str(told)
    model = nearer.fit(X, y, method="mlkr")
    assert model.data["kind"] == "numbers"
    assert model.fitted.comparison.second["r2"] > 0.2
    assert "choose the metric" not in str(nearer.fit(*load_wine(return_X_y=True), method="kissme"))


def test_plus_and_minus_one_are_two_classes() -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 2, 1, -1)
    model = nearer.fit(rng.normal(size=(60, 3)) + y[:, None], y, method="rca")
    assert model.classes == ("-1", "1")
