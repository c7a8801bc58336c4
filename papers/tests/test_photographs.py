"""The recipe of the photographs on made ones: rows, where they start, what was tried, and going on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nearer.datasets import Dataset, Split
from nearer.datasets._dataset import own_source
from nearer.exceptions import ParameterError
from nearer.models._encoders import frozen
from nearer.models._whole_network import Recipe
from nearer_papers._recipe import Request
from nearer_papers.unified_view import _photograph_peers as peers
from nearer_papers.unified_view import _photographs as photographs
from nearer_papers.unified_view._photographs import measure, present
from nearer_papers.unified_view._unseen_classes import Setting

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten kinds with six photos each, a network that takes twelve pixels of them."""
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    patterns = np.kron(rng.normal(size=(20, 4, 4, 3)), np.ones((1, 4, 4, 1)))
    names, labels = [], np.repeat(np.arange(20), 6)
    for number, label in enumerate(labels):
        pixels = 128 + 40 * patterns[label] + rng.normal(0, 40, (16, 16, 3))
        names.append(f"{number}.png")
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(tmp_path / names[-1])
    x = np.array(names)
    parts = {"train": Split(x[:60], labels[:60], root=tmp_path), "test": Split(x[60:], labels[60:], root=tmp_path)}
    data = Dataset(own_source("made"), parts, note="2 of 62 train images missing")

    def network(name: str, kind: Any) -> Any:
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU()).eval()
        return frozen(layers, kind, {"size": 12})

    monkeypatch.setattr(photographs, "LOADERS", {"cub200": lambda allow_missing: data})
    monkeypatch.setattr(photographs, "frozen", network)
    monkeypatch.setattr(photographs, "VIEWS", {"160px": (16, 14, 12)})
    monkeypatch.setattr(photographs, "DIMENSION", 6)
    monkeypatch.setattr(photographs, "EPOCHS", 1)
    monkeypatch.setattr(photographs, "Recipe", partial(Recipe, classes=4, per_class=3))
    monkeypatch.setattr(photographs, "FACTORS", (0.5, 20.0))
    return tmp_path / "cache"


def test_rows_start_at_the_closed_form_and_say_how_they_came_about(made: Path) -> None:
    request = Request(seeds=2, only=("cub200", "RAW+VTHM", "JRD"))
    found = {(one.row["row"], one.row["seed"]): one.row for one in measure(request)}
    assert list(found) == [
        ("frozen", 0), ("closed form", 0), ("RAW+VTHM", 0), ("JRD", 0), ("RAW+VTHM", 1), ("JRD", 1)
    ]  # fmt: skip
    tuned = found["RAW+VTHM", 0]
    assert set(tuned["scores"]) == set(photographs.SCORES)
    assert tuned["note"] == "2 of 62 train images missing"
    assert set(tuned["tried"]) == {"epochs", "seed", "validation", "start", "0.5", "20"}
    assert tuned["recipe"]["rate"] in (0.5e-4, 20e-4)
    assert found["RAW+VTHM", 1]["tried"] == tuned["tried"], "chosen once, for all seeds"
    assert found["RAW+VTHM", 1]["loss"] != tuned["loss"]
    assert not list(made.rglob("step-*")), "checkpoints go when a row is done"
    keys = [tuple(row[name] for name in photographs.KEY) for row in found.values()]
    assert list(measure(Request(seeds=2, only=request.only, done=keys))) == []
    (section,) = present(list(found.values()), request).sections
    table = section.parts[-1]
    assert [[line[0], line[-2]] for line in table.rows] == [
        ["frozen", "1"],
        ["closed form", "1"],
        ["RAW+VTHM", "2"],
        ["JRD", "2"],
    ]
    assert table.rows[2][-1] == "66.85"
    assert photographs.result_file(tuned) == "photographs_cub200"


def test_a_row_that_was_killed_goes_on(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "EPOCHS", 2)
    data = photographs.prepare("cub200", "efficientnet-lite0", "160px")
    every = np.arange(60)

    def go() -> Any:
        return photographs.trained(data, "RAW", 0, every, data.head(every)[0], factor=1.0, epochs=2)

    losses, network = go()
    real, count = photographs.PhotoBatches.items, 0

    def dying(self: Any, rows: Any) -> Any:
        nonlocal count
        count += 1
        if count > len(losses):
            raise KeyboardInterrupt
        return real(self, rows)

    monkeypatch.setattr(photographs.PhotoBatches, "items", dying)
    with pytest.raises(KeyboardInterrupt):
        go()
    monkeypatch.setattr(photographs.PhotoBatches, "items", real)
    again, resumed = go()
    assert again == losses
    for one, other in zip(network.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ParameterError, match="`only` must be one of"):
        next(measure(Request(only=("cub20",))))
    assert {"RAW+VTHM", "AMSoftmax", "JRD", "SoftTriple", "MS", "Margin"} <= set(photographs.ROWS)
    assert set(photographs.TABLES["headline"]) <= set(photographs.ROWS)


@pytest.mark.usefixtures("made")
def test_rows_beside_the_peer_are_those_of_ours() -> None:
    pytest.importorskip("pytorch_metric_learning", reason="the extra 'peers' is not installed")
    asked = ("SoftTriple, not merged", "triplet + miner")
    request = Request(seeds=1, only=("cub200", *asked, *(f"{name}{peers.THEIRS}" for name in asked)))
    found = {one.row["row"]: one.row for one in measure(request)}
    for name in asked:
        ours, theirs = found[name], found[f"{name}{peers.THEIRS}"]
        assert ours["recipe"] == theirs["recipe"]
        assert ours["tried"] == theirs["tried"], "chosen for ours, used for both"
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert set(theirs["loss, CPU ms"]) == {"ours", "theirs"}
        for score, value in ours["scores"].items():
            assert theirs["scores"][score] == pytest.approx(value, abs=4), "one photo in sixty is 1.7"


@pytest.mark.parametrize("name", peers.PAIRS)
def test_both_sides_of_a_pair_are_one_formula(name: str) -> None:
    pytest.importorskip("pytorch_metric_learning", reason="the extra 'peers' is not installed")
    torch.manual_seed(0)
    labels = torch.arange(8).repeat_interleave(5)
    rows = torch.randn(40, 16) + 0.6 * torch.randn(8, 16)[labels]
    ours, theirs = peers.pair_of(name, Setting(8, 16, 0, 0))
    peers.same_start_as_ours(theirs, ours)
    found = []
    for loss in (ours, theirs):
        given = rows.clone().requires_grad_()
        value = loss(given, labels)
        value.backward()
        found.append((value.detach(), given.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)
