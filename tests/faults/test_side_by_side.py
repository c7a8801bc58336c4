"""Readers and writers of one folder at the same time: always one whole version, never an alarm."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from saved_versions import fork, load, names, save, wait


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder where saves are as quick as loads, so that they meet often; if there is one."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("writers", [1, 2])
def test_readers_beside_writers(in_memory: Path, switch, effort, count, writers: int) -> None:
    place = in_memory / "folder"
    save(place, 0)
    loads = effort(100, 3000)
    told = in_memory / "told"
    told.mkdir()

    def read(name: int) -> None:
        seen = [load(place) for _ in range(loads)]
        (told / f"reader-{name}").write_text(json.dumps([len(seen), len(set(seen))]))

    def write(name: int) -> None:
        number = 0
        while not (told / "enough").exists():
            number += 1
            save(place, 10**6 * name + number)
        (told / f"writer-{name}").write_text(str(number))

    writing = [fork(lambda name=name: write(name)) for name in range(writers)]
    reading = [fork(lambda name=name: read(name)) for name in range(2)]
    codes = [wait(child) for child in reading]
    (told / "enough").touch()
    assert codes + [wait(child) for child in writing] == [0] * (2 + writers)
    done, versions = zip(*(json.loads((told / f"reader-{name}").read_text()) for name in range(2)), strict=True)
    saves = sum(int((told / f"writer-{name}").read_text()) for name in range(writers))
    assert sum(done) == 2 * loads
    assert max(versions) > 1, "the readers must have seen the folder change"
    load(place)
    assert names(in_memory) == ["folder", "told"], "nothing is left over"
    count("loads beside writers", sum(done))
    count("saves beside readers", saves)


def test_many_writers_take_turns(tmp_path: Path, switch, effort, count) -> None:
    saves = effort(10, 150)

    def write(name: int) -> None:
        for number in range(saves):
            save(tmp_path / "folder", 1000 * name + number)

    children = [fork(lambda name=name: write(name)) for name in range(4)]
    assert [wait(child) for child in children] == [0] * 4
    assert load(tmp_path / "folder") % 1000 == saves - 1, "the last save of one of them stays"
    assert names(tmp_path) == ["folder"]
    count("saves of four writers", 4 * saves)


def test_the_first_save_appears_whole(tmp_path: Path, effort, count) -> None:
    """A folder that is not there yet is either missing or whole."""
    from nearer.exceptions import MissingDataError

    rounds = effort(5, 100)
    for number in range(rounds):
        place = tmp_path / f"folder-{number}"
        child = fork(lambda place=place, number=number: save(place, number, size=20_000))
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                assert load(place) == number
                break
            except MissingDataError:
                os.sched_yield()
        assert wait(child) == 0
    assert names(tmp_path) == sorted(f"folder-{number}" for number in range(rounds))
    count("first saves watched", rounds)
