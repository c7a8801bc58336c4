"""Imports point one way: a folder may use only the folders that data has already flowed through."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "nearer"

# Lower may not import higher; folders of one level may not import each other.
LEVELS: list[set[str]] = [
    {"exceptions"},
    {"_border"},
    {"_limits"},
    {"_plain"},
    {"_checks"},
    {"_validation"},
    {"_storage"},
    {"relations"},
    {"datasets"},
    {"geometry"},
    {"neighbors"},
    {"graph"},
    {"pairwise"},
    {"mining"},
    {"losses"},
    {"training", "evaluation", "index"},
    {"estimators"},
    {"judging"},
    {"reports"},
    {"models"},
    {"app._local"},
    {"app.explorer", "app.server", "app.client"},
    {"app.cli"},
    {"__main__"},
]
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}


def part_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:2]) if parts[0] == "app" else parts[0]


def named(module: str) -> str:
    """The part of the tree that a module of nearer is in; the faces are parts of their own."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if parts[0] == "app" else parts[0]


def imported_parts(tree: ast.AST, part: str) -> Iterator[tuple[int, str]]:
    """Every nearer folder that is named by an import, late imports and type-checking ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                raise AssertionError(f"line {node.lineno}: write 'from nearer...' instead of a relative import")
            if module == "nearer":
                yield from ((node.lineno, alias.name) for alias in node.names if not alias.name.startswith("__"))
            elif module.startswith("nearer."):
                yield node.lineno, named(module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("nearer."):
                    yield node.lineno, named(alias.name)


def violations(source: str, part: str) -> list[str]:
    found = []
    for line, target in imported_parts(ast.parse(source), part):
        if target == part:
            continue
        if target not in LEVEL:
            found.append(f":{line} imports {target}, which is not in the tree of tests/test_layers.py")
        elif LEVEL[target] >= LEVEL[part]:
            found.append(f":{line} imports {target}")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    if part in ("__init__", "app.__init__"):
        return
    assert part in LEVEL, f"{part} has no place in the order of folders"
    found = violations(path.read_text(), part)
    assert not found, "\n".join(f"{path.relative_to(SOURCE)}{line}" for line in found)


def test_a_wrong_import_is_found() -> None:
    assert violations("def f():\n    from nearer.losses import RAWLoss\n", "relations") == [":2 imports losses"]
    assert violations("import nearer.training._loop", "evaluation") == [":1 imports training"]
    assert violations("from nearer import relations", "losses") == []
    assert violations("from nearer.app.explorer import _launch", "models") == [":1 imports app.explorer"]
    assert violations("from nearer.app.server import serve", "app.cli") == []
    assert violations("from nearer.app.client import Client", "app.server") == [":1 imports app.client"]
