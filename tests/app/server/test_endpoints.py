"""Every endpoint of a running server: what it answers, and what it refuses with which status."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from nearer.app.client import Client, ServerError
from nearer.app.server import Settings, create_app
from nearer.models._saved import load
from running_server import ROWS, make_index, running


def nearest(query, k):
    order = np.argsort(np.linalg.norm(ROWS - query, axis=1), kind="stable")[:k]
    return order.tolist()


def test_search_finds_what_a_comparison_with_all_rows_finds(server) -> None:
    query = [0.1, -0.2, 0.3, 0.4]
    status, answer, headers = server.ask("POST", "/search", {"vectors": [query], "k": 5})
    assert status == 200
    assert [hit["id"] for hit in answer["results"][0]] == nearest(query, 5)
    first = answer["results"][0][0]
    assert first["distance"] == pytest.approx(np.linalg.norm(ROWS[first["id"]] - query), rel=1e-5)
    assert first["similarity"] == -first["distance"]
    assert first["metadata"]["row"] == first["id"]
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers
    assert headers["x-request-id"]


def test_items_are_embedded_first_and_conditions_kept(server) -> None:
    status, answer, _ = server.ask("POST", "/search", {"items": ROWS[:2].tolist(), "k": 3, "where": {"even": True}})
    assert status == 200
    assert answer["results"][0][0]["id"] == 0
    assert all(hit["metadata"]["even"] for row in answer["results"] for hit in row)


def test_binary_rows_give_the_answer_of_json(server) -> None:
    body = ROWS[:3].astype("<f4").tobytes()
    content = "application/octet-stream"
    _, as_json, _ = server.ask("POST", "/search", {"vectors": ROWS[:3].tolist(), "k": 4})
    for path in ("/search?k=4", "/search?k=4&of=items"):
        assert server.ask("POST", path, body, content=content)[1] == as_json
    status, rows, headers = server.ask("POST", "/embed", body, content=content, headers={"accept": content})
    assert (status, headers["x-nearer-shape"]) == (200, "3,4")
    np.testing.assert_array_equal(np.frombuffer(rows, "<f4").reshape(3, 4), ROWS[:3])
    assert server.ask("POST", "/search", body[:-1], content=content)[0] == 422


def test_add_upsert_remove(server) -> None:
    with Client(server.address) as client:
        count = client.status()["nearer_index_items"]
        (one,) = client.add([[9.0, 9.0, 9.0, 9.0]], metadata=[{"new": True}])
        assert client.search(vectors=[[9, 9, 9, 9]], k=1)[0][0].metadata == {"new": True}
        client.upsert(vectors=[[8.0, 8.0, 8.0, 8.0]], ids=[one])
        found = client.search([[9.0, 9.0, 9.0, 9.0]], k=1)[0][0]
        assert found.id == one
        assert found.distance == pytest.approx(2.0)
        with pytest.raises(ServerError, match="there already") as refused:
            client.add([[1.0, 1.0, 1.0, 1.0]], ids=[one])
        assert refused.value.status == 409
        assert client.remove(one)
        with pytest.raises(ServerError, match="There is no item") as refused:
            client.remove(one)
        assert refused.value.status == 404
        assert client.status()["nearer_index_items"] == count


def test_one_item_and_many_removed(server) -> None:
    with Client(server.address) as client:
        count = client.status()["nearer_index_items"]
        (one,) = client.add([[9.0, 8.0, 7.0, 6.0]], metadata=[{"new": True}])
        assert client.get(one) == {"id": one, "vector": [9.0, 8.0, 7.0, 6.0], "metadata": {"new": True}}
        more = client.add(np.ones((3, 4)))
        # What is not there is passed over, so that a request whose answer was lost may be sent again.
        assert client.remove_many([one, *more, one, 10**6]) == 4
        assert client.remove_many([one, *more]) == 0
        assert client.status()["nearer_index_items"] == count
        with pytest.raises(ServerError, match="There is no item") as refused:
            client.get(one)
        assert refused.value.status == 404
        with pytest.raises(ServerError, match="length"):
            client.remove_many([])


def test_the_examples_of_the_description_are_answered(server) -> None:
    _, described, _ = server.ask("GET", "/openapi.json")
    for path in ("/search", "/embed", "/same"):
        example = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        assert server.ask("POST", path, example)[0] in (200, 409)
    assert described["paths"]["/items"]["post"]["x-changes"] is True


def test_who_looks_at_the_figures_is_none_of_them(server) -> None:
    server.ask("GET", "/")
    assert not {"/", "/status", "/docs", "/openapi.json"} & set(server.ask("GET", "/status")[1]["routes"])
    assert b'route="/status"' in server.ask("GET", "/metrics")[1]


def test_similar_leaves_the_item_itself_out(server) -> None:
    with Client(server.address) as client:
        assert [hit.id for hit in client.similar(7, k=3)] == nearest(ROWS[7], 4)[1:]
        with pytest.raises(ServerError, match="no item 12345"):
            client.similar(12345)


def test_same_says_how_to_calibrate_and_gives_the_distance(server) -> None:
    status, answer, _ = server.ask("POST", "/same", {"ids": [0, 1]})
    assert status == 409
    assert "Calibrate" in answer["error"]["message"]
    assert answer["distance"] == pytest.approx(np.linalg.norm(ROWS[0] - ROWS[1]), rel=1e-5)
    with Client(server.address) as client, pytest.raises(ServerError) as refused:
        client.same(ROWS[0], ROWS[1])
    assert refused.value.answer["distance"] == pytest.approx(answer["distance"])


def test_same_decides_with_the_calibration_of_the_model(folder, tmp_path) -> None:
    model = load(folder / "model")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 5)
    model.calibrate(rng.normal(size=(30, 4))[y] * 5 + 0.1 * rng.normal(size=(150, 4)), y)
    model.save(tmp_path / "model")
    make_index(tmp_path / "index", model, ROWS)
    with running(tmp_path / "model", tmp_path / "index") as started:
        status, near, _ = started.ask("POST", "/same", {"items": [[1, 2, 3, 4], [1, 2, 3, 4.01]]})
        assert status == 200
        assert near["answer"] == "same"
        assert near["about"]["error"] == 0.05
        far = started.ask("POST", "/same", {"items": [[1, 2, 3, 4], [99, 2, 3, 4]]})[1]
        assert far["answer"] == "different"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "must be JSON"),
        (b"\xff\xfe", 400, "must be JSON"),
        (b'{"vectors": [[1, 2, 3, NaN]]}', 400, "must be JSON"),
        ({"vectors": [[1, 2, 3, 1e39]]}, 422, "finite"),
        ({"vectors": [[1, 2, 3]]}, 422, "must have 4 numbers"),
        ({"items": [[1, 2, 3]]}, 422, "takes 4 features"),
        ({"vectors": [[1, 2, 3, 4], [1]]}, 422, "one length"),
        ({"vectors": [["a", 2, 3, 4]]}, 422, "Expected `float`"),
        ({"vectors": []}, 422, "length >= 1"),
        ({"vectors": [[]]}, 422, "must have 4 numbers"),
        ({"vectors": [[1, 2, 3, 4]], "items": [[1, 2, 3, 4]]}, 422, "either"),
        ({}, 422, "either"),
        ({"vectors": [[1, 2, 3, 4]], "k": 0}, 422, ">= 1"),
        ({"vectors": [[1, 2, 3, 4]], "k": 100_000}, 422, "at most 1000"),
        ({"vectors": [[1, 2, 3, 4]], "kk": 3}, 422, "unknown field"),
        ({"items": ["a text"]}, 422, "takes no texts"),
        ({"items": [{"a": 1}]}, 422, ""),
        ({"items": [[1, 2, 3, 4], "mixed"]}, 422, "one kind"),
        ({"vectors": [[1, 2, 3, 4]], "where": {"a": {"b": [1]}}}, 422, "'a' is none of them: even"),
        ({"vectors": [[1, 2, 3, 4]], "where": {"even": 1}}, 422, "kind that the field has"),
        ({"vectors": [[1, 2, 3, 4]], "where": {"even": {"$in": [True, False]}}}, 200, ""),
    ],
)
def test_a_bad_search_is_refused_with_the_reason(server, body, status, words) -> None:
    came, answer, _ = server.ask("POST", "/search", body)
    assert came == status
    if status != 200:
        assert words in answer["error"]["message"]
        assert answer["error"]["request"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"items": [[1, 2, 3, 4]], "ids": [0]}, 409),
        ({"items": [[1, 2, 3, 4]], "ids": ["text among numbers"]}, 422),
        ({"items": [[1, 2, 3, 4]], "ids": [7000, 7001]}, 422),
        ({"items": [[1, 2, 3, 4], [1, 2, 3, 4]], "ids": [7000, 7000]}, 422),
        ({"items": [[1, 2, 3, 4]], "mode": "upsert"}, 422),
        ({"items": [[1, 2, 3, 4]], "mode": "replace"}, 422),
        ({"items": [[1, 2, 3, 4]], "metadata": [{}, {}]}, 422),
        ({"items": [[1, 2, 3]]}, 422),
        ({"items": [[1, 2, 3, 1e300]]}, 422),
    ],
)
def test_a_bad_write_is_refused_and_changes_nothing(server, body, status) -> None:
    with Client(server.address) as client:
        count = client.status()["nearer_index_items"]
        assert server.ask("POST", "/items", body)[0] == status
        assert client.status()["nearer_index_items"] == count


def test_other_paths_methods_and_types(server) -> None:
    assert server.ask("GET", "/nothing")[0] == 404
    status, answer, headers = server.ask("GET", "/items")
    assert status == 405
    assert answer["error"]["code"] == "method"
    assert "POST" in headers["allow"]
    assert server.ask("POST", "/search", b"a=1", content="application/x-www-form-urlencoded")[0] == 415
    assert server.ask("POST", "/search", b"not a png", content="image/png")[0] == 422
    assert server.ask("GET", "/similar/3?k=none")[0] == 422
    assert server.ask("DELETE", "/items/..%2F..%2Fetc%2Fpasswd")[0] == 404


def test_pages_and_figures(server) -> None:
    assert server.ask("GET", "/health")[1] == {"status": "alive"}
    assert server.ask("GET", "/ready")[1] == {"status": "ready"}
    status, text, headers = server.ask("GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    for name in (b'nearer_requests_total{route="/health",status="200"}', b"nearer_index_items", b'le="+Inf"'):
        assert name in text
    for path in ("/", "/docs"):
        status, page, headers = server.ask("GET", path)
        assert status == 200
        assert headers["content-type"].startswith("text/html")
        # No other machine is asked for anything: nothing names one, and the browser is told to refuse it.
        assert b"//" not in page.replace(b"<!--", b"")
        assert "default-src 'none'" in headers["content-security-policy"]
    status, described, _ = server.ask("GET", "/openapi.json")
    request = described["paths"]["/search"]["post"]["requestBody"]["content"]
    assert request["application/json"]["schema"]["$ref"].endswith("SearchRequest")
    assert "vectors" in described["components"]["schemas"]["SearchRequest"]["properties"]
    assert {"/embed", "/search", "/items", "/items/{id}", "/similar/{id}", "/same", "/health", "/ready", "/metrics",
            "/status", "/reload", "/remove"} <= set(described["paths"])  # fmt: skip


def test_no_answer_and_no_line_of_the_log_names_a_path_or_a_payload(server, folder) -> None:
    secret = 0.123454321
    server.ask("POST", "/search", {"vectors": [[secret, 2, 3, 4]]})
    answers = [server.ask(*one)[1] for one in (("GET", "/status"), ("POST", "/reload"), ("GET", "/metrics"))]
    assert str(folder) not in repr(answers)
    assert str(folder.name) not in repr(answers)
    server.ask("GET", "/similar/private-name")
    with Client(server.address) as client:
        before = client.status()["seconds"]
        while client.status()["seconds"] < before + 0.6:
            pass
    text = server.log.read_text()
    assert '"route":"/search"' in text
    assert str(secret) not in text
    assert "private-name" not in text


def test_what_is_described_is_what_there_is_and_it_can_be_mounted(folder, tmp_path) -> None:
    make_index(tmp_path / "index", load(folder / "model"), ROWS)
    app = create_app(folder / "model", tmp_path / "index", settings=Settings(log="none"))

    async def asked(method: str, path: str) -> tuple[int, dict]:
        sent = []

        async def receive() -> dict:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: dict) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"2")]
        scope = {"type": "http", "method": method, "path": "/metric" + path, "root_path": "/metric"}
        await app({**scope, "headers": headers, "query_string": b""}, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def every() -> None:
        _, described = await asked("GET", "/openapi.json")
        for path, operations in described["paths"].items():
            for method, about in operations.items():
                status, _ = (
                    await asked(method.upper(), path.replace("{id}", "7")) if path != "/metrics" else (200, 0)
                )
                assert str(status) in about["responses"], (method, path, status)
                assert about["description"]
        assert (await asked("GET", "/search"))[0] == 405

    asyncio.run(every())
