"""A folder from a stranger: no link in it or beside it is followed, nothing outside it changes, nobody waits."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import nearer
from nearer._storage import MANIFEST, read_folder, remove_folder, settle, write_file, write_folder
from nearer._storage._scratch import scratch_of
from nearer.exceptions import CorruptFileError, LimitError, MissingDataError, NearerError, WriteError
from nearer.training import Checkpoints

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and holes in files are made as on POSIX")

# Far below NEARER_LOCK_SECONDS: whoever spins or waits takes all of the sixty.
SOON = 20.0


def write(place: Path, value: float = 1.0, *, format: str = "nearer.note") -> Path:
    tensors = {"part": {"x": torch.full((4, 3), value)}}
    return write_folder(place, format=format, version=1, tensors=tensors, metadata={"value": value})


def read(place: Path) -> float:
    folder = read_folder(place, format="nearer.note", version=1)
    return float(folder.metadata["value"])


def picture(folder: Path) -> dict[str, str]:
    """Everything under a folder: names, kinds and contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What must not change: files, and a folder with the names that a save deletes in its own."""
    place = tmp_path / "home"
    for name in ("new", "old", "gone", "lock-is-no-folder"):
        (place / "work" / name).mkdir(parents=True)
        (place / "work" / name / "thesis.txt").write_text("ten years")
    (place / ".bashrc").write_text("export PATH\n")
    write(place / "model", 7.0)
    write(place / "old-and-whole" / "old", 7.0)
    return place


def scratch(place: Path) -> Path:
    folder = scratch_of(place)
    folder.mkdir(exist_ok=True)
    return folder


def link_file(place: Path, home: Path, name: str) -> None:
    target = home / name
    shutil.copy(place / name, target)
    (place / name).unlink()
    (place / name).symlink_to(target)


def instead(place: Path, name: str, make: Callable[[Path], object]) -> None:
    (place / name).unlink()
    make(place / name)


def hollow(file: Path) -> None:
    """A terabyte that takes no room on the disk."""
    with open(file, "r+b") as handle:
        handle.truncate(1 << 40)


def stranded(place: Path, format: str) -> None:
    """Nothing at the path, a whole version of another kind beside it, and a lock that cannot be taken."""
    write(scratch(place) / "old", format=format)
    (scratch(place) / "lock").symlink_to("nowhere")
    shutil.rmtree(place)


# Beside the folder: a reader ignores it and reads, a writer refuses or does its work.
BESIDE: dict[str, Callable[[Path, Path], object]] = {
    "lock is a link": lambda place, home: (scratch(place) / "lock").symlink_to(home / ".bashrc"),
    "lock is a link to nothing": lambda place, home: (scratch(place) / "lock").symlink_to(home / "made"),
    "lock is a second name": lambda place, home: os.link(home / ".bashrc", scratch(place) / "lock"),
    "lock is a pipe": lambda place, _: os.mkfifo(scratch(place) / "lock"),
    "lock is a folder": lambda place, _: (scratch(place) / "lock").mkdir(),
    "all is a link": lambda place, home: scratch_of(place).symlink_to(home / "work"),
    "all is a link to nothing": lambda place, home: scratch_of(place).symlink_to(home / "made"),
    "all is a link to itself": lambda place, _: scratch_of(place).symlink_to(scratch_of(place)),
    "all is a file": lambda place, _: scratch_of(place).write_text("x"),
    "all is a pipe": lambda place, _: os.mkfifo(scratch_of(place)),
    "new is a link": lambda place, home: (scratch(place) / "new").symlink_to(home / "work"),
    "new is a link to a file": lambda place, home: (scratch(place) / "new").symlink_to(home / ".bashrc"),
    "old is a link": lambda place, home: (scratch(place) / "old").symlink_to(home / "work"),
    "gone is a link": lambda place, home: (scratch(place) / "gone").symlink_to(home / "work"),
    "new has a link": lambda place, home: (
        (scratch(place) / "new").mkdir(),
        (scratch(place) / "new" / "part.safetensors").symlink_to(home / ".bashrc"),
        (scratch(place) / "new" / "deep").symlink_to(home / "work"),
    ),
}


@pytest.mark.parametrize("kind", BESIDE, ids=lambda kind: kind.replace(" ", "-"))
def test_what_stands_beside_a_folder_leads_nowhere(tmp_path: Path, home: Path, kind: str) -> None:
    place = write(tmp_path / "clone" / "model")
    before = picture(home)
    BESIDE[kind](place, home)
    start = time.monotonic()
    assert read(place) == 1.0
    settle(place)
    assert picture(home) == before
    for change in (lambda: write(place, 2.0), lambda: remove_folder(place)):
        try:
            change()
        except WriteError as error:
            assert "Delete it" in str(error), error  # noqa: PT017 (most of these go on, and are right to)
            assert read(place) == 1.0
        assert picture(home) == before
    assert time.monotonic() - start < SOON


@pytest.mark.parametrize("kind", BESIDE, ids=lambda kind: kind.replace(" ", "-"))
def test_nor_what_stands_beside_a_file(tmp_path: Path, home: Path, kind: str) -> None:
    (tmp_path / "clone").mkdir()
    place = tmp_path / "clone" / "page.html"
    before = picture(home)
    BESIDE[kind](place, home)
    try:
        write_file(place, b"<p>")
    except WriteError as error:
        assert "Delete it" in str(error), error  # noqa: PT017
    else:
        assert place.read_bytes() == b"<p>"
    assert picture(home) == before


def test_a_writer_is_told_what_stands_in_its_way(tmp_path: Path, home: Path) -> None:
    for kind, message in {
        "lock is a link": "must be a lock that nearer made: it is a link, .* Delete it",
        "lock is a second name": "it has a second name elsewhere. Delete it",
        "lock is a pipe": "it is not an ordinary file. Delete it",
        "all is a link": "must be the folder that nearer makes for a save, and is a link or a file. Delete it",
    }.items():
        place = write(tmp_path / kind / "model")
        BESIDE[kind](place, home)
        with pytest.raises(WriteError, match=message):
            write(place, 2.0)


INSIDE: dict[str, tuple[Callable[[Path, Path], object], type[NearerError], str]] = {
    "manifest is a link": (
        lambda place, home: link_file(place, home, MANIFEST),
        CorruptFileError,
        r"manifest\.json` cannot be opened: it is a link, and links in a folder are not followed",
    ),
    "manifest is a link to nothing": (
        lambda place, home: instead(place, MANIFEST, lambda file: file.symlink_to(home / "made")),
        CorruptFileError,
        "it is a link",
    ),
    "manifest is a folder": (
        lambda place, _: instead(place, MANIFEST, Path.mkdir),
        CorruptFileError,
        r"manifest\.json` cannot be opened: it is not an ordinary file",
    ),
    "manifest is a pipe": (
        lambda place, _: instead(place, MANIFEST, os.mkfifo),
        CorruptFileError,
        "it is not an ordinary file",
    ),
    "manifest without end": (
        lambda place, _: instead(place, MANIFEST, lambda file: file.symlink_to("/dev/zero")),
        CorruptFileError,
        "it is a link",
    ),
    "manifest is hollow": (
        lambda place, _: hollow(place / MANIFEST),
        LimitError,
        "must keep to 1,073,741,824 bytes",
    ),
    "tensors are a link": (
        lambda place, home: link_file(place, home, "part.safetensors"),
        CorruptFileError,
        r"part\.safetensors` cannot be opened: it is a link",
    ),
    "tensors are a pipe": (
        lambda place, _: instead(place, "part.safetensors", os.mkfifo),
        CorruptFileError,
        r"part\.safetensors` cannot be opened: it is not an ordinary file",
    ),
    "tensors are a folder": (
        lambda place, _: instead(place, "part.safetensors", Path.mkdir),
        CorruptFileError,
        "it is not an ordinary file",
    ),
    "tensors are hollow": (
        lambda place, _: hollow(place / "part.safetensors"),
        CorruptFileError,
        r"part\.safetensors` must be as it was written",
    ),
    "nothing, and a whole version behind a link": (
        lambda place, home: (shutil.rmtree(place), scratch_of(place).symlink_to(home / "old-and-whole")),
        MissingDataError,
        "there is no such folder",
    ),
    "nothing, and a link to a whole version": (
        lambda place, home: (shutil.rmtree(place), (scratch(place) / "old").symlink_to(home / "model")),
        MissingDataError,
        "there is no such folder",
    ),
    "nothing, and another kind that nobody can rename": (
        lambda place, _: stranded(place, "nearer.other"),
        CorruptFileError,
        "must be a 'nearer.note' folder, its manifest says 'nearer.other'",
    ),
}


@pytest.mark.parametrize("kind", INSIDE, ids=lambda kind: kind.replace(" ", "-"))
def test_what_is_in_a_folder_leads_nowhere_and_nobody_waits(tmp_path: Path, home: Path, kind: str) -> None:
    spoil, error, message = INSIDE[kind]
    place = write(tmp_path / "clone" / "model")
    spoil(place, home)
    before = picture(home)
    start = time.monotonic()
    with pytest.raises(error, match=message):
        read(place)
    assert time.monotonic() - start < SOON
    assert picture(home) == before


def test_the_path_itself_may_be_a_link(tmp_path: Path) -> None:
    """Whoever names a path means what is there: `latest -> model-5` is read and replaced behind the link."""
    write(tmp_path / "model-5")
    (tmp_path / "latest").symlink_to("model-5")
    assert read(tmp_path / "latest") == 1.0
    write(tmp_path / "latest", 2.0)
    assert (tmp_path / "latest").is_symlink()
    assert read(tmp_path / "model-5") == 2.0


def test_the_oldest_checkpoints_are_deleted_and_never_what_a_link_names(tmp_path: Path, home: Path) -> None:
    before = picture(home)
    run = tmp_path / "clone" / "run"
    run.mkdir(parents=True)
    for step in range(3):
        (run / f"step-0000000{step}").symlink_to(home / "work")
    (run / ".step-00000009.saving").symlink_to(home / "work")
    kept = Checkpoints(run, keep=1)
    assert kept.load() is None
    for step in (5, 6):
        kept.save(step, {"weight": torch.ones(1)})
    assert [path.name for path in kept.paths()] == ["step-00000006"]
    assert picture(home) == before
    remove_folder(run / "step-00000000")
    assert picture(home) == before
    assert not os.path.lexists(run / "step-00000000")


def test_a_cloned_repository_is_loaded_and_writes_nothing(tmp_path: Path, home: Path) -> None:
    """What was done once: a repository with `.model.saving/lock -> ~/.bashrc`, cloned, and loaded by a process."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git here")
    source = tmp_path / "source"
    torch.manual_seed(0)
    nearer.fit(torch.randn(40, 3).numpy(), [0, 1] * 20, method="rca").save(source / "model")
    (source / ".model.saving").mkdir()
    (source / ".model.saving" / "lock").symlink_to("../../home/.bashrc")
    (source / ".index.saving").symlink_to("../home/work")
    shutil.copytree(source / "model", source / "index")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q", "."], ["add", "-A"], ["commit", "-q", "-m", "a model"]):
        subprocess.run([git, *identity, *words], cwd=source, check=True)
    subprocess.run([git, "clone", "-q", str(source), str(tmp_path / "clone")], check=True)
    before = picture(home)
    code = (
        "import nearer\nfor name in ('model', 'index'):\n    print(type(nearer.load(f'clone/{name}')).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Model", "Model"]
    assert picture(home) == before
