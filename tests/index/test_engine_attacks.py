"""What a name, a forged note or another process can do to an index in an engine: nothing, or an error of ours."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from test_contract import D, agree, rows

from nearer.exceptions import CorruptFileError, LostWorkerError, MissingDataError, NearerError, ParameterError
from nearer.index import Index, open_index, switch_index

# `make faults` starts more of them.
ROUNDS = 15 if os.environ.get("NEARER_FAULTS") == "long" else 2

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


@pytest.fixture
def psycopg() -> Any:
    return pytest.importorskip("psycopg", reason="needs psycopg")


def open_and_add(where: str, start: Any, told: Any) -> None:
    """What a worker does when it starts."""
    start.wait()
    try:
        with open_index(where, dimension=3) as index:
            index.add([[1.0, 2.0, 3.0]])
        told.put("ok")
    except BaseException as error:
        told.put(f"{type(error).__name__}: {error}")


def write_until_told(where: str, name: str, ready: Any, told: Any) -> None:
    """Add and search, all the time, until the index says that another has its name."""
    done = 0
    try:
        with open_index(where, dimension=4, fingerprint=name) as index:
            while True:
                index.add([[1.0, 2.0, 3.0, 4.0]], metadata=[{"by": name}])
                done += 1
                found = index.search([[1.0, 2.0, 3.0, 4.0]], k=5).metadata[0]
                assert all(row["by"] == name for row in found)
                if done == 3:
                    ready.wait()
    except MissingDataError:
        told.put((name, done))
    except BaseException as error:
        told.put((name, repr(error)))


@pytest.fixture(scope="module")
def processes() -> Any:
    """New processes that have the library already: what is slow is its import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["nearer.index._open", "nearer.index._postgres", "psycopg"])
    return context


def test_processes_that_start_together_make_a_new_table_once(postgres: str, psycopg: Any, processes: Any) -> None:
    """Four processes, a base without the extension or any table of ours: each opens, each adds one item."""
    for number in range(ROUNDS):
        with psycopg.connect(postgres, autocommit=True) as plain:
            plain.execute(f"CREATE DATABASE together{number}")
        where = postgres.replace("/postgres?", f"/together{number}?") + "&table=order"
        assert f"/together{number}?" in where
        start, told = processes.Barrier(4), processes.Queue()
        workers = [processes.Process(target=open_and_add, args=(where, start, told)) for _ in range(4)]
        for worker in workers:
            worker.start()
        assert [told.get(timeout=120) for _ in workers] == ["ok"] * 4
        for worker in workers:
            worker.join()
        with open_index(where) as index:
            assert index.ids == [0, 1, 2, 3]


SWITCHED = "The index 'live' must be the one that was opened, and another has its name now"


def test_an_open_index_is_told_that_another_has_its_name(postgres: str, psycopg: Any) -> None:
    for name, size, ids in (("live", D, [7, 8]), ("next", D + 1, ["a", "b"])):
        with open_index(f"{postgres}&table={name}", dimension=size, fingerprint=f"model of {name}") as index:
            index.add([[float(number)] * size for number in range(2)], ids)
    old = open_index(f"{postgres}&table=live")
    switch_index(f"{postgres}&table=live", f"{postgres}&table=next")
    query = [[1.0] * D]
    for call in (
        lambda: old.search(query),
        lambda: old.search(query, where={"a": 1}),
        lambda: old.add(query),
        lambda: old.add(query, ["c"]),
        lambda: old.upsert(query, [7]),
        lambda: old.upsert(query, ["a"]),
        lambda: old.remove([7]),
        lambda: old.remove(["a"]),
        lambda: old.embeddings([7]),
        lambda: old.count(),
        lambda: old.ids,
        lambda: 7 in old,
    ):
        with pytest.raises(MissingDataError, match=SWITCHED):
            call()
    with open_index(f"{postgres}&table=live") as now:
        assert (now.fingerprint, now.dimension, now.ids) == ("model of next", D + 1, ["a", "b"])
    with open_index(f"{postgres}&table=next") as before:
        assert (before.fingerprint, before.ids) == ("model of live", [7, 8])
    switch_index(f"{postgres}&table=live", f"{postgres}&table=next")
    assert old.ids == [7, 8], "it has its name back"
    old.close()
    with pytest.raises(ParameterError, match="must be tables of one base"):
        switch_index(f"{postgres}&table=live", f"{postgres.replace('/postgres?', '/other?')}&table=next")


