"""Kills of a process that writes an index: nothing confirmed is lost, nothing is half there."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from nearer.index import open_index
from saved_versions import fork, wait


def test_kills_while_writing(tmp_path: Path, effort, count) -> None:
    """Item n is the row [n, n]; a batch has three; the child says which batches it was told are done."""
    place, told = tmp_path / "index", tmp_path / "told"
    open_index(place, dimension=2).close()
    chance = random.Random(1)
    confirmed: set[int] = set()
    removed: set[int] = set()
    for round_number in range(effort(12, 300)):
        told.write_bytes(b"")

        def work(start: int = round_number * 30_000) -> None:
            handle = os.open(told, os.O_WRONLY | os.O_APPEND)
            with open_index(place) as index:
                for batch in range(start, start + 30_000, 3):
                    ids = range(batch, batch + 3)
                    index.add([[n, n] for n in ids], ids=ids, metadata=[{"n": n} for n in ids])
                    os.write(handle, f"+{batch}\n".encode())
                    if batch % 5 == 0:
                        index.remove([batch + 1])
                        os.write(handle, f"-{batch + 1}\n".encode())
                    if batch % 7 == 0:
                        index.compact()

        child = fork(work)
        deadline = time.monotonic() + 60
        while told.stat().st_size < 40 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        assert wait(child) == -signal.SIGKILL
        for line in told.read_text().splitlines():
            number = int(line[1:])
            if line[0] == "+":
                confirmed |= {number, number + 1, number + 2}
            else:
                removed.add(number)
        with open_index(place, read_only=True) as index:
            index.verify()
            ids = index.ids
            present = set(ids)
            # At most the one change that was under way is there without having been confirmed.
            assert len(confirmed - removed - present) <= 1, "a removal may be done and not told"
            assert all(n % 3 == 1 for n in confirmed - removed - present)
            removed |= confirmed - present
            extra = present - confirmed
            assert len(extra) in (0, 3)
            assert not removed & present
            confirmed |= extra
            rows = index.embeddings(ids)
            assert rows[:, 0].int().tolist() == ids
            assert rows[:, 1].int().tolist() == ids
            if ids:
                last = index.search(rows[-1:], k=1)[0][0]
                assert (last.id, last.metadata) == (ids[-1], {"n": ids[-1]})
        count("kills of an index that is written")
    assert len(confirmed) > 30
