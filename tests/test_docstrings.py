"""Every public name lists its settings and shows an example; the site is made of these docstrings."""

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
    """The parameters by name; a dataclass that is no estimator documents its fields where they stand."""
    if not callable(thing) or (dataclasses.is_dataclass(thing) and not hasattr(thing, "get_params")):
        return []
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # a type alias
        return []
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def exempt(thing: Any) -> bool:
    """Errors are raised, not called, and what is no class and no function has no docstring of its own."""
    return not (inspect.isclass(thing) or inspect.isfunction(thing)) or (
        inspect.isclass(thing) and issubclass(thing, Exception)
    )


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if settings(thing) and not exempt(thing)])
def test_settings_are_listed(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    if "Args:" not in text and not (inspect.isclass(PUBLIC[name]) and getattr(PUBLIC[name], "_is_protocol", False)):
        pytest.fail(f"{name} has {len(settings(PUBLIC[name]))} settings and no list of them")
    listed = re.findall(r"^    (\w+): ", text.partition("Args:")[2].partition("Attributes:")[0], flags=re.MULTILINE)
    more = [one.name for one in inspect.signature(PUBLIC[name]).parameters.values() if one.kind is one.VAR_KEYWORD]
    wanted = settings(PUBLIC[name])
    if dataclasses.is_dataclass(PUBLIC[name]):
        # Keywords from the base come first in the signature, and where they belong in the list.
        listed, wanted = sorted(listed), sorted(wanted)
    assert listed in (wanted, wanted + more)


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if not exempt(thing)])
def test_there_is_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(PUBLIC[name]) or ""), f"{name} needs a doctest"


def test_the_list_is_not_empty() -> None:
    assert sum(bool(settings(thing)) for thing in PUBLIC.values()) > 180
