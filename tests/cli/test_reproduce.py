"""`nearer reproduce` with a network of the user's: photos in a folder, weights in a file, clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nearer.cli import app
from nearer.datasets._cub200 import load_cub200
from nearer.recipes.unified_view import _unseen_class_data as unseen_class_data
from nearer.recipes.unified_view import _unseen_class_report as unseen_class_report
from unseen_class_sets import SHORT, photos, tiny_backbone


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
    assert all(row["made"]["source"] and row["made"]["data"] for row in found["rows"])
    assert Path("reproduce-unified-view/report.html").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["asymmetric", "--backbone", "unseen_class_sets:tiny_backbone"],
            "must come with one of unified-view, jrd",
        ),
        (["jrd", "--weights", "weights.pth"], "must come with `--backbone`"),
        (["jrd", "--backbone", "unseen_class_sets:nothing"], "that can be imported"),
    ],
)
def test_what_does_not_fit_is_refused(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told in run(*words, code=1)
    assert not list(tmp_path.iterdir())
