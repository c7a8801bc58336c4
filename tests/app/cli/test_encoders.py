"""`nearer encoders`: the same held-out rows for all, the cheapest of the best is named, what cannot be is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from nearer.app.cli import app
from nearer.models import _encoders as encoders

Image = pytest.importorskip("PIL.Image")


def call(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["encoders", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


def network(name: str) -> nn.Module:
    """Lite0 and 2 see colors, 2 at ten times the cost; Lite1 sees hardly anything."""
    torch.manual_seed(0)
    eye = nn.Conv2d(3, 6, 4, stride=4)
    sees = nn.Sequential(eye, nn.ReLU())
    if name == "efficientnet-lite1":
        eye.weight.data[1:] = 0
        eye.weight.data[0, 1:] = 0
    if name != "efficientnet-lite2":
        return sees
    return nn.Sequential(nn.Conv2d(3, 300, 15, padding=7), nn.Conv2d(300, 3, 15, padding=7), sees)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(encoders, "installed", lambda name: True)
    monkeypatch.setattr("nearer.app.cli._encoders.installed", lambda name: name.startswith("efficientnet"))
    monkeypatch.setattr(encoders, "_network", network)
    for name, about in list(encoders.PACKAGED.items()):
        if about.kind == "photos":
            small = replace(about, settings={**about.settings, "size": 16, "resize": 16})
            monkeypatch.setitem(encoders.PACKAGED, name, small)
    rng = np.random.default_rng(0)
    colors = rng.uniform(60, 200, (8, 3))
    for label, color in enumerate(colors):
        (tmp_path / "photos" / f"kind {label}").mkdir(parents=True)
        for number in range(8):
            pixels = np.clip(color + rng.normal(0, 25, 3) + rng.normal(0, 20, (20, 20, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / f"kind {label}" / f"{number}.png")
    return tmp_path / "photos"


def test_all_that_are_installed_on_the_same_rows(folder: Path) -> None:
    found = json.loads(call(folder, "--json"))
    names = ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]
    assert [one["encoder"] for one in found["encoders"]] == names
    seen, blind, dear = found["encoders"]
    assert blind["closed form"]["recall@1"] < seen["closed form"]["recall@1"] - 0.2
    assert set(seen["frozen"]) >= {"recall@1", "map@r"}
    assert dear["CPU ms an item"] > 3 * seen["CPU ms an item"]
    assert found["best"] in ("efficientnet-lite0", "efficientnet-lite2")
    assert found["advised"] == "efficientnet-lite0", "no worse, and cheaper"


def test_people_see_a_table_and_a_sentence(folder: Path) -> None:
    words = [folder, "--encoder", "efficientnet-lite1", "--encoder", "efficientnet-lite0", "--split", "classes"]
    told = " ".join(call(*words).split())
    assert "held-out photos of photos, frozen → closed form" in told
    assert "Best closed form: efficientnet-lite" in told
    assert f": nearer fit {folder} --encoder efficientnet-lite" in told


def test_what_cannot_be_compared_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearer.app.cli._encoders.installed", lambda name: False)
    assert "pip install 'nearer[photos]'" in call(folder, code=1)
    assert "`--encoder` must be one of" in call(folder, "--encoder", "resnet", code=1)
    Path(folder, "..", "one").mkdir()
    (folder / "kind 0").rename(folder / ".." / "one" / "kind 0")
    assert "two classes" in call(folder / ".." / "one", "--encoder", "efficientnet-lite0", code=1)
