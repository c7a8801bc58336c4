"""Tables larger than memory: a sample of the rows, read part by part, that says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nearer
from nearer.datasets import _streams as sampling
from nearer.datasets._streams import rows_that_fit, sample_rows
from nearer.exceptions import ParameterError


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = np.arange(40_000) % 3
    frame = pd.DataFrame(rng.normal(size=(len(y), 3)) + y[:, None], columns=["a", "b", "c"])
    frame["b"] = frame["b"].where(np.arange(len(y)) % 7 != 0)
    frame["town"] = np.array(["Ulm", "Bonn", None], dtype=object)[y]
    frame["number"], frame["kind"] = np.arange(len(y)), [f"k{code}" for code in y]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=9_000)
    return frame


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_sample_is_rows_of_the_file_and_every_row_has_its_chance(
    table: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    found, total = sample_rows(tmp_path / name, 500, seed=1)
    assert total == len(table)
    numbers = found["number"].values.astype(int)
    assert len(set(numbers.tolist())) == 500
    assert (np.diff(numbers) > 0).all()
    assert numbers.min() < 2_000
    assert numbers.max() > 38_000
    np.testing.assert_allclose(found["a"].values, table["a"].to_numpy()[numbers], rtol=1e-9)
    towns = table["town"].to_numpy()[numbers]
    assert found["town"].values.tolist() == [None if pd.isna(one) else one for one in towns]
    assert found["kind"].kind == "word"


def test_a_column_that_is_empty_in_one_part_keeps_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "READ_ROWS", 100)
    word = np.array([None] * 150 + ["x"] * 150, dtype=object)
    number = np.where(np.arange(300) < 150, np.nan, 1.0)
    pd.DataFrame({"word": word, "number": number, "row": np.arange(300)}).to_parquet(tmp_path / "t.parquet")
    found, _ = sample_rows(tmp_path / "t.parquet", 280)
    assert found["word"].kind == "word"
    assert set(found["word"].values.tolist()) == {None, "x"}
    assert np.isnan(found["number"].values).any()


def test_fit_takes_a_sample_when_asked_and_says_so(table: pd.DataFrame, tmp_path: Path) -> None:
    model = nearer.fit(tmp_path / "t.csv", "kind", rows=600, ignore=["number"], method="kissme")
    assert "600 of its 40,000 rows, drawn at random" in str(model)
    assert model.data["rows"] == 600
    with pytest.raises(ParameterError, match="for files"):
        nearer.fit(table, "kind", rows=600)
    with pytest.raises(ParameterError, match="rows"):
        nearer.fit(tmp_path / "t.csv", "kind", rows=2)


def test_a_file_that_does_not_fit_is_sampled_by_itself(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows_that_fit(tmp_path / "t.csv") == 1.0
    monkeypatch.setattr(sampling, "SHARE", 1e-5)
    assert rows_that_fit(tmp_path / "t.csv") < 1.0
    model = nearer.fit(tmp_path / "t.csv", "kind", ignore=["number"], method="kissme")
    assert "which fit into half of the memory" in str(model)
    assert 10 < model.data["rows"] < 40_000
