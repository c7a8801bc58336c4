"""What a stranger may try: headers twice or too late, pages of other sites, bodies nobody asked for, no reading."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearer.app.server import Settings
from nearer.app.server._batches import Batcher
from nearer.app.server._logs import Log
from nearer.app.server._service import Call, Service
from nearer.app.server._state import Place
from running_server import PATIENCE, ROWS, make_index, make_model, running

READ, WRITE = "read-0123456789abcdef", "write-0123456789abcdef"
MANY = 100 if os.environ.get("NEARER_FAULTS") == "long" else 20


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with tokens, and little patience."""
    place = tmp_path_factory.mktemp("attacked")
    make_index(place / "index", make_model(place / "model"), ROWS)
    (place / "tokens").write_text(f"read {READ}\nwrite {WRITE}\n")
    options = ("--tokens", str(place / "tokens"), "--host", "0.0.0.0", "--timeout", "3", "--log", "none")
    with running(place / "model", place / "index", *options) as server:
        server.host = "127.0.0.1"
        yield server


def raw(server, data: bytes) -> bytes:
    """What comes back for some bytes."""
    with socket.create_connection((server.host, int(server.port)), timeout=PATIENCE) as connection:
        connection.sendall(data)
        return connection.recv(65536)


BODY = json.dumps({"vectors": [[1, 2, 3, 4]], "ids": ["trailer"]}).encode()
CHUNK = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
ITEMS = b"POST /items HTTP/1.1\r\ncontent-type: application/json\r\n"
AUTHORIZATION = b"authorization: Bearer " + WRITE.encode() + b"\r\n"
WRONG = b"authorization: Bearer wrong-0123456789abcdef\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (ITEMS + b"host: a\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNK + AUTHORIZATION + b"\r\n", 401),
        (
            ITEMS
            + b"host: a\r\n"
            + WRONG
            + b"transfer-encoding: chunked\r\n\r\n"
            + CHUNK
            + AUTHORIZATION
            + b"\r\n",
            401,
        ),
        (ITEMS + b"host: a\r\n" + WRONG + AUTHORIZATION + b"content-length: 0\r\n\r\n", 400),
        (ITEMS + b"host: a\r\n" + AUTHORIZATION + WRONG + b"content-length: 0\r\n\r\n", 400),
        (ITEMS + b"host: a\r\nhost: a\r\n" + AUTHORIZATION + b"content-length: 0\r\n\r\n", 400),
        (ITEMS + b"host: a\r\ncontent-type: text/plain\r\n" + AUTHORIZATION + b"content-length: 0\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: a\r\nHost: localhost\r\n\r\n", 400),
    ],
    ids=["token-in-trailer", "right-token-in-trailer", "last-is-right", "first-is-right", "hosts", "types", "open"],
)
def test_headers_twice_or_after_the_body_open_nothing(guarded, request_: bytes, status: int) -> None:
    assert raw(guarded, request_).startswith(b"HTTP/1.1 %d " % status)
    bearer = {"authorization": f"Bearer {READ}"}
    assert guarded.ask("GET", "/similar/trailer", headers=bearer)[0] == 404


def test_of_two_hosts_none_is_this_machine(server) -> None:
    head = b"POST /reload HTTP/1.1\r\nhost: evil.example\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
    assert raw(server, head).startswith(b"HTTP/1.1 400 ")
    assert raw(server, head.replace(b"host: localhost\r\n", b"")).startswith(b"HTTP/1.1 421 ")


CHANGES = [
    ("POST", "/reload", None),
    ("POST", "/reload", {}),
    ("POST", "/items", {"vectors": [[1, 2, 3, 4]], "ids": [7777]}),
    ("DELETE", "/items/0", None),
]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:{port}"},
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(server, headers: dict[str, str]) -> None:
    given = {name: value.format(port=server.port) for name, value in headers.items()}
    for change in CHANGES:
        status, answer, _ = server.ask(*change, headers=given)
        assert (status, answer["error"]["code"]) == (403, "cross_site")
    assert server.ask("GET", "/similar/0?k=1")[0] == 200
    assert server.ask("GET", "/similar/7777?k=1")[0] == 404


def test_nor_does_its_form(server) -> None:
    for content in ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
        for path in ("/reload", "/items"):
            status, answer, _ = server.ask("POST", path, b'{"a":1}', content=content)
            assert (status, answer["error"]["code"]) == (415, "media_type")


