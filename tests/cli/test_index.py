"""`nearer index`, `search` and `serve` with an index that remembers its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nearer.cli import app

ROWS = "\n".join(f"{400638133000 + n},{n % 7},{n % 3 + n % 5},{1990 + n % 20},{'xy'[n % 2]}" for n in range(60))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with bar codes and years, a model of it and an index."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "data.csv").write_text(f"ean,a,b,Year,class\n{ROWS}\n")
    data, model = str(folder / "data.csv"), str(folder / "model")
    run("fit", data, "--label", "class", "--id", "ean", "--keep", "Year", "--out", model, "--quiet")
    run("index", data, "--model", model, "--label", "class", "--out", str(folder / "index"), "--quiet")
    return folder


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def hits(*words: str) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = json.loads(run(*words, "--json"))["results"]
    return found


def test_a_search_needs_only_the_index_and_filters_by_kind(place: Path) -> None:
    index, data = str(place / "index"), str(place / "data.csv")
    (first, *_) = hits("search", index, data, "-k", "3")
    assert isinstance(first[0]["id"], int)
    for where, years in {
        "Year=2000": {2000},
        '{"Year": {"$gte": 2005}}': set(range(2005, 2010)),
        '{"$or": [{"Year": 1991}, {"Year": 1993}]}': {1991, 1993},
    }.items():
        found = {hit["Year"] for row in hits("search", index, data, "-k", "60", "--where", where) for hit in row}
        assert found == years
    both = hits("search", index, data, "-k", "60", "--where", "Year=2000", "--where", "label=x")
    assert {(hit["Year"], hit["label"]) for row in both for hit in row} == {(2000, "x")}
    assert "Did you mean 'Year'" in run("search", index, data, "--where", "year=2000", code=1)
    assert "NAME=VALUE" in run("search", index, data, "--where", "Year", code=1)
    assert "NAME=VALUE" in run("search", index, data, "--where", "{", code=1)


def test_an_index_is_copied_to_parquet_and_back(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file, back = str(tmp_path / "items.parquet"), str(tmp_path / "back")
    assert "60 items" in run("index", str(place / "index"), "--out", file)
    run("index", file, "--out", back)
    data = str(place / "data.csv")
    assert hits("search", back, data, "-k", "2") == hits("search", str(place / "index"), data, "-k", "2")
    assert "a .parquet file" in run("index", str(place / "index"), "--out", str(tmp_path / "items.csv"), code=1)
    assert "`--model` must be given" in run("index", data, "--out", str(tmp_path / "other"), code=1)


def test_a_failed_index_leaves_its_place_free(place: Path, tmp_path: Path) -> None:
    words = ("index", str(place / "data.csv"), "--model", str(place / "model"), "--out", str(tmp_path / "ix"), "-q")
    run(*words, "--label", "clazz", code=1)
    assert list(tmp_path.iterdir()) == []
    run(*words, "--label", "class")


def test_serving_a_model_alone_says_that_an_index_is_missing(place: Path) -> None:
    pytest.importorskip("uvicorn")
    assert "is a model, not an index" in run("serve", str(place / "model"), code=1)


def test_a_network_with_batch_normalisation_has_a_fingerprint() -> None:
    import torch

    from nearer.geometry import MLP
    from nearer.models import Model
    from nearer.models._inputs import Inputs

    encoder = MLP(2, 2, hidden=[3])
    encoder.register_buffer("batches", torch.tensor(7))
    one = Model(encoder, Inputs("features", size=(2,)), method="by hand").fingerprint
    encoder.batches += 1
    assert one != Model(encoder, Inputs("features", size=(2,)), method="by hand").fingerprint
