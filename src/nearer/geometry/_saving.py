"""Write a geometry or an encoder as a folder: class by name, settings as JSON, parameters as tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import nn

from nearer._storage import write_folder

FORMAT = "nearer.geometry"
VERSION = 1


class SavedModule(nn.Module):
    """A module that can be made again from its class name, its settings and its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder that `nearer.geometry.load` reads; the whole folder or nothing."""
        parameters = {"parameters": self.state_dict()}
        return write_folder(path, format=FORMAT, version=VERSION, tensors=parameters, metadata=description(self))


def description(module: SavedModule) -> dict[str, Any]:
    """The class and the settings of a module, as JSON."""
    return {"class": type(module).__name__, "settings": module.settings}
