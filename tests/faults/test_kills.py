"""A save is killed at a random moment, and before each of its system calls: nothing is lost, nothing is left."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearer._storage import _disk, read_folder, settle, write_file
from nearer.index import Index
from nearer.index._fields import note_of
from nearer.training import Checkpoints
from saved_versions import FORMAT, fork, load, names, save, wait

KILLED = 77
# Every call with which storage changes the disk; `write` is also stopped half-way.
CALLS = ["open", "write", "fsync", "close", "mkdir", "rename", "replace", "unlink", "rmdir", "ftruncate"]


def stop_at(number: int) -> None:
    """In a child: end the process, as a kill would, in place of its call `number` that touches the disk."""
    left = [number]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if call is write:
                    write(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os._exit(KILLED)
            return call(*arguments, **named)

        return wrapped

    write = os.write
    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    fcntl.flock = counted(fcntl.flock)
    exchange = _disk._renameat2()
    if exchange is not None:
        _disk._renameat2 = lambda: counted(exchange)


def kill_everywhere(work: Callable[[int], object], check: Callable[[int], object], every: int = 1) -> int:
    """Run `work` in children that are killed before their 1st, 2nd, ... call, until one reaches its end."""
    for number in range(1, 1000, every):

        def child(number: int = number) -> None:
            stop_at(number)
            work(number)

        code = wait(fork(child))
        assert code in (0, KILLED)
        check(number)
        if code == 0:
            return (number - 1) // every
    raise AssertionError("the work must come to an end")


@pytest.mark.parametrize("older", [True, False], ids=["replaced", "first"])
def test_a_kill_before_every_system_call_of_a_save(tmp_path: Path, switch, effort, count, older: bool) -> None:
    place = tmp_path / "folder"
    before = [-1]

    def check(number: int) -> None:
        if before[0] == -1 and not place.exists() and not settle(place):
            return
        if before[0] == -1 and not place.exists():
            # Only a first version that was not finished may be missing.
            assert names(tmp_path) == []
            return
        came = load(place)
        assert came in (before[0], number)
        assert names(tmp_path) == ["folder"], "nothing is left after the next open"
        before[0] = came
        if not older:
            for file in place.iterdir():
                file.unlink()
            place.rmdir()
            before[0] = -1

    if older:
        save(place, 0)
        before[0] = 0
    calls = kill_everywhere(lambda number: save(place, number), check, every=1 if older else effort(3, 1))
    assert calls > (25 if older else 8)
    count("kills before a system call", calls)


def test_a_kill_before_every_system_call_of_one_file(tmp_path: Path, effort, count) -> None:
    file = write_file(tmp_path / "page.html", b"old")

    def check(number: int) -> None:
        assert file.read_bytes() in (b"old", b"new")
        file.write_bytes(b"old")

    kills = kill_everywhere(lambda number: write_file(file, b"new"), check, every=effort(2, 1))
    count("kills before a system call", kills)
    write_file(file, b"newer")
    assert names(tmp_path) == ["page.html"]


def test_a_kill_before_every_system_call_of_a_checkpoint(tmp_path: Path, switch, effort, count) -> None:
    """Writing the next and letting the oldest go: the newest that was finished can always be loaded."""
    if effort(switch == "two renames", False):
        pytest.skip("both ways are in the test of a save; make faults has this one too")
    import torch

    kept = Checkpoints(tmp_path, keep=2)
    reached = [0]
    for step in (1, 2):
        kept.save(step, {"step": step, "weight": torch.ones(3)})
        reached[0] = step

    def work(number: int) -> None:
        Checkpoints(tmp_path, keep=2).save(reached[0] + 1, {"step": reached[0] + 1, "weight": torch.ones(3)})

    def check(number: int) -> None:
        state = Checkpoints(tmp_path, keep=2).load()
        assert state is not None
        assert state["step"] in (reached[0], reached[0] + 1)
        reached[0] = state["step"]
        assert all(name.startswith("step-") for name in names(tmp_path)), "nothing half-written is left"

    count("kills before a system call", kill_everywhere(work, check, every=effort(3, 1)))


def test_a_kill_while_a_reader_sweeps(tmp_path: Path, effort, count) -> None:
    """What the next open does is itself safe to kill."""
    place = tmp_path / "folder"

    def leave(name: str, number: int) -> None:
        save(tmp_path / ".folder.saving" / name, number)

    def check(number: int) -> None:
        assert load(place) == 1
        assert names(tmp_path) == ["folder"]
        place.rename(tmp_path / "away")
        (tmp_path / ".folder.saving").mkdir()
        (tmp_path / "away").rename(tmp_path / ".folder.saving" / "old")

    leave("old", 1)
    count("kills before a system call", kill_everywhere(lambda number: load(place), check, every=effort(2, 1)))


def test_kills_at_random_moments_of_an_index(tmp_path: Path, effort, count) -> None:
    """What `save` has returned from is there after the kill, or a later version is."""
    rows = np.random.default_rng(0).standard_normal((2000, 16))
    chance = random.Random(5)
    acknowledged = 0
    for _ in range(effort(6, 300)):
        read_end, write_end = os.pipe()

        def work(start: int = acknowledged, told: int = write_end) -> None:
            number = start
            while True:
                number += 1
                index = Index(16)
                index.add(rows + number, metadata=[{"number": number}] * len(rows))
                index.save(tmp_path / "index")
                os.write(told, b"%d\n" % number)

        child = fork(work)
        os.close(write_end)
        # The first report says that it is at work; the kill comes somewhere in the saves after it.
        first = os.read(read_end, 100)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert wait(child) == -signal.SIGKILL
        reports = first + os.read(read_end, 1 << 16)
        os.close(read_end)
        acknowledged = int(reports.split()[-1])
        index = Index.load(tmp_path / "index")
        found = {note_of(text)["number"] for text in index._items.texts}
        assert len(found) == 1
        assert found.pop() in (acknowledged, acknowledged + 1)
        assert names(tmp_path) == ["index"], "nothing is left after the next open"
        count("kills at random moments of a save")


def test_a_kill_leaves_no_lock(tmp_path: Path, count) -> None:
    save(tmp_path / "folder", 1)

    def work() -> None:
        from nearer._storage._scratch import locked

        with locked(tmp_path / "folder"):
            (tmp_path / "held").touch()
            time.sleep(600)

    child = fork(work)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    wait(child)
    save(tmp_path / "folder", 2)
    assert read_folder(tmp_path / "folder", format=FORMAT, version=1).metadata == {"number": 2}
    assert names(tmp_path) == ["folder", "held"]
