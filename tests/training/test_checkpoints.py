"""Checkpoints: the last ones stay, damage is an error that names the one before, a full disk costs nothing."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys

import pytest
import torch

from nearer.exceptions import CorruptFileError, ParameterError
from nearer.training import Checkpoints


def filled(folder, *, keep=2, steps=(1, 2, 3)) -> Checkpoints:
    kept = Checkpoints(folder, keep=keep)
    for step in steps:
        kept.save(step, {"weight": torch.full((3,), float(step)), "place": step})
    return kept


def test_the_last_ones_stay(tmp_path):
    kept = filled(tmp_path)
    assert [path.name for path in kept.paths()] == ["step-00000002", "step-00000003"]
    assert kept.load()["place"] == 3
    assert Checkpoints(tmp_path / "none").load() is None


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
def test_a_truncated_file_is_an_error_that_names_the_one_before(tmp_path, name):
    kept = filled(tmp_path)
    file = kept.paths()[-1] / name
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CorruptFileError, match=r"newest checkpoint cannot be used.*step-00000002: delete"):
        kept.load()
    shutil.rmtree(kept.paths()[-1])
    assert kept.load()["place"] == 2


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "step-00000009").mkdir()
    with pytest.raises(CorruptFileError, match="was not written by nearer, or not whole"):
        Checkpoints(tmp_path).load()
    (tmp_path / "step-00000009" / "manifest.json").write_text(json.dumps({"pickle": True}))
    with pytest.raises(CorruptFileError, match="no earlier one: delete"):
        Checkpoints(tmp_path).load()
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="is a file"):
        Checkpoints(tmp_path / "file")


def test_half_written_rests_of_a_killed_process_are_swept(tmp_path):
    rest = tmp_path / ".step-00000004.saving"
    (rest / "new").mkdir(parents=True)
    filled(tmp_path)
    assert not rest.exists()


FULL = """
import resource, sys, torch
from nearer.training import Checkpoints
kept = Checkpoints(sys.argv[1])
kept.save(1, {"weight": torch.zeros(10)})
# No file may grow beyond 100 kB, as on a disk that is full.
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    kept.save(2, {"weight": torch.zeros(1_000_000)})
except OSError as error:
    print("refused:", error)
print([path.name for path in kept.paths()], kept.load()["weight"].shape)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit on file sizes here")
def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "refused:" in done.stdout
    assert "['step-00000001'] torch.Size([10])" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"], "nothing half-written stays"
