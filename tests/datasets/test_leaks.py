"""Columns that give the label away are found, left out and said; honest whole numbers stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import nearer
from nearer.datasets._anything import ColumnRoles
from nearer.datasets._cleaning import COPY, RUNNING
from nearer.models._reading import read_items


def noise(n: int = 60, /, **more: object) -> pd.DataFrame:
    """A sorted table whose features say nothing."""
    chance = np.random.default_rng(0)
    columns = {"a": chance.normal(size=n), "b": chance.normal(size=n), "kind": np.repeat(["x", "y", "z"], n // 3)}
    return pd.DataFrame({**columns, **more})


def left_out(data: nearer.datasets.Dataset) -> dict[str, str]:
    return {one.name: one.why for one in data.cleaning.columns if one.rule == "left out"}


@pytest.mark.parametrize("start", [0, 1, 1000, -7])
@pytest.mark.parametrize("name", ["rownames", "n", "Nr."])
def test_a_running_number_is_left_out_and_said(tmp_path: Path, name: str, start: int) -> None:
    frame = noise(**{name: np.arange(60) + start})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in (frame, tmp_path / "a.csv"):
        assert left_out(read_items(data, "kind")) == {name: RUNNING}
    model = nearer.fit(frame, "kind", method="lfda")
    assert model.inputs.names == ("a", "b")
    assert RUNNING in str(model)
    assert model.transform(frame.drop(columns=name)).shape[0] == 60, "a new table need not have it"


def test_the_proof_is_true_again() -> None:
    scores = {}
    for name, ids in (("with", np.arange(60)), ("without", None)):
        frame = noise() if ids is None else noise(rownames=ids)
        scores[name] = nearer.fit(frame, "kind", method="lfda").scores
    assert scores["with"] == scores["without"]


def test_a_sample_of_a_file_still_knows_its_row_numbers(tmp_path: Path) -> None:
    noise(600, n=np.arange(600) + 5, half=np.arange(600) * 2).to_csv(tmp_path / "a.csv", index=False)
    data = read_items(tmp_path / "a.csv", "kind", columns=ColumnRoles(most=100))
    assert len(data.all) == 100
    assert left_out(data) == {"n": RUNNING}


@pytest.mark.parametrize(
    ("values", "places"),
    [
        (np.r_[np.arange(30), np.arange(29, 59)], "1 place"),  # a line that comes twice
        (np.r_[np.arange(59), 60], "1 place"),  # a line that was dropped
        (np.r_[np.arange(30), np.arange(90, 120)], "1 place"),  # many lines that were
        (np.r_[np.arange(40), 7, np.arange(40, 59)], "2 places"),  # a copy of a line somewhere else
        (np.where(np.arange(60) == 30, np.nan, np.arange(60)), "2 places"),  # a hole
    ],
)
def test_a_few_lines_too_many_or_too_few_hide_no_running_number(
    tmp_path: Path, values: np.ndarray, places: str
) -> None:
    frame = noise(rownames=values)
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in (frame, tmp_path / "a.csv"):
        assert left_out(read_items(data, "kind")) == {"rownames": f"{RUNNING} (but for {places})"}
    model = nearer.fit(frame, "kind", method="lfda")
    assert model.inputs.names == ("a", "b")
    assert f"{RUNNING} (but for {places})" in str(model)


def test_the_places_where_a_number_may_jump_are_few() -> None:
    steps = np.ones(600)
    steps[::50] = 2
    assert left_out(read_items(noise(600, n=np.cumsum(steps)), "kind")) == {"n": f"{RUNNING} (but for 11 places)"}
    steps[::40] = 2
    assert left_out(read_items(noise(600, n=np.cumsum(steps)), "kind")) == {}


def test_a_running_number_with_infinities_makes_no_warning() -> None:
    from nearer.datasets._cleaning import leaking
    from nearer.datasets._frame import Column, Frame

    frame = Frame({"n": Column("number", np.r_[np.arange(10.0), np.inf, np.inf])})
    assert leaking(frame, None, np.zeros(12, int), ("x",)) == {"n": f"{RUNNING} (but for 2 places)"}


def test_row_names_in_another_order_are_ids() -> None:
    frame = noise(rownames=np.arange(60)).sample(frac=1, random_state=0)
    assert "looks like an id" in left_out(read_items(frame, "kind"))["rownames"]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(60) // 2,
        np.arange(60) * 2,
        np.arange(60) + 0.5,
        np.r_[np.arange(30), np.arange(30)],  # a cycle of each of two machines
        np.random.default_rng(1).permutation(60),
        np.where(np.arange(60) % 20 == 7, np.nan, np.arange(60)),
        np.sort(np.random.default_rng(1).integers(0, 60, 60)),
        np.sort(np.random.default_rng(1).permutation(70)[:60]),
    ],
)
def test_other_whole_numbers_are_features(values: np.ndarray) -> None:
    assert left_out(read_items(noise(count=values), "kind")) == {}


def test_few_rows_count_by_chance_and_named_features_stay() -> None:
    assert left_out(read_items(noise(9, year=range(9)), "kind")) == {}
    asked = ColumnRoles(label=("kind",), features=("a", "year"))
    assert read_items(noise(year=range(60)), columns=asked).feature_names == ("a", "year")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_label_given_beside_its_table_is_no_feature(library: str) -> None:
    frame = noise()
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    data = read_items(frame, frame["kind"])
    assert left_out(data) == {"kind": COPY}
    assert data.feature_names == ("a", "b")
    model = nearer.fit(frame, frame["kind"], method="lfda")
    assert COPY in str(model)
    assert model.transform(frame).shape[0] == 60


def test_copies_of_the_label_are_found_by_their_values() -> None:
    frame = noise(again=np.repeat(["x", "y", "z"], 20), other=np.repeat(["y", "x", "z"], 20))
    assert left_out(read_items(frame, "kind")) == {"again": COPY}
    codes = np.repeat([0, 1, 2], 20)
    assert left_out(read_items(noise(code=codes), codes)) == {"code": COPY}
    assert left_out(read_items(noise(code=codes.astype(float)), codes)) == {"code": COPY}
    holes = codes.copy()
    holes[::7] = -1
    assert left_out(read_items(noise(code=codes), holes)) == {"code": COPY}
    almost = codes.copy()
    almost[59] = 0
    assert left_out(read_items(noise(code=almost), codes)) == {}


def test_a_label_in_other_words_is_found_by_its_name() -> None:
    frame = noise()
    data = read_items(frame, frame["kind"].map({"x": 0, "y": 1, "z": 2}))
    assert left_out(data) == {"kind": f"{COPY}, in other words"}
    assert left_out(read_items(frame, frame["kind"].map({"x": 0, "y": 1, "z": 1}))) == {}


def test_numbers_and_label_sets_are_found_too() -> None:
    frame = noise(price=np.random.default_rng(3).normal(size=60))
    assert left_out(read_items(frame, frame["price"]))["price"] == COPY
    sets = pd.DataFrame(np.random.default_rng(4).integers(0, 2, (60, 3)), columns=["p", "q", "r"])
    data = read_items(pd.concat([frame, sets], axis=1), sets)
    assert left_out(data) == {"p": COPY, "q": COPY, "r": COPY}


def test_iris_as_r_writes_it() -> None:
    frame = load_iris(as_frame=True).frame
    frame.insert(0, "rownames", range(1, 151))
    data = read_items(frame, frame["target"])
    assert left_out(data) == {"rownames": RUNNING, "target": COPY}
    assert data.all.x.shape == (150, 4)


def test_a_few_rows_of_ages_are_no_row_numbers() -> None:
    """Short columns that run with jumps are left out only where they begin as row numbers do."""
    kinds = ["a", "b"] * 6
    ages = [20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34, 35]
    kept = read_items(pd.DataFrame({"age": ages, "x": np.arange(12) * 7 % 5, "kind": kinds}), "kind")
    assert "age" in kept.feature_names
    numbers = [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    left = read_items(pd.DataFrame({"nr": numbers, "x": np.arange(12) * 7 % 5, "kind": kinds}), "kind")
    assert "nr" not in left.feature_names
