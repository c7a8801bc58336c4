"""Your own tables: CSV, Parquet, NPZ and NPY, well formed and not."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.datasets import load_files
from nearer.exceptions import (
    CorruptFileError,
    LabelError,
    MissingDataError,
    NearerError,
    NotFiniteError,
    ParameterError,
    ShapeError,
)

CSV = "length,width,species\n1,2,cat\n3,4,dog\n5,6,\n7,8,cat\n"


def table(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_csv_with_a_label_that_is_empty_for_some(tmp_path: Path) -> None:
    data = load_files(table(tmp_path, CSV), label="species")
    assert data.all.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert data.all.x.dtype == np.float32
    assert data.all.y.tolist() == [0, 1, -1, 0]
    assert data.class_names == ("cat", "dog")
    assert data.feature_names == ("length", "width")
    assert data.name == "t.csv"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (CSV.replace(",", ";"), "t.csv"),
        (CSV.replace(",", "\t"), "t.tsv"),
        (CSV.replace(",", "\t"), "t.txt"),
        (CSV.replace(",", "|"), "t.csv"),
        (CSV.replace("\n", "\r\n"), "t.csv"),
        ("\ufeff" + CSV, "T.CSV"),
        ("\n\n" + CSV + "\n\n", "t.csv"),
        (CSV.replace("cat", '"cat"').replace("1,", ' "1" ,').replace(' "1" ', '"1"'), "t.csv"),
        (CSV.replace("1,", " 1 ,"), "t.csv"),
    ],
)
def test_csv_dialects(tmp_path: Path, text: str, name: str) -> None:
    data = load_files(table(tmp_path, text, name), label="species")
    assert data.all.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert data.all.y.tolist() == [0, 1, -1, 0]


def test_csv_quotes_hold_delimiters_and_line_ends(tmp_path: Path) -> None:
    text = 'a,"the, class"\n1,"x, y"\n2,"two\nlines"\n3,"say ""hi"""\n'
    data = load_files(table(tmp_path, text), label="the, class")
    assert data.class_names == ('say "hi"', "two\nlines", "x, y")
    assert data.all.x[:, 0].tolist() == [1, 2, 3]


def test_a_mark_of_inches_is_not_a_quote(tmp_path: Path) -> None:
    data = load_files(table(tmp_path, 'a,kind\n1,5" pipe\n2,rod\n'), label="kind")
    assert data.class_names == ('5" pipe', "rod")


def test_csv_without_names(tmp_path: Path) -> None:
    path = table(tmp_path, "1,2,0\n3,4,1\n5,6,0\n")
    assert load_files(path).all.x.shape == (3, 3)
    data = load_files(path, label=-1)
    assert data.all.y.tolist() == [0, 1, 0]
    assert data.feature_names == ("column_0", "column_1")
    assert load_files(path, label=0, features=[2]).all.x.tolist() == [[0], [1], [0]]


def test_header_is_seen_or_asked_for(tmp_path: Path) -> None:
    numbers = table(tmp_path, "label,0,1\n7,1,2\n8,3,4\n")
    assert load_files(numbers, label=0).feature_names == ("0", "1")
    counted = table(tmp_path, "0,1\n5,6\n7,8\n")
    assert load_files(counted).all.x.tolist() == [[5, 6], [7, 8]]
    assert load_files(counted, header=False).all.x.shape == (3, 2)
    mixed = table(tmp_path, "5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,2.0,other\n")
    with pytest.raises(ParameterError, match=r"The first line of `t\.csv` must be column names or data, and mixes"):
        load_files(mixed, label=-1)
    data = load_files(mixed, label=-1, header=False)
    assert len(data.all) == 3
    assert data.class_names == ("other", "setosa")
    assert len(load_files(mixed, label=-1, header=True).all) == 2


def test_the_row_numbers_of_pandas_are_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5], "kind": ["x", "y"]})
    frame.to_csv(tmp_path / "t.csv")
    frame.set_index(pd.Index([5, 9])).to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        data = load_files(tmp_path / name, label="kind")
        assert data.feature_names == ("a",)
        assert data.all.x.tolist() == [[1.5], [2.5]]


def test_text_columns_can_be_ignored_or_not_chosen(tmp_path: Path) -> None:
    path = table(tmp_path, "id,a,b,kind\nx1,1,2,u\nx2,3,4,v\n")
    assert load_files(path, label="kind", ignore=["id"]).feature_names == ("a", "b")
    assert load_files(path, label="kind", features=["b"]).all.x.tolist() == [[2], [4]]
    assert load_files(path, label="kind", features="b").feature_names == ("b",)
    assert load_files(path, features=["b", "a"]).all.x.tolist() == [[2, 1], [4, 3]]
    assert load_files(path, features=["a"]).all.y.tolist() == [-1, -1]


