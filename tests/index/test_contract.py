"""One contract for every index: memory, folder, PostgreSQL and Milvus give the same ids, scores and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from nearer.exceptions import LimitError, MissingDataError, NotFiniteError, ParameterError, ShapeError
from nearer.index import Index

Floats = NDArray[np.float32]
D = 6


def rows(n: int, seed: int = 0) -> Floats:
    """Few different values, so that nearly every search has ties, also at the border of the first k."""
    points = np.random.default_rng(seed).integers(-1, 2, size=(n, D)).astype(np.float32)
    points[:, 0] += 0.5
    return points


QUERIES = np.concatenate([rows(4), np.random.default_rng(3).normal(size=(4, D)).astype(np.float32)])


def agree(index: Any, memory: Index, k: int = 9) -> None:
    assert len(index) == len(memory)
    assert index.ids == memory.ids
    fields = memory._items.fields.kinds
    conditions = [None, {"n": 1}, {"odd": True}, {"n": 2, "odd": False}, {"name": "ä'\"1"}, {"n": 99}]
    for where in (one for one in conditions if one is None or one.keys() <= fields.keys()):
        assert index.count(where) == memory.count(where)
        found, expected = index.search(QUERIES, k=k, where=where), memory.search(QUERIES, k=k, where=where)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.similarities.tolist() == expected.similarities.tolist()
        assert found.distances.tolist() == expected.distances.tolist()
        assert found.metadata == expected.metadata
    some = memory.ids[::7]
    assert index.embeddings(some).tolist() == memory.embeddings(some).tolist()


@pytest.mark.parametrize("similarity", ["euclidean", "cosine", "dot"])
def test_the_same_answers_as_exact_search(start: Callable[..., Any], similarity: Any) -> None:
    memory = Index(D, similarity=similarity)
    notes = [{"n": n % 3, "odd": n % 2 == 1, "name": f"ä'\"{n}", "list": [n, {"x": None}]} for n in range(150)]
    with start(D, similarity=similarity) as index:
        assert index.search(QUERIES, k=3).ids.shape == (len(QUERIES), 0)
        for one in (index, memory):
            assert one.add(rows(150), ids=[f"ä{n}" for n in range(150)], metadata=notes)[3] == "ä3"
            assert one.remove(["ä5", "ä9", "ä5"]) == 2
            one.upsert(rows(30, seed=1), [f"ä{n}" for n in range(20, 50)], notes[:30])
            one.upsert(rows(3, seed=2), ["ä5", "new 1", "new 2"])
            assert one.add(np.empty((0, D)), ids=[]) == []
        agree(index, memory)
        assert "ä5" in index
        assert "ä9" not in index
        assert index.similarity == similarity
        assert index.dimension == D
        assert index.search(np.empty((0, D)), k=3).ids.shape[0] == 0


def test_numbers_are_given_out_once(start: Callable[..., Any]) -> None:
    memory = Index(D)
    with start(D) as index:
        for one in (index, memory):
            assert one.add(rows(4)) == [0, 1, 2, 3]
            one.remove([3])
            assert one.add(rows(1, seed=1)) == [4]
            one.add(rows(1, seed=2), ids=[-7])
            one.upsert(rows(1, seed=3), [100])
            assert one.add(rows(2, seed=4)) == [101, 102]
        agree(index, memory)
        assert index.search(QUERIES, k=2).ids.dtype == np.int64


def test_bad_input_changes_nothing(start: Callable[..., Any]) -> None:
    with start(D) as index:
        index.add(rows(5), ids=list("abcde"))
        wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
            (lambda: index.add(rows(2)[:, :3], ids=["x", "y"]), ShapeError, "must have 6 columns, got 3"),
            (lambda: index.search(rows(2)[:, :3]), ShapeError, "must have 6 columns, got 3"),
            (lambda: index.add(rows(2) * np.nan, ids=["x", "y"]), NotFiniteError, "must be finite"),
            (lambda: index.search(rows(2) * np.nan), NotFiniteError, "must be finite"),
            (lambda: index.add(rows(2), ids=["x", "a"]), ParameterError, "'a' is already in the index"),
            (lambda: index.add(rows(2), ids=["x", "x"]), ParameterError, "'x' comes twice"),
            (lambda: index.upsert(rows(2), ["x", "x"]), ParameterError, "'x' comes twice"),
            (lambda: index.upsert(rows(2), None), ParameterError, "`ids` must be given"),
            (lambda: index.add(rows(2)), ParameterError, "cannot be numbered on"),
            (lambda: index.add(rows(1), ids=[3]), ParameterError, "must be text like those already"),
            (lambda: index.add(rows(1), ids=["x", "y"]), ShapeError, "one entry for each of the 1 rows"),
            (lambda: index.remove(["a", "unknown"]), ParameterError, "'unknown' is not"),
            (lambda: index.embeddings(["unknown"]), ParameterError, "'unknown' is not"),
            (lambda: index.search(rows(1), k=0), ParameterError, "`k` must be"),
            (lambda: index.search(rows(1), where=[1]), ParameterError, "`where` must be a dictionary"),
            (lambda: index.add(rows(1), ids=["x"], metadata=[{"a": {1}}]), ParameterError, "must be JSON"),
        ]
        for call, kind, message in wrong:
            with pytest.raises(kind, match=message):
                call()
            assert index.ids == list("abcde")


def test_large_numbers_are_equal_where_python_says_so(start: Callable[..., Any], engine: str) -> None:
    """1e23 is not 10²³, and it comes back as the float that it was."""
    values: list[Any] = [1e23, 1e16, 10**16, -1e300, 2.5, 1e-7, "1e+23", 'a "1e+23"', 1]
    values += [] if engine == "milvus" else [10**23, [1e23, "1e+23"]]  # which has whole numbers of 64 bits only
    with start(D) as index:
        index.add(rows(len(values)), metadata={"n": values})
        for value in values if engine != "milvus" else values[:9]:
            right = [n for n, other in enumerate(values) if other == value]
            for where in ({"n": value}, {"n": {"$in": [value]}}):
                assert sorted(index.search(rows(1), k=20, where=where).ids[0].tolist()) == right
                assert index.count(where) == len(right), value
        found = [note["n"] for note in index.metadata(range(len(values)))]
        assert [(type(one), one) for one in found] == [(type(one), one) for one in values]
        assert index.count({"n": {"$gt": 1e22}}) == 1 + (engine != "milvus")
        assert index.count({"n": {"$lt": 1e23, "$gt": 2}}) == 3


def test_ever_new_fields_end_in_an_error(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new name is noted beside all others, so that they cost more with every item."""
    monkeypatch.setenv("NEARER_MAX_FIELDS", "3")
    with start(D) as index:
        index.add(rows(2), metadata=[{"a": 1}, {"b": 1, "c": 1}])
        with pytest.raises(LimitError, match=r"is a value.*must keep to 3 different fields.*set NEARER_MAX_FIELDS"):
            index.add(rows(1), metadata=[{"d": 1}])
        index.add(rows(1), metadata=[{"a": "text", "c": None}])
        assert index.count({"a": "text"}) == 1
        assert len(index) == 3


