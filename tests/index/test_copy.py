"""An index goes from any place to any other with its ids, kinds of values, order and model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nearer.exceptions import CorruptFileError, MissingDataError, NotFiniteError, ParameterError, ShapeError
from nearer.index import HNSW, Index, copy_index, open_index
from nearer.index._open import model_of

ROWS = np.random.default_rng(0).normal(size=(25, 4)).astype(np.float32)
NOTES: list[dict[str, Any]] = [{"year": 2000 + n, "name": f"ä'{n}", "list": [n, None]} for n in range(24)] + [{}]


@pytest.mark.parametrize("ids", [[f"ä{n}" for n in range(25)], [4_006_381_333_931 + n for n in range(25)]])
def test_through_a_parquet_file(start: Callable[..., Any], tmp_path: Path, engine: str, ids: list[Any]) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "model").mkdir()
    with start(4, similarity="cosine", fingerprint="one") as index:
        index.add(ROWS, ids, NOTES)
        assert index.metadata(ids[3:5]) == NOTES[3:5]
        with pytest.raises(ParameterError, match="must be in the index"):
            index.metadata(["nobody"] if isinstance(ids[0], str) else [7])
        if engine == "memory":
            index.save(tmp_path / "index")
            where = str(tmp_path / "index")
        else:
            index.remember({"name": "model", "path": str(tmp_path / "model"), "fingerprint": "one"})
            where = start.where  # type: ignore[attr-defined]
    assert copy_index(where, tmp_path / "items.parquet") == 25
    assert copy_index(tmp_path / "items.parquet", tmp_path / "again", kind=HNSW()) == 25
    with open_index(tmp_path / "again", read_only=True) as again:
        assert again.ids == ids
        assert again.metadata(ids) == NOTES
        np.testing.assert_allclose(
            again.embeddings(ids).numpy(), ROWS / np.linalg.norm(ROWS, axis=1)[:, None], 1e-6
        )
        assert (again.similarity, again.fingerprint, again.kind) == ("cosine", "one", HNSW())
        assert again.count({"year": {"$gte": 2020}}) == 4
        if engine != "memory":
            assert model_of(again, tmp_path / "again") == tmp_path / "model"
    with pytest.raises(ParameterError, match="must not exist yet"):
        copy_index(where, tmp_path / "items.parquet")
    with pytest.raises(ParameterError, match="must be a new index"):
        copy_index(where, tmp_path / "again")


def test_a_table_of_embeddings_and_other_files(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"id": [1, 2], "embedding": [[1.0, 2.0], [3.0, 4.0]], "year": [2000, None]})
    parquet.write_table(table, tmp_path / "table.parquet")
    assert copy_index(tmp_path / "table.parquet", tmp_path / "index") == 2
    with open_index(tmp_path / "index", read_only=True) as index:
        assert index.metadata([1, 2]) == [{"year": 2000}, {}]
        with pytest.raises(MissingDataError, match="does not say which model made it"):
            model_of(index, tmp_path / "index")
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(CorruptFileError, match="must hold the items of an index"):
        copy_index(tmp_path / "other.parquet", tmp_path / "new")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(CorruptFileError, match="must hold the items of an index"):
        copy_index(tmp_path / "broken.parquet", tmp_path / "new")
    with pytest.raises(MissingDataError, match="there is none"):
        copy_index(tmp_path / "nowhere.parquet", tmp_path / "new")
    Index(2).save(tmp_path / "empty")
    with pytest.raises(ShapeError, match="must hold an item"):
        copy_index(tmp_path / "empty", tmp_path / "empty.parquet")
    assert copy_index(tmp_path / "empty", tmp_path / "empty too") == 0
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("through", ["parquet", "folder"])
def test_numbers_that_were_given_out_are_not_given_out_by_a_copy(
    start: Callable[..., Any], tmp_path: Path, engine: str, postgres: str, through: str
) -> None:
    pytest.importorskip("pyarrow")
    with start(4) as index:
        index.add(ROWS)
        index.remove(range(20, 25))
        where = index.save(tmp_path / "index") if engine == "memory" else start.where  # type: ignore[attr-defined]
    between = tmp_path / ("items.parquet" if through == "parquet" else "between")
    assert copy_index(where, between) == 20
    pytest.importorskip("milvus_lite")
    targets = [tmp_path / "again", f"{postgres}&table=again_{engine}_{through}", f"milvus://{tmp_path}/again.db"]
    for target in targets:
        assert copy_index(between, target) == 20
        for first in (25, 26):  # also after it was closed
            with open_index(target) as again:
                assert again.add(ROWS[:1]) == [first]


@pytest.mark.parametrize("number", ["x", 2**80, None])
def test_a_forged_next_number_is_refused(tmp_path: Path, number: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"id": [1], "embedding": [[1.0, 2.0]], "metadata": ["{}"]})
    forged = {b"nearer.index": json.dumps({"kind": None, "next_id": number})}
    parquet.write_table(table.replace_schema_metadata(forged), tmp_path / "items.parquet")
    with pytest.raises(CorruptFileError, match="the next id must be a whole number"):
        copy_index(tmp_path / "items.parquet", tmp_path / "new")


@pytest.mark.parametrize("values", [["1", "2"], [True, False], [b"1", b"2"], [None, None]], ids=str)
def test_embeddings_that_are_no_numbers_are_refused(tmp_path: Path, values: list[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for column in (pa.array([values]), pa.array([values], pa.list_(pa.array(values).type, 2))):
        parquet.write_table(pa.table({"id": [1], "embedding": column}), tmp_path / "items.parquet")
        with pytest.raises(
            CorruptFileError, match=r"must hold the items of an index.*embedding \(a list of numbers"
        ):
            copy_index(tmp_path / "items.parquet", tmp_path / "new")
    whole = pa.table({"id": [1], "embedding": [[1, 2]]})
    parquet.write_table(whole, tmp_path / "items.parquet")
    assert copy_index(tmp_path / "items.parquet", tmp_path / "new") == 1


def test_a_folder_moves_with_its_model(tmp_path: Path) -> None:
    (tmp_path / "a" / "model").mkdir(parents=True)
    with open_index(tmp_path / "a" / "index", dimension=2, remember=tmp_path / "a" / "model") as index:
        index.add([[1, 2]])
        assert index.made_by == {"name": "model", "path": "../model", "fingerprint": None}
    (tmp_path / "a").rename(tmp_path / "b")
    with open_index(tmp_path / "b" / "index", read_only=True) as index:
        assert model_of(index, tmp_path / "b" / "index") == tmp_path / "b" / "model"
        (tmp_path / "b" / "model").rmdir()
        with pytest.raises(MissingDataError, match="which is not there"):
            model_of(index, tmp_path / "b" / "index")


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = np.ones((25_000, 2))
    rows[24_000, 0] = np.nan
    table = pa.table({"id": range(25_000), "embedding": rows.tolist()})
    parquet.write_table(table, tmp_path / "table.parquet")
    with pytest.raises(NotFiniteError, match="finite"):
        copy_index(tmp_path / "table.parquet", tmp_path / "index")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("names", [["a", "a"], [1, "1"]])
def test_columns_of_one_name_are_refused(names: list[Any]) -> None:
    """One of them would be lost without a word."""
    table = pd.DataFrame([[1, 2]], columns=names)
    with pytest.raises(ParameterError, match="must have different names, as text"):
        Index(1).add([[0.0]], metadata=table)
    with pytest.raises(ParameterError, match="must have different names, as text"):
        Index(1).add([[0.0]], metadata={1: [1], "1": [2]})
