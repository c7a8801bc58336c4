"""What a name, a forged note or another process can do to an index in an engine: nothing, or an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_contract import D, agree, rows

from nearer.exceptions import CorruptFileError, ParameterError
from nearer.index import Index, open_index

HOSTILE = [
    "x'] or id not in ['y",
    'x"] or id not in ["y',
    "x\\'] or id != '",
    'x\\"] or id != "',
    "O'Brien",
    'say "no"',
    "back\\slash",
    "ends in \\",
    "two\nlines",
    "tab\tand\rreturn",
    "percent %s %(a)s {ids} $1",
    "'; DROP TABLE nearer_indexes; --",
    "\x01\x08\x0c\x1b[31m\x7f\x85\u2028",
    "",
    " ",
    "日本語 🐈 e\u0301",
    "\\n",
    "\\x41\\101\\u0041",
]


@pytest.fixture
def milvus(tmp_path: Path) -> str:
    pytest.importorskip("pymilvus", reason="needs pymilvus")
    pytest.importorskip("milvus_lite", reason="needs milvus-lite")
    return f"milvus://{tmp_path}/milvus.db"


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    if request.param == "milvus":
        return str(request.getfixturevalue("milvus"))
    pytest.importorskip("psycopg", reason="needs psycopg")
    return f"{request.getfixturevalue('postgres')}&table=hostile"


@pytest.mark.parametrize("address", ["milvus", "postgres"], indirect=True)
def test_an_id_is_a_name_and_never_a_command(address: str) -> None:
    memory = Index(D)
    plain = [f"plain {number}" for number in range(100)]
    with open_index(address, dimension=D) as index:
        for one in (index, memory):
            one.add(rows(100), plain)
            one.add(rows(len(HOSTILE), seed=1), HOSTILE, [{"name": name} for name in HOSTILE])
        agree(index, memory)
        assert index.embeddings(HOSTILE).tolist() == memory.embeddings(HOSTILE).tolist()
        for number, name in enumerate(HOSTILE):
            assert name in index
            with pytest.raises(ParameterError, match="is already in the index"):
                index.add(rows(1), [name])
            for one in (index, memory):
                one.upsert(rows(1, seed=number), [name], [{"name": name}])
                assert one.remove([name]) == 1
            assert len(index) == len(memory), name
            assert name not in index
            for one in (index, memory):
                one.add(rows(1, seed=number), [name])
        agree(index, memory)


def test_milvus_says_that_it_cannot_give_so_many(milvus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from nearer.index import _milvus

    monkeypatch.setattr(_milvus, "MOST", 40)
    with open_index(milvus, dimension=D) as index:
        index.add(rows(50), metadata={"few": [number < 30 for number in range(50)]})
        with pytest.raises(ParameterError, match="`k` must be at most 40 for Milvus, which gives no more, got 41"):
            index.search(rows(1), k=41)
        assert index.search(rows(1), k=40).ids.shape == (1, 40)
        assert index.search(rows(1), k=1000, where={"few": True}).ids.shape == (1, 30), "none is left out"


def test_milvus_keeps_the_order_of_insertion_when_the_clock_goes_back(
    milvus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    memory = Index(D)
    now = time.time_ns()
    for hours, name in enumerate("abc"):
        monkeypatch.setattr(time, "time_ns", lambda hours=hours: now - hours * 3_600_000_000_000)
        with open_index(milvus, dimension=D) as index:  # another process each time
            for one in (index, memory):
                one.add(rows(9), [f"{name}{number}" for number in range(9)])
            agree(index, memory)


FORGED: list[Any] = [
    None,
    7,
    {},
    {"dimension": "6"},
    {"dimension": 10**12},
    {"similarity": "__class__"},
    {"kind": "os.system"},
    {"kind": ["Exact"]},
    {"settings": {"evil": 1}},
    {"settings": 3},
    {"fingerprint": {"a": 1}},
    {"next_id": "1"},
    {"next_id": 2**80},
]


NOTED = "noted about .* (was changed|is not what nearer wrote)"


def test_what_milvus_has_noted_may_be_forged(milvus: str) -> None:
    with open_index(milvus, dimension=D) as index:
        honest = json.loads(index._client.describe_collection(index.name)["properties"]["nearer"])
        for change in FORGED:
            forged = honest | change if isinstance(change, dict) and change else change
            index._client.alter_collection_properties(index.name, {"nearer": json.dumps(forged)})
            with pytest.raises(CorruptFileError, match=NOTED):
                index.add(rows(1))
        index._client.alter_collection_properties(index.name, {"nearer": "["})
    with pytest.raises(CorruptFileError, match=NOTED):
        open_index(milvus)
