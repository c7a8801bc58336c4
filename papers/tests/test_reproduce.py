"""`nearer reproduce` with a network of the user's: photos in a folder, weights in a file, clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner
from unseen_class_sets import SHORT, photos, tiny_backbone

from nearer.app.cli import app
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.unified_view import _unseen_class_data as unseen_class_data
from nearer_papers.unified_view import _unseen_class_report as unseen_class_report

TINY = "unseen_class_sets:tiny_backbone"


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["reproduce", *words])
    assert result.exit_code == code, result.output + result.stderr
    return result.output if code == 0 else result.stderr


def test_photos_and_a_network_of_yours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = photos(tmp_path)
    monkeypatch.setitem(unseen_class_data.LOADERS, "cub200", lambda: load_cub200(folder=root, check_counts=False))
    monkeypatch.setattr(unseen_class_data, "FOLDER_PROTOCOL", SHORT)
    torch.save(tiny_backbone().state_dict(), tmp_path / "weights.pth")
    backbone = ["--backbone", "unseen_class_sets:tiny_backbone", "--weights", "weights.pth"]
    found = json.loads(
        run("unified-view", "--only", "cub200", "--only", "RAW+VTHM", "--seeds", "1", *backbone, "--json", "-q")
    )
    assert {row["row"] for row in found["rows"]} == {unseen_class_report.START, "RAW+VTHM"}
    assert all(row["made"]["data"] for row in found["rows"])
    assert Path("reproduce-unified-view/report.html").is_file()


@pytest.mark.parametrize("recipe", ["unified-view", "jrd"])
def test_the_published_protocol_on_photos(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = photos(tmp_path)
    monkeypatch.setitem(unseen_class_data.LOADERS, "cub200", lambda: load_cub200(folder=root, check_counts=False))
    monkeypatch.setattr(unseen_class_report, "QUICK", {"epochs": 2, "steps": 2})
    seen = []
    load = unseen_class_report.load_unseen_classes

    def spied(name, seed, **settings):
        seen.append((load(name, seed, **settings), settings["backbone"]))
        return seen[-1][0]

    monkeypatch.setattr(unseen_class_report, "load_unseen_classes", spied)
    row = "RAW" if recipe == "unified-view" else "JRD"
    words = [
        "--only",
        "cub200",
        "--only",
        row,
        "--protocol",
        "paper",
        "--backbone",
        TINY,
        "--quick",
        "--json",
        "-q",
    ]
    found = json.loads(run(recipe, *words))
    assert {one["data"] for one in found["rows"]} == {"cub200_paper"}
    used = found["rows"][-1]["protocol"]
    data, backbone = seen[0]
    assert backbone.reversed_colors
    assert backbone.mean == pytest.approx((104 / 255, 117 / 255, 128 / 255))
    assert {f"recall@{k}" for k in (1, 2, 4, 8, 16, 32)} <= set(found["rows"][-1]["scores"])
    crop = {"unified-view": 227, "jrd": 224}[recipe]
    assert backbone.size == crop
    assert data.train.items(torch.tensor([0])).shape == (1, 3, crop, crop)
    # 256 in the longer form of both papers.
    assert data.train.size == 256
    if recipe == "unified-view":
        assert (used["schedule"], used["rate"], used["classes"] * used["per_class"]) == ("fixed", 1e-5, 80)
    else:
        assert (used["schedule"], used["falls_every"], used["eps"], used["decay"]) == ("steps", 20, 0.01, 1e-4)
    assert used["frozen_norms"]
    own = ["--size", "24", "--colors", "rgb", "--mean", "0.5,0.5,0.5", "--spread", "1,1,1", "-o", "own"]
    run(recipe, *words, *own)
    backbone = seen[-1][1]
    assert (backbone.size, backbone.reversed_colors, backbone.mean) == (24, False, (0.5, 0.5, 0.5))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["asymmetric", "--backbone", "unseen_class_sets:tiny_backbone"],
            "must come with one of semi-supervised, unified-view, jrd",
        ),
        (["jrd", "--weights", "weights.pth"], "must come with `--backbone`"),
        (["jrd", "--backbone", "unseen_class_sets:nothing"], "that can be imported"),
        (["asymmetric", "--protocol", "paper"], "must come with one of unified-view, jrd, got asymmetric"),
        (["jrd", "--only", "omniglot", "--protocol", "paper"], "must come with `--only` and photos"),
        (["jrd", "--size", "32"], "`--size` must come with `--backbone`"),
        (["jrd", "--backbone", TINY, "--mean", "1,2"], "`--mean` must be three numbers"),
    ],
)
def test_what_does_not_fit_is_refused(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told in run(*words, code=1)
    assert not list(tmp_path.iterdir())