LABEL_CASES = [
    (["10", "2", "1"], [2, 1, 0], ("1", "2", "10")),
    (["1.0", "1", "2"], [0, 0, 1], ("1", "2")),
    (["7", "007", "2"], [2, 0, 1], ("007", "2", "7")),
    (
        ["123456789012345678", "123456789012345679", "1"],
        [1, 2, 0],
        ("1", "123456789012345678", "123456789012345679"),
    ),
    (["b", "a", "10"], [2, 1, 0], ("10", "a", "b")),
    (["-1", "0", "1"], [-1, 0, 1], ("0", "1")),
    (["99999999999999999999", "1e3", "7"], [2, 1, 0], ("7", "1000", "99999999999999999999")),
    (["nan", "inf", "a"], [2, 1, 0], ("a", "inf", "nan")),
    (["", "  ", "z"], [-1, -1, 0], ("z",)),
    (["", "", ""], [-1, -1, -1], ()),
    (["True", "False", "True"], [1, 0, 1], ("False", "True")),
]


@pytest.mark.parametrize(("labels", "codes", "classes"), LABEL_CASES)
def test_labels_become_codes(tmp_path: Path, labels: list[str], codes: list[int], classes: tuple[str, ...]) -> None:
    rows = "\n".join(f"{place},{label}" for place, label in enumerate(labels))
    data = load_files(table(tmp_path, f"a,kind\n{rows}\n"), label="kind")
    assert data.all.y.tolist() == codes
    assert data.class_names == classes


def test_minus_one_is_no_label_unless_there_is_only_one_beside_it(tmp_path: Path) -> None:
    path = table(tmp_path, "a,kind\n1,-1\n2,1\n3,-1\n")
    for unlabeled in (-1, None):
        data = load_files(path, label="kind", unlabeled=unlabeled)
        assert data.class_names == ("-1", "1")
        assert data.all.y.tolist() == [0, 1, 0]
    with pytest.raises(LabelError, match=r"at least two classes, got '0' alone: -1 marks rows without a label"):
        load_files(table(tmp_path, "a,kind\n1,-1\n2,0\n3,-1\n"), label="kind")
    three = load_files(table(tmp_path, "a,kind\n1,-1\n2,0\n3,1\n"), label="kind")
    assert three.all.y.tolist() == [-1, 0, 1]
    other = table(tmp_path, "a,kind\n1,?\n2,u\n3,v\n")
    assert load_files(other, label="kind", unlabeled="?").all.y.tolist() == [-1, 0, 1]


def test_parts_share_their_classes(tmp_path: Path) -> None:
    train = table(tmp_path, "a,kind\n1,b\n2,c\n", "train.csv")
    test = table(tmp_path, "a,kind\n3,a\n4,c\n", "test.csv")
    data = load_files({"train": train, "test": test}, label="kind")
    assert data.class_names == ("a", "b", "c")
    assert data.train.y.tolist() == [1, 2]
    assert data.test.y.tolist() == [0, 2]
    other = table(tmp_path, "b,kind\n3,a\n", "other.csv")
    with pytest.raises(ShapeError, match=r"'train' and 'test' must have the same features .* differ in a, b"):
        load_files({"train": train, "test": other}, label="kind")
    with pytest.raises(ParameterError, match="at least one part"):
        load_files({})


