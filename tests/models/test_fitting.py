"""From data to model: the supervision is found, the rule is named, the scores are honest, the folder comes back."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import nearer
from nearer.datasets import Dataset, Split, few_labels, load_files
from nearer.datasets import load as load_dataset
from nearer.datasets._dataset import Source
from nearer.exceptions import CorruptFileError, LabelError, NearerError, ParameterError, ShapeError
from nearer.models import Model
from nearer.models import _learning as learning
from nearer.models._card import save_fitted
from nearer.models._export import export, plain
from nearer.models._fitting import fit_model
from nearer.models._inputs import Inputs
from nearer.models._methods import METHODS, choose_methods, method_named
from nearer.models._problem import Problem
from nearer.models._saved import load
from nearer.models._settings import FitSettings

FAST = {"epochs": 2, "pictures": False, "hidden": (16,)}


def data_of(x, y, **more) -> Dataset:
    return Dataset(Source("made", "made data", "-", "-", "-"), {"all": Split(np.asarray(x, np.float32), y)}, **more)


def blobs(seed=0, n=120, classes=4):
    random = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = random.normal(size=(classes, 5))[y] * 2 + random.normal(size=(n, 5))
    return x.astype(np.float32), y


@pytest.mark.parametrize(
    "method",
    [method for method in METHODS if "classes" in method.supervision and method.name != "deep-semi-supervised"],
    ids=lambda one: one.name,
)
def test_every_method_learns_from_classes_and_comes_back(method, tmp_path):
    data = data_of(*blobs())
    loss = "SupConLoss" if method.name == "network" else None
    fitted = fit_model(data, FitSettings(method=method.name, loss=loss, **FAST))
    assert fitted.model.method == method.name
    assert np.isfinite(fitted.model.embed(data)).all()
    again = load(save_fitted(fitted, tmp_path / "model"))
    np.testing.assert_allclose(again.embed(data), fitted.model.embed(data), rtol=1e-5, atol=1e-6)
    assert again.scores == json.loads(json.dumps(fitted.comparison.to_dict()))
    assert again.data["fingerprint"] == data.fingerprint()
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"a metric learned with {method.name}" in card
    assert fitted.verdict in card


@pytest.mark.parametrize("name", ["raml-krr", "raml-svr", "alignment"])
@pytest.mark.parametrize("kind", ["sets", "distributions"])
def test_label_tables(name, kind):
    x, y = blobs()
    sets = np.stack([y % 2, y // 2, (y == 3)], axis=1).astype(np.uint8)
    labels = sets if kind == "sets" else ((sets + 0.5) / (sets + 0.5).sum(1, keepdims=True)).astype(np.float32)
    fitted = fit_model(data_of(x, labels), FitSettings(method=name, **FAST))
    assert fitted.problem.kind == kind
    wanted = "average-precision" if kind == "sets" else "cosine"
    assert wanted in fitted.comparison.second


def test_the_rule_that_fired_is_named():
    for n, p, expected in [
        (100, 10, "class-probabilities"),
        (15_000, 100, "lmnn"),
        (10**6, 500, "kissme"),
    ]:
        methods, rule = choose_methods("classes", n=n, p=p)
        assert methods[0].name == "euclidean"
        assert methods[-1].name == expected
        assert f": {expected}, about " in rule
    assert choose_methods("classes", n=10**5, p=20)[0][-1].name == "class-probabilities"
    for n, p in [(10**5, 100), (10**6, 128)]:
        methods, rule = choose_methods("classes", n=n, p=p)
        assert methods[-1].name == "nca"
        assert ": nca in batches of 1,024 rows, about " in rule
    assert choose_methods("classes", n=30_000, p=64, seconds=10)[0][-1].name == "ldml"
    assert choose_methods("sets", n=5)[0][-1].name == "raml-krr"
    assert choose_methods("distributions", n=5)[0][-1].name == "raml-krr"
    assert [one.name for one in choose_methods("partial", n=5)[0]] == ["euclidean", "within-class"]
    assert choose_methods("partial", n=5, p=51)[0][1].name == "leading-directions"
    assert choose_methods("classes", n=5, images=True)[0][-1].name == "raw-vthm"


def test_nca_and_lmnn_go_by_batches_where_all_rows_take_too_long(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1800)
    x = (rng.normal(size=(4, 6))[y] + rng.normal(size=(1800, 6))).astype(np.float32)
    assert method_named("nca").batch_size(1_000, 50, 60.0) is None  # all rows fit the time
    assert method_named("nca").batch_size(1_000, 50, 0.01) is None  # no more rows than a batch
    assert method_named("nca").batch_size(1_500, 6, 0.01) is None  # batches would take longer than all rows
    assert method_named("lmnn").batch_size(10**6, 128, 60.0) == 1024
    whole = fit_model(data_of(x, y), FitSettings(method="nca", **FAST))
    slow = [dataclasses.replace(method, seconds=lambda n, p: 1e4) for method in METHODS]
    monkeypatch.setattr("nearer.models._methods.METHODS", tuple(slow))
    told = []
    fitted = fit_model(data_of(x, y), FitSettings(method="nca", **FAST), say=told.append)
    assert any("nca learns from batches of 1,024 rows; all " in line for line in told)
    assert not np.allclose(fitted.model.transform(x[:9]), whole.model.transform(x[:9]))
    assert fitted.comparison.second["map@r"] > whole.comparison.second["map@r"] - 0.05


def test_of_very_many_held_out_rows_some_are_asked(monkeypatch):
    monkeypatch.setattr("nearer.models._scoring.LARGE", 50)
    monkeypatch.setattr("nearer.models._scoring.ASKED", 30)
    x, y = blobs(n=400)
    fitted = fit_model(data_of(x, y), FitSettings(method="kissme", **FAST))
    second = fitted.comparison.second
    assert second.counts["queries"] == 30 < second.counts["database"]
    assert second.settings["sample"] == 30
    assert "nmi" not in second
    assert set(fitted.comparison.intervals) == set(second)


def test_what_takes_very_long_says_so_before_it_starts():
    rng = np.random.default_rng(0)
    told = []
    numbers = data_of(rng.normal(size=(400, 3)).astype(np.float32), rng.normal(size=400))
    fit_model(numbers, FitSettings(method="mlkr", time=1e-5, **FAST), say=told.append)
    assert any("mlkr will take about " in line and "That of hraml does not" in line for line in told)


@pytest.mark.parametrize(("columns", "way_out"), [(2, "`rows` learns from"), (200, "a network (raw-vthm)")])
def test_what_does_not_fit_the_memory_says_so_and_names_what_does(monkeypatch, columns, way_out):
    told = []
    x, y = blobs(n=300)
    wide = np.random.default_rng(0).normal(size=(300, columns)).astype(np.float32)
    fit_model(data_of(np.hstack([x, wide]), y), FitSettings(method="rca", **FAST), say=told.append)
    assert not any("GB beside the data" in line for line in told)
    monkeypatch.setattr("nearer.models._fitting.machine_memory", lambda: 1e4)
    fit_model(data_of(np.hstack([x, wide]), y), FitSettings(method="rca", **FAST), say=told.append)
    assert any("rca will take about " in line and way_out in line for line in told)


def test_auto_tries_several_and_says_when_nothing_helps():
    x, y = blobs()
    told = []
    fitted = fit_model(data_of(x, y), FitSettings(method="auto", time=30, **FAST), say=told.append)
    assert {trial.method for trial in fitted.trials} >= {"euclidean", "kissme", "lmnn"}
    assert fitted.rule in told
    random = np.random.default_rng(0)
    noise = data_of(random.normal(size=(60, 3)), np.arange(60) % 2)
    hopeless = fit_model(noise, FitSettings(method="auto", time=1e-9, **FAST))
    assert hopeless.model.method == "euclidean"
    assert "Nothing beats the raw features" in hopeless.rule
    assert [trial.reason for trial in hopeless.trials][1] == "no time left"


def test_held_out_rows_teach_nothing():
    x, y = blobs()
    problem = Problem.from_data(data_of(x, y), held_out=0.2, split="auto", seed=0)
    kept = x[problem.train]
    fits = {True: [], False: []}
    for shift in (0, 100):
        x[problem.held_out] += shift
        for refit, fitted in fits.items():
            fitted.append(fit_model(data_of(x, y), FitSettings(method="kissme", pictures=False, refit=refit)))
    for first, second in fits.values():
        assert np.array_equal(first.learned(kept), second.learned(kept)), "what is scored knows no held-out row"
    first, second = (fitted.model for fitted in fits[False])
    assert np.array_equal(first.transform(kept), second.transform(kept))
    first, second = (fitted.model for fitted in fits[True])
    assert not np.allclose(first.transform(kept), second.transform(kept)), "what is kept has learned from them"
    assert first.seen(x[problem.train]).all()


def test_a_part_named_test_stays_unseen():
    x, y = blobs()
    parts = {"train": Split(x[:80], y[:80]), "test": Split(x[80:], y[80:])}
    model = fit_model(
        Dataset(load_dataset("wine").source, parts), FitSettings(method="kissme", pictures=False)
    ).model
    assert model.seen(x[:80]).all()
    assert not model.seen(x[80:]).any()


def test_something_simpler_is_taken_where_it_is_as_good():
    """Classes far apart in every direction: nothing can be better than the features."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    x = (np.array([0.0, 1000.0, 2000.0])[y][:, None] + rng.normal(size=(120, 3))).astype(np.float32)
    fitted = fit_model(data_of(x, y), FitSettings(pictures=False))
    assert [trial.method for trial in fitted.trials] == ["euclidean", "lda", "nca", "class-probabilities"]
    assert fitted.model.method == "euclidean"
    assert "within a standard error of the best, and simpler" in fitted.rule
    square = rng.uniform(-1, 1, (400, 6)).astype(np.float32)
    opposite = (square[:, 0] * square[:, 1] > 0).astype(int)  # no linear map tells these quarters apart
    fitted = fit_model(data_of(square, opposite), FitSettings(pictures=False))
    assert fitted.model.method == "class-probabilities"
    weights = fitted.model.encoder.parts[0].members
    assert weights.sum().item() == pytest.approx(1)
    assert fitted.comparison.second["map@r"] > fitted.comparison.first["map@r"] + 0.1


