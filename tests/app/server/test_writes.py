"""What was answered is there: after kills, a stop, and the change of model and index under load."""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from nearer.app.client import Client
from nearer.index import open_index
from running_server import ROWS, Running, make_index, make_model, running, start

KILLS = int(os.environ.get("NEARER_SERVER_KILLS", "2"))


def vector(one: int) -> list[float]:
    """What is stored under a number, so that half a write would show."""
    return [float(one % 1000), float(one // 1000), 1.0, -1.0]


class Writer(threading.Thread):
    """Adds, replaces and removes items until the server has gone; knows what was answered and what was asked."""

    def __init__(self, server: Running, first: int) -> None:
        super().__init__(daemon=True)
        self.server, self.first = server, first
        self.state: dict[int, int | None] = {}
        """By id the version that was answered, None once its removal was."""
        self.asked: dict[int, list[int | None]] = {}
        self.answers = 0

    def run(self) -> None:
        connection = self.server.connect()
        chance = random.Random(self.first)
        step = 0
        try:
            while True:
                step += 1
                known = [one for one, version in self.state.items() if version is not None]
                if known and chance.random() < 0.3:
                    ids, version, call = [chance.choice(known)], None, "remove"
                elif known and chance.random() < 0.3:
                    ids, version, call = chance.sample(known, min(3, len(known))), step, "upsert"
                else:
                    ids, version, call = [self.first + 10 * step + part for part in range(3)], step, "add"
                for one in ids:
                    self.asked[one] = [*self.asked.get(one, []), version]
                self.send(connection, call, ids, version)
                for one in ids:
                    self.state[one] = version
                    self.asked[one] = []
                self.answers += 1
        except (OSError, http.client.HTTPException):
            connection.close()

    def send(self, connection, call: str, ids: list[int], version: int | None) -> None:
        if call == "remove":
            connection.request("DELETE", f"/items/{ids[0]}")
        else:
            body = {
                "vectors": [vector(one + 7 * (version or 0)) for one in ids],
                "ids": ids,
                "metadata": [{"version": version} for _ in ids],
                "mode": call,
            }
            connection.request("POST", "/items", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 201), text


def check(place: Path, writers: list[Writer]) -> int:
    """Everything answered is in the index, and nothing is half there."""
    with open_index(place) as index:
        stored = {}
        for hit_id in index.ids:
            stored[hit_id] = index.embeddings([hit_id])[0].tolist()
        for writer in writers:
            for one in {*writer.state, *writer.asked}:
                allowed = [writer.state.get(one), *writer.asked.get(one, [])]
                rows = [None if version is None else vector(one + 7 * version) for version in allowed]
                assert stored.get(one) in rows, (one, allowed, stored.get(one))
            # A batch that was not answered is there with all of its rows or with none.
            fresh = [one for one, asked in writer.asked.items() if asked and one not in writer.state]
            assert len({one in stored for one in fresh}) <= 1, fresh
        return len(stored)


def test_kill_at_any_moment_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS[:1], ids=[-1])
    chance, answers = random.Random(0), 0
    for kill in range(KILLS):
        server = start(tmp_path / "model", tmp_path / "index", "--log", "none")
        before = check_ids(server)
        writers = [Writer(server, (4 * kill + number + 1) * 1_000_000) for number in range(4)]
        for writer in writers:
            writer.start()
        wanted = chance.randint(5, 60)
        while sum(writer.answers for writer in writers) < wanted:
            assert server.process.poll() is None
            time.sleep(0.001)
        time.sleep(chance.random() * 0.01)
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        for writer in writers:
            writer.join(60)
        answers += sum(writer.answers for writer in writers)
        assert check(tmp_path / "index", writers) >= 0
        assert before >= 1
    if KILLS >= 100:
        root = Path(__file__).resolve().parents[3]
        sys.path.insert(0, str(root / "benchmarks"))
        import record

        sys.argv = [str(Path(__file__)), "# by make soak"]
        row = {"what": "kill -9 under writes", "count": KILLS, "answered writes": answers, "lost": 0, "half": 0}
        record.save("server_faults", [row], key=["what"])


def check_ids(server: Running) -> int:
    status, answer, _ = server.ask("GET", "/status")
    assert status == 200
    return int(answer["nearer_index_items"])


def test_a_stop_finishes_what_was_begun(tmp_path: Path) -> None:
    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS[:1], ids=[-1])
    server = start(tmp_path / "model", tmp_path / "index")
    writers = [Writer(server, (number + 1) * 1_000_000) for number in range(4)]
    for writer in writers:
        writer.start()
    while sum(writer.answers for writer in writers) < 20:
        time.sleep(0.001)
    assert server.stop(signal.SIGTERM) == 0
    for writer in writers:
        writer.join(60)
    check(tmp_path / "index", writers)
    assert '"event":"stopped"' in server.log.read_text()
    # The journal was folded in: another process may open it, and nothing waits for a replay.
    with open_index(tmp_path / "index") as index:
        assert index.count() >= 1


