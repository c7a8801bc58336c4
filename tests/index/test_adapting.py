"""Queries adapted by clicks: the index stays, the fingerprint fits, and where nothing is gained nothing changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.exceptions import MissingDataError, ParameterError
from nearer.geometry import Chain, Mahalanobis, TwoEncoders, UnitLength
from nearer.index import open_index
from nearer.models import Model
from nearer.models._inputs import Inputs

N, WIDTH = 400, 12
RANDOM = np.random.default_rng(0)
ITEMS = RANDOM.normal(size=(N, WIDTH)).astype(np.float32)
# Queries differ from their items, most of all in the last four columns.
NOISE = RANDOM.normal(size=(N, WIDTH)) * np.r_[np.full(8, 0.2), np.full(4, 2.0)]
QUERIES = (ITEMS + NOISE).astype(np.float32)
IDS = [f"item {number}" for number in range(N)]
CLICKS = 250


@pytest.fixture
def model(tmp_path: Path) -> Model:
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    names = tuple(f"c{number}" for number in range(WIDTH))
    inputs = Inputs("features", size=(WIDTH,), names=names)
    made = Model(Chain(Mahalanobis.from_factor(turned), UnitLength()), inputs, "by hand")
    made.save(tmp_path / "model")
    return nearer.load(tmp_path / "model")


@pytest.fixture
def index(tmp_path: Path, model: Model) -> Path:
    with open_index(tmp_path / "index", model=model, dimension=WIDTH) as fresh:
        fresh.add(ITEMS, ids=IDS)
    return tmp_path / "index"


def recall(model: Model, index: Path) -> float:
    with open_index(index, fingerprint=model.fingerprint, read_only=True) as opened:
        found = opened.search(model.transform(QUERIES[CLICKS:]), k=1).ids[:, 0]
    return float(np.mean(found == np.array(IDS[CLICKS:], dtype=object)))


def test_new_queries_find_more_in_the_same_index(model: Model, index: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in index.iterdir()}
    adaptation = model.adapt(index, QUERIES[:CLICKS], IDS[:CLICKS])
    assert adaptation.pairs == CLICKS
    adapted = adaptation.model
    assert recall(adapted, index) > recall(model, index) + 0.1
    assert f"({adaptation.query_map.gain_:+.4f} ± " in adaptation.verdict
    # Items stay where they were, so the index and its fingerprint do too.
    np.testing.assert_array_equal(adapted.transform(ITEMS, side="database"), model.transform(ITEMS))
    assert adapted.fingerprint == model.fingerprint
    assert {file.name: file.read_bytes() for file in index.iterdir()} == before
    # Queries that taught the map are not new to it.
    assert (adapted.seen(QUERIES[:CLICKS]).all(), adapted.seen(QUERIES[CLICKS:]).any()) == (True, False)
    assert adapted.parameters == {"query_map": {"power": adaptation.query_map.power_, "pairs": CLICKS}}
    adapted.save(tmp_path / "adapted")
    loaded = nearer.load(tmp_path / "adapted")
    np.testing.assert_array_equal(loaded.transform(QUERIES), adapted.transform(QUERIES))
    assert loaded.fingerprint == model.fingerprint
    assert "Queries are mapped." in str(loaded)


def test_a_model_of_two_maps_keeps_that_of_its_database(model: Model, index: Path) -> None:
    again = model.adapt(index, QUERIES[:CLICKS], IDS[:CLICKS]).model
    twice = again.adapt(index, QUERIES[:CLICKS], IDS[:CLICKS]).model
    assert isinstance(twice.encoder, TwoEncoders)
    np.testing.assert_array_equal(twice.transform(ITEMS, side="database"), model.transform(ITEMS))


def test_where_no_map_helps_the_model_is_the_same(
    model: Model, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearer.estimators import QueryMap

    def none(self: QueryMap, *given: object, **named: object) -> QueryMap:
        self.power_, self.scores_ = 0.0, {0.0: 0.5, 0.3: 0.4}
        return self

    monkeypatch.setattr(QueryMap, "fit", none)
    adaptation = model.adapt(index, QUERIES[:CLICKS], IDS[:CLICKS])
    assert adaptation.model is model
    assert "Keep the queries as they are." in adaptation.verdict


def test_what_cannot_teach_is_said(model: Model, index: Path) -> None:
    with pytest.raises(ParameterError, match="`documents` must name one item for each of the 250 queries, got 3"):
        model.adapt(index, QUERIES[:CLICKS], IDS[:3])
    with pytest.raises(MissingDataError, match=r"At least 50 of the `documents` must be in .*, found 10 of 250"):
        model.adapt(index, QUERIES[:CLICKS], [*IDS[:10], *["unknown", None] * 120])
    other = Model(Mahalanobis.from_factor(np.eye(WIDTH)), model.inputs, "another")
    with pytest.raises(ParameterError, match="holds embeddings of another model"):
        other.adapt(index, QUERIES[:CLICKS], IDS[:CLICKS])


def test_the_command(model: Model, index: Path, tmp_path: Path) -> None:
    lines = [",".join([*(f"c{number}" for number in range(WIDTH)), "clicked"])]
    lines += [",".join([*map(str, row), name]) for row, name in zip(QUERIES[:CLICKS], IDS, strict=False)]
    (tmp_path / "clicks.csv").write_text("\n".join(lines))
    run = CliRunner().invoke
    words = ["adapt", str(index), str(tmp_path / "clicks.csv")]
    done = run(app, [*words, "--document", "clicked", "--out", str(tmp_path / "adapted"), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["pairs"] == CLICKS
    assert answer["gain"] > 0
    queries = tmp_path / "queries.csv"
    queries.write_text("\n".join(line.rpartition(",")[0] for line in lines[:4]))
    found = run(app, ["search", str(index), str(queries), "--model", str(tmp_path / "adapted"), "--json"])
    assert found.exit_code == 0, found.output
    told = run(app, [*words, "--document", "clicked"])
    assert "The index stays as it is." in " ".join(told.output.split())
    wrong = run(app, [*words, "--document", "click"])
    assert wrong.exit_code == 1
    assert "Did you mean 'clicked'?" in " ".join(wrong.output.split())
    again = run(app, [*words, "--document", "clicked", "--out", str(tmp_path / "adapted")])
    assert again.exit_code == 1