def test_double_precision_on_request(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b\n0.1,16777217\n")
    assert load_files(path, dtype="float64").all.x.tolist() == [[0.1, 16777217]]
    with pytest.raises(ParameterError, match="`dtype` must be one of"):
        load_files(path, dtype="float16")  # type: ignore[arg-type]


BAD_CSV: list[tuple[str, dict[str, object], type[NearerError], str]] = [
    ("", {}, ShapeError, "at least one row, and is empty"),
    ("\n \n", {}, ShapeError, "at least one row, and is empty"),
    ("a,b\n", {}, ShapeError, "below its column names"),
    ("a,b\n1,x\n2,y\n", {}, ParameterError, r"in `t.csv` 'b' is not: 'x' on line 2.*label="),
    ("a,b,c\n1,x,u\n2,y,v\n", {"label": "c"}, ParameterError, "'b' is not: 'x'"),
    ("a,b,c\nq,1,r\n2,3,s\n", {}, ParameterError, "'a', 'c' are not: 'q' on line 2"),
    ("a,b\n1,2\n3,\n", {}, NotFiniteError, "'b' is empty in places, first on line 3"),
    (
        "a,b\n1,nan\n3,4\n",
        {},
        NotFiniteError,
        "1 missing or infinite in 1 column, the first in row 1 of column 'b'",
    ),
    (
        "a,b\n1,2\ninf,-inf\n",
        {},
        NotFiniteError,
        "2 missing or infinite in 2 columns, the first in row 2 of column 'a'",
    ),
    ("a,b\n1,1e39\n", {}, NotFiniteError, "column 'b'"),
    ("a,b\n1,2,3\n", {}, CorruptFileError, "2 columns as on its first line, got 3"),
    ("a,b\n1,2\n3\n", {}, CorruptFileError, "2 columns on each line, got 1 on line 3"),
    ("a,b\n1,2\n3,4,5\n", {}, CorruptFileError, "2 columns on each line, got 3 on line 3"),
    ("a,a\n1,2\n", {}, ParameterError, "different column names, got 'a' 2 times"),
    ("a,label\n1,2\n", {}, ParameterError, r"has a column 'label'. Pass `label='label'`, or `ignore=\['label'\]`"),
    ("a,Target\n1,2\n", {}, ParameterError, "has a column 'Target'"),
    ("a,b\n1,2\n", {"label": "c"}, ParameterError, r"`label` must name a column of `t.csv` \(a, b\), got 'c'"),
    ("a,b\n1,2\n", {"label": 5}, ParameterError, "`label` must be a position below 2, got 5"),
    ("a,b\n1,2\n", {"ignore": ["z"]}, ParameterError, "`ignore` must name a column"),
    (
        "a,b\n1,2\n",
        {"features": ["b"], "label": "b"},
        ParameterError,
        "must not hold the label column, got 'b' in both",
    ),
    ("a,b\n1,2\n", {"features": []}, ShapeError, "one row and one feature"),
    ("a,b\n1,2\n", {"ignore": ["a", "b"]}, ShapeError, "one row and one feature"),
    ("a;b\n1,5;2,5\n", {}, ParameterError, "'1,5' on line 2.*decimals with a point"),
    ("a,kind\n1,0.5\n2,3\n", {"label": "kind"}, LabelError, "names or whole numbers, got 0.5"),
    ("a,b\n1_000,2\n", {}, ParameterError, "'a' is not: '1_000'"),
    ("a,b\n0x1,2\n", {}, ParameterError, "'a' is not: '0x1'"),
]


@pytest.mark.parametrize(("text", "arguments", "error", "message"), BAD_CSV)
def test_bad_csv(
    tmp_path: Path, text: str, arguments: dict[str, object], error: type[NearerError], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_files(table(tmp_path, text), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,\xff\xfe\n", "must be text in UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "must be text in UTF-8|holds binary data"),
        (b"PK\x03\x04\0\0\0\0", "holds binary data"),
        (b"a,b\n" + b"1,2\n" * 3000 + b"\xff,1\n", "must be .*UTF-8"),
        (b'a,b\n1,"unclosed\n2,3\n', "must close every quote"),
        (b'a,kind\n1,"cat\n2,dog\n3,cat\n', "must close every quote"),
    ],
)
def test_a_csv_that_is_not_text(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message):
        load_files(tmp_path / "t.csv", label=1)


def test_paths_that_are_not_tables(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is none at"):
        load_files(tmp_path / "none.csv")
    with pytest.raises(ParameterError, match=r"must end in \.csv, .* got 't\.xlsx'"):
        load_files(table(tmp_path, "", "t.xlsx"))
    with pytest.raises(MissingDataError, match="there is none at"):
        load_files({"train": tmp_path, "test": tmp_path})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(-(10**15), 10**15),
            st.text(st.characters(codec="utf-8", exclude_characters="\0.eE"), max_size=5).map(str.strip),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_csv_reads_back_what_the_csv_module_wrote(rows: list[tuple[float, int, str]]) -> None:
    import csv

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["u", "v", "kind"])
            writer.writerows((repr(u), v, label) for u, v, label in rows)
        data = load_files(path, label="kind", dtype="float64", unlabeled=None)
    assert data.all.x.tolist() == [[u, v] for u, v, _ in rows]
    for (_, _, label), code in zip(rows, data.all.y, strict=True):
        assert (code == -1) == (label == "")
        named = data.class_names[code] if code >= 0 else ""
        assert named == label or float(named) == float(label)


