"""Numbered versions of one folder, and children that write them until they are killed."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from nearer._storage import read_folder, write_folder

FORMAT = "nearer.note"


def save(place: Path, number: int, *, size: int = 200) -> None:
    """Version `number`: every part of the folder says which one it belongs to."""
    write_folder(
        place,
        format=FORMAT,
        version=1,
        tensors={"a": {"x": torch.full((size,), float(number))}, "b": {"y": torch.full((size,), number)}},
        documents={"items": {"number": number}},
        metadata={"number": number},
        pages={"README.md": b"%d" % number},
    )


def load(place: Path) -> int:
    """The number of the version that a reader gets; fails if two versions are mixed."""
    folder = read_folder(place, format=FORMAT, version=1)
    numbers = {
        int(folder.tensors["a"]["x"].min()),
        int(folder.tensors["a"]["x"].max()),
        int(folder.tensors["b"]["y"].min()),
        int(folder.tensors["b"]["y"].max()),
        folder.documents["items"]["number"],
        folder.metadata["number"],
        int(folder.pages["README.md"]),
    }
    if len(numbers) != 1:
        raise AssertionError(f"a mix of versions: {sorted(numbers)}")
    return int(numbers.pop())


def fork(work: Callable[[], object]) -> int:
    """Run `work` in a child that is a copy of this process, and return its number; an error gives exit code 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses no thread of the parent
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        # Threads do not survive a fork: those of torch would be waited for in vain.
        torch.set_num_threads(1)
        work()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait(child: int) -> int:
    """The exit code of a child; negative is the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@contextlib.contextmanager
def two_renames():
    """As on a file system that cannot exchange two names."""
    from nearer._storage import _disk

    before = _disk._renameat2
    _disk._renameat2 = lambda: None
    try:
        yield
    finally:
        _disk._renameat2 = before
