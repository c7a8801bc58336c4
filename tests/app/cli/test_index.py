"""`nearer index`, `search` and `serve` with an index that remembers its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.app.cli._loading import as_where
from nearer.exceptions import ParameterError
from nearer.index import open_index
from nearer.models._sinks import IndexSink

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
        "Year>=2005": set(range(2005, 2010)),
        "Year < 1993": {1990, 1991, 1992},
        "Year<=1991": {1990, 1991},
        "Year>2007": {2008, 2009},
        "Year!=1990": set(range(1991, 2010)),
        '{"$or": [{"Year": 1991}, {"Year": 1993}]}': {1991, 1993},
    }.items():
        found = {hit["Year"] for row in hits("search", index, data, "-k", "60", "--where", where) for hit in row}
        assert found == years
    both = hits("search", index, data, "-k", "60", "--where", "Year=2000", "--where", "class=x")
    assert {(hit["Year"], hit["class"]) for row in both for hit in row} == {(2000, "x")}
    assert "Did you mean 'Year'" in run("search", index, data, "--where", "year=2000", code=1)
    assert "NAME=VALUE" in run("search", index, data, "--where", "Year", code=1)
    assert "NAME=VALUE" in run("search", index, data, "--where", "{", code=1)


def test_no_hits_are_said_beside_the_answer(place: Path) -> None:
    for words in ([], ["--json"]):
        found = CliRunner().invoke(
            app, ["search", str(place / "index"), str(place / "data.csv"), "--where", "Year=1800", *words]
        )
        assert found.exit_code == 0
        assert found.stderr == f"There are no hits: {place / 'index'} has no items that fit `--where`.\n"
        names = [str(400638133000 + row) for row in range(60)]
        assert not words or json.loads(found.stdout) == {"queries": names, "results": [[]] * 60}


def test_a_value_is_what_its_field_holds(place: Path) -> None:
    fields = {"code": {"text"}, "n": {"numbers"}, "both": {"text", "numbers"}, "a>b": {"numbers"}}
    assert as_where("code=007", fields) == {"code": {"$eq": "007"}}
    assert as_where("code=7", fields) == {"code": {"$eq": "7"}}
    assert as_where("code=null", fields) == {"code": {"$eq": None}}
    assert as_where("n==7", fields) == {"n": {"$eq": 7}}
    assert as_where("both=7", fields) == {"both": {"$eq": 7}}
    assert as_where("a>b<=3", fields) == {"a>b": {"$lte": 3}}
    assert as_where("code=a=b", fields) == {"code": {"$eq": "a=b"}}
    for wrong in ("n", "=3", "n!3"):
        with pytest.raises(ParameterError, match="`--where` must be NAME=VALUE, with != < <= > >= too"):
            as_where(wrong, fields)
    index, data = str(place / "index"), str(place / "data.csv")
    assert "kind that the field has (numbers)" in run("search", index, data, "--where", "Year>=old", code=1)


def test_messages_are_in_the_words_of_the_command_line(place: Path, tmp_path: Path) -> None:
    data, model, index = (str(place / name) for name in ("data.csv", "model", "index"))
    fit = ["fit", data, "--label", "class", "--out", str(tmp_path / "m")]
    cases = {
        "Make one: nearer index DATA --model MODEL --out": ["search", str(tmp_path / "no"), data, "--model", model],
        "`--n-components` must": [*fit, "--n-components", "0"],
        "`--where` must name fields": ["search", index, data, "--where", "yeer=3"],
        "`--out` must be a new index": ["index", index, "--out", index],
        "`--held-out` must be at most 0.9": [*fit, "--held-out", "1"],
        "`DATA` must be a file": [
            "fit",
            str(tmp_path / "no.csv"),
            "--label",
            "class",
            "--out",
            str(tmp_path / "m"),
        ],
        "`QUERIES` must be a file": ["search", index, str(tmp_path / "no.csv")],
    }
    for told, words in cases.items():
        assert told in run(*words, code=1), words
    with open_index(index):
        told = run("serve", index, code=1)
        assert "Close it there; a search (`--read-only`) needs no such lock." in told


def test_a_label_column_that_is_not_there_is_named_with_those_that_are(place: Path, tmp_path: Path) -> None:
    data, model = str(place / "data.csv"), str(place / "model")
    for words in (["index", data, "--out", str(tmp_path / "index")], ["evaluate", data]):
        told = run(*words, "--model", model, "--label", "clas", code=1)
        assert "'clas'" in told
        assert "ean, a, b, Year, class" in told
        told = run(*words, "--model", model, "--label", "class", "--label", "Yaer", code=1)
        assert "'Yaer'" in told
    assert not (tmp_path / "index").exists()
    with pytest.raises(ParameterError, match="'clas'"):
        nearer.fit(pd.read_csv(data), ["clas"])


def test_an_id_that_comes_twice_is_named_before_anything_is_learned(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("ean,a,b,Year,class\n" + ROWS.replace("400638133002,", "400638133001,") + "\n")
    told = run("fit", str(data), "--label", "class", "--id", "ean", "--out", str(tmp_path / "model"), code=1)
    assert "column 'ean' must have another id in every row" in told
    assert "400638133001 (rows 1 and 2" in told
    assert not (tmp_path / "model").exists()
    with pytest.raises(ParameterError, match="must have another id in every row, got again 400638133001"):
        nearer.fit(data, "class", id="ean")


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


def test_an_unfinished_index_says_so(tmp_path, monkeypatch) -> None:
    """A run that was stopped leaves what it has, and everybody who looks into it is told."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(60))
    Path("data.csv").write_text("x,y,kind\n" + rows)
    runner = CliRunner()
    assert runner.invoke(app, ["fit", "data.csv", "-l", "kind", "--out", "m", "--method", "rca"]).exit_code == 0
    put = IndexSink.put

    def interrupted(self, part) -> None:
        if part.start >= 20:
            raise KeyboardInterrupt
        put(self, part)

    words = ["index", "data.csv", "-m", "m", "-o", "i", "--batch-size", "20"]
    with monkeypatch.context() as patch:
        patch.setattr(IndexSink, "put", interrupted)
        done = runner.invoke(app, words)
    assert done.exit_code == 130
    assert "20 rows are done. Repeat the command, and it goes on." in done.stderr
    for command in (["search", "i", "data.csv"], ["index", "i", "-o", "part.parquet"]):
        assert "i is unfinished" in runner.invoke(app, command).stderr
    assert runner.invoke(app, words).exit_code == 0
    assert "unfinished" not in runner.invoke(app, ["search", "i", "data.csv"]).stderr
    assert len(open_index("i", read_only=True)) == 60
