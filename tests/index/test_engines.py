"""What only an engine can do wrong: be too old, be down, go away in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_contract import D, agree, rows

from nearer.exceptions import CorruptFileError, LostWorkerError, MissingDataError, ParameterError
from nearer.index import HNSW, IVF, Index, open_index

Floats = NDArray[np.float32]


@pytest.fixture
def psycopg() -> Any:
    return pytest.importorskip("psycopg", reason="needs psycopg")


def test_pgvector_must_not_be_too_old(postgres: str, psycopg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from nearer.index import _pgvector

    monkeypatch.setattr(_pgvector, "MINIMUM", (99, 0))
    with pytest.raises(MissingDataError, match=r"pgvector must be 99\.0 or newer.*fewer than k items"):
        open_index(f"{postgres}&table=old", dimension=D)


@pytest.mark.parametrize("similarity", ["euclidean", "cosine"])
def test_a_filtered_approximate_search_finds_k(
    postgres: str, psycopg: Any, easy: Floats, new: Floats, similarity: Any
) -> None:
    """One row in a hundred passes the filter: without its iterative scan pgvector stops before it has ten."""
    table = f"filtered_{similarity}"
    memory = Index(16, similarity=similarity)
    with open_index(
        f"{postgres}&table={table}", dimension=16, similarity=similarity, kind=HNSW(neighbors=8)
    ) as index:
        for one in (index, memory):
            one.add(easy, metadata={"rare": [n % 100 == 0 for n in range(len(easy))]})
        with psycopg.connect(postgres) as plain:
            plain.execute("SET enable_seqscan = off")
            plain.execute("SET enable_bitmapscan = off")
            plain.execute("SET hnsw.iterative_scan = off")
            operator = "<->" if similarity == "euclidean" else "<=>"
            cut = plain.execute(
                f"SELECT id FROM {table} WHERE metadata @> '{{\"rare\": true}}' "
                f"ORDER BY embedding {operator} %s::vector LIMIT 10",
                [str(new[0].tolist())],
            ).fetchall()
            assert len(cut) < 10, "what the iterative scan is for"
        index._connection.execute("SET enable_seqscan = off")
        found, expected = (
            index.search(new, k=10, where={"rare": True}),
            memory.search(new, k=10, where={"rare": True}),
        )
        assert found.ids.shape == (len(new), 10)
        assert np.mean(found.ids == expected.ids) > 0.9
        plain_found, plain_expected = index.search(new, k=10), memory.search(new, k=10)
        assert np.mean(plain_found.ids == plain_expected.ids) > 0.9


def test_a_connection_lost_in_the_middle_of_an_upsert(
    postgres: str, psycopg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearer.index import _postgres

    whole = _postgres.copy_rows

    def broken(change: Any, *, numbered: bool) -> Any:
        pieces = iter(whole(change, numbered=numbered))
        yield next(pieces)
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [index._connection.info.backend_pid])
        yield from pieces
        yield bytes(1 << 22)

    memory = Index(D)
    with open_index(f"{postgres}&table=lost", dimension=D) as index:
        for one in (index, memory):
            one.add(rows(20))
        monkeypatch.setattr(_postgres, "copy_rows", broken)
        for call in (lambda: index.upsert(rows(9), range(15, 24)), lambda: index.add(rows(9))):
            with pytest.raises(LostWorkerError, match="PostgreSQL must answer for the index 'lost'"):
                call()
        monkeypatch.undo()
        agree(index, memory)
        for one in (index, memory):
            one.upsert(rows(9), range(15, 24))
        agree(index, memory)


def test_a_connection_lost_between_searches(postgres: str, psycopg: Any) -> None:
    with open_index(f"{postgres}&table=between", dimension=D) as index:
        index.add(rows(20))
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [index._connection.info.backend_pid])
        with pytest.raises(LostWorkerError, match="repeat the call"):
            index.search(rows(1))
        assert index.search(rows(1), k=3).ids.shape == (1, 3)


def test_addresses_and_tables_of_others_are_refused(postgres: str, psycopg: Any) -> None:
    with psycopg.connect(postgres) as plain:
        plain.execute("CREATE TABLE mine (x int)")
    with pytest.raises(CorruptFileError, match="'mine' is not one that nearer made"):
        open_index(f"{postgres}&table=mine", dimension=D)
    with pytest.raises(ParameterError, match="`table` must be small letters"):
        open_index(f"{postgres}&table=a;drop", dimension=D)
    with pytest.raises(ParameterError, match=r"`kind` must be Exact\(\) or HNSW"):
        open_index(f"{postgres}&table=cells", dimension=D, kind=IVF())
    with pytest.raises(ParameterError, match="`read_only` must be False"):
        open_index(f"{postgres}&table=cells", read_only=True)
    with open_index(f"{postgres}&table=nul", dimension=D) as index:
        with pytest.raises(ParameterError, match="must not hold the character 0"):
            index.add(rows(1), ids=["a\0b"])
        assert index.ids == []


def test_an_engine_that_is_down(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    with pytest.raises(LostWorkerError, match="PostgreSQL must answer") as caught:
        open_index(f"postgresql://me:secret@/base?host={tmp_path}&table=t", dimension=D)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("where", ["redis://a/b", "http://a"])
def test_unknown_engines_are_named(where: str) -> None:
    with pytest.raises(ParameterError, match=r"must be a folder, postgresql://\.\.\. or milvus://"):
        open_index(where, dimension=D)


@pytest.fixture
def milvus(tmp_path: Path) -> str:
    pytest.importorskip("pymilvus", reason="needs pymilvus")
    pytest.importorskip("milvus_lite", reason="needs milvus-lite")
    return f"milvus://{tmp_path}/milvus.db"


def test_milvus_that_fails_in_the_middle(milvus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pymilvus import MilvusException

    from nearer.index import _milvus

    monkeypatch.setattr(_milvus, "BATCH", 10)
    memory = Index(D)
    with open_index(milvus, dimension=D) as index:
        for one in (index, memory):
            one.add(rows(25))
        for name in ("insert", "upsert"):
            honest, calls = getattr(index._client, name), []

            def fails(*words: Any, honest: Any = honest, calls: list[int] = calls, **named: Any) -> Any:
                calls.append(1)
                if len(calls) == 2:
                    raise MilvusException(message="the connection was lost")
                return honest(*words, **named)

            monkeypatch.setattr(index._client, name, fails)
        with pytest.raises(LostWorkerError, match="Milvus must answer for the index 'nearer'"):
            index.add(rows(30), ids=range(100, 130))
        agree(index, memory)
        with pytest.raises(LostWorkerError, match="an upsert can be repeated"):
            index.upsert(rows(30), range(20, 50))
        for one in (index, memory):
            one.upsert(rows(30), range(20, 50))
        agree(index, memory)


def test_milvus_refusals(milvus: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"must end in \.db"):
        open_index(f"milvus://{tmp_path}/file", dimension=D)
    with pytest.raises(ParameterError, match="`collection` must be letters"):
        open_index(f"{milvus}?collection=a-b", dimension=D)
    with open_index(milvus, dimension=D) as index:
        index.add(rows(2), ids=["a", "b"], metadata={"list": [[1], [2]]})
        with pytest.raises(ParameterError, match="must be text, a number or a truth value for Milvus"):
            index.search(rows(1), where={"list": [1]})
        with pytest.raises(ParameterError, match="at most 65,535 bytes"):
            index.add(rows(1), ids=["x" * 70_000])
        for large in (2**63, -(2**63) - 1, 10**30):
            for note in ({"n": large}, {"list": [[{"n": large}]]}):
                for change in (index.add, index.upsert):
                    with pytest.raises(ParameterError, match=r"whole numbers of 64 bits for Milvus, got"):
                        change(rows(1), ["c"], [note])
        index.add(rows(2), ["c", "d"], [{"n": 2**63 - 1, "text": str(10**30)}, {"n": -(2**63)}])
        assert index.metadata(["c"]) == [{"n": 2**63 - 1, "text": str(10**30)}]
        for where in ({"n": 10**30}, {"n": {"$in": [1, 2**63]}}, {"n": {"$lt": 10**30}}):
            with pytest.raises(ParameterError, match="whole numbers of 64 bits for Milvus, got"):
                index.count(where)
        assert 10**30 not in index
        with pytest.raises(ParameterError, match="whole numbers of 64 bits"):
            index.embeddings([10**30])
    with open_index(f"{milvus}?collection=numbers", dimension=D) as index:
        assert index.add(rows(1), [2**63 - 1]) == [2**63 - 1]
        assert index.ids == [2**63 - 1]
        with pytest.raises(ParameterError, match="numbers of 64 bits are used up"):
            index.add(rows(1))
        with pytest.raises(ParameterError, match="whole numbers of 64 bits"):
            index.add(rows(1), [2**63])


def test_milvus_with_a_graph(milvus: str, easy: Floats, new: Floats) -> None:
    memory = Index(16)
    with open_index(f"{milvus}?collection=graph", dimension=16, kind=HNSW(neighbors=8)) as index:
        for one in (index, memory):
            one.add(easy[:500])
        assert np.mean(index.search(new[:5], k=5).ids == memory.search(new[:5], k=5).ids) > 0.9
