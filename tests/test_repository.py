"""Promises of the repository that are not promises of one module."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import everywhere
import nearer
from oldest_dependencies import oldest

ROOT = Path(__file__).resolve().parents[1]
BANNED = {"utils", "common", "helpers", "misc", "base", "core", "manager", "metrics"}


def test_module_names_say_what_is_inside() -> None:
    names = {path.stem for path in (ROOT / "src").rglob("*.py")} | {path.name for path in (ROOT / "src").rglob("*")}
    assert not names & BANNED


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == nearer.__version__
    assert f"version: {nearer.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_torch_is_pinned_only_in_the_constraints_file() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    assert re.search(r"^torch==2\.13\.0$", constraints, re.MULTILINE)
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not [line for line in requirements if "==" in line]


def test_nothing_is_unpickled() -> None:
    text = {path: path.read_text() for path in (ROOT / "src").rglob("*.py")}
    offenders = [
        str(path.relative_to(ROOT))
        for path, source in text.items()
        if re.search(r"\bpickle\.load|allow_pickle=True|joblib\.load|weights_only=False", source)
    ]
    assert not offenders


def test_relative_links_of_the_documents_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def test_every_import_is_declared() -> None:
    """A package that the library imports at its top level is a dependency, not a guest of another dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    declared = {re.split(r"[\[<>=]", line)[0].lower().replace("-", "_") for line in lines}
    other_names = {"sklearn": "scikit_learn", "faiss": "faiss_cpu", "yaml": "pyyaml", "PIL": "pillow"}
    # Loggers and rivals that are used where they happen to be installed.
    known = {"nearer", "mlflow", "wandb", "skquery", "cobras_ts", *sys.stdlib_module_names}
    missing = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                top = name.split(".")[0]
                if top not in known and other_names.get(top, top).lower() not in declared:
                    missing.add(f"{path.relative_to(ROOT)}: {top}")
                assert not name.startswith("torch._C"), f"{path.relative_to(ROOT)} imports {name}, which is private"
    assert not missing


def test_the_oldest_dependencies_are_pins() -> None:
    pins = oldest()
    assert "torch==2.6" in pins
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", pin) for pin in pins)


def test_the_legs_of_make_everywhere_have_their_tests() -> None:
    """A folder that is renamed would make a leg end at once without a test."""
    assert all((ROOT / "tests" / name).is_dir() for name in everywhere.NOT_NUMERIC)
    assert {"tests/losses", "tests/models", "tests/judging", "papers/tests"} <= set(everywhere.NUMERIC)
    assert all((ROOT / name).is_dir() for leg in everywhere.LEGS for name in leg.tests)


@pytest.mark.parametrize("name", ["docs/guarantees.md", "SECURITY.md"])
def test_every_promise_has_its_test(name: str) -> None:
    """These pages name the test of each promise; a test that is gone takes the promise along."""
    page = (ROOT / name).read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 20
    lost = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).is_file() or f"\ndef {test}(" not in (ROOT / file).read_text()
    ]
    assert not lost
    for table in page.split("| promise | test |\n|---|---|\n")[1:]:
        rows = table.split("\n\n")[0].splitlines()
        assert not [row for row in rows if "::" not in row], "every promise names a test"


def test_no_data_and_no_packages_are_committed() -> None:
    if not (ROOT / ".git").exists():
        return
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    binaries = (".npz", ".npy", ".pt", ".pkl", ".whl", ".zip", ".gz")
    assert not [name for name in listed.splitlines() if name.endswith(binaries)]


def test_the_first_screen_of_the_readme_names_the_two_commands() -> None:
    """`.ci/run` takes them from there, so what lands is what a stranger runs."""
    found = subprocess.run([ROOT / ".ci" / "commands"], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["make demo", "make test"]
    first_screen = (ROOT / "README.md").read_text().splitlines()[:12]
    for target in ("demo", "test"):
        (line,) = [line for line in first_screen if line.startswith(f"make {target} ")]
        assert "the first time" in line
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