def test_a_large_csv_is_read_in_seconds(tmp_path: Path) -> None:
    # A tenth of 100,000 x 128; the full size took about four seconds on one core.
    line = ",".join(f"{value:.6f}" for value in np.random.default_rng(0).normal(size=128))
    path = table(tmp_path, ",".join([*(f"f{n}" for n in range(128)), "kind"]) + "\n" + f"{line},cat\n" * 10_000)
    start = time.process_time()
    data = load_files(path, label="kind")
    assert data.all.x.shape == (10_000, 128)
    assert time.process_time() - start < 4


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "a": np.array([1, 2, 3], dtype=np.int16),
            "b": np.array([0.5, 1.5, 2.5], dtype=np.float32),
            "flag": [True, False, True],
            "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "kind": ["x", None, "y"],
        }
    )


def test_parquet(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "t.parquet")
    data = load_files(tmp_path / "t.parquet", label="kind")
    assert data.feature_names == ("a", "b", "flag", "vector[0]", "vector[1]")
    assert data.all.x.tolist() == [[1, 0.5, 1, 1, 2], [2, 1.5, 0, 3, 4], [3, 2.5, 1, 5, 6]]
    assert data.all.y.tolist() == [0, -1, 1]
    integers = frame().assign(kind=pd.array([3, None, 7], dtype="Int64"))
    integers.to_parquet(tmp_path / "i.parquet")
    assert load_files(tmp_path / "i.parquet", label="kind").class_names == ("3", "7")
    halves = frame().assign(kind=[1.0, np.nan, 2.0])
    halves.to_parquet(tmp_path / "f.parquet")
    assert load_files(tmp_path / "f.parquet", label="kind").all.y.tolist() == [0, -1, 1]
    categories = frame().assign(kind=pd.Categorical(["q", None, "p"]))
    categories.to_parquet(tmp_path / "c.parquet")
    assert load_files(tmp_path / "c.parquet", label="kind").all.y.tolist() == [1, -1, 0]


BAD_PARQUET: list[tuple[Callable[[], pd.DataFrame], dict[str, object], type[NearerError], str]] = [
    (frame, {}, ParameterError, "'kind' is not: 'kind' holds .*string"),
    (
        lambda: frame().assign(b=[1.0, None, 2.0]),
        {"label": "kind"},
        NotFiniteError,
        "'b' is empty in 1 rows|column 'b'",
    ),
    (lambda: frame().assign(b=[1.0, np.inf, 2.0]), {"label": "kind"}, NotFiniteError, "column 'b'"),
    (
        lambda: frame().assign(vector=[[1.0], [1.0, 2.0], [3.0]]),
        {"label": "kind"},
        ShapeError,
        r"one length, got \[1, 2\]",
    ),
    (lambda: frame().assign(vector=[[1.0], [None], [3.0]]), {"label": "kind"}, NotFiniteError, "empty places"),
    (lambda: frame().iloc[:0], {"label": "kind", "features": ["a"]}, ShapeError, "at least one row"),
    (
        lambda: frame().assign(kind=[1.5, 2.0, 3.0]),
        {"label": "kind"},
        LabelError,
        "names or whole numbers, got 1.5",
    ),
]


@pytest.mark.parametrize(("make", "arguments", "error", "message"), BAD_PARQUET)
def test_bad_parquet(
    tmp_path: Path,
    make: Callable[[], pd.DataFrame],
    arguments: dict[str, object],
    error: type[NearerError],
    message: str,
) -> None:
    make().to_parquet(tmp_path / "t.parquet")
    with pytest.raises(error, match=message):
        load_files(tmp_path / "t.parquet", **arguments)  # type: ignore[arg-type]


