"""`nearer fit` itself is killed and resumed, asked to end, and loses the first of two workers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nearer
import small_run
from nearer.app.cli import app
from nearer.datasets._catalog import load

MINUTES = 60.0
# Slowed down between its steps, so that a kill finds it at work however fast the machine is.
SLOWED = """
import sys, time
from nearer.models import _learning as learning

pause = float(sys.argv[1])

class Slow(learning.CSVLog):
    def __call__(self, moment):
        super().__call__(moment)
        if moment.kind == "step":
            time.sleep(pause)

learning.CSVLog = Slow
from nearer.app.cli import main
sys.argv = ["nearer", *sys.argv[2:]]
main()
"""
WORDS = [
    "fit",
    "wine.csv",
    "-l",
    "class",
    "--method",
    "raw-vthm",
    "--no-pictures",
    "-q",
    "--epochs",
    "12",
    "--patience",
    "99",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    wine = load("wine").all
    lines = [",".join([*(f"{value:g}" for value in x), str(y)]) for x, y in zip(wine.x, wine.y, strict=True)]
    Path("wine.csv").write_text("\n".join([",".join([*(f"f{n}" for n in range(13)), "class"]), *lines, ""]))
    return tmp_path


def start(*words: str, pause: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SLOWED, str(pause), *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def checkpoints(folder: Path) -> set[str]:
    inside = folder / "checkpoints"
    return {name for name in os.listdir(inside) if name.startswith("step-")} if inside.is_dir() else set()


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[str], before: set[str]) -> None:
    end = time.monotonic() + 10 * MINUTES
    while time.monotonic() < end and process.poll() is None and not checkpoints(folder) - before:
        time.sleep(0.02)
    assert checkpoints(folder) - before, process.communicate()[1]


def weights(folder: str) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in nearer.load(folder).encoder.state_dict().items()}


def test_fit_killed_and_resumed_ends_with_the_same_weights(here: Path, effort, count) -> None:
    assert CliRunner().invoke(app, [*WORDS, "--out", "whole"]).exit_code == 0
    chance = random.Random(3)
    for round_number in range(effort(1, 5)):
        out = f"killed-{round_number}"
        for kill in range(effort(1, 4)):
            before = checkpoints(Path(f"{out}.training"))
            process = start(*WORDS, "--out", out, *(["--resume"] if kill else []), pause=0.5)
            wait_for_checkpoint(Path(f"{out}.training"), process, before)
            time.sleep(chance.uniform(0.0, 0.4))
            process.kill()
            assert process.wait() == -signal.SIGKILL
            process.stderr.close()
            count("kills of nearer fit")
        done = CliRunner().invoke(app, [*WORDS, "--out", out, "--resume"])
        assert done.exit_code == 0, done.stderr
        assert weights(out) == weights("whole")
        assert not Path(f"{out}.training").exists()
        assert not [name for name in os.listdir() if name.startswith(".")]


def test_sigterm_exits_143_and_names_resume(here: Path) -> None:
    process = start(*WORDS, "--out", "ended", pause=0.3)
    wait_for_checkpoint(Path("ended.training"), process, set())
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10 * MINUTES)
    assert process.returncode == 143, errors
    assert "nearer: interrupted. stopped after step" in errors
    assert "Add --resume to the same command to go on." in errors
    assert "Traceback" not in errors


def test_the_loss_of_the_first_worker_is_noticed_and_survived(tmp_path: Path, effort, count) -> None:
    """tests/training/test_processes.py kills the second of two; here it is the one that writes the checkpoints."""
    if not effort(False, True):
        pytest.skip("half a minute of two processes: in make faults")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "1"]
    command += ["--monitor_interval", "3", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    command += [small_run.__file__, str(tmp_path), "--dropout", "0", "--die-at", "4", "--die-rank", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=10 * MINUTES, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "died").exists()
    assert len(json.loads((tmp_path / "losses-0.json").read_text())) in (11, 12), "it went on from the checkpoint"
    count("workers killed")
