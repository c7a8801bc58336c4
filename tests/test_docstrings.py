"""What has more than four settings lists them, and the list is the signature."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from typing import Any

import pytest

import nearer

PACKAGES = [name for name in nearer.__all__ if name not in ("evaluate", "exceptions", "fit", "load")]
PUBLIC: dict[str, Any] = {
    f"{package}.{name}": getattr(importlib.import_module(f"nearer.{package}"), name)
    for package in PACKAGES
    for name in importlib.import_module(f"nearer.{package}").__all__
} | {"fit": nearer.fit, "evaluate": nearer.evaluate}


def settings(thing: Any) -> list[str]:
    """The parameters by name; a dataclass documents its fields where they stand."""
    if not callable(thing) or dataclasses.is_dataclass(thing):
        return []
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # a type alias
        return []
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if len(settings(thing)) > 4])
def test_more_than_four_settings_are_listed(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert "Args:" in text, f"{name} has {len(settings(PUBLIC[name]))} settings and no list of them"
    listed = re.findall(r"^    (\w+): ", text.partition("Args:")[2], flags=re.MULTILINE)
    assert listed == settings(PUBLIC[name])


def test_the_list_is_not_empty() -> None:
    assert sum(len(settings(thing)) > 4 for thing in PUBLIC.values()) > 60
