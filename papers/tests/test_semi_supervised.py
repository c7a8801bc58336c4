"""The recipe on made images: every table, every method, honest splits; the real data when it is there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from unseen_class_sets import photos, tiny_backbone

from nearer.datasets import Dataset, Split
from nearer.estimators import SERAPH
from nearer.exceptions import NearerError
from nearer.models._encoders import FrozenEncoder
from nearer.reports._page import html_report
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.data._mnist import MNIST
from nearer_papers.semi_supervised import _few_label_features as few_label_features
from nearer_papers.semi_supervised import _few_label_images as few_label_images
from nearer_papers.semi_supervised import _semi_supervised as semi_supervised
from nearer_papers.semi_supervised._few_label_features import load_few_label_features
from nearer_papers.semi_supervised._few_label_images import load_few_label_images
from nearer_papers.semi_supervised._semi_supervised import TABLES
from nearer_papers.semi_supervised._semi_supervised_figures import mined_triplets, toy_triplets
from nearer_papers.semi_supervised._semi_supervised_runs import (
    WITHOUT_NETWORK,
    Length,
    run_method,
    start_from_labels,
)
from nearer_papers.unified_view._unseen_class_networks import Backbone

RECIPE = recipe_named("semi-supervised")


def made(n: int, seed: int, color: bool) -> Split:
    """Ten patterns with noise."""
    random = np.random.default_rng(seed)
    shape = (32, 32, 3) if color else (28, 28)
    patterns = np.random.default_rng(0).integers(0, 200, (10, *shape))
    y = np.arange(n) % 10
    x = patterns[y] + random.integers(0, 56, (n, *shape))
    return Split(x.astype(np.uint8), y.astype(np.int64))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(color: bool) -> Dataset:
        names = tuple("0123456789")
        size = 1600 if color else 400
        return Dataset(MNIST, {"train": made(size, 1, color), "test": made(100, 2, color)}, names)

    loaders = {"mnist": lambda: load(False), "fashion": lambda: load(False), "cifar10": lambda: load(True)}
    monkeypatch.setattr(few_label_images, "LOADERS", loaders)
    length = Length(start_steps=2, partitions=1, epochs=1, unlabeled=60)
    monkeypatch.setattr(semi_supervised, "QUICK", {**semi_supervised.QUICK, **dict.fromkeys(loaders, length)})
    monkeypatch.setattr(semi_supervised, "ANGLES", (40.0, 50.0))
    monkeypatch.setattr("nearer_papers.systems._deep_pairs.SERAPH", partial(SERAPH, n_pairs=300))


def test_views_of_exemplars_are_on_the_scale_of_what_is_scored() -> None:
    data = load_few_label_images("mnist", 0)
    torch.manual_seed(0)
    views = data.exemplars(data.pixels)
    torch.testing.assert_close(data.standard(data.pixels), data.items)
    assert abs(float(views.mean() - data.items.mean())) < 0.3
    assert 0.5 < float(views.std() / data.items.std()) < 1.5


def test_every_table_of_one_data_set(tmp_path: Any) -> None:
    calls: list[float] = []
    request = Request(quick=True, only=("mnist",), progress=lambda text, done: calls.append(done))
    outcome = run_recipe(RECIPE, request)
    methods = {row["method"] for row in outcome.record["rows"]}
    assert methods == {method for table in TABLES.values() for method in table}
    drawn = {section.heading: len(section.parts) for section in outcome.sections}
    assert drawn["How triplets are mined"] == 1
    # Maps of three metrics, a grid for each of four methods, the curve of validation.
    assert drawn["Pictures of mnist"] == 6
    for row in outcome.record["rows"]:
        assert all(0 <= value <= 100 for value in row["scores"].values()), row
    assert {row["alpha"] for row in outcome.record["rows"] if row["method"] == "ours"} == {40.0, 50.0}
    json.dumps(outcome.record)
    titles = [section.heading for section in outcome.sections]
    assert "Table 1: semi-supervised methods" in titles
    assert "Pictures of mnist" in titles
    assert "The angle" in titles
    assert max(calls) <= 1
    page = html_report(outcome.title, outcome.sections, tmp_path / "page.html", summary="made").read_text()
    assert "best of all rows" in page


def test_only_what_is_asked_for_and_seeds() -> None:
    outcome = run_recipe(RECIPE, Request(quick=True, seeds=3, only=("cifar10", "table-4")))
    assert [row["method"] for row in outcome.record["rows"]] == ["ours, not orthogonal", "ours"]
    assert outcome.record["seeds"] == 1
    with pytest.raises(NearerError, match="`only` must be one of"):
        run_recipe(RECIPE, Request(only=("table-9",)))


def test_validation_images_are_in_no_training_and_classes_are_balanced() -> None:
    data = load_few_label_images("mnist", 0, scored=50)
    assert len(data.items) == 340
    assert int((data.labels >= 0).sum()) == 100
    assert np.bincount(data.validation[1]).tolist() == [5] * 10
    train = {one.numpy().tobytes() for one in data.items}
    assert not any(one.numpy().tobytes() in train for one in data.validation[0])
    limited = load_few_label_images("mnist", 0, limit=20, tested=30)
    assert len(limited.items) == 120
    assert len(limited.test[1]) == 30
    with pytest.raises(NearerError, match="`name` must be one of"):
        load_few_label_images("svhn", 0)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two runs are equal to the bit only where the order of sums does not depend on who is first."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_the_labels_of_unlabeled_and_test_images_change_nothing() -> None:
    length = Length(start_steps=2, partitions=1, epochs=1, unlabeled=40)
    runs = []
    for spoilt in (False, True):
        data = load_few_label_images("mnist", 0, scored=50)
        if spoilt:
            data.test[1][:] = np.random.default_rng(3).permutation(data.test[1])
        start = start_from_labels(data, 0, length)
        runs.append(run_method("ours", data, 0, length, start))
    for a, b in zip(runs[0].encoder.parameters(), runs[1].encoder.parameters(), strict=True):
        assert torch.equal(a, b)
    assert runs[0].scores != runs[1].scores


@pytest.mark.slow
@pytest.mark.skipif("NEARER_DATA" not in os.environ, reason="needs MNIST in NEARER_DATA")
def test_the_figure_of_the_issue_on_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = load_few_label_images("mnist", 0)
    length = semi_supervised.LENGTHS["mnist"]
    run = run_method("ours", data, 0, length, start_from_labels(data, 0, length))
    assert run.scores["recall@1"] >= 93.9
    assert run.scores["nmi"] >= 48.3


def made_features(low: int, high: int, each: int) -> Split:
    random = np.random.default_rng(low)
    y = np.repeat(np.arange(low, high), each)
    centers = np.random.default_rng(3).normal(size=(high, 24))
    x = np.abs(centers[y] + 0.3 * random.normal(size=(len(y), 24)))
    return Split(x.astype(np.float32), y.astype(np.int64))


# SERAPH's objective is flat where it ends (λ = 0): iterations 200 to 500 gain a thousandth of it, so that rounding
# decides on which side of the 500th it passes its 1e-9. What is asked here is the table.
@pytest.mark.filterwarnings("ignore:SERAPH stopped before:nearer.exceptions.StoppedEarlyWarning")
def test_table_2_on_features_of_classes_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": made_features(0, 6, 14), "test": made_features(6, 10, 8)}
    data = Dataset(MNIST, parts, tuple("abcdefghij"))
    monkeypatch.setitem(few_label_features.LOADERS, "cars196_features", lambda: data)
    length = Length(start_steps=2, partitions=1, epochs=1, unlabeled=40)
    monkeypatch.setitem(semi_supervised.QUICK, "cars196_features", length)
    outcome = run_recipe(RECIPE, Request(quick=True, only=("cars196_features", "table-2", "RotNet", "NCE")))
    # Turned features mean nothing.
    assert {row["method"] for row in outcome.record["rows"]} == {*TABLES["table-2"], "NCE"}
    assert {row["data"] for row in outcome.record["rows"]} == {"cars196_features"}
    titles = [section.heading for section in outcome.sections]
    assert "Table 2: semi-supervised methods, fine-grained classes never seen" in titles
    assert "Table 1: semi-supervised methods" not in titles
    loaded = load_few_label_features("cars196_features", 0)
    assert int((loaded.labels >= 0).sum()) == 30
    assert loaded.encoder(0)(loaded.items).norm(dim=1).allclose(torch.ones(len(loaded.items)))
    assert semi_supervised._asked(Request(only=("table-2",)))[0] == ["cars196_features"]
    assert semi_supervised._asked(Request(only=("table-1",)))[0] == ["mnist", "fashion", "cifar10"]


def test_photos_are_described_by_rmac_of_a_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = photos(tmp_path, each=8)
    monkeypatch.setitem(
        few_label_features.LOADERS, "cub200", lambda **_: load_cub200(folder=root, check_counts=False)
    )
    length = Length(start_steps=2, partitions=1, epochs=1, unlabeled=40)
    monkeypatch.setitem(semi_supervised.QUICK, "cub200", length)
    backbone = Backbone(tiny_backbone, size=14)
    only = ("cub200", "table-4", "pictures")
    outcome = run_recipe(RECIPE, Request(quick=True, only=only, backbone=backbone))
    assert {row["data"] for row in outcome.record["rows"]} == {"cub200"}
    drawn = next(one for one in outcome.sections if one.heading == "Pictures of cub200")
    # Three maps in one picture, a grid of photos for each method, the curve.
    assert len(drawn.parts) == 6
    rows = Backbone(lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(4)), size=14)
    with pytest.raises(NearerError, match="must return feature maps"):
        load_few_label_features("cub200", 0, backbone=rows)


def test_photos_without_a_backbone_are_described_once_by_the_packaged_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = photos(tmp_path, each=8)
    asked = []

    def load(*, allow_missing: bool) -> Any:
        asked.append(allow_missing)
        return load_cub200(folder=root, check_counts=False)

    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(few_label_features.LOADERS, "cub200", load)
    settings = {"size": 14, "mean": [0.5] * 3, "std": [0.5] * 3}
    made = FrozenEncoder("tiny", "photos", None, settings, own=tiny_backbone())
    monkeypatch.setattr(few_label_features, "frozen", lambda name, kind: made)
    real, described = few_label_features._rmac, []
    monkeypatch.setattr(
        few_label_features,
        "_rmac",
        lambda *given: described.append(1) or real(given[0], Backbone(tiny_backbone, size=14)),
    )
    first = load_few_label_features("cub200", 0, allow_missing=True)
    few_label_features._described.cache_clear()
    again = load_few_label_features("cub200", 0, allow_missing=True)
    assert torch.equal(first.items, again.items)
    assert len(described) == 2, "the training and the test photos, once"
    assert all(asked)
    assert int((first.labels >= 0).sum()) == 5 * len(torch.unique(first.labels[first.labels >= 0]))
    few_label_features._described.cache_clear()


def test_the_toy_mines_what_the_labels_say_where_they_do_not_reach_too_far() -> None:
    shares = {}
    for gamma in (0.99, 0.9):
        _, classes, given, triplets = toy_triplets(gamma=gamma)
        assert int((given >= 0).sum()) == 4
        anchor, positive, negative = triplets.T
        mixed = classes[positive] != classes[negative]
        assert int(mixed.sum()) >= 10
        shares[gamma] = float((classes[anchor] == classes[positive])[mixed].float().mean())
    assert shares[0.9] > 0.9 > shares[0.99]
    text = mined_triplets().text
    assert all(f"{100 * share:.0f} % with γ = {gamma:g}" in text for gamma, share in shares.items())


def test_rows_without_a_network_are_the_images_themselves() -> None:
    data = load_few_label_images("mnist", 0, scored=50)
    raw, turned = (WITHOUT_NETWORK[name](data) for name in WITHOUT_NETWORK)
    rows = raw(data.test[0])
    assert torch.equal(rows, data.test[0].flatten(1))
    found = turned(data.test[0])
    assert found.shape == (100, 50)
    expected = PCA(50, svd_solver="full").fit(data.items.flatten(1).numpy()).transform(rows.numpy())
    np.testing.assert_allclose(np.abs(found.numpy()), np.abs(expected), atol=2e-2)
