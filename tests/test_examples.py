"""Every script under examples/ runs from start to end, ends in an assertion of its own, and is a notebook too."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
# The digits are the demo, which has tests of its own and takes longest.
EXAMPLES = [file for file in SCRIPTS if file.stem != "digits"]
NEEDS = {"search_and_serve": "msgspec", "photos": "PIL"}


def test_there_is_one_for_every_kind_of_problem() -> None:
    assert {
        "pipeline", "torch_loop", "migrate_loop", "ten_labels", "tags", "label_distributions", "two_views",
        "photos", "text_intents", "audit_and_dedupe", "custom_loss", "two_processes", "search_and_serve",
    } <= {script.stem for script in SCRIPTS}  # fmt: skip


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_and_says_something(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where nothing has to be imported again; those that start processes do it in them too."""
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr()
    assert said.out.strip()
    assert not said.err.strip(), said.err[-2000:]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_says_what_it_is_and_asserts(script: Path) -> None:
    tree = ast.parse(script.read_text())
    said = ast.get_docstring(tree) or ""
    assert f"Run: python examples/{script.name}" in said
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def _notebooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_notebook_is_the_script_cell_by_cell(script: Path) -> None:
    book = _notebooks().notebook(script)
    assert book["nbformat"] == 4
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    prose = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "markdown"]
    assert len(code) >= 2
    assert prose[0].startswith("# ")
    assert "Run:" not in prose[0]
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    # The same statements in the same order; the docstring has become prose.
    whole = ast.parse("\n".join(code))
    assert [ast.dump(node) for node in whole.body] == [
        ast.dump(node) for node in ast.parse(script.read_text()).body[1:]
    ]
