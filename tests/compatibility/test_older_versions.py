"""Every version opens what every earlier one wrote, and says so when a folder is newer than itself."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import nearer
from nearer._storage import _folder, settle
from nearer.exceptions import CorruptFileError
from nearer.geometry import load as load_geometry
from nearer.index import Index
from nearer.training import Checkpoints

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "answers.json").is_file())
OPEN = {
    "model": nearer.load,
    "network": load_geometry,
    "exact": Index.load,
    "hnsw": Index.load,
    "ivf": Index.load,
    "run": lambda path: Checkpoints(path).load(),
}

spec = importlib.util.spec_from_file_location("make", HERE / "make.py")
assert spec is not None
assert spec.loader is not None
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


def test_there_are_folders_of_this_version() -> None:
    assert nearer.__version__ in VERSIONS, "run tests/compatibility/make.py before a release"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_folders_of_an_older_version_give_the_same_answers(version: str) -> None:
    expected = json.loads((HERE / version / "answers.json").read_text(encoding="utf-8"))
    told = make.answers(HERE / version)
    assert told.keys() == expected.keys()
    for name, answer in expected.items():
        compare(told[name], answer)


def compare(came: object, expected: object) -> None:
    """Numbers to single precision, all else exactly."""
    if isinstance(expected, list):
        assert isinstance(came, list)
        assert len(came) == len(expected)
        for one, other in zip(came, expected, strict=True):
            compare(one, other)
    elif isinstance(expected, float):
        np.testing.assert_allclose(came, expected, rtol=1e-5, atol=1e-6)
    else:
        assert came == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OPEN)
def test_opening_changes_nothing(tmp_path: Path, version: str, name: str) -> None:
    place = Path(shutil.copytree(HERE / version / name, tmp_path / name))
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    OPEN[name](place)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert not settle(place)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", OPEN)
def test_a_folder_of_a_newer_format_says_so(tmp_path: Path, name: str) -> None:
    place = Path(shutil.copytree(HERE / VERSIONS[-1] / name, tmp_path / name))
    if OPEN[name] == Index.load:
        with sqlite3.connect(place / "index.sqlite") as connection:
            connection.execute("PRAGMA user_version = 99")
            connection.execute("UPDATE about SET value = '\"9.9\"' WHERE name = 'library'")
        connection.close()
    else:
        age(next(place.rglob("manifest.json")))
    with pytest.raises(CorruptFileError, match=r"version 99 of .* written by nearer 9\.9; .* Update nearer"):
        OPEN[name](place)


def age(file: Path) -> None:
    """Let a folder be one of a later version."""
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest.pop("sha256")
    manifest.update(version=99, library="9.9", files={}, metadata={})
    manifest["sha256"] = _folder.seal_of(manifest)
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["model", "exact"])
def test_saved_again_and_loaded_again_it_is_the_same(tmp_path: Path, name: str) -> None:
    first = OPEN[name](HERE / VERSIONS[-1] / name)
    first.save(tmp_path / name)
    again = OPEN[name](tmp_path / name)
    if name == "model":
        np.testing.assert_array_equal(again.transform(make.QUERIES), first.transform(make.QUERIES))
        return
    one, other = (index.search(make.QUERIES, k=5) for index in (first, again))
    assert one.ids.tolist() == other.ids.tolist()
    np.testing.assert_array_equal(one.similarities, other.similarities)
