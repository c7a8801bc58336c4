"""How much and how slowly: bodies, rows, queues, headers and clients that take their time."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearer.app.client import Client
from nearer.app.server._batches import Batcher, Full
from running_server import ROWS, make_index, make_model, running


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A server with hardly any room."""
    place = tmp_path_factory.mktemp("narrow")
    make_index(place / "index", make_model(place / "model"), ROWS)
    options = ("--max-body", "4000", "--max-rows", "8", "--queue", "2", "--batch", "2", "--timeout", "1")
    with running(place / "model", place / "index", *options) as server:
        yield server


def raw(server, data: bytes, *, close: bool = True) -> bytes:
    """Bytes over a plain socket, and everything that comes back until the server closes."""
    with socket.create_connection((server.host, int(server.port)), timeout=60) as connection:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_WR)
        came = b""
        while piece := connection.recv(65536):
            came += piece
        return came


def test_too_large_and_too_many(narrow) -> None:
    status, answer, _ = narrow.ask("POST", "/search", b"[" + b"1," * 3000 + b"1]")
    assert (status, answer["error"]["code"]) == (413, "too_large")
    status, answer, _ = narrow.ask("POST", "/search", {"vectors": [[1, 2, 3, 4]] * 9})
    assert (status, answer["error"]["code"]) == (413, "too_many_rows")
    # Without a length the body is counted as it comes.
    head = b"POST /search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    chunk = b"400\r\n" + b" " * 0x400 + b"\r\n"
    assert b" 413 " in raw(narrow, head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 8, close=False)


def test_a_full_queue_is_said_with_when_to_come_back(narrow) -> None:
    body = json.dumps({"vectors": [[1, 2, 3, 4]] * 2}).encode()
    request = (
        b"POST /search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )
    came: list[bytes] = []
    while not any(b" 429 " in one for one in came):
        connections = [socket.create_connection((narrow.host, int(narrow.port)), timeout=60) for _ in range(50)]
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            came.append(connection.recv(65536))
            connection.close()
    assert {one.split(b" ", 2)[1] for one in came} <= {b"200", b"429"}
    busy = next(one for one in came if b" 429 " in one)
    assert b"retry-after: 1" in busy.lower()
    # The client comes back by itself.
    answers = []

    def ask() -> None:
        with Client(narrow.address, retries=20) as client:
            answers.append(client.search(vectors=ROWS[:2], k=1))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[row[0].id for row in answer] for answer in answers] == [[0, 1]] * 12


def test_slow_clients_are_let_go_and_others_are_served(narrow) -> None:
    head = b"POST /search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 500\r\n"
    slow = [b"", b"GET /hea", head, head + b"\r\n{"]
    with ThreadPoolExecutor(len(slow)) as pool:
        waiting = [pool.submit(raw, narrow, data, close=False) for data in slow]
        assert narrow.ask("GET", "/health")[0] == 200
        answers = [one.result() for one in waiting]
    assert answers[:3] == [b"", b"", b""]
    assert b" 408 " in answers[3]


def test_nonsense_and_endless_headers(narrow) -> None:
    assert b" 400 " in raw(narrow, b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    assert b" 431 " in raw(narrow, b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000, close=False)
    assert narrow.ask("GET", "/health")[0] == 200


def test_one_bad_request_of_a_batch_spoils_no_other(server) -> None:
    def ask(row: int):
        vectors = [[1e30, 1e30, 1e30, 1e30]] if row % 5 == 0 else ROWS[row : row + 1].tolist()
        return server.ask("POST", "/search", {"vectors": vectors, "k": 1})

    with ThreadPoolExecutor(16) as pool:
        for row, (status, answer, _) in enumerate(pool.map(ask, range(40))):
            assert status == (422 if row % 5 == 0 else 200)
            if status == 200:
                assert answer["results"][0][0]["id"] == row


def test_what_waits_is_worked_on_together() -> None:
    seen: list[list[int]] = []
    gate = threading.Event()

    def work(jobs):
        gate.wait(60)
        seen.append(list(jobs))
        return [ValueError("odd") if job == 3 else 10 * job for job in jobs]

    async def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            batcher: Batcher[int] = Batcher(work, pool, room=4, most=3)
            first = batcher.put(0, 1)
            while not batcher.running:
                await asyncio.sleep(0)
            rest = [batcher.put(job, 1) for job in (1, 2, 3, 4)]
            with pytest.raises(Full, match="queue is full") as full:
                batcher.put(5, 1)
            assert full.value.retry_after >= 1
            rest[1].cancel()
            gate.set()
            assert await first == 0
            assert (await rest[0], await rest[3]) == (10, 40)
            with pytest.raises(ValueError, match="odd"):
                await rest[2]
            assert (batcher.rows, batcher.running, batcher.done_rows) == (0, 0, 4)

    asyncio.run(run())
    assert seen == [[0], [1, 3, 4]]


def test_time_out_of_a_search(monkeypatch, tmp_path) -> None:
    from nearer.app.server import Settings
    from nearer.app.server._logs import Log
    from nearer.app.server._problems import Refusal
    from nearer.app.server._service import Call, Service
    from nearer.app.server._state import Place

    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS)

    async def run() -> None:
        place = Place(str(tmp_path / "model"), str(tmp_path / "index"))
        service = Service(place, Settings(timeout=0.05), Log("none"))
        search = service.served.index.search
        slow = threading.Event()
        monkeypatch.setattr(service.served.index, "search", lambda *a, **b: slow.wait(60) and search(*a, **b))
        with pytest.raises(Refusal, match="took too long") as late:
            await service.search(Call(b'{"vectors": [[1, 2, 3, 4]]}', "application/json"))
        assert (late.value.status, late.value.retry_after) == (503, 5)
        slow.set()
        await service.stop()

    begun = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - begun < 60