def test_small_tables_are_learned_by_one_thread(monkeypatch):
    """On a busy machine the second thread of products this small waited for the first 97 % of the time."""
    seen = []

    def spy(*_, **__):
        seen.append({each["num_threads"] for each in threadpool_info()})
        raise LabelError("enough")

    monkeypatch.setattr("nearer.models._fitting.raw_map", spy)
    with threadpool_limits(2), pytest.raises(LabelError, match="enough"):
        fit_model(data_of(*blobs()), FitSettings(method="rca", **FAST))
    assert seen == [{1}]


def test_splits():
    x, y = blobs(n=120, classes=40)
    found = Problem.from_data(data_of(x, y), held_out=0.25, split="auto", seed=0)
    assert found.split == "classes"
    assert not set(y[found.train]) & set(y[found.held_out])
    with pytest.raises(LabelError, match="at least four classes, got 2"):
        Problem.from_data(data_of(*blobs(classes=2)), held_out=0.2, split="classes", seed=0)
    parts = {"train": Split(x[:80], y[:80]), "test": Split(x[80:], y[80:])}
    given = Problem.from_data(Dataset(load_dataset("wine").source, parts), held_out=0.2, split="auto", seed=0)
    assert given.split == "given"
    assert given.held_out.tolist() == list(range(80, 120))
    most = np.arange(60_000) % 3
    big = Problem.from_data(data_of(np.zeros((60_000, 1)), most), held_out=0.5, split="auto", seed=0)
    assert len(big.held_out) == 5_000


