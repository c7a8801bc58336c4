"""Write a geometry or an encoder as a folder: class by name, settings as JSON, parameters as tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from nearer._storage import write_folder

__all__: list[str] = []

FORMAT = "nearer.geometry"
VERSION = 1


class Rebuildable(Protocol):
    """A module that can be made again from its class name, its settings and its parameters."""

    settings: dict[str, Any]

    def state_dict(self) -> dict[str, Tensor]: ...


def description(module: Rebuildable) -> dict[str, Any]:
    """The class and the settings of a module, as JSON."""
    return {"class": type(module).__name__, "settings": module.settings}


def save_module(module: Rebuildable, path: str | os.PathLike[str]) -> Path:
    """Write a module that `nearer.geometry.load` can read; the whole folder or nothing."""
    return write_folder(
        path,
        format=FORMAT,
        version=VERSION,
        tensors={"parameters": module.state_dict()},
        metadata=description(module),
    )
