"""An index whose disk fails, whose user interrupts, whose makers race.

What was confirmed is there, what was refused is not, in memory and on the disk, and every error is ours.

A call of the system is made to fail by strace, from outside: SQLite and the library see what a broken or full disk
gives them. The process goes on with the same index.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearer.exceptions import LockedError, NearerError, WriteError
from nearer.index import IVF, open_index
from saved_versions import fork, wait

CALLS = ["write", "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "unlink"]
ROWS = np.arange(1100, dtype=np.float32)[:, None].repeat(8, axis=1)
Change = Callable[[Any, dict[int, float]], None]


def row(value: float) -> np.ndarray:
    return np.full((1, 8), value, dtype=np.float32)


def held(index: Any) -> dict[int, float]:
    ids = index.ids
    found = dict(zip(ids, index.embeddings(ids)[:, 0].tolist(), strict=True))
    if ids:
        near = index.search(row(found[ids[-1]]), k=1)[0][0]
        assert found[near.id] == found[ids[-1]]
    return found


def put(ids: list[int], value: float, **how: Any) -> Change:
    def work(index: Any, state: dict[int, float]) -> None:
        index.upsert(np.concatenate([row(value + one) for one in ids]), ids, [{"n": one} for one in ids], **how)
        for one in ids:
            state.pop(one, None)
            state[one] = value + one

    return work


def take(ids: list[int]) -> Change:
    def work(index: Any, state: dict[int, float]) -> None:
        there = [one for one in ids if one in state]
        index.remove(there)
        for one in there:
            del state[one]

    return work


def together(index: Any, state: dict[int, float]) -> None:
    """A group: all of it or nothing."""
    fresh = dict(state)
    for change in (put([50, 51], 3, sync=False), put([52], 4, sync=False)):
        change(index, fresh)
    index.sync()
    state.clear()
    state.update(fresh)


class Nothing:
    """An index that takes everything and keeps nothing, for what a change makes of a dictionary."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **how: None


CHANGES: list[Change] = [
    put([1, 2, 3], 0),
    put([2, 4], 1),
    take([1]),
    together,
    put(list(range(100, 200)), 2),
    take(list(range(100, 190))),
    lambda index, state: index.rebuild(),
    lambda index, state: index.compact(),
    put([7], 5),
]


def opened(place: Path, **how: Any) -> Any:
    """One call fails, so that the second try must succeed."""
    try:
        return open_index(place, **how)
    except NearerError:
        return open_index(place, **how)


def work_through(place: Path) -> None:
    """Make all changes; an error of ours means that nothing was changed, and any other error is a failure."""
    state: dict[int, float] = {}
    index = opened(place, dimension=8)
    for number, change in enumerate(CHANGES):
        with contextlib.suppress(NearerError):
            change(index, state)
        assert held(index) == state, f"in memory, after change {number}"
        with opened(place, read_only=True) as reader:
            assert held(reader) == state, f"on the disk, after change {number}"
    with contextlib.suppress(NearerError):
        index.close()
    with opened(place) as again:
        again.verify()
        assert held(again) == state, "after closing"
        assert list(held(again)) == list(state)


def traced(child: int, log: Path, *how: str) -> subprocess.Popen[bytes]:
    """strace at a child that waits; then it begins."""
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", str(log), "-p", str(child), *how])
    while "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
        if tracer.poll() is not None:
            os.kill(child, signal.SIGKILL)
            wait(child)
            pytest.skip("strace may not trace here")
        time.sleep(0.001)
    os.kill(child, signal.SIGUSR1)
    return tracer


def may_be_traced() -> None:
    """By any process of the same user, where the system restricts that."""
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)


def calls_made(folder: Path) -> Counter[str]:
    """How many such calls all the changes make, by their names."""
    child = waiting(lambda: work_through(folder / "index"))
    tracer = traced(child, folder / "calls", "-e", f"trace={','.join(CALLS)}")
    assert wait(child) == 0
    tracer.wait()
    return Counter(re.findall(r"^\d+\s+(\w+)\(", (folder / "calls").read_text(), flags=re.MULTILINE))