def test_it_is_there_after_opening_it_again(start: Callable[..., Any], engine: str) -> None:
    if engine != "memory":
        with pytest.raises(MissingDataError, match="Pass `dimension` to make one"):
            start()
    memory = Index(D)
    with start(D, fingerprint="model one") as index:
        for one in (index, memory):
            one.add(rows(40), metadata={"n": [n % 3 for n in range(40)]})
    with start(fingerprint="model one") as index:
        assert index.fingerprint == "model one"
        agree(index, memory)
        for one in (index, memory):
            assert one.add(rows(1)) == [40]
        agree(index, memory)
    if engine == "memory":
        return
    with pytest.raises(ParameterError, match="embeddings of another model"):
        start(fingerprint="model two")
    with pytest.raises(ParameterError, match="`similarity` must be 'euclidean'"):
        start(similarity="dot")
    with pytest.raises(ShapeError, match="`dimension` must be 6"):
        start(7)
    with pytest.raises(ParameterError, match="it was closed"):
        index.add(rows(1))


def test_a_repeated_upsert_makes_no_duplicates(start: Callable[..., Any]) -> None:
    memory = Index(D)
    with start(D) as index:
        for one in (index, memory):
            one.add(rows(30))
            for _ in range(3):
                one.upsert(rows(20, seed=5), range(20, 40), metadata={"n": [1] * 20})
        agree(index, memory)


