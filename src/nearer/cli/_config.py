"""The config file of `nearer fit`: YAML or JSON with the same keys as the flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearer.exceptions import MissingDataError, ParameterError
from nearer.models._settings import FitSettings, check_keys

__all__ = ["DATA_KEYS", "commented_config", "read_config"]

DATA_KEYS: dict[str, tuple[Any, str]] = {
    "data": (None, "the file (CSV, Parquet, NPZ, NPY) or the folder of images"),
    "label": (None, "the column of the classes; a list of 0/1 columns for label sets, of shares for distributions"),
    "features": (None, "the columns to use; none means all others"),
    "ignore": (None, "columns to leave out"),
    "unlabeled": ("-1", "the value that means: no label (an empty cell always does)"),
    "unreadable": ("raise", "what to do about damaged images: raise or skip"),
    "out": ("model", "the model folder to write"),
}


def read_config(path: Path) -> dict[str, Any]:
    """The settings of a file; a misspelt key is an error that suggests the near one."""
    if not path.is_file():
        raise MissingDataError(f"`--config` must be a file, and there is none at {path}. `nearer init` writes one.")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParameterError(f"`{path.name}` must be JSON: {error}.") from error
    else:
        import yaml

        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ParameterError(f"`{path.name}` must be YAML: {' '.join(str(error).split())}.") from error
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise ParameterError(f"`{path.name}` must hold settings by name, got {type(values).__name__}.")
    check_keys(values, [*DATA_KEYS, *FitSettings.described()])
    return dict(values)


def commented_config() -> str:
    """A config with every setting, its default and what it means.

    >>> commented_config().splitlines()[0]
    '# nearer fit --config nearer.yaml'
    """
    lines = ["# nearer fit --config nearer.yaml", "", "data: data.csv          # " + DATA_KEYS["data"][1]]
    lines.append("label: class            # " + DATA_KEYS["label"][1])
    for name, (default, about) in {**DATA_KEYS, **FitSettings.described()}.items():
        if name not in ("data", "label"):
            value = json.dumps(list(default) if isinstance(default, tuple) else default)
            lines.append(f"{f'{name}: {value}':<23} # {about}")
    return "\n".join(lines) + "\n"