def test_pages_of_the_server_itself_and_programs_change_what_they_like(server) -> None:
    own = f"http://127.0.0.1:{server.port}"
    for headers in ({"origin": own, "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {}):
        assert server.ask("POST", "/reload", headers=headers)[0] == 200


def memory(server) -> int:
    """Bytes that a process holds now."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the memory of a process as Linux shows it"
)
@pytest.mark.parametrize("head", [b"GET /health", b"GET /docs", b"GET /unknown", b"POST /items", b"POST /search"])
def test_without_a_token_no_body_is_kept(guarded, head: bytes) -> None:
    """Many connections, each with a body as large as the server takes: what they send goes nowhere."""
    size = 16 << 20
    before = memory(guarded)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(MANY):
            connection = stack.enter_context(
                socket.create_connection((guarded.host, int(guarded.port)), timeout=PATIENCE)
            )
            connection.sendall(head + b" HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size)
            connections.append(connection)

        def send(connection: socket.socket) -> bytes:
            with contextlib.suppress(ConnectionError):
                for _ in range(size >> 16):
                    connection.sendall(bytes(1 << 16))
            with contextlib.suppress(ConnectionError):
                return connection.recv(4096)
            return b""

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(send, connections))
        assert memory(guarded) - before < 64 << 20
    expected = b"HTTP/1.1 200 " if head in (b"GET /health", b"GET /docs") else b"HTTP/1.1 401 "
    # Who goes on sending after the answer may lose it: the server has closed.
    assert {answer[:13] for answer in answers} <= {expected, b""}


def test_the_answer_to_a_request_with_an_unasked_body_comes(server) -> None:
    for method, path, status in (("GET", "/health", 200), ("DELETE", "/items/none", 404), ("PUT", "/search", 405)):
        came, _, headers = server.ask(method, path, b"12345")
        assert (came, headers["connection"]) == (status, "close")


def wait_until(reached) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def sockets(server) -> int:
    """How many connections a process has open."""
    found = 0
    for file in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(file).startswith("socket:")
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the files of a process as Linux shows them")
def test_clients_that_never_read_are_let_go(guarded) -> None:
    """Each asks for some megabytes and reads nothing; a reader beside them, slow as it is, gets all of its own."""
    request = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n"
    wanted = (16 << 20) // int(guarded.ask("GET", "/openapi.json")[2]["content-length"])
    before = sockets(guarded)
    with contextlib.ExitStack() as stack:
        for _ in range(MANY * 2):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((guarded.host, int(guarded.port)))
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(request * wanted)
        # A busy server takes them when it comes to it, and keeps each for seconds.
        wait_until(lambda: sockets(guarded) > before)
        wait_until(lambda: sockets(guarded) <= before)
        assert guarded.ask("GET", "/health")[0] == 200
    with socket.create_connection((guarded.host, int(guarded.port)), timeout=PATIENCE) as slow:
        slow.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        came = b""
        while piece := slow.recv(1000):
            came += piece
            time.sleep(0.001)
    assert came.endswith(b"}")


def test_a_plain_search_waits_for_one_filtered_one_at_most(tmp_path) -> None:
    """Two hundred filtered searches wait, each with a condition of its own; then a plain one comes."""
    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS)
    order: list[object] = []
    begun, go = threading.Event(), threading.Event()

    async def run() -> None:
        place = Place(str(tmp_path / "model"), str(tmp_path / "index"))
        service = Service(place, Settings(), Log("none"))
        search = service.served.index.search

        def slow(queries, k=10, *, where=None):
            order.append(where and where["row"])
            begun.set()
            go.wait(PATIENCE)
            return search(queries, k=k)

        service.served.index.search = slow

        def body(where) -> Call:
            return Call(json.dumps({"vectors": ROWS[:1].tolist(), "where": where}).encode(), "application/json")

        filtered = [asyncio.ensure_future(service.search(body({"row": row}))) for row in range(200)]
        await asyncio.to_thread(begun.wait, PATIENCE)
        plain = [asyncio.ensure_future(service.search(body(None))) for _ in range(3)]
        same = [asyncio.ensure_future(service.search(body({"row": 1}))) for _ in range(3)]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*plain)
        assert order[:2] == [0, None], "behind the one that runs, all three together"
        await asyncio.gather(*filtered, *same)
        assert order.count(1) == 1, "equal conditions are looked up once"
        assert len(order) == 201
        await service.stop()

    asyncio.run(run())


def test_costly_jobs_have_half_of_the_time_and_all_of_it_when_they_are_alone() -> None:
    order: list[str] = []
    durations = {"plain": 0.002, "costly": 0.02}
    spent = dict.fromkeys(durations, 0.0)

    def work(jobs):
        kind = jobs[0].split()[0]
        order.extend(jobs)
        start = time.perf_counter()
        time.sleep(durations[kind])
        spent[kind] += time.perf_counter() - start
        return list(jobs)

    async def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            costly = lambda job: job.encode() if job.startswith("costly") else None  # noqa: E731
            batcher: Batcher[str] = Batcher(work, pool, room=1000, most=1, costly=costly)
            heavy = [batcher.put(f"costly {number}", 1) for number in range(15)]
            plain = [batcher.put(f"plain {number}", 1) for number in range(80)]
            await asyncio.gather(*plain)
            assert 0 < sum(one.done() for one in heavy) < 15, "both get on"
            assert spent["costly"] < 2 * spent["plain"] + 2 * durations["costly"]
            await asyncio.gather(*heavy)
            assert batcher.rows == 0
            begun, before = asyncio.get_running_loop().time(), spent["costly"]
            await asyncio.gather(*(batcher.put(f"costly {number}", 1) for number in range(100, 115)))
            seconds = asyncio.get_running_loop().time() - begun
            assert seconds < 1.9 * (spent["costly"] - before), "nobody is waited for"

    asyncio.run(run())
    assert [job for job in order if job.startswith("plain")] == [f"plain {number}" for number in range(80)]
