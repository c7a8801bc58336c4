"""The config file of `nearer fit`: YAML or JSON with the same keys as the flags."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearer._limits import check_limit, parse_json
from nearer.app.cli._output import answer, check_new
from nearer.exceptions import MissingDataError, NearerError, ParameterError
from nearer.models._settings import DATA_KEYS, FitSettings, check_keys


def read_config(path: Path) -> dict[str, Any]:
    """The settings of a file; a misspelt key is an error that suggests the near one."""
    if not path.is_file():
        raise MissingDataError(f"`--config` must be a file, and there is none at {path}. `nearer init` writes one.")
    what = f"`{path.name}`"
    check_limit("NEARER_MAX_TEXT", path.stat().st_size, what)
    data = path.read_bytes()
    kind = "JSON" if path.suffix == ".json" else "YAML"
    try:
        values = parse_json(data, what) if kind == "JSON" else parse_yaml(data.decode("utf-8"), what)
    except NearerError:
        raise
    except UnicodeDecodeError as error:
        raise ParameterError(f"{what} must be text in UTF-8: {error}. Save it again as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{what} must be {kind}: {' '.join(str(error).split())}.") from error
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise ParameterError(f"`{path.name}` must hold settings by name, got {type(values).__name__}.")
    check_keys(values, [*DATA_KEYS, *FitSettings.described()])
    return dict(values)


def parse_yaml(text: str, what: str) -> Any:
    """A YAML document within the limits, without aliases: a few lines of them can stand for billions of values.

    >>> parse_yaml("a: [1, 2]", "`a.yaml`")
    {'a': [1, 2]}
    """
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ParameterError(f"{what} must not use aliases, got *{event.anchor}. Write the value out.")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                check_limit("NEARER_MAX_DEPTH", depth, what)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.ScalarEvent) and event.implicit[0] and re.match(r"[-+0-9]", event.value):
                check_limit("NEARER_MAX_DIGITS", len(event.value), what)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def run_init(path: Path, *, force: bool, as_json: bool) -> None:
    """Write a config file to edit."""
    check_new(out=path, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(commented_config(), encoding="utf-8")
    answer(as_json, {"config": str(path)}, f"Wrote {path}. Edit it, then: nearer fit --config {path}")


def commented_config() -> str:
    """A config with every setting, its default and what it means.

    >>> commented_config().splitlines()[0]
    '# nearer fit --config nearer.yaml'
    """
    lines = ["# nearer fit --config nearer.yaml", "", "data: data.csv          # " + DATA_KEYS["data"].about]
    lines.append("label: class            # " + DATA_KEYS["label"].about)
    known = {name: key[:2] for name, key in DATA_KEYS.items()} | FitSettings.described()
    for name, (default, about) in known.items():
        if name not in ("data", "label"):
            value = json.dumps(list(default) if isinstance(default, tuple) else default)
            lines.append(f"{f'{name}: {value}':<23} # {about}")
    return "\n".join(lines) + "\n"
