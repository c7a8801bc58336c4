"""Real gloo processes under torchrun: the joint batch, a worker that dies, an elastic restart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import small_run
from nearer.losses import SupConLoss
from nearer.training import joint_loss
from nearer.training._processes import JointLoss, agree, average_gradients, rank, share, world_size

PROGRAM = Path(small_run.__file__)


def torchrun(folder: Path, *more: str, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "2",
        "--max_restarts",
        str(restarts),
    ]
    # torchrun looks for the dead and ends the others; with time to notice, they say themselves what they lost.
    command += ["--monitor_interval", "3"]
    port = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *port, str(PROGRAM), str(folder), *more],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )


def alone(folder: Path, *more: str) -> list[float]:
    folder.mkdir(exist_ok=True)
    small_run.main([str(folder), *more])
    return json.loads((folder / "losses-0.json").read_text())


def test_alone_nothing_changes():
    loss = SupConLoss()
    assert joint_loss(loss) is loss
    assert (rank(), world_size(), agree(True), agree(False)) == (0, 1, True, False)
    assert torch.equal(share(torch.arange(5)), torch.arange(5))
    layer = torch.nn.Linear(1, 1)
    average_gradients(layer.parameters())
    assert layer.weight.grad is None
    assert isinstance(JointLoss(loss), torch.nn.Module)


def test_two_processes_take_the_steps_of_one(tmp_path):
    """RAW is sharded by rows, the proxies by classes; the memory is a loss of any kind, on the gathered batch; the
    semi-supervised loop learns an encoder and a metric in turn."""
    names = ["raw", "proxy", "memory", "alternating"]
    # Layers of 32 numbers and more are averaged while backward goes on, smaller ones at its end.
    done = torchrun(tmp_path / "two", "--dropout", "0", "--large", "32", "--loss", *names)
    assert done.returncode == 0, done.stderr
    for loss in names:
        expected = alone(tmp_path / "one", "--dropout", "0", "--loss", loss)
        shutil.rmtree(tmp_path / "one")
        for number in (0, 1):
            found = json.loads((tmp_path / "two" / loss / f"losses-{number}.json").read_text())
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-6), loss
        digests = [(tmp_path / "two" / loss / f"digest-{number}.txt").read_text() for number in (0, 1)]
        assert digests[0] == digests[1], "both processes end with the same weights"


def test_a_worker_that_dies_and_the_elastic_restart_that_goes_on(tmp_path):
    folder = tmp_path / "elastic"
    done = torchrun(folder, "--dropout", "0", "--die-at", "4", restarts=1)
    assert done.returncode == 0, done.stderr
    assert (folder / "died").exists()
    assert "LostWorkerError: Another process of the job died" in done.stderr
    assert "The last checkpoint is" in done.stderr
    whole = alone(tmp_path / "one", "--dropout", "0")
    after = json.loads((folder / "losses-0.json").read_text())
    assert after == pytest.approx(whole[-len(after) :], rel=1e-5, abs=1e-6)
    assert len(after) in (11, 12), "it went on from the checkpoint and did not begin again"