def test_parquet_that_is_not(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    for content in (b"", b"a,b\n1,2\n", whole[: len(whole) // 2], b"PAR1" + b"\0" * 20 + b"PAR1"):
        (tmp_path / "t.parquet").write_bytes(content)
        with pytest.raises(CorruptFileError, match="must be a Parquet file"):
            load_files(tmp_path / "t.parquet", label="kind")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(NearerError, match=r"pip install 'nearer\[tables\]'"):
        load_files(tmp_path / "t.parquet", label="kind")


X = np.arange(6.0).reshape(3, 2)


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, x=X, y=np.array([4, -1, 2]))
    data = load_files(path)
    assert data.all.y.tolist() == [1, -1, 0]
    assert data.class_names == ("2", "4")
    np.savez(path, emb=X, who=np.array(["b", "", "a"]), note=np.array("text"))
    assert load_files(path, label="who").all.y.tolist() == [1, -1, 0]
    assert load_files(path, features="emb").all.y.tolist() == [-1, -1, -1]
    np.savez(path, x_train=X, y_train=[0, 1, 0], x_test=X[:1], y_test=[2])
    data = load_files(path)
    assert list(data) == ["train", "test"]
    assert data.test.y.tolist() == [2]
    np.savez(path, X=X.astype(np.float16), y=np.array([[0.0], [np.nan], [1.0]]))
    assert load_files(path).all.y.tolist() == [0, -1, 1]
    np.savez(path, x=np.zeros((2, 4, 4), np.uint8))
    assert load_files(path).all.x.dtype == np.uint8


def test_npy(tmp_path: Path) -> None:
    path = tmp_path / "t.npy"
    np.save(path, np.column_stack([X, [1, 0, 1]]))
    data = load_files(path, label=-1)
    assert data.all.x.tolist() == X.tolist()
    assert data.all.y.tolist() == [1, 0, 1]
    np.save(path, X.T.astype(np.int32).T)
    np.save(tmp_path / "labels.npy", np.array(["u", "v", "u"]))
    for label in ("labels.npy", str(tmp_path / "labels.npy")):
        assert load_files(path, label=label).all.y.tolist() == [0, 1, 0]
    np.save(path, np.zeros((3, 4, 4), np.float32))
    assert load_files(path, label="labels.npy").all.x.shape == (3, 4, 4)


BAD_ARRAYS: list[tuple[dict[str, np.ndarray], dict[str, object], type[NearerError], str]] = [
    ({"x": X[:, 0]}, {}, ShapeError, r"features of shape \(n, p\), got \(3,\)"),
    ({"x": np.array([["a", "b"]])}, {}, ShapeError, "must hold numbers as features, got <U1"),
    ({"x": X, "y": np.array([0, 1])}, {}, ShapeError, "one label for each of its 3 rows, got 2"),
    ({"x": X, "y": np.zeros((3, 2, 2))}, {}, ShapeError, r"labels of shape \(n,\) or \(n, c\), got \(3, 2, 2\)"),
    ({"x": X, "y": np.array([0.5, 1, 2])}, {}, LabelError, "names or whole numbers, got 0.5"),
    ({"x": X[:0]}, {}, ShapeError, "at least one row"),
    ({"x": X * np.nan}, {}, NotFiniteError, "6 missing or infinite in 2 columns, the first in row 1"),
    ({"a": X, "b": X}, {}, ParameterError, r"`features` must name an array of `t.npz` \(a \(3, 2\), b \(3, 2\)\)"),
    ({"x": X}, {"label": "y"}, ParameterError, "`label` must name an array"),
    ({"x": X}, {"label": 0}, ParameterError, "`label` must be the name of an array"),
    ({"x": X}, {"features": "z"}, ParameterError, "`features` must name an array .* got 'z'"),
    ({"x": X}, {"features": ["a", "b"]}, ParameterError, "name of one array"),
    ({"x": X}, {"ignore": ["a"]}, ParameterError, "`ignore` names columns"),
    ({}, {}, ParameterError, r"must name an array of `t.npz` \(none\)"),
]


@pytest.mark.parametrize(("arrays", "arguments", "error", "message"), BAD_ARRAYS)
def test_bad_npz(
    tmp_path: Path,
    arrays: dict[str, np.ndarray],
    arguments: dict[str, object],
    error: type[NearerError],
    message: str,
) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(error, match=message):
        load_files(tmp_path / "t.npz", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("array", "arguments", "error", "message"),
    [
        (X[:, 0], {}, ShapeError, r"features of shape \(n, p\)"),
        (X, {"label": "y.csv"}, ParameterError, "a position or another .npy file"),
        (X, {"label": "none.npy"}, MissingDataError, "cannot be opened"),
        (X, {"label": 7}, ParameterError, "position below 2"),
        (np.zeros((2, 3, 4)), {"label": 0}, ParameterError, r"has shape \(2, 3, 4\)"),
        (np.array([[1j, 2]]), {}, ShapeError, "must hold numbers as features"),
    ],
)
def test_bad_npy(
    tmp_path: Path, array: np.ndarray, arguments: dict[str, object], error: type[NearerError], message: str
) -> None:
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(error, match=message):
        load_files(tmp_path / "t.npy", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_text_or_pickles_under_a_numpy_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(CorruptFileError, match=f"must be an {suffix} file"):
        load_files(path)
    objects = np.array([[1, "a"]], dtype=object)
    if suffix == ".npy":
        np.save(path, objects, allow_pickle=True)
    else:
        np.savez(path, x=objects)
    with pytest.raises(CorruptFileError, match="pickled Python objects"):
        load_files(path)
