"""Data as people have it: DataFrames of three libraries, arrays, real CSV files, and what is done to their
columns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from nearer.datasets._anything import ColumnRoles, label_codes, read_frame
from nearer.datasets._cleaning import Cleaning
from nearer.datasets._frame import frame_from, read_cells
from nearer.exceptions import LabelError, NearerError, ParameterError, ShapeError
from nearer.models._reading import Reading, read_items

PEOPLE = pd.DataFrame(
    {
        "customer_id": [101, 102, 103, 104, 105, 106],
        "age": [41, None, 35, 28, 77, 60],
        "town": ["Ulm", "Bonn", None, "Ulm", "Köln", "Ulm"],
        "member": [True, False, True, True, False, True],
        "since": pd.to_datetime(["2020-01-01", None, "2021-06-30", "2019-03-01", "2024-01-01", "2022-02-02"]),
        "country": ["DE"] * 6,
        "kind": ["a", "b", "a", "b", "a", None],
    }
)


def as_polars(frame: pd.DataFrame):
    polars = pytest.importorskip("polars")
    return polars.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))


def as_arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize("convert", [lambda one: one, as_arrow, as_polars], ids=["pandas", "arrow", "polars"])
def test_a_frame_of_any_library_gives_the_same_features(convert) -> None:
    data = read_items(convert(PEOPLE), "kind")
    expected = read_items(PEOPLE, "kind")
    assert data.feature_names == ("age", "town=Bonn", "town=Köln", "town=Ulm", "member", "since")
    np.testing.assert_array_equal(data.all.x, expected.all.x)
    assert data.class_names == ("a", "b")
    assert data.all.y.tolist() == [0, 1, 0, 1, 0, -1]
    assert data.kind == "partial"
    assert data.all.x[1].tolist()[0] == 41.0, "the median of the ages that are there"
    told = str(data.cleaning)
    assert "age          number      1 missing, median 41" in told
    assert "customer_id  left out    looks like an id" in told
    assert "country      left out    always the same" in told


def test_the_cleaning_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "w": rng.choice(list("xyz"), 60)})
    frame.loc[rng.random(60) < 0.2, "a"] = np.nan
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    expected = make_column_transformer(
        (imputer, ["a"]), (SimpleImputer(strategy="median"), ["b"]), (OneHotEncoder(sparse_output=False), ["w"])
    ).fit_transform(frame)
    read = read_items(frame)
    assert read.feature_names == ("a", "a=missing", "b", "w=x", "w=y", "w=z")
    np.testing.assert_allclose(read.all.x, expected, rtol=1e-6)


def test_a_few_holes_or_hardly_a_value_get_no_column() -> None:
    frame = pd.DataFrame({"a": [np.nan] * 4 + [1.0, 2.0] * 20, "b": [np.nan] * 40 + [1.0, 2.0, 3.0, 4.0]})
    assert Cleaning.learn(frame_from(frame)).outputs == ("a", "b")


def test_words_inside_the_cells_of_names_become_columns() -> None:
    names = [f"N{100 + row}{'UW' if row % 4 else 'AA'}" for row in range(60)]
    keys = [f"{row * 2654435761 % 2**32:08x}{row:08x}" for row in range(60)]
    plan = Cleaning.learn(frame_from(pd.DataFrame({"tail": names, "hash": keys, "x": range(60)})))
    assert plan.outputs == ("tail~uw", "tail~aa", "x"), "n is in every cell, numbers are in one"
    assert "uw, aa in 60 different words in 60 rows" in str(plan)
    new = frame_from(pd.DataFrame({"tail": ["Uw-7", None, "ZZ"], "x": [0.0, 1.0, 2.0]}))
    assert plan.apply(new)[:, :2].tolist() == [[1, 0], [0, 0], [0, 0]]
    assert Cleaning.from_dict(plan.to_dict()) == plan


def test_dates_over_years_say_the_time_of_the_year() -> None:
    days = pd.date_range("2020-01-01", periods=60, freq="30D")
    plan = Cleaning.learn(frame_from(pd.DataFrame({"day": days})))
    assert plan.outputs == ("day", "day (year, cos)", "day (year, sin)")
    found = plan.apply(frame_from(pd.DataFrame({"day": pd.to_datetime(["2021-01-01", "2021-07-02"])})))
    np.testing.assert_allclose(found[:, 1:], [[1, 0], [-1, 0]], atol=0.02)
    short = Cleaning.learn(frame_from(pd.DataFrame({"day": days[:12].repeat(5)})))
    assert short.outputs == ("day",)


def test_a_plan_of_an_older_model_is_read() -> None:
    plan = Cleaning.learn(frame_from(PEOPLE[["age", "since", "town"]]))
    older = [{key: value for key, value in one.items() if key not in ("holes", "cycle")} for one in plan.to_dict()]
    assert Cleaning.from_dict(older) == plan


def test_rare_words_share_a_column_and_new_ones_go_there() -> None:
    words = [f"w{number:02d}" for number in range(30) for _ in range(30 - number)]
    plan = Cleaning.learn(frame_from(pd.DataFrame({"w": words, "x": range(len(words))})))
    assert len(plan.outputs) == 21
    assert plan.outputs[-2] == "w=other"
    table = plan.apply(frame_from(pd.DataFrame({"x": [1.0, 2.0], "w": ["never seen", "w00"]})))
    assert table[0, 19] == 1 == table[1, 0]
    assert Cleaning.from_dict(plan.to_dict()) == plan


def test_order_does_not_matter_and_other_columns_are_errors() -> None:
    plan = read_items(PEOPLE, "kind").cleaning
    shuffled = PEOPLE[["since", "kind", "town", "member", "age", "country", "customer_id"]]
    again = read_items(shuffled, reading=Reading(cleaning=plan), columns=ColumnRoles(label=("kind",)))
    np.testing.assert_array_equal(again.all.x, read_items(PEOPLE, "kind").all.x)
    with pytest.raises(ShapeError, match="'age' is missing"):
        read_items(PEOPLE.drop(columns="age"), reading=Reading(cleaning=plan), columns=ColumnRoles(label=("kind",)))
    with pytest.raises(ShapeError, match="got 'wealth' besides"):
        read_items(PEOPLE.assign(wealth=1), reading=Reading(cleaning=plan), columns=ColumnRoles(label=("kind",)))
    with pytest.raises(ParameterError, match="must hold numbers as the model learned it, got 'old'"):
        read_items(PEOPLE.assign(age="old"), reading=Reading(cleaning=plan), columns=ColumnRoles(label=("kind",)))
    with pytest.raises(ShapeError, match="has no column names"):
        read_items(np.ones((2, 6)), reading=Reading(cleaning=plan))


REAL = """customer;price;size;sold;happy;town;note
7;1.234,50;3,5;31.12.2023;yes;Ulm;first of many words here
8;99,00;;01.01.2024;no;Bonn;another sentence that nobody repeats
9;0,50;2,0;15.06.2023;?;Ulm;n/a
"""


def test_a_european_file(tmp_path: Path) -> None:
    file = tmp_path / "real.csv"
    file.write_text(REAL)
    frame = read_frame(file)
    assert frame["price"].values.tolist() == [1234.5, 99.0, 0.5]
    assert frame["size"].values.tolist()[::2] == [3.5, 2.0]
    assert [frame[name].kind for name in ("sold", "happy", "town")] == ["date", "flag", "word"]
    data = read_items(file, "town", columns=ColumnRoles(ids="customer", keep=("note",)))
    assert data.feature_names == ("price", "size", "sold", "happy")
    assert data.all.extra["id"].tolist() == [7, 8, 9]
    assert data.all.extra["note"].tolist()[2] == "n/a", "text stays as it was written"


def test_a_file_in_english_and_a_broken_one(tmp_path: Path) -> None:
    file = tmp_path / "plain.csv"
    file.write_text('id,income,born,class\n1,"1,200.50",1980-05-01,a\n2,"30,000",1979-01-01,b\n')
    assert read_items(file, "class").all.x[:, 0].tolist() == [1200.5, 30000.0]
    with pytest.raises(ParameterError, match="has a column 'class'"):
        read_items(file)
    file.write_text("a,b\n1,2\n3\n,\n")
    with pytest.raises(NearerError, match="must have 2 columns as on its first line, got 1 on line 3"):
        read_items(file)


def test_many_columns(tmp_path: Path) -> None:
    file = tmp_path / "wide.csv"
    names = ",".join(f"c{number}" for number in range(30_000))
    rows = "\n".join(",".join(str(float(row + column % 7)) for column in range(30_000)) for row in range(3))
    file.write_text(f"{names}\n{rows}\n")
    assert read_items(file).all.x.shape == (3, 30_000)


def test_arrays_tensors_sparse_matrices_and_pairs_of_them() -> None:
    X, y = np.arange(12.0).reshape(4, 3), np.array([5, 5, 9, -1])
    for given in (X, torch.tensor(X), X.tolist(), X.astype(np.int32)):
        data = read_items(given, y)
        np.testing.assert_array_equal(data.all.x, X)
        assert data.all.y.tolist() == [0, 0, 1, -1]
    assert read_items((X, y)).class_names == ("5", "9")
    assert read_items(sparse.csr_matrix(X), y).all.matrix().shape == (4, 3)
    holes = X.copy()
    holes[0, 0] = np.nan
    assert read_items(holes, y).all.x[0, 0] == 6.0
    assert read_items(read_items(X, y)).all.x.shape == (4, 3)
    with pytest.raises(ShapeError, match=r"shape \(n, p\)"):
        read_items(X[0], y)
    with pytest.raises(ShapeError, match="one entry for each of the 4 rows"):
        read_items(X, y[:2])
    with pytest.raises(NearerError, match="must be finite"):
        read_items(np.array([[np.inf, 1.0], [1.0, 2.0]]), [0, 1])
    with pytest.raises(ShapeError, match="at least one row"):
        read_items(np.zeros((0, 3)), [])


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a", "b", "a"], "classes"),
        ([0, 1, -1], "partial"),
        (["a", None, "b"], "partial"),
        ([1.0, float("nan"), 2.0], "partial"),
        ([0.5, 1.25, 3.0], "numbers"),
        ([[1, 0], [1, 1], [0, 1]], "sets"),
        ([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], "distributions"),
        (pd.Series(["x", "y", "x"], dtype="category"), "classes"),
        (torch.tensor([3, 3, 4]), "classes"),
        (None, "partial"),
    ],
)
def test_the_kind_of_labels_is_found(labels, kind) -> None:
    assert label_codes(labels, 3)[2] == kind


def test_labels_that_are_none() -> None:
    with pytest.raises(LabelError, match="a number in every row"):
        label_codes([0.5, float("nan"), 1.0], 3)
    with pytest.raises(LabelError, match="fit into 64 bits"):
        label_codes(np.array([2**63 + 1, 1, 2], dtype=np.uint64), 3)
    with pytest.raises(NearerError):
        label_codes([[1], [1, 2], [3]], 3)


def test_cells() -> None:
    assert read_cells(["1,234", "56"]).values.tolist() == [1234.0, 56.0]
    assert read_cells(["1,23", "56"]).values.tolist() == [1.23, 56]
    assert read_cells(["1,23", "1,2,3"]).kind == "word"
    assert read_cells(["1.234,5", "6"], decimal_comma=True).values.tolist() == [1234.5, 6.0]
    assert read_cells(["2024-05-01T12:00:00Z", "2024-05-01 12:00"]).values.tolist() == [1714564800.0] * 2
    assert read_cells(["05/31/2024", "06/01/2024"]).kind == "date"
    assert read_cells(["1_000", "2"]).kind == "word"
    assert read_cells([None, "", "NA"]).missing.all()


def test_columns_that_a_wide_table_loses_are_said() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 60)), columns=[f"c{one}" for one in range(60)])
    frame["c30"] = 1.0
    shown = str(read_items(frame).cleaning)
    assert "... 30 more, of them left out: c30 (always the same) ..." in shown
