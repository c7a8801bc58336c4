"""Random requests: some that the description of the API allows, many that nobody should send. No 5xx, no hang."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import sys
from collections import Counter
from pathlib import Path

import pytest

from running_server import ROWS, make_index, make_model, running

MANY = int(os.environ.get("NEARER_SERVER_FUZZ", "300"))
STATUS: Counter[str] = Counter()


@pytest.fixture(scope="module")
def target(request, tmp_path_factory):
    # A busy machine may take seconds over a good request; a client that never ends must not cost a minute each.
    place = tmp_path_factory.mktemp("fuzzed")
    make_index(place / "index", make_model(place / "model"), ROWS)
    options = ("--max-body", "200000", "--max-rows", "64", "--timeout", str(request.param), "--log", "errors")
    with running(place / "model", place / "index", *options) as server:
        yield server
        assert server.ask("GET", "/health")[0] == 200
        assert server.process.poll() is None
        assert '"event":"defect"' not in server.log.read_text()
    if MANY >= 10_000 and STATUS:
        root = Path(__file__).resolve().parents[3]
        sys.path.insert(0, str(root / "benchmarks"))
        import record

        sys.argv = [str(Path(__file__)), "# by make soak"]
        row = {"what": "fuzzed requests", "count": sum(STATUS.values()), "statuses": dict(sorted(STATUS.items()))}
        record.save("server_faults", [{**row, "5xx": 0, "hangs": 0}], key=["what"])


@pytest.mark.parametrize("target", [60], indirect=True)
def test_requests_that_the_description_allows_and_forbids(target) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
    from hypothesis import HealthCheck, given, settings
    from schemathesis import GenerationMode

    _, described, _ = target.ask("GET", "/openapi.json")
    schema = schemathesis.openapi.from_dict(described)
    operations = [found.ok() for found in schema.get_all_operations()]
    each = max(1, MANY // 2 // len(operations) // 2)
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            raw = operation.definition.raw
            if mode is GenerationMode.NEGATIVE and not (raw.get("parameters") or "requestBody" in raw):
                continue  # nothing of this operation can be wrong

            @settings(max_examples=each, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case) -> None:
                answer = case.call(base_url=target.address, timeout=30)
                STATUS[str(answer.status_code)] += 1
                assert answer.status_code < 500, (answer.status_code, answer.text)
                told = case.operation.definition.raw["responses"]
                # What is answered is described: the status, and for success the form.
                assert str(answer.status_code) in told or answer.status_code in (404, 405), (
                    case.method, case.path, answer.status_code, answer.text)  # fmt: skip
                if answer.status_code < 300 and "json" in answer.headers.get("content-type", ""):
                    case.operation.validate_response(answer)

            ask()


def malformed(chance: random.Random) -> tuple[bytes, bool]:
    """The bytes of a request that is wrong somewhere, and whether the client ends its side."""
    number = lambda: chance.choice(  # noqa: E731
        [0, -1, 1.5, 1e308, -1e-320, 2**70, True, None, "x", [], {}, "\ud800", [[1]], {"a": [None]}]
    )
    rows = [[number() for _ in range(chance.randint(0, 6))] for _ in range(chance.randint(0, 3))]
    good = [[chance.random() for _ in range(4)] for _ in range(chance.randint(1, 70))]
    body: bytes
    kind = chance.randrange(10)
    if kind == 0:
        body = json.dumps({chance.choice(["vectors", "items", "ids"]): rows, "k": number()}).encode()
    elif kind == 1:
        body = json.dumps({"vectors": good, "k": number(), "where": number()}).encode()
    elif kind == 2:
        body = bytearray(json.dumps({"items": good}).encode())  # type: ignore[assignment]
        for _ in range(chance.randint(1, 5)):
            body[chance.randrange(len(body))] = chance.randrange(256)  # type: ignore[index]
        body = bytes(body)
    elif kind == 3:
        body = b"[" * chance.randint(1, 100_000)
    elif kind == 4:
        body = chance.randbytes(chance.randint(0, 3000))
    elif kind == 5:
        body = json.dumps({"items": [{"a" * chance.randint(0, 9): number()}], "ids": [number()]}).encode()
    elif kind == 6:
        body = json.dumps({"items": ["é" * chance.randint(0, 5)], "metadata": [number()]}).encode()
    elif kind == 7:
        body = json.dumps({"items": [good[0], good[0]], "ids": number(), "mode": number()}).encode()
    elif kind == 8:
        body = b" " * chance.randint(0, 300_000)
    else:  # nothing wrong with this one, unless the rest is
        body = json.dumps({"vectors": good[:64], "k": 3}).encode()
    path = chance.choice(
        [
            "/search",
            "/embed",
            "/items",
            "/same",
            "/reload",
            "/items/%00",
            "/items/" + "9" * 300,
            "/similar/-0?k=1e3",
            "/search?k=99999999999999999999",
            "/search?of=items",
            "/items/../../etc/passwd",
            "//",
            "/%ff%fe",
            "*",
            "/similar/\u00e9".encode().decode("latin-1"),
        ]
    )
    method = chance.choice(["POST", "POST", "POST", "GET", "DELETE", "PUT", "HEAD", "PATCH", "TRACE", "search"])
    content = chance.choice(
        ["application/json", "application/octet-stream", "image/png", "text/plain", "", "a/b;c=d"]
    )
    told = chance.choice([len(body), len(body), len(body), len(body), len(body) + 5, 0, 10**12, -1])
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-type: {content}", f"content-length: {told}"]
    if chance.random() < 0.1:
        lines.append(chance.choice(["transfer-encoding: chunked", "content-length: 3", "x", "expect: 100-continue",
                                    "authorization: Bearer \x00", "connection: upgrade", "upgrade: websocket",
                                    "x-long: " + "y" * 70_000]))  # fmt: skip
    data = "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + body
    if chance.random() < 0.1:
        data = data[: chance.randrange(len(data))]
    return data, chance.random() < 0.97


def ask(server, data: bytes, ends: bool) -> bytes:
    """Whatever comes back; the socket gives up after far longer than any limit of the server."""
    with socket.create_connection((server.host, int(server.port)), timeout=30) as connection:
        came = b""
        # The server may close before all is sent; a time-out is no such error, and fails.
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            if ends:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                came += piece
        return came


@pytest.mark.parametrize("target", [4], indirect=True)
def test_malformed_requests_are_refused_and_nothing_hangs(target) -> None:
    chance = random.Random(0)
    # Some operations have few inputs to try: what is left of the number is done here.
    for number in range(max(MANY // 2, MANY - sum(STATUS.values()))):
        data, ends = malformed(chance)
        came = ask(target, data, ends)
        status = came.split(b" ", 2)[1].decode() if came.startswith(b"HTTP/") else "closed"
        STATUS[status] += 1
        assert status == "closed" or int(status) < 500, (number, data[:300], came[:300])
    connection = http.client.HTTPConnection(target.host, int(target.port), timeout=30)
    connection.request("POST", "/search", json.dumps({"vectors": ROWS[:1].tolist(), "k": 1}),
                       {"content-type": "application/json"})  # fmt: skip
    assert connection.getresponse().status == 200
    connection.close()
