"""One server for most tests: starting a process takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")
pytest.importorskip("msgspec", reason="needs the extra `serve`")

from running_server import ROWS, Running, make_index, make_model, running


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("served")
    model = make_model(place / "model")
    make_index(place / "index", model, ROWS, metadata=[{"row": row, "even": row % 2 == 0} for row in range(50)])
    return place


@pytest.fixture(scope="session")
def server(folder) -> Iterator[Running]:
    with running(folder / "model", folder / "index") as started:
        yield started