def test_a_new_model_and_index_are_taken_without_dropping_a_request(tmp_path: Path) -> None:
    for version, scale in (("one", 1.0), ("two", 2.0)):
        make_index(tmp_path / version / "index", make_model(tmp_path / version / "model", scale=scale), ROWS)
    (tmp_path / "now").symlink_to("one")
    with running(tmp_path / "now" / "model", tmp_path / "now" / "index") as server:
        answers: list[tuple[int, float]] = []
        done = threading.Event()

        def ask() -> None:
            connection = server.connect()
            body = json.dumps({"items": ROWS[:1].tolist(), "k": 2})
            while not done.is_set():
                connection.request("POST", "/search", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                hits = json.loads(answer.read())["results"][0]
                answers.append((answer.status, hits[1]["distance"] if hits[0]["distance"] == 0 else -1))
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        with Client(server.address) as client:
            first = client.status()["model"]
            for turn in range(6):
                (tmp_path / "next").symlink_to("two" if turn % 2 == 0 else "one")
                os.replace(tmp_path / "next", tmp_path / "now")
                if turn % 2:
                    server.process.send_signal(signal.SIGHUP)
                    while client.status()["model"] != first:
                        pass
                else:
                    assert client.reload()["model"] != first
            # A model without an index of its own is refused, and what was served is served on.
            make_model(tmp_path / "now" / "model", scale=3.0)
            status, answer, _ = server.ask("POST", "/reload")
            assert status == 409
            assert str(tmp_path) not in answer["error"]["message"]
            assert client.status()["model"] == first
        done.set()
        for thread in threads:
            thread.join(60)
        near = float(np.sort(np.linalg.norm(ROWS - ROWS[0], axis=1))[1])
        assert {status for status, _ in answers} == {200}
        # Every answer comes from a model and its own index, never from one of each.
        assert all(min(abs(d - near), abs(d - 2 * near)) < 1e-4 for _, d in answers)
        assert any(abs(d - 2 * near) < 1e-4 for _, d in answers)


def test_a_full_disk_is_a_507_and_the_item_is_not_there(tmp_path: Path, monkeypatch) -> None:
    import asyncio

    from nearer.app.server import Settings
    from nearer.app.server._logs import Log
    from nearer.app.server._problems import refusal_of
    from nearer.app.server._service import Call, Service
    from nearer.app.server._state import Place
    from nearer.exceptions import WriteError

    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS)

    async def run() -> None:
        service = Service(Place(str(tmp_path / "model"), str(tmp_path / "index")), Settings(), Log("none"))

        def full() -> None:
            raise WriteError("`/srv/index/journal` could not be flushed: No space left on device.")

        with monkeypatch.context() as patched:
            patched.setattr(service.served.index, "sync", full)
            with pytest.raises(WriteError) as refused:
                await service.items(Call(b'{"vectors": [[1, 2, 3, 4]], "ids": [777]}', "application/json"))
        problem = refusal_of(refused.value)
        assert problem.status == 507
        assert "/srv" not in problem.body("1").decode()
        await service.stop()

    asyncio.run(run())


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of four megabytes: a tmpfs, which only the system's administrator may mount."""
    place = Path(tempfile.mkdtemp(prefix="nearer-disk-"))
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        place.rmdir()
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


def test_507_means_that_nothing_was_changed(small_disk, tmp_path) -> None:
    """Items go in until the disk is full: what was answered with 201 is there, and nothing of what got 507."""
    model = make_model(tmp_path / "model")
    make_index(small_disk / "index", model, ROWS[:1], ids=["first"])
    confirmed, refused = {"first"}, []

    def add(server: Running, batch: int) -> int:
        ids = [f"{batch} {row}" for row in range(50)]
        asked = {"vectors": ROWS.tolist(), "ids": ids, "metadata": [{"note": "x" * 2000}] * 50}
        status, answer, _ = server.ask("POST", "/items", asked)
        if status == 201:
            confirmed.update(ids)
        else:
            assert (status, answer["error"]["code"]) == (507, "not_written"), answer
            refused.extend(ids)
        return status

    with running(tmp_path / "model", small_disk / "index") as server:
        batch = 0
        while add(server, batch) == 201:
            batch += 1
        assert add(server, batch + 1) == 507
        assert server.ask("GET", "/status")[1]["nearer_index_items"] == len(confirmed)
        for one in refused[::20]:
            assert server.ask("GET", f"/similar/{quote(one)}")[0] == 404
        assert server.ask("POST", "/search", {"vectors": ROWS[:1].tolist(), "k": 1})[0] == 200
        subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
        assert add(server, batch + 2) == 201, "with room it goes on"
        server.stop(signal.SIGKILL)
    with open_index(small_disk / "index", fingerprint=model.fingerprint, read_only=True) as index:
        assert set(index.ids) == confirmed
