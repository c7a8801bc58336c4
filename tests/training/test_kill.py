"""kill -9 at random moments: the resumed run ends with the same weights, to the last bit."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import small_run

PROGRAM = Path(small_run.__file__)


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, str(PROGRAM), str(folder), *more], stderr=subprocess.PIPE)


def finish(folder: Path, *more: str) -> str:
    """Run to the end in this process (which is quicker than a new one) and return the digest of the weights."""
    folder.mkdir(exist_ok=True)
    small_run.main([str(folder), *more])
    return (folder / "digest-0.txt").read_text()


def checkpoints(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").glob("step-*")}


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[bytes], before: set[str] | None = None) -> None:
    """Wait for the event itself, a new checkpoint; the limit is for a run that hangs, not for a busy machine."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        if checkpoints(folder) - (before or set()) or process.poll() is not None:
            return
        time.sleep(0.05)
    raise AssertionError("no checkpoint within ten minutes")


@pytest.mark.parametrize("loss", ["raw", "memory"])
def test_killed_at_random_moments_and_resumed(tmp_path, loss):
    expected = finish(tmp_path / "whole", "--loss", loss)
    chance = random.Random(loss)
    folder = tmp_path / "killed"
    kills = 0
    for _ in range(2):
        before = checkpoints(folder)
        process = start(folder, "--loss", loss, "--slow", "0.1")
        wait_for_checkpoint(folder, process, before)
        time.sleep(chance.uniform(0.0, 0.3))
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        process.stderr.close()
    assert kills >= 1, "the run must really have been killed"
    assert finish(folder, "--loss", loss) == expected
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if line["kind"] == "step"]
    assert steps == list(range(1, 16)), "every step is in the log once"


def test_asked_to_stop_it_finishes_the_step_and_leaves_a_checkpoint(tmp_path):
    expected = finish(tmp_path / "whole")
    folder = tmp_path / "stopped"
    process = start(folder, "--every", "2", "--slow", "0.4")
    wait_for_checkpoint(folder, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=600)
    assert process.returncode != 0
    assert b"TrainingInterrupted: stopped after step" in errors
    (newest,) = sorted((folder / "checkpoints").glob("step-*"))[-1:]
    reached = int(errors.decode().rsplit("stopped after step ", 1)[1].split(" ")[0])
    assert newest.name == f"step-{reached:08d}"
    assert finish(folder, "--every", "2") == expected
