"""The client repeats what may be repeated, and nothing else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nearer.app.client import Client, ServerError
from nearer.exceptions import MissingDataError, ParameterError


class Scripted:
    """A server that answers by a list: (status, body, headers), or None to close without an answer."""

    def __init__(self, answers: list) -> None:
        self.answers, self.seen = list(answers), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while self.answers:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as lines:
                head = b""
                while not head.endswith(b"\r\n\r\n") and (line := lines.readline()):
                    head += line
                found = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
                length = int(found[0].split(b":")[1]) if found else 0
                self.seen.append((head.split(b" ", 2)[:2], lines.read(length)))
                answer = self.answers.pop(0)
                if answer is None:
                    continue
                status, body, *more = answer
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                headers = "".join(f"{name}: {value}\r\n" for name, value in (more[0] if more else {}).items())
                text = f"HTTP/1.1 {status} X\r\ncontent-length: {len(data)}\r\nconnection: close\r\n{headers}\r\n"
                connection.sendall(text.encode() + data)
        self.listener.close()


@pytest.fixture
def scripted(monkeypatch) -> Iterator[Callable[..., Scripted]]:
    monkeypatch.setattr("nearer.app.client._client.time.sleep", lambda seconds: None)
    started: list[Scripted] = []

    def start(*answers) -> Scripted:
        started.append(Scripted(list(answers)))
        return started[-1]

    yield start
    for one in started:
        if one.answers:
            # Left over on purpose: what was not asked again. Let the thread see an end.
            one.answers.clear()
            with socket.create_connection(one.listener.getsockname()):
                pass
        one.thread.join(30)


BUSY = (429, {"error": {"code": "busy", "message": "full", "request": "1"}}, {"retry-after": "1"})
STOPPING = (503, {"error": {"code": "stopping", "message": "being stopped", "request": "1"}})
ENGINE = (503, {"error": {"code": "engine_unavailable", "message": "does not answer", "request": "1"}})
UNKNOWN = (404, {"error": {"code": "unknown_id", "message": "There is no item 7.", "request": "1"}})
FOUND = (200, {"results": [[{"id": 1, "distance": 0.5, "similarity": -0.5, "metadata": {}}]]})


def test_a_busy_server_and_a_lost_connection_are_asked_again(scripted) -> None:
    server = scripted(BUSY, None, FOUND)
    with Client(server.address) as client:
        assert client.search(vectors=[[1, 2]], k=1)[0][0].id == 1
    assert len(server.seen) == 3
    np.testing.assert_array_equal(np.frombuffer(server.seen[0][1], "<f4"), [1, 2])


def test_an_add_that_may_have_arrived_is_not_repeated(scripted) -> None:
    server = scripted(None)
    with Client(server.address) as client, pytest.raises(ServerError, match="It may have been done") as lost:
        client.add([[1.0]])
    assert lost.value.status == 0
    assert len(server.seen) == 1
    for answer in (BUSY, STOPPING):
        busy = scripted(answer, (201, {"ids": [1], "count": 1}))
        with Client(busy.address) as client:
            assert client.add([[1.0]]) == [1]
    for answer in (ENGINE, (503, b"a proxy that has lost its server")):
        server = scripted(answer)
        with Client(server.address) as client, pytest.raises(ServerError, match="It may have been done") as lost:
            client.add([[1.0]], ids=["a"])
        assert lost.value.status == 503
        assert len(server.seen) == 1
        server = scripted(answer, (201, {"ids": ["a"], "count": 1}))
        with Client(server.address) as client:
            assert client.upsert([[1.0]], ids=["a"]) == ["a"]


def test_upsert_and_remove_are_repeated(scripted) -> None:
    server = scripted(None, (201, {"ids": ["a"], "count": 1}))
    with Client(server.address) as client:
        assert client.upsert([[1.0]], ids=["a"], metadata=[{"b": 1}]) == ["a"]
    assert server.seen[0][1] == server.seen[1][1]
    server = scripted(None, UNKNOWN)
    with Client(server.address) as client:
        assert client.remove(7) is False
    server = scripted(UNKNOWN)
    with Client(server.address) as client, pytest.raises(ServerError, match="There is no item 7"):
        client.remove(7)


def test_it_gives_up_and_says_so(scripted) -> None:
    server = scripted(BUSY, BUSY, BUSY)
    with Client(server.address, retries=2) as client, pytest.raises(ServerError, match="full") as refused:
        client.status()
    assert (refused.value.status, refused.value.code, len(server.seen)) == (429, "busy", 3)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerError, match="does not answer"):
        Client(address, retries=1).status()
    assert Client(address).ready() is False
    odd = scripted((500, b"<html>"))
    with Client(odd.address) as client, pytest.raises(ServerError, match="status 500"):
        client.status()


def test_wrong_calls() -> None:
    with pytest.raises(ParameterError, match="`url` must be"):
        Client("localhost:8080")
    client = Client("http://localhost:1")
    with pytest.raises(ParameterError, match="either"):
        client.search()
    with pytest.raises(ParameterError, match="either"):
        client.add([[1]], vectors=[[1]])
    with pytest.raises(ParameterError, match="must be a list"):
        client.embed("one text")


def test_what_is_missing_is_null(scripted) -> None:
    frame = pd.DataFrame(
        {
            "age": [41.0, np.nan],
            "born": pd.to_datetime(["2020-01-02", None]),
            "town": pd.array(["Ulm", None], dtype="string"),
            "n": pd.array([4006381333931, None], dtype="Int64"),
            "member": [True, False],
        }
    )
    wanted = [
        {"age": 41.0, "born": "2020-01-02", "town": "Ulm", "n": 4006381333931, "member": True},
        {"age": None, "born": None, "town": None, "n": None, "member": False},
    ]
    tables = [frame, pytest.importorskip("polars").from_pandas(frame), frame.to_dict(orient="records")]
    for items in tables:
        server = scripted(FOUND)
        with Client(server.address) as client:
            client.search(items, k=1, where={"year": np.int64(2000)})
        sent = json.loads(server.seen[0][1], parse_constant=pytest.fail)
        assert sent == {"items": wanted, "k": 1, "where": {"year": 2000}}
    server = scripted((201, {"ids": [1], "count": 1}))
    with Client(server.address) as client:
        client.add([[1.0]], metadata=[{"weight": np.float64("nan"), "on": np.datetime64("NaT")}])
    assert json.loads(server.seen[0][1])["metadata"] == [{"weight": None, "on": None}]
    for table in tables:
        server = scripted((201, {"ids": [1, 2], "count": 2}))
        with Client(server.address) as client:
            client.add([[1.0], [2.0]], metadata=table)
        assert json.loads(server.seen[0][1], parse_constant=pytest.fail)["metadata"] == wanted


def test_paths_of_photos_are_sent_as_photos(scripted, tmp_path: Path) -> None:
    for name in ("a.png", "b.jpg"):
        (tmp_path / name).write_bytes(name.encode())
    row = (200, np.ones(2, "<f4").tobytes(), {"x-nearer-shape": "1,2"})
    for photos in ([tmp_path / "a.png", tmp_path / "b.jpg"], [str(tmp_path / "a.png"), str(tmp_path / "b.jpg")]):
        server = scripted(row, row)
        with Client(server.address) as client:
            assert client.embed(photos).shape == (2, 2)
        assert [body for _, body in server.seen] == [b"a.png", b"b.jpg"]
    server = scripted(row, FOUND)
    with Client(server.address) as client:
        assert client.search([tmp_path / "a.png"], k=1)[0][0].id == 1
    np.testing.assert_array_equal(np.frombuffer(server.seen[1][1], "<f4"), [1, 1])
    client = Client("http://127.0.0.1:1", retries=0)
    with pytest.raises(ParameterError, match="Embed photos first"):
        client.add([tmp_path / "a.png"])
    with pytest.raises(MissingDataError, match=r"c\.png` must be a photo, and there is no such file"):
        client.embed([tmp_path / "c.png"])
    texts = scripted(row)
    with Client(texts.address) as client:
        client.embed(["a text about c.png"])
    assert json.loads(texts.seen[0][1]) == {"items": ["a text about c.png"]}