def waiting(work: Callable[[], None]) -> int:
    """A child that begins when it is told to."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def begin() -> None:
        may_be_traced()
        signal.sigwait({signal.SIGUSR1})
        work()

    child = fork(begin)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return child


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (a package of the system)")
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_every_call_of_the_system_that_fails(tmp_path: Path, error: str, effort, count) -> None:
    (tmp_path / "first").mkdir()
    made = calls_made(tmp_path / "first")
    assert made["pwrite64"] > 50
    assert made["fdatasync"] + made["fsync"] > 10
    cases = [(name, number) for name in sorted(made) for number in range(1, made[name] + 1)]
    failed = []
    for name, number in cases[:: effort(11, 1)]:
        folder = tmp_path / f"{name} {number}"
        folder.mkdir()
        child = waiting(lambda folder=folder: work_through(folder / "index"))
        how = ("-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={number}")
        tracer = traced(child, folder / "calls", *how)
        if wait(child) != 0:
            failed.append((name, number))
        tracer.wait()
        assert "INJECTED" in (folder / "calls").read_text() or number > 0.8 * made[name]
        count(f"failing system calls ({error})")
        shutil.rmtree(folder)
    assert not failed


def test_interrupts_at_random_moments(tmp_path: Path, effort, count) -> None:
    """Ctrl-C in a notebook, where the index goes on: the change is made or not, and memory is as the disk."""
    place = tmp_path / "index"
    chance = random.Random(3)
    index = open_index(place, dimension=8, kind=IVF(cells=4, probes=4))
    index.add(ROWS, ids=range(10_000, 10_000 + len(ROWS)))
    index.compact()  # saves the structure, which would be built again after each interrupt
    state = held(index)
    stopped = 0

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    deadline = time.monotonic() + 600
    try:
        while stopped < effort(12, 500):
            assert time.monotonic() < deadline
            one = chance.randrange(40)
            change = chance.choice([put([one, one + 1], chance.randrange(9)), take([one]), together])
            if not [one for one in state if one < 10_000]:
                change = put([one], 1)
            after = dict(state)
            change(Nothing(), after)
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 4e-3))
                try:
                    change(index, dict(state))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                state = after
                continue
            except KeyboardInterrupt:
                stopped += 1
            except WriteError:
                pass  # a group that an interrupt stopped earlier was taken back: its sync says so once
            if change is together:
                with contextlib.suppress(WriteError):
                    index.sync()
            found = held(index)
            with open_index(place, read_only=True) as reader:
                assert held(reader) == found, "memory and disk"
            if change is together:
                # What an interrupted group had taken so far, nobody was told of: each item is as before or after.
                assert all(found.get(one) in (state.get(one), after.get(one)) for one in {*found, *state, *after})
            else:
                assert found in (state, after)
            state = found
            count("interrupts")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    index.verify()
    index.close()
    with open_index(place) as again:
        assert held(again) == state


def test_four_makers_of_one_index(tmp_path: Path, effort, count) -> None:
    """All make the same new index, add to it and close it; each waits for the others."""
    for number in range(effort(4, 100)):
        place = tmp_path / str(number) / "index"

        def make(own: int, place: Path = place) -> None:
            deadline = time.monotonic() + 120
            done = 0
            while done < 3 and time.monotonic() < deadline:
                try:
                    with open_index(place, dimension=8) as index:
                        index.add(row(own), ids=[10 * own + done], metadata=[{"own": own}])
                    done += 1
                except LockedError:
                    time.sleep(random.uniform(0, 0.003))
            assert done == 3

        children = [fork(lambda own=own: make(own)) for own in range(4)]
        assert [wait(child) for child in children] == [0] * 4
        with open_index(place, read_only=True) as index:
            index.verify()
            assert sorted(index.ids) == [10 * own + done for own in range(4) for done in range(3)]
        shutil.rmtree(place.parent)
        count("rounds of four makers")


@pytest.mark.parametrize("megabytes", [8, 140])
def test_a_real_full_disk(tmp_path: Path, megabytes: int, effort, count) -> None:
    if megabytes > 8 and effort(1, 2) == 1:
        pytest.skip("the larger disk is filled by `make faults`")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk must be mounted: {mounted.stderr.decode().strip()}")
    try:
        fill(disk, count)
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def fill(disk: Path, count: Callable[[str], None]) -> None:
    state: dict[int, float] = {}
    (disk / "others").write_bytes(bytes(1 << 21))
    index = open_index(disk / "index", dimension=8)
    number, refused = 0, 0
    full: list[tuple[int | None, bool]] = []
    while refused < 4:
        ids = list(range(number, number + 500))
        try:
            put(ids, 0.5)(index, state)
            number += 500
        except WriteError as error:
            full.append((error.errno, "Nothing was changed" in str(error)))
            refused += 1
            assert held(index) == state
            with open_index(disk / "index", read_only=True) as reader:
                assert held(reader) == state
        if refused == 2 and (disk / "others").exists():
            (disk / "others").unlink()
            refused = 2
    assert set(full) == {(errno.ENOSPC, True)}
    with pytest.raises(WriteError):
        index.compact()
    assert held(index) == state
    index.close()
    with open_index(disk / "index") as again:
        again.verify()
        assert held(again) == state
    count("full disks")