def test_images_go_to_the_network_for_their_kind():
    digits = load_dataset("digits").all
    images = np.kron(digits.images()[:60, 0], np.ones((1, 4, 4)))[:, 2:30, 2:30]
    data = Dataset(load_dataset("digits").source, {"all": Split((255 * images).astype(np.uint8), digits.y[:60])})
    fitted = fit_model(data, FitSettings(epochs=1, pictures=False, batch_size=20))
    assert fitted.model.inputs == Inputs("images", (), (1, 28, 28))
    assert "images in folders by class" in fitted.rule
    with pytest.raises(ParameterError, match="must be a network for images"):
        fit_model(data, FitSettings(method="lmnn"))


def test_columns_are_found_by_name(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("b,a,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(40)))
    model = fit_model(load_files(table, label="y"), FitSettings(method="rca", pictures=False)).model
    other = tmp_path / "b.csv"
    other.write_text("a,extra,b\n1,9,2\n")
    np.testing.assert_allclose(model.embed(load_files(other)), model.transform([[2, 1]]), rtol=1e-5)
    other.write_text("a\n1\n")
    with pytest.raises(ShapeError, match="and b is missing"):
        model.embed(load_files(other))
    np.savez(tmp_path / "c.npz", x=np.zeros((2, 5)))
    with pytest.raises(ShapeError, match=r"takes 2 features, got 5|columns of the model"):
        model.embed(load_files(tmp_path / "c.npz"))


@pytest.mark.parametrize("method", ["kissme", "raw-vthm"])
def test_exports_give_the_same_embeddings(method, tmp_path):
    x, y = blobs()
    model = fit_model(data_of(x, y), FitSettings(method=method, **FAST)).model
    expected = model.transform(x)
    layers = plain(model)
    np.testing.assert_allclose(layers(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    from safetensors.torch import load_file

    layers.load_state_dict(load_file(export(model, tmp_path / "m.safetensors")))
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(export(model, tmp_path / "m.onnx")))
    for rows in (x, x[:1]):
        (found,) = session.run(["embeddings"], {"items": rows})
        np.testing.assert_allclose(found, model.transform(rows), rtol=1e-4, atol=1e-5)
    with pytest.raises(ParameterError, match=r"must end in \.onnx"):
        export(model, tmp_path / "m.pt")


def test_a_stranger_cannot_run_code(tmp_path):
    fitted = fit_model(data_of(*blobs()), FitSettings(method="rca", pictures=False))
    place = save_fitted(fitted, tmp_path / "model")
    assert nearer.load(place).method == "rca"
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["metadata"]["encoder"]["class"] = "os.system"
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorruptFileError, match="was changed after it was written"):
        load(place)
    from nearer._storage import write_folder

    forged = {**manifest["metadata"], "encoder": {"class": "os.system", "settings": {"command": "touch x"}}}
    tensors = {"parameters": fitted.model.encoder.state_dict()}
    write_folder(tmp_path / "forged", format="nearer.model", version=1, tensors=tensors, metadata=forged)
    with pytest.raises(CorruptFileError, match="must hold a model of nearer"):
        load(tmp_path / "forged")
    assert not any(file.suffix in (".pkl", ".pt", ".pickle") for file in place.iterdir())


def test_bad_input():
    x, y = blobs()
    with pytest.raises(LabelError, match="labels for some rows, got none"):
        fit_model(data_of(x, np.full(len(x), -1)))
    with pytest.raises(LabelError, match="at least two classes, got one on all 120"):
        fit_model(data_of(x, np.zeros(len(x), np.int64)))
    with pytest.raises(ParameterError, match=r"`method`.*lmnn"):
        fit_model(data_of(x, y), FitSettings(method="lmn"))
    with pytest.raises(ParameterError, match="one that learns from sets"):
        fit_model(data_of(x, np.stack([y % 2, y // 2], 1).astype(np.uint8)), FitSettings(method="lmnn"))
    with pytest.raises(ParameterError, match="`epochs`"):
        FitSettings(epochs=0)
    with pytest.raises(ParameterError, match="Did you mean `patience`"):
        FitSettings.from_dict({"pateince": 3})
    with pytest.raises(LabelError, match="rows to hold out"):
        fit_model(data_of(x[:3], np.array([0, 1, 2])))
    model = Model(
        plain(fit_model(data_of(x, y), FitSettings(method="rca")).model), Inputs("features", size=(5,)), "x"
    )
    with pytest.raises((ParameterError, AttributeError)):
        model.save("never")


def test_what_a_model_cannot_take_is_refused() -> None:
    from nearer.geometry import Mahalanobis
    from nearer.models import Model
    from nearer.models._inputs import Inputs

    model = Model(Mahalanobis.from_factor([[2.0], [0.0]]), Inputs("features", size=(2,)), method="by hand")
    for wrong in ("x", [[1, 2], [3]], np.zeros((2, 2), complex), np.zeros((3, 5)), np.zeros(3)):
        with pytest.raises(NearerError, match=r"must hold|must be a|must have|takes 2 features"):
            model.transform(wrong)
    assert model.transform(np.zeros((0, 2))).shape == (0, 1)
    pandas = pytest.importorskip("pandas")
    assert model.transform(pandas.DataFrame({"a": [1.5], "b": [True]})).tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("method", "stop", "told"), [("choose", "nca", "while it tried nca"), ("lda", "lda lda", "was scored is kept")]
)
def test_ctrl_c_keeps_the_best_so_far(monkeypatch, method, stop, told):
    calls: list[str] = []
    learn = learning.learn_estimator

    def interrupted(problem, options, method, inner):
        calls.append(method.name)
        if " ".join(calls).endswith(stop):
            raise KeyboardInterrupt
        return learn(problem, options, method, inner)

    monkeypatch.setattr(learning, "learn_estimator", interrupted)
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 200)
    x = y[:, None] * [3.0, 0, 0] + rng.normal(size=(600, 3)) * [1, 10, 10]
    fitted = fit_model(data_of(x, y), FitSettings(pictures=False, method=method))
    assert fitted.model.method == "lda"
    assert any(told in note for note in fitted.notes)
    assert fitted.model.predict(x).shape == (600,)


def test_ctrl_c_before_anything_has_a_score_ends_the_fit(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "learn_nothing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_model(data_of(np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3))


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_two_labels_of_a_class_keep_the_features(unit):
    """They prove nothing, and what they would teach harms. Columns that reach as far stay as given."""
    x, y = blobs(n=200)
    x = np.column_stack([x, unit * np.random.default_rng(1).normal(size=200)])
    model = nearer.fit(x, few_labels(y, per_class=2, seed=0))
    assert model.method == "euclidean"
    assert "Too few labelled rows" in model.fitted.rule
    assert model.parameters["standardize"] == (unit > 1)


@pytest.mark.parametrize("size", [1e37, 1e-37])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_sizes_at_the_ends_of_float32_are_learned_from(size):
    x, y = blobs()
    model = nearer.fit(x * np.float32(size), 2 * (y % 2) - 1)
    assert np.isfinite(model.transform(x * np.float32(size))).all()
    assert set(model.predict(x * np.float32(size))) == {-1, 1}