def test_a_switch_beside_two_processes_that_write_mixes_nothing(
    postgres: str, psycopg: Any, processes: Any
) -> None:
    """Both add and search all the time; every item is in the index of its own model, and each is told."""
    for number in range(ROUNDS):
        names = [f"mix_a{number}", f"mix_b{number}"]
        ready, told = processes.Barrier(3), processes.Queue()
        workers = [
            processes.Process(target=write_until_told, args=(f"{postgres}&table={name}", name, ready, told))
            for name in names
        ]
        for worker in workers:
            worker.start()
        ready.wait(timeout=120)
        switch_index(*(f"{postgres}&table={name}" for name in names))
        done = dict(told.get(timeout=120) for _ in workers)
        for worker in workers:
            worker.join()
        for name, other in zip(names, reversed(names), strict=True):
            with open_index(f"{postgres}&table={other}") as index:
                assert index.fingerprint == name
                assert index.count({"by": name}) == len(index) == done[name], "confirmed, and nothing else"


def test_reserved_words_are_names_and_ours_are_refused(postgres: str, psycopg: Any) -> None:
    for word in ("select", "user", "order", "table"):
        memory = Index(D)
        with open_index(f"{postgres}&table={word}", dimension=D) as index:
            for one in (index, memory):
                one.add(rows(20))
                one.upsert(rows(2), [3, 30])
                one.remove([4])
            agree(index, memory)
    for word in ("nearer_indexes", "nearer_stage", "nearer_switching"):
        with pytest.raises(ParameterError, match=f"`table` must be another name than .*, got '{word}'"):
            open_index(f"{postgres}&table={word}", dimension=D)
    with open_index(f"{postgres}&table=long_ids", dimension=D) as index:
        letters = "".join(chr(0x4E00 + number) for number in range(9000))  # cannot be compressed to a short key
        with pytest.raises(ParameterError, match=r"PostgreSQL does not take this: .*Ids must be shorter"):
            index.add(rows(1), [letters])
        assert len(index) == 0


@pytest.mark.parametrize("change", [*FORGED, {"key": None}, {"key": 3}, {"ids": "both"}], ids=str)
def test_what_postgres_has_noted_may_be_forged(postgres: str, psycopg: Any, change: Any) -> None:
    where = f"{postgres}&table=forged"
    with psycopg.connect(postgres, autocommit=True) as plain, open_index(where, dimension=D) as index:
        honest = plain.execute("SELECT about FROM nearer_indexes WHERE name = 'forged'").fetchone()[0]
        forged = honest | change if isinstance(change, dict) and change else change
        write = "UPDATE nearer_indexes SET about = %s WHERE name = 'forged'"
        plain.execute(write, [json.dumps(forged)])
        try:
            with pytest.raises(CorruptFileError, match=NOTED):
                open_index(where)
            with pytest.raises(NearerError):
                index.add(rows(1))
        finally:
            plain.execute(write, [json.dumps(honest)])
        assert index.ids == []


def test_tables_that_are_gone_or_were_changed(postgres: str, psycopg: Any) -> None:
    with psycopg.connect(postgres, autocommit=True) as plain:
        for number, damage in enumerate(
            [
                "DROP TABLE {0}",
                "ALTER TABLE {0} DROP COLUMN embedding",
                "ALTER TABLE {0} RENAME COLUMN id TO name",
                "DELETE FROM nearer_indexes WHERE name = '{0}'",
            ]
        ):
            table = f"gone{number}"
            with open_index(f"{postgres}&table={table}", dimension=D) as index:
                index.add(rows(3))
                plain.execute(damage.format(table))
                for call in (index.search, index.add, lambda row, index=index: index.upsert(row, [1])):
                    with pytest.raises(
                        (CorruptFileError, MissingDataError), match=r"as nearer made them|another has its name now"
                    ):
                        call(rows(1))
        with pytest.raises(CorruptFileError, match="'gone0' of the index has gone"):
            open_index(f"{postgres}&table=gone0")


def test_an_add_that_was_lost_at_its_end_says_that_it_may_be_there(postgres: str, psycopg: Any) -> None:
    """The connection ends between COMMIT and its answer: the item is there, and the error says that it may be."""
    with open_index(f"{postgres}&table=commit", dimension=D) as index:
        check = index._check_key

        def cut(connection: Any) -> None:
            check(connection)
            connection.execute("COMMIT")
            with psycopg.connect(postgres, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])

        index._check_key = cut
        with pytest.raises(LostWorkerError, match=r"this call may have been done.*look before you repeat an add"):
            index.add(rows(1))
        del index._check_key
        assert index.ids == [0]