NOTES = [
    {
        "year": 1990 + n % 20,
        "price": n / 4,
        "name": ["a", "B", "ä", "O'Brien", 'say "x"', "back\\slash", "two\nlines", "z"][n % 8],
        "sold": n % 3 == 0,
        **({"rare": "yes"} if n % 11 == 0 else {}),
    }
    for n in range(90)
]
FILTERS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "equal": ({"year": 2000}, lambda m: m["year"] == 2000),
    "equal to a float": ({"year": 2000.0}, lambda m: m["year"] == 2000),
    "equal, written out": ({"sold": {"$eq": True}}, lambda m: m["sold"]),
    "quotes": ({"name": "O'Brien"}, lambda m: m["name"] == "O'Brien"),
    "backslash": ({"name": {"$in": ["back\\slash", "two\nlines", 'say "x"']}}, lambda m: m["name"][0] in "bts"),
    "not equal": ({"name": {"$ne": "a"}}, lambda m: m["name"] != "a"),
    "not equal where many have none": ({"rare": {"$ne": "yes"}}, lambda m: "rare" not in m),
    "none of": ({"year": {"$nin": [1990, 2001]}}, lambda m: m["year"] not in (1990, 2001)),
    "one of nothing": ({"year": {"$in": []}}, lambda m: False),
    "none of nothing": ({"year": {"$nin": []}}, lambda m: True),
    "at least": ({"year": {"$gte": 2000}}, lambda m: m["year"] >= 2000),
    "between": ({"price": {"$gt": 3, "$lte": 9.5}}, lambda m: 3 < m["price"] <= 9.5),
    "text by its characters": ({"name": {"$lt": "b"}}, lambda m: m["name"] < "b"),
    "text above": ({"name": {"$gte": "z"}}, lambda m: m["name"] >= "z"),
    "both": ({"sold": True, "year": {"$lt": 1995}}, lambda m: m["sold"] and m["year"] < 1995),
    "and": ({"$and": [{"year": {"$gt": 1999}}, {"year": {"$lt": 2003}}]}, lambda m: 1999 < m["year"] < 2003),
    "or": ({"$or": [{"rare": "yes"}, {"price": 1.25}]}, lambda m: "rare" in m or m["price"] == 1.25),
    "or inside": (
        {"sold": True, "$or": [{"year": 1990}, {"$and": [{"year": 1995}, {"name": "z"}]}]},
        lambda m: m["sold"] and (m["year"] == 1990 or (m["year"] == 1995 and m["name"] == "z")),
    ),
    "without": ({"rare": None}, lambda m: "rare" not in m),
    "one of them or without": ({"rare": {"$in": [None, "yes"]}}, lambda m: True),
    "having": ({"rare": {"$ne": None}}, lambda m: "rare" in m),
    "and everything": ({"$and": [{}, {"sold": True}], "$or": [{"year": 1}, {}]}, lambda m: m["sold"]),
    "nothing asked": ({}, lambda m: True),
    "in nothing": ({"name": "nobody"}, lambda m: False),
}


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_table_is_metadata(start: Callable[..., Any], library: str) -> None:
    table: Any = pd.DataFrame(
        {
            "year": np.array([1999, 2004], dtype=np.int64),
            "price": [1.5, np.nan],
            "sold": pd.to_datetime(["2020-01-02", None]),
            "color": pd.Categorical(["red", "blue"]),
            "new": [True, False],
        }
    )
    if library == "polars":
        table = pytest.importorskip("polars").from_pandas(table)
    if library == "arrow":
        table = pytest.importorskip("pyarrow").Table.from_pandas(table)
    with start(D) as index:
        assert index.fields() == {}
        ids = index.add(np.eye(2, D), metadata=table)
        first, second = index.metadata(ids)
        assert first == {"year": 1999, "price": 1.5, "sold": "2020-01-02", "color": "red", "new": True}
        assert second == {"year": 2004, "price": None, "sold": None, "color": "blue", "new": False}
        assert index.count({"year": {"$gte": 2000}, "color": "blue"}) == 1
        kinds = {"year": "numbers", "price": "numbers", "sold": "text", "color": "text", "new": "truth values"}
        assert {name: found - {"nothing"} for name, found in index.fields().items()} == {
            name: {kind} for name, kind in kinds.items()
        }
        with pytest.raises(ShapeError, match="one entry for each of the 3 rows, got 2"):
            index.add(np.eye(3, D), metadata=table)


def test_filters_mean_the_same_everywhere(start: Callable[..., Any]) -> None:
    points = np.random.default_rng(5).normal(size=(len(NOTES), D)).astype(np.float32)
    with start(D) as index:
        assert index.count({"year": 1}) == 0, "an index without items has nothing to misread"
        index.add(points, metadata=NOTES)
        for name, (where, holds) in FILTERS.items():
            right = [n for n, note in enumerate(NOTES) if holds(note)]
            assert index.count(where) == len(right), name
            assert sorted(index.search(points[:1], k=200, where=where).ids[0].tolist()) == right, name
            nearest = index.search(points[:2], k=3, where=where)
            exact = np.array([np.linalg.norm(points[right] - row, axis=1) for row in points[:2]]).reshape(2, -1)
            assert nearest.ids.tolist() == [[right[at] for at in np.argsort(row)[:3]] for row in exact], name
        wrong = {
            "'yaer' is none of them: name, price, rare, sold, year. Did you mean 'year'": {"yaer": 2000},
            r"kind that the field has \(numbers\), got text: '2000'": {"year": "2000"},
            r"kind that the field has \(truth values\), got numbers": {"sold": 1},
            r"kind that the field has \(text\), got numbers": {"$or": [{"year": 1}, {"name": {"$gt": 1}}]},
            "must use \\$eq, \\$ne": {"year": {"$above": 3}},
            "must be a list of values": {"year": {"$in": 3}},
            "must be a list of conditions": {"$or": {"year": 3}},
            "must be a number or text": {"sold": {"$gt": True}},
            "must name fields, \\$and or \\$or": {"$not": {"year": 3}},
            "must be a dictionary": {"$and": [3]},
        }
        for message, where in wrong.items():
            for call in (index.count, lambda where: index.search(points[:1], where=where)):
                with pytest.raises(ParameterError, match=message):
                    call(where)
