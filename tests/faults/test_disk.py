"""A disk that is really full, and a folder that may only be read: what was there stays, and the error is ours."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer._storage import write_file
from nearer.exceptions import NearerError, WriteError
from nearer.index import Index
from nearer.training import Checkpoints
from saved_versions import fork, load, names, save, wait


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte: a tmpfs, which only the system's administrator may mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here; RLIMIT_FSIZE is tested instead")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_during_a_save(small_disk: Path, switch, count) -> None:
    save(small_disk / "folder", 1)
    for size in (100_000, 250_000, 10_000_000):
        with pytest.raises(WriteError, match=r"could not be written: No space left on device.* is as it was"):
            save(small_disk / "folder", 2, size=size)
        assert load(small_disk / "folder") == 1
        assert names(small_disk) == ["folder"]
        count("full disks")
    save(small_disk / "folder", 3)
    assert load(small_disk / "folder") == 3


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_every_call_of_a_save_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, count) -> None:
    """Whatever call fails: the old or the new version is whole, the error is ours, and nothing is left over."""
    names_of_calls = ("open", "write", "fsync", "rename", "replace", "mkdir", "rmdir", "unlink", "lstat", "fstat",
                      "stat", "ftruncate", "listdir", "scandir")  # fmt: skip
    number, failed = 0, [True]
    while failed:
        number, failed, seen = number + 1, [], itertools.count(1)

        def failing(call: Any, number: int = number, failed: list[bool] = failed, seen: Any = seen) -> Any:
            def work(*words: Any, **more: Any) -> Any:
                if next(seen) == number:
                    failed.append(True)
                    raise OSError(code, os.strerror(code))
                return call(*words, **more)

            return work

        place = tmp_path / str(number) / "folder"
        save(place, 1)
        with monkeypatch.context() as patch, contextlib.suppress(NearerError):
            for name in names_of_calls:
                patch.setattr(os, name, failing(getattr(os, name)))
            save(place, 2)
            patch.undo()
            assert load(place) == 2
        assert load(place) in (1, 2)
        assert names(place.parent) == ["folder"], number
        count("calls of a save that fail")
    assert number > 60


def test_a_disk_that_fills_during_checkpoints(small_disk: Path, count) -> None:
    kept = Checkpoints(small_disk / "run", keep=2)
    kept.save(1, {"weight": torch.ones(10)})
    (small_disk / "others").write_bytes(bytes(900_000))
    with pytest.raises(WriteError, match="No space left on device"):
        kept.save(2, {"weight": torch.zeros(100_000)})
    assert [path.name for path in kept.paths()] == ["step-00000001"]
    state = kept.load()
    assert state is not None
    assert torch.equal(state["weight"], torch.ones(10))
    assert names(small_disk / "run") == ["step-00000001"]
    (small_disk / "others").unlink()
    kept.save(2, {"weight": torch.zeros(100_000)})
    assert len(kept.paths()) == 2
    count("full disks")


def test_a_full_disk_by_the_limit_on_file_sizes(tmp_path: Path, count) -> None:
    resource = pytest.importorskip("resource", reason="the limit on file sizes is a POSIX one")
    index = Index(64)
    index.add(torch.rand(100, 64))
    index.save(tmp_path / "index")
    index.add(torch.rand(5000, 64))

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        with pytest.raises(WriteError, match="could not be written"):
            index.save(tmp_path / "index")
        with pytest.raises(WriteError, match="File too large"):
            Checkpoints(tmp_path / "run").save(1, {"weight": torch.zeros(100_000)})
        with pytest.raises(WriteError, match="File too large"):
            write_file(tmp_path / "page", bytes(300_000))

    assert wait(fork(work)) == 0
    assert len(Index.load(tmp_path / "index")) == 100
    assert names(tmp_path) == ["index", "run"]
    assert names(tmp_path / "run") == []
    count("full disks", 3)


def test_a_folder_that_may_only_be_read() -> None:
    """Reading works, also beside what a killed save left; saving is refused and changes nothing."""
    around = Path(tempfile.mkdtemp())
    try:
        save(around / "folder", 1)
        save(around / ".folder.saving" / "new", 2)
        os.chmod(around, 0o555)

        def work() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)  # nobody: permissions mean nothing to the administrator
            assert load(around / "folder") == 1
            with pytest.raises(WriteError, match="could not be written: Permission denied"):
                save(around / "folder", 3)
            with pytest.raises(WriteError, match="could not be written: Permission denied"):
                write_file(around / "page", b"x")

        assert wait(fork(work)) == 0
        assert names(around) == [".folder.saving", "folder"]
        os.chmod(around, 0o755)
        assert load(around / "folder") == 1
        assert names(around) == ["folder"]
    finally:
        os.chmod(around, 0o755)
        shutil.rmtree(around)
