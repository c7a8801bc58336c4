"""Checkpoints: a run can be killed at any moment and goes on as if nothing had happened.

```
folder/
  step-00000200/     manifest.json (sha256 of every file), tensors.safetensors, state.json
  step-00000300/
```

Each is written beside its place, flushed and renamed (see `nearer._storage`), and goes in one step too, so there is
never half of one. The last `keep` stay. A damaged one is an error that names the one before it; nothing is skipped
in silence.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from nearer._checks import check_int
from nearer._storage import read_folder, remove_folder, settle, write_folder
from nearer.exceptions import CorruptFileError, ParameterError
from nearer.training._state import pack, unpack

FORMAT = "nearer.checkpoint"
VERSION = 1
_NAME = re.compile(r"step-(\d{8,})\Z")


class Checkpoints:
    """The checkpoints of one run in one folder: after every epoch and, if asked, after every `every` steps.

    >>> import tempfile, torch
    >>> kept = Checkpoints(tempfile.mkdtemp(), keep=1)
    >>> for step in (1, 2):
    ...     _ = kept.save(step, {"weight": torch.tensor([float(step)])})
    >>> [path.name for path in kept.paths()], kept.load()
    (['step-00000002'], {'weight': tensor([2.])})

    Args:
        folder: where they are kept.
        every: steps between two inside an epoch; none if None.
        keep: how many of the last stay.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int | None = None, keep: int = 2) -> None:
        self.folder = Path(folder)
        self.every = None if every is None else check_int(every, "every")
        self.keep = check_int(keep, "keep")
        if self.folder.exists() and not self.folder.is_dir():
            raise ParameterError(f"`folder` must be a folder or free, `{self.folder}` is a file.")

    def paths(self) -> list[Path]:
        """The checkpoints there are, oldest first."""
        if not self.folder.is_dir():
            return []
        # A link would lead to a folder that is not this run's, and the oldest are deleted.
        entries = [path for path in self.folder.iterdir() if not path.is_symlink()]
        steps = [(int(match[1]), path) for path in entries if (match := _NAME.match(path.name))]
        return [path for _, path in sorted(steps)]

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Write one and let the oldest go; when the disk is full, all earlier ones stay as they were."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        tensors, document = pack(state)
        folder = write_folder(
            self.folder / f"step-{step:08d}",
            format=FORMAT,
            version=VERSION,
            tensors={"tensors": tensors},
            documents={"state": document},
            metadata={"step": step},
        )
        for old in self.paths()[: -self.keep]:
            remove_folder(old)
        return folder

    def load(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint, or None when there is none yet."""
        self._sweep()
        paths = self.paths()
        if not paths:
            return None
        try:
            folder = read_folder(paths[-1], format=FORMAT, version=VERSION)
            state = unpack(folder.tensors["tensors"], folder.documents["state"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            hint = (
                f"The one before it is {paths[-2]}: delete {paths[-1]} to go on from there."
                if len(paths) > 1
                else f"There is no earlier one: delete {paths[-1]} to begin again."
            )
            raise CorruptFileError(f"The newest checkpoint cannot be used. {error} {hint}") from error
        if not isinstance(state, dict):
            raise CorruptFileError(f"`{paths[-1]}` must hold the state of a run, got {type(state).__name__}.")
        return state

    def _sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for rest in self.folder.glob(".step-*.saving"):
            settle(self.folder / rest.name.removeprefix(".").removesuffix(".saving"))
