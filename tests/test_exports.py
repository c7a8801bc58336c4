"""Every public name exists, is listed once, is documented, and importing stays cheap."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import nearer

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(nearer.__path__, "nearer.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_all_names_exist_and_have_docstrings(name: str) -> None:
    module: ModuleType = importlib.import_module(name)
    assert module.__doc__, f"{name} needs a docstring that says what is in it"
    public = getattr(module, "__all__", [])
    assert len(public) == len(set(public)), f"{name}.__all__ lists a name twice"
    for item in public:
        value = getattr(module, item)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{item} needs a docstring"


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") == 1 and "._" not in name])
def test_every_public_module_lists_its_names(name: str) -> None:
    assert hasattr(importlib.import_module(name), "__all__")


@pytest.mark.parametrize(
    "code",
    ["import nearer", "import nearer.cli"],
)
def test_torch_is_not_loaded_before_it_is_needed(code: str) -> None:
    check = f"{code}; import sys; heavy = {{'torch', 'sklearn', 'scipy', 'matplotlib', 'faiss'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check + "; assert not heavy, heavy"], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nearer.nothing  # noqa: B018
