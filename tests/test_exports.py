"""Every public name exists, is listed once, is documented, and importing stays cheap."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
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
    listed = getattr(module, "__all__", [])
    assert len(listed) == len(set(listed)), f"{name}.__all__ lists a name twice"
    own = [item for item, value in vars(module).items() if getattr(value, "__module__", None) == name]
    for item in {*listed, *own}:
        value = getattr(module, item)
        if item[0] != "_" and (inspect.isclass(value) or inspect.isfunction(value)):
            assert inspect.getdoc(value), f"{name}.{item} needs a docstring"


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") == 1 and "._" not in name])
def test_every_public_module_lists_its_names(name: str) -> None:
    assert hasattr(importlib.import_module(name), "__all__")


PACKAGES = [
    name
    for name in MODULES
    if name.count(".") == (2 if name.startswith("nearer.app.") else 1)
    and "._" not in name
    and hasattr(importlib.import_module(name), "__path__")
    and name != "nearer.app"
]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_name_hides_a_module(name: str) -> None:
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__):
        value = getattr(package, module.name, None)
        assert value is None or isinstance(value, ModuleType), f"{name}.{module.name} is no module"
        assert module.ispkg or module.name.startswith("_"), f"{name}.{module.name} must begin with an underscore"


@pytest.mark.parametrize("name", ["nearer", *PACKAGES])
def test_the_stub_imports_what_is_exported(name: str) -> None:
    """A type checker sees what the interpreter sees."""
    package = importlib.import_module(name)
    stub = Path(str(package.__file__)).with_suffix(".pyi")
    if not stub.exists():
        assert name in ("nearer.app.cli", "nearer.app.explorer")
        return
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    assert {alias.asname for node in imports for alias in node.names} == set(package.__all__)
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


def test_the_surface_stays_small() -> None:
    names = sum(len(importlib.import_module(name).__all__) for name in PACKAGES)
    # No cap: whoever follows "Add a loss" adds a name. The count is for reviews; a jump is a mistake.
    print(f"{names} public names")
    assert 150 < names < 300


@pytest.mark.parametrize(
    "code",
    ["import nearer", "import nearer.app.cli"],
)
def test_torch_is_not_loaded_before_it_is_needed(code: str) -> None:
    check = f"{code}; import sys; heavy = {{'torch', 'sklearn', 'scipy', 'matplotlib', 'faiss'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check + "; assert not heavy, heavy"], check=True)


def test_closed_forms_need_no_torch() -> None:
    code = (
        "import sys, numpy as np\n"
        "from nearer.estimators import GMML, KISSME, LFDA, RCA, Covariance\n"
        "X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3\n"
        "for kind in (GMML, KISSME, LFDA, RCA, Covariance):\n"
        "    kind().fit(X, y)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        nearer.nothing  # noqa: B018


def test_a_search_loads_what_it_uses(tmp_path: Path) -> None:
    """Not the learners, the losses, the explorer or scikit-learn: it begins while others still import."""
    rows = "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(40))
    (tmp_path / "data.csv").write_text("x,y,kind\n" + rows)
    code = (
        "import sys\n"
        "from nearer.app.cli import app\n"
        "try:\n"
        "    app(sys.argv[1:])\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "ours = [name for name in sys.modules if name.partition('.')[0] == 'nearer']\n"
        "heavy = {'sklearn', 'scipy.stats', 'pandas', 'matplotlib', 'nearer.losses', 'nearer.estimators'}\n"
        "print(len(ours), sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )

    def run(*words: str) -> str:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr.strip().splitlines()[-1]

    run("fit", "data.csv", "--label", "kind", "--method", "rca", "--out", "model", "--quiet")
    run("index", "data.csv", "--model", "model", "--out", "index")
    count, _, heavy = run("search", "index", "data.csv").partition(" ")
    assert heavy == "[]"
    assert int(count) <= 90
