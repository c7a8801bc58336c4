"""Ids, labels and kept columns are what was written: no digit goes through a float, no code loses a zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

import nearer
from nearer.app.cli._loading import paired
from nearer.datasets._anything import ColumnRoles
from nearer.datasets._cleaning import Cleaning
from nearer.datasets._frame import CellForm, frame_from, read_cells
from nearer.datasets._streams import sample_rows
from nearer.exceptions import ParameterError
from nearer.index import open_index
from nearer.models import embed_stream
from nearer.models._inputs import Inputs, item_metadata
from nearer.models._reading import read_items

EAN = 4006381333931
LONG = 123456789012345678
N = 40


def goods() -> pd.DataFrame:
    """Rows with everything that a float or a careless reader spoils."""
    rows = np.arange(N)
    chance = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "ean": EAN + rows,
            "weight": chance.normal(size=N) + rows % 2,
            "height": chance.normal(size=N),
            "year": 1999 + rows % 3,
            "price": rows % 7 + 0.5,
            "sold": rows % 2 == 0,
            "zip": [f"{row % 5:05d}" for row in rows],
            "member": np.where(rows % 2, "Y", "N"),
            "version": np.where(rows % 2, "1.10", "1.1"),
            "kind": LONG + rows % 2,
        }
    )


KEEP = ("year", "price", "sold", "zip", "member", "version")
FIRST = {"year": 1999, "price": 0.5, "sold": True, "zip": "00000", "member": "N"}


def as_csv(place: Path) -> Path:
    goods().to_csv(place / "goods.csv", index=False)
    return place / "goods.csv"


def as_parquet(place: Path) -> Path:
    goods().to_parquet(place / "goods.parquet")
    return place / "goods.parquet"


def as_polars(place: Path):
    return pytest.importorskip("polars").from_pandas(goods())


SOURCES = {
    "csv": as_csv,
    "parquet": as_parquet,
    "pandas": lambda place: goods(),
    "nullable": lambda place: goods().convert_dtypes(),
    "polars": as_polars,
    "arrow": lambda place: pa.Table.from_pandas(goods()),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_keeps_ids_labels_and_types(tmp_path: Path, source: str) -> None:
    data = read_items(SOURCES[source](tmp_path), "kind", columns=ColumnRoles(ids="ean", keep=KEEP))
    assert data.all.extra["id"].tolist() == list(range(EAN, EAN + N))
    assert data.class_names == (str(LONG), str(LONG + 1))
    assert data.all.y.tolist() == [row % 2 for row in range(N)]
    first = (item_metadata(data) or [])[0]
    version = first.pop("version")
    assert version == (1.1 if source == "csv" else "1.1")
    assert first == {"kind": str(LONG), **FIRST}
    assert [type(value) for value in first.values()] == [str, int, float, bool, str, str]


@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_an_index_is_found_by_year_and_by_bar_code(tmp_path: Path, source: str) -> None:
    file = SOURCES[source](tmp_path)
    model = nearer.fit(file, "kind", method="lfda", id="ean", keep=list(KEEP))
    embed_stream(model, file, tmp_path / "index", batch_size=7)
    embed_stream(model, file, tmp_path / "out.parquet", batch_size=7)
    with open_index(tmp_path / "index", read_only=True) as index:
        assert EAN + 3 in index
        assert EAN + N not in index
        hits = index.search(np.zeros((1, index.dimension)), k=N, where={"year": 2000})[0]
        assert len(hits) == sum(row % 3 == 1 for row in range(N))
        assert {hit.metadata["zip"] for hit in hits} <= set(goods()["zip"])
        assert len(index.search(np.zeros((1, index.dimension)), k=N, where={"sold": True})[0]) == N // 2
    written = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert written["id"] == goods()["ean"].tolist()
    assert written["year"] == goods()["year"].tolist()
    assert written["zip"] == goods()["zip"].tolist()
    assert model.index(file).search(np.zeros((1, 2)), k=1, where={"year": 1999})[0][0].metadata["year"] == 1999


def test_a_sample_of_a_file_keeps_what_was_written(tmp_path: Path) -> None:
    frame, total = sample_rows(as_csv(tmp_path), 10, exact=("ean", "zip"))
    assert total == N
    assert set(frame["ean"].names().tolist()) < set(goods()["ean"])
    assert all(len(one) == 5 for one in frame["zip"].kept())


def test_what_a_column_of_cells_is_kept_as() -> None:
    def kept(*cells: str, comma: bool = False) -> list[object]:
        return read_cells(cells, decimal_comma=comma).kept().tolist()

    assert kept("1", "", "3") == [1, None, 3]
    assert kept("1,200", "7") == [1200, 7]
    assert kept("1,5", "7", comma=True) == [1.5, 7.0]
    assert kept("1.0", "2") == [1.0, 2.0]
    assert kept("007", "NA", "12") == ["007", None, "12"]
    assert kept("99999999999999999999", "1") == ["99999999999999999999", "1"]
    assert kept("true", "FALSE", "") == [True, False, None]
    assert kept("yes", "no", "?") == ["yes", "no", None]
    assert kept("2024-05-01", "") == ["2024-05-01", None]
    assert kept("Ulm", "", "none") == ["Ulm", None, "none"]
    assert read_cells(["1.10", "1.1"]).names().tolist() == ["1.10", "1.1"]
    whole = CellForm()
    whole.look(["1", "2"])
    whole.look(["007"])
    assert whole.read(["1", "2"]).kept().tolist() == ["1", "2"], "a later cell says that these are codes"


def test_columns_of_frames_are_kept_as_they_are() -> None:
    frame = frame_from(
        pd.DataFrame(
            {
                "text": ["1", "2", None],
                "mixed": ["a", 3, None],
                "big": pd.array([LONG, None, 3], dtype="Int64"),
                "objects": pd.Series([10**25, None, 3], dtype=object),
                "when": pd.to_datetime(["2024-05-01", None, "2024-05-01 10:00:00.25"], format="ISO8601"),
                "float": [1.5, np.nan, 2.0],
                "flag": pd.array([True, None, False], dtype="boolean"),
            }
        )
    )
    assert {name: frame[name].kept().tolist() for name in frame.names} == {
        "text": ["1", "2", None],
        "mixed": ["a", "3", None],
        "big": [LONG, None, 3],
        "objects": [10**25, None, 3],
        "when": ["2024-05-01", None, "2024-05-01T10:00:00.250000"],
        "float": [1.5, None, 2.0],
        "flag": [True, None, False],
    }
    decimals = pa.table({"d": pa.array([LONG, None], pa.decimal128(20, 0)), "e": pa.array(["1", "2"])})
    assert frame_from(decimals)["d"].names().tolist() == [LONG, None]


def test_dates_that_python_cannot_say_are_named() -> None:
    table = pa.table({"day": pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())})
    with pytest.raises(ParameterError, match=r"'day' must hold dates of the years 1 to 9999"):
        frame_from(table)


def test_numbers_beyond_float32_are_named() -> None:
    with pytest.raises(ParameterError, match=r"'a' must hold finite numbers within float32, got 1e\+300 in row 2"):
        read_items(pd.DataFrame({"a": [1.0, 1e300, 2.0]}))


def test_codes_are_found_again_in_a_file_that_has_only_digits(tmp_path: Path) -> None:
    rows = "".join(f"{('007', 'A12', '0815')[row % 3]},{row % 4},{row % 2}\n" for row in range(24))
    (tmp_path / "a.csv").write_text("code,x,class\n" + rows)
    model = nearer.fit(tmp_path / "a.csv", "class", method="lfda")
    (tmp_path / "b.csv").write_text("code,x,class\n007,1,0\n0815,2,1\n")
    columns = model.inputs.read(tmp_path / "b.csv").all.x
    assert columns[0].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert columns[1].tolist() == [0.0, 1.0, 0.0, 2.0]


def test_fractions_are_numbers_to_learn_and_no_classes(tmp_path: Path) -> None:
    prices = [f"{row}.5" for row in range(12)]
    frame = pd.DataFrame({"x": np.arange(12) % 5, "price": prices})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in (frame, tmp_path / "a.csv"):
        made = read_items(data, "price")
        assert made.kind == "numbers"
        assert made.all.y.tolist() == [row + 0.5 for row in range(12)]


def test_a_row_without_an_id_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n,3\n")
    with pytest.raises(ParameterError, match=r"'id' must have an id in every row, got none in row 1 "):
        read_items(tmp_path / "a.csv", columns=ColumnRoles(ids="id"))


def test_pairs_are_found_by_long_ids(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(f"a,b,same\n{EAN},{EAN + 1},1\n{EAN},{EAN + 2},0\n")
    data = paired(read_items(goods(), columns=ColumnRoles(ids="ean")), tmp_path / "pairs.csv")
    assert [one.tolist() for one in data.pairs.listed()[:2]] == [[[0, 1], [0, 2]], [True, False]]


def test_the_fingerprint_is_of_what_objects_say() -> None:
    columns = ColumnRoles(ids="ean", keep=KEEP)
    one, two = (read_items(goods(), "kind", columns=columns) for _ in range(2))
    other = read_items(goods().assign(zip="00001"), "kind", columns=columns)
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", None, "dog"],
        ["cat", float("nan"), "dog"],
        pd.Series(["cat", None, "dog"]),
        pd.Series(["cat", None, "dog"], dtype="string"),
        pd.Series(["cat", None, "dog"], dtype="category"),
        polars.Series(["cat", None, "dog"]),
        np.array(["cat", float("nan"), "dog"], dtype=object),
    ],
    ids=["none", "nan", "object", "string", "category", "polars", "array"],
)
def test_a_label_that_is_missing_is_no_class(labels: Any) -> None:
    data = read_items(np.zeros((3, 1)), labels)
    assert data.class_names == ("cat", "dog")
    assert data.all.y.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    "labels",
    [
        [LONG, None, LONG + 1],
        [LONG, float("nan"), LONG + 1],
        pd.Series([LONG, None, LONG + 1], dtype="Int64"),
        [2**63 + 1, None, 2**63 + 2],
    ],
)
def test_long_labels_beside_a_missing_one_stay_apart(labels: Any) -> None:
    data = read_items(np.zeros((3, 1)), labels)
    first, _, second = map(str, labels)
    assert set(data.class_names) == {first, second}
    assert data.all.y[1] == -1


def test_dates_and_commas_mean_what_they_meant_in_training(tmp_path: Path) -> None:
    """01/02/2024 and 1,200 fit two ways; the table that was learned from decides, the plan says which."""
    rng = np.random.default_rng(0)
    days = [f"{day:02d}/{1 + day % 12:02d}/2024" for day in range(1, 29)] * 2
    prices = [f"{price:.2f}".replace(".", ",") for price in rng.uniform(1, 20, len(days))]
    table = pd.DataFrame({"day": days, "price": prices, "kind": ["a", "b"] * (len(days) // 2)})
    plan = read_items(table, "kind").cleaning
    assert plan is not None
    assert "the day first" in str(plan)
    first = frame_from(pd.DataFrame({"day": ["01/02/2024"], "price": ["1,200"]}))
    assert plan.apply(first).tolist() == [[19754.0, pytest.approx(1.2)]]
    with pytest.raises(
        ParameterError, match=r"'day' must hold dates such as 31/12/2024, the day first.*'02/28/2024'"
    ):
        plan.apply(frame_from(pd.DataFrame({"day": ["02/28/2024"], "price": ["1,5"]})))
    assert Cleaning.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    table.to_csv(tmp_path / "a.csv", index=False, sep=";")
    from_file = read_items(tmp_path / "a.csv", "kind")
    np.testing.assert_array_equal(from_file.all.x, read_items(table, "kind").all.x)


def test_kept_dates_can_be_compared(tmp_path: Path) -> None:
    rows = [f"{number * 7 % 5},{day}.11.2021,{'ab'[number % 2]}" for number, day in enumerate(range(1, 13))]
    (tmp_path / "a.csv").write_text("x,day,kind\n" + "\n".join(rows))
    data = read_items(tmp_path / "a.csv", "kind", columns=ColumnRoles(keep=("day",)))
    assert data.all.extra["day"][:2].tolist() == ["2021-11-01", "2021-11-02"]


def test_a_kept_column_is_learned_from_where_it_is_named_as_a_feature() -> None:
    table = pd.DataFrame({"x": [1.5, 2, 3, 4], "price": [4.5, 3, 2, 1], "kind": ["a", "b"] * 2})
    assert read_items(table, "kind", columns=ColumnRoles(keep=("price",))).all.x.shape == (4, 1)
    both = read_items(table, "kind", columns=ColumnRoles(keep=("price",), features=("x", "price")))
    assert both.all.x.shape == (4, 2)
    assert both.all.extra["price"].tolist() == [4.5, 3, 2, 1]
    inputs = Inputs("features", size=(2,), cleaning=both.cleaning, labels=("kind",), keep=("price",))
    assert inputs.read(table).all.x.shape == (4, 2)
    assert inputs.read(table).all.extra["price"].tolist() == [4.5, 3, 2, 1]
